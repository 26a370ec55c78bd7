"""The policy as one file: raw observation in, environment action out, normaliser inside.

A bundle is a ZIP of two stored members with fixed dates: `bundle.json` (strict JSON) and `weights.safetensors`. Nothing
in it is code. Every byte of the ZIP itself follows from the two members, so a reader needs no ZIP parser: it compares.
"""

from __future__ import annotations

import hashlib
import json
import stat
import struct
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load as load_tensors
from safetensors.torch import save as save_tensors
from torch import Tensor

from steadyrl._version import __version__
from steadyrl.errors import NonFiniteError, UserError
from steadyrl.nn.architecture import MAX_BUNDLE as _MAX_BUNDLE
from steadyrl.nn.architecture import MAX_JSON as _MAX_JSON
from steadyrl.nn.policy import Policy
from steadyrl.strict_json import strict_object

FORMAT, VERSION = "steadyrl-bundle", 1
SUFFIX = ".srl"
_HEADER, _WEIGHTS = "bundle.json", "weights.safetensors"
_KEYS = {"format", "version", "steadyrl", "policy", "about", "weights_size", "weights_sha256"}
_ABOUT: dict[str, type] = {"algo": str, "config": dict}
_ABOUT_OPTIONAL: dict[str, type] = {
    "env": str,
    "env_kwargs": dict,
    "wrappers": dict,
    "seed": int,
    "num_timesteps": int,
}


@dataclass(frozen=True)
class Bundle:
    """A policy and what is known of it: `algo`, `config` and more, such as `env`, `seed`, `num_timesteps`."""

    policy: Policy
    about: dict[str, Any]


def to_bytes(bundle: Bundle) -> bytes:
    """The file's content; the same policy gives the same bytes.

    Raises:
        UserError: the policy is too large for a bundle.
        NonFiniteError: a weight, or a number of the normaliser, is not finite.
    """
    tensors = {name: tensor.contiguous() for name, tensor in sorted(bundle.policy.state_dict().items())}
    for name, tensor in tensors.items():
        if not bool(torch.isfinite(tensor).all()):
            raise NonFiniteError(
                f"The policy's {name} holds numbers that are not finite, so it was not saved.",
                remedy="Load an earlier checkpoint, and look at what changed the weights.",
                code="non-finite-weights",
                facts={"source": "parameters", "key": name},
            )
    weights = save_tensors(tensors)
    header = {
        "format": FORMAT,
        "version": VERSION,
        "steadyrl": __version__,
        "policy": bundle.policy.describe(),
        "about": bundle.about,
        "weights_size": len(weights),
        "weights_sha256": hashlib.sha256(weights).hexdigest(),
    }
    text = json.dumps(header, indent=1, sort_keys=True, allow_nan=False).encode()
    if len(weights) > _MAX_BUNDLE - 2 * _MAX_JSON or len(text) > _MAX_JSON:
        raise UserError(
            f"The policy is too large for a bundle: {len(weights)} bytes of weights, {len(text)} of description.",
            remedy=f"A bundle holds at most {_MAX_BUNDLE >> 30} GiB: use smaller hidden layers.",
            code="too-large",
        )
    before, between, after = _frames(text, weights)
    return b"".join((before, text, between, weights, after))


def read_bundle(path: Path, device: torch.device, *, native: bool = False) -> Bundle:
    """The policy in a file; `native` lets kernels run it.

    Raises:
        UserError: the file is missing, damaged, of another format or version, or does not hold what it says.
    """
    try:
        about = path.stat()
        if not stat.S_ISREG(about.st_mode):  # reading a pipe would wait for ever
            raise ValueError("it is a folder" if stat.S_ISDIR(about.st_mode) else "it is no file")
        data = path.read_bytes() if about.st_size <= _MAX_BUNDLE else b""
    except (OSError, ValueError) as error:
        raise UserError(
            f"The bundle {path} cannot be read: {getattr(error, 'strerror', None) or error}.",
            remedy="Name a file that `agent.save` made.",
            code="no-such-file",
        ) from error
    try:
        return _from_bytes(data, device, native)
    except _RefusedError as refused:
        raise UserError(
            f"The bundle {path} is refused: {refused}.",
            remedy="Save it again from the agent, or take an earlier copy.",
            code="bad-bundle",
        ) from refused


class _RefusedError(Exception):
    """Why a bundle is not loaded."""


