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
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from safetensors.torch import save as save_tensors

from steadyrl._version import __version__
from steadyrl.errors import NonFiniteError, UserError
from steadyrl.nn.architecture import MAX_BUNDLE as _MAX_BUNDLE
from steadyrl.nn.architecture import MAX_JSON as _MAX_JSON
from steadyrl.nn.description import Description
from steadyrl.nn.policy import Policy
from steadyrl.strict_json import strict_object
from steadyrl.strict_tensors import strict_tensors

FORMAT, VERSION = "steadyrl-bundle", 1
SUFFIX = ".srl"
_HEADER, _WEIGHTS = "bundle.json", "weights.safetensors"
_KEYS = {"format", "version", "steadyrl", "policy", "about", "weights_size", "weights_sha256"}
_NOT_OURS = (
    f"it is not a ZIP of {_HEADER} and {_WEIGHTS} exactly as this library writes it: "
    "it is damaged, incomplete, or was packed by another program"
)
_ABOUT: dict[str, type] = {"algo": str, "config": dict}
_ABOUT_OPTIONAL: dict[str, type] = {
    "env": str,
    "env_kwargs": dict,
    "wrappers": dict,
    "seed": int,
    "num_timesteps": int,
    "time_limit": int,
    "action_masks": str,
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


def read_bundle(
    path: Path, device: torch.device, *, native: bool = False, encoders: Mapping[str, Any] | None = None
) -> Bundle:
    """The policy in a file; `native` lets kernels run it, `encoders` are the classes of own encoders by path.

    Raises:
        UserError: the file is missing, damaged, of another format or version, or does not hold what it says.
    """
    try:
        return _from_bytes(_content(path), device, native, encoders)
    except _RefusedError as refused:
        raise UserError(
            f"The bundle {path} is refused: {refused}.",
            remedy="Save it again from the agent, or take an earlier copy.",
            code="bad-bundle",
        ) from refused


def _content(path: Path) -> bytes:
    try:
        about = path.stat()
        if not stat.S_ISREG(about.st_mode):  # reading a pipe would wait for ever
            raise ValueError("it is a folder" if stat.S_ISDIR(about.st_mode) else "it is no file")
        return path.read_bytes() if about.st_size <= _MAX_BUNDLE else b""
    except (OSError, ValueError) as error:
        raise UserError(
            f"The bundle {path} cannot be read: {getattr(error, 'strerror', None) or error}.",
            remedy="Name a file that `agent.save` made.",
            code="no-such-file",
        ) from error


class _RefusedError(Exception):
    """Why a bundle is not loaded."""


def _from_bytes(data: bytes, device: torch.device, native: bool, encoders: Mapping[str, Any] | None = None) -> Bundle:
    text, weights = _members(data)
    del data  # nobody else holds it: a bundle takes its size twice in memory, and no more before it is known to be good
    header = _header(text, weights)
    tensors = _tensors(weights)
    available = sum(array.size for name, array in tensors.items() if name.startswith("net."))
    about = _about(header["about"])
    try:
        _compare(tensors, Description.from_json(header["policy"], parameters=available).tensor_forms(encoders))
        policy = Policy.from_description(
            header["policy"], device, parameters=available, native=native, encoders=encoders
        )
    except UserError as error:
        if error.code not in ("no-encoder", "bad-encoder"):  # it is the caller who lacks a class
            raise _RefusedError(f"its description does not make a policy ({error.message[:300]})") from error
        raise
    except (KeyError, TypeError, ValueError, AttributeError, RuntimeError) as error:
        raise _RefusedError(
            f"its description does not make a policy ({type(error).__name__}: {str(error)[:300]})"
        ) from error
    policy.load_state_dict({name: torch.from_numpy(array) for name, array in tensors.items()})
    return Bundle(policy, about)


def _header(text: bytes, weights: bytearray) -> dict[str, Any]:
    """The description in full, if it is one of these weights."""
    header = _strict_json(text, _HEADER)
    if header.get("format") != FORMAT:
        raise _RefusedError(f"{_HEADER} does not say that it is a {FORMAT}")
    if type(header.get("version")) is not int or header["version"] != VERSION:
        raise _RefusedError(f"its version is {header.get('version')!r:.100}, and this library reads version {VERSION}")
    if header.keys() != _KEYS:
        raise _RefusedError(f"{_HEADER} must have exactly the keys {sorted(_KEYS)}")
    if type(header["steadyrl"]) is not str:
        raise _RefusedError(f"`steadyrl` is {str(header['steadyrl'])[:100]!r}, not the version that made it")
    if header["weights_size"] != len(weights) or header["weights_sha256"] != hashlib.sha256(weights).hexdigest():
        raise _RefusedError(f"{_WEIGHTS} does not have the size and checksum that {_HEADER} names")
    return header


def _frames(text: bytes, weights: bytes | bytearray) -> tuple[bytes, bytes, bytes]:
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


def _members(data: bytes) -> tuple[bytes, bytearray]:
    """The two members of a ZIP that has exactly the form that `to_bytes` gives it; the second one for keeps."""
    lengths = [len(frame) for frame in _frames(b"", b"")]
    size = int.from_bytes(data[18:22], "little")  # of the first member, in its local header
    start, end = lengths[0] + size + lengths[1], len(data) - lengths[2]
    if end < start:
        raise _RefusedError(_NOT_OURS)
    if size > _MAX_JSON:
        raise _RefusedError(f"{_HEADER} is larger than {_MAX_JSON} bytes")
    text, weights = data[lengths[0] : lengths[0] + size], bytearray(memoryview(data)[start:end])
    before, between, after = _frames(text, weights)
    if b"".join((before, text, between)) != data[:start] or after != data[end:]:
        raise _RefusedError(_NOT_OURS)
    return text, weights


def _strict_json(data: bytes, name: str) -> dict[str, Any]:
    try:
        return strict_object(data, max_bytes=_MAX_JSON)
    except ValueError as error:
        raise _RefusedError(f"{name} {error}") from error


def _tensors(weights: bytearray) -> dict[str, npt.NDArray[Any]]:
    try:
        return strict_tensors(weights, max_index=_MAX_JSON)
    except ValueError as error:
        raise _RefusedError(f"{_WEIGHTS} {error}") from error


def _about(about: Any) -> dict[str, Any]:
    if not isinstance(about, dict):
        raise _RefusedError("`about` is not an object")
    wanted = _ABOUT | {key: kind for key, kind in _ABOUT_OPTIONAL.items() if key in about}
    for key, kind in wanted.items():
        value = about.get(key)
        if type(value) is not kind or (isinstance(value, int) and value < 0):
            raise _RefusedError(f"`about.{key}` is {str(value)[:100]!r}, not what it should be ({kind.__name__})")
    return about


def _compare(found: dict[str, npt.NDArray[Any]], expected: dict[str, tuple[tuple[int, ...], torch.dtype]]) -> None:
    if found.keys() != expected.keys():
        odd = sorted(found.keys() ^ expected.keys())[0]
        raise _RefusedError(f"the tensor {odd[:100]!r} is {'unexpected' if odd in found else 'missing'}")
    for name, (shape, dtype) in expected.items():
        other = found[name]
        kind = f"torch.{other.dtype.name}"
        if (other.shape, kind) != (shape, str(dtype)):
            raise _RefusedError(f"the tensor {name!r} is {kind} {other.shape}, and the policy has {dtype} {shape}")
        if not np.isfinite(other).all():
            raise _RefusedError(f"the tensor {name!r} holds numbers that are not finite")
        if name.startswith(("normalizer.m2/", "normalizer.count/")) and (other < 0).any():
            raise _RefusedError(f"the tensor {name!r} holds negative numbers")