def _from_bytes(data: bytes, device: torch.device, native: bool) -> Bundle:
    text, weights = _members(data)
    header = _strict_json(text, _HEADER)
    if header.get("format") != FORMAT:
        raise _RefusedError(f"{_HEADER} does not say that it is a {FORMAT}")
    if type(header.get("version")) is not int or header["version"] != VERSION:
        raise _RefusedError(f"its version is {header.get('version')!r}, and this library reads version {VERSION}")
    if header.keys() != _KEYS:
        raise _RefusedError(f"{_HEADER} must have exactly the keys {sorted(_KEYS)}")
    if type(header["steadyrl"]) is not str:
        raise _RefusedError(f"`steadyrl` is {str(header['steadyrl'])[:100]!r}, not the version that made it")
    if header["weights_size"] != len(weights) or header["weights_sha256"] != hashlib.sha256(weights).hexdigest():
        raise _RefusedError(f"{_WEIGHTS} does not have the size and checksum that {_HEADER} names")
    tensors = _tensors(weights)
    available = sum(tensor.numel() for name, tensor in tensors.items() if name.startswith("net."))
    try:
        policy = Policy.from_description(header["policy"], device, parameters=available, native=native)
    except (KeyError, TypeError, ValueError, AttributeError, RuntimeError) as error:
        raise _RefusedError(
            f"its description does not make a policy ({type(error).__name__}: {str(error)[:300]})"
        ) from error
    _compare(tensors, policy.state_dict())
    policy.load_state_dict(tensors)
    return Bundle(policy, _about(header["about"]))


def _frames(text: bytes, weights: bytes) -> tuple[bytes, bytes, bytes]:
    """What a ZIP has before, between and after its two stored members (PKWARE's APPNOTE.TXT, 4.3)."""
    local, central, offset = [], [], 0
    for name, data in ((_HEADER.encode(), text), (_WEIGHTS.encode(), weights)):
        size = len(data)
        # Version 2.0, no flags, stored, 00:00 on 1980-01-01, checksum, sizes, length of the name, no extra field.
        common = struct.pack("<5H3I2H", 20, 0, 0, 0, 33, zlib.crc32(data), size, size, len(name), 0)
        local.append(b"PK\x03\x04" + common + name)
        # Made on Unix; no comment, first disk, no attributes but the file mode, where the member begins.
        made, rest = struct.pack("<2B", 20, 3), struct.pack("<3H2I", 0, 0, 0, 0o644 << 16, offset)
        central.append(b"PK\x01\x02" + made + common + rest + name)
        offset += len(local[-1]) + size
    directory = b"".join(central)
    end = b"PK\x05\x06" + struct.pack("<4H2IH", 0, 0, 2, 2, len(directory), offset, 0)
    return local[0], local[1], directory + end


def _members(data: bytes) -> tuple[bytes, bytes]:
    """The two members of a ZIP that has exactly the form that `to_bytes` gives it."""
    empty = _frames(b"", b"")
    lengths = [len(frame) for frame in empty]
    size = int.from_bytes(data[18:22], "little")  # of the first member, in its local header
    start = lengths[0] + size + lengths[1]
    text, weights = data[lengths[0] : lengths[0] + size], data[start : -lengths[2]]
    before, between, after = _frames(text, weights)
    if b"".join((before, text, between)) != data[:start] or after != data[start + len(weights) :]:
        raise _RefusedError(
            f"it is not a ZIP of {_HEADER} and {_WEIGHTS} exactly as this library writes it: "
            "it is damaged, incomplete, or was packed by another program"
        )
    return text, weights


def _strict_json(data: bytes, name: str) -> dict[str, Any]:
    try:
        return strict_object(data, max_bytes=_MAX_JSON)
    except ValueError as error:
        raise _RefusedError(f"{name} {error}") from error


def _tensors(weights: bytes) -> dict[str, Tensor]:
    _strict_json(weights[8 : 8 + int.from_bytes(weights[:8], "little")], f"the index of {_WEIGHTS}")
    try:
        return load_tensors(weights)
    except (SafetensorError, KeyError, TypeError, ValueError, AttributeError, RuntimeError) as error:
        raise _RefusedError(f"{_WEIGHTS} cannot be read ({type(error).__name__}: {str(error)[:300]})") from error


def _about(about: Any) -> dict[str, Any]:
    if not isinstance(about, dict):
        raise _RefusedError("`about` is not an object")
    wanted = _ABOUT | {key: kind for key, kind in _ABOUT_OPTIONAL.items() if key in about}
    for key, kind in wanted.items():
        value = about.get(key)
        if type(value) is not kind or (isinstance(value, int) and value < 0):
            raise _RefusedError(f"`about.{key}` is {str(value)[:100]!r}, not what it should be ({kind.__name__})")
    return about


def _compare(found: dict[str, Tensor], expected: dict[str, Tensor]) -> None:
    if found.keys() != expected.keys():
        odd = sorted(found.keys() ^ expected.keys())[0]
        raise _RefusedError(f"the tensor {odd!r} is {'unexpected' if odd in found else 'missing'}")
    for name, tensor in expected.items():
        other = found[name]
        if other.shape != tensor.shape or other.dtype != tensor.dtype:
            raise _RefusedError(
                f"the tensor {name!r} is {other.dtype} {tuple(other.shape)}, "
                f"and the policy has {tensor.dtype} {tuple(tensor.shape)}"
            )
        if not torch.isfinite(other).all():
            raise _RefusedError(f"the tensor {name!r} holds numbers that are not finite")
        if name.startswith(("normalizer.m2/", "normalizer.count/")) and (other < 0).any():
            raise _RefusedError(f"the tensor {name!r} holds negative numbers")
