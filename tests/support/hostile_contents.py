"""Bundles in a sound container that must not be loaded: what is wrong with description, index or tensors."""

from __future__ import annotations

import copy
import hashlib
import json
from collections.abc import Iterator
from typing import Any

import torch
from safetensors.torch import load as load_tensors
from safetensors.torch import save as save_tensors

from steadyrl.nn.architecture import LATER
from support.bundles import members, packed

Case = tuple[Any, ...]  # name, content, words of which the error says one
PICKLES = {
    "protocol 0": b"cposix\nsystem\n(S'true'\ntR.",
    "protocol 2": b"\x80\x02cposix\nsystem\nX\x04\x00\x00\x00true\x85R.",
    "protocol 4": b"\x80\x04\x95\x1f\x00\x00\x00\x00\x00\x00\x00"
    b"\x8c\x05posix\x94\x8c\x06system\x94\x93\x94\x8c\x04true\x94\x85\x94R\x94.",
}


def contents() -> Iterator[Case]:
    """All of them."""
    for part in (_pickles, _texts, _values, _indices, _tensors):
        yield from part()


def _pickles() -> Iterator[Case]:
    for kind, data in PICKLES.items():
        yield f"pickle, {kind}, as sound weights", packed(members()[0], data), "weights.safetensors"
        yield f"pickle, {kind}, as sound description", packed(data), "bundle.json"


def _texts() -> Iterator[Case]:
    """Descriptions that Python's JSON takes and others that it does not, in a container that is right."""
    header, weights = members()
    text = json.dumps(header | {"weights_size": len(weights), "weights_sha256": hashlib.sha256(weights).hexdigest()})
    seed = '"seed": 3'
    assert seed in text
    for name, value in {
        "NaN": "NaN",
        "infinity": "Infinity",
        "minus infinity": "-Infinity",
        "overflow": "1e999",
        "minus overflow": "-1e999",
        "long integer": "9" * 5000,
        "65 bits": str(2**64),
        "minus 64 bits": str(-(2**63) - 1),
        "20 digits": "9" * 20,
        "deep lists": "[" * 140 + "]" * 140,
        "deep objects": '{"a":' * 140 + "1" + "}" * 140,
        "very deep": "[" * 100_000 + "]" * 100_000,
        "a surrogate": '"\\ud800"',
        "a control character": '"\x01"',
        "hexadecimal": "0x10",
        "a leading zero": "03",
        "single quotes": "'3'",
        "a comment": "3 // x",
        "an undefined": "undefined",
        "a call": "__import__('os')",
    }.items():
        data = text.replace(seed, f'"seed": 3, "more": {value}', 1)
        yield f"JSON with {name}", packed(data.encode()), "bundle.json"
    for key in json.loads(text):
        assert f'"{key}":' in text
        yield (
            f"{key} twice",
            packed(text.replace(f'"{key}":', f'"{key}": 1, "{key}":', 1).encode()),
            "a key stands twice",
        )
    for name, content in {
        "a list": b"[]",
        "a number": b"1",
        "null": b"null",
        "a string": b'"x"',
        "nothing": b"",
        "two": text.encode() + b"{}",
        "a BOM": b"\xef\xbb\xbf" + text.encode(),
        "UTF-16": text.encode("utf-16"),
        "UTF-7": b"+AHs-}",
        "Latin-1": text.replace("X-v0", "X\xe9").encode("latin-1"),
        "cut": text.encode()[:-1],
        "a trailing comma": text.encode()[:-1] + b",}",
        "too large": text.encode()[:-1] + b" " * 2**20 + b"}",
        "not JSON": b"\xff" * 100,
    }.items():
        yield f"description is {name}", packed(content), "bundle.json"
    for key in ("weights_size", "weights_sha256"):
        odd: tuple[Any, ...] = (None, 0, -1, "0" * 64, True, 2**63, [], {})
        for said in odd:
            changed = json.loads(text) | {key: said}
            yield f"{key} is {said!r}", packed(json.dumps(changed).encode(), weights), "size and checksum"


def _walk(value: Any, way: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], Any]]:
    for key, part in value.items() if isinstance(value, dict) else enumerate(value):
        yield (*way, key), part
        if isinstance(part, dict | list):
            yield from _walk(part, (*way, key))


def _put(tree: Any, way: tuple[Any, ...], value: Any) -> Any:
    tree = copy.deepcopy(tree)
    place = tree
    for key in way[:-1]:
        place = place[key]
    if value is _put:  # take it away
        del place[way[-1]]
    else:
        place[way[-1]] = value
    return tree


def _values() -> Iterator[Case]:
    """Each field of the description missing, and as a value of another type or of an absurd size."""
    header, _ = members()
    free = {("about", key) for key in ("env", "seed", "num_timesteps")}  # may be missing
    told = (
        "`about`",
        "`about.",
        "`steadyrl`",
        "its version",
        "does not say",
        "exactly the keys",
        "does not make a policy",
        "tensor",
    )
    for way, now in _walk(header):
        if way[0] in ("weights_size", "weights_sha256"):
            continue
        odd: list[Any] = [None, {"$call": "os.system"}, [[[]]], "../../x\0"]
        if way in (("about", "algo"), ("about", "env"), ("steadyrl",)):
            odd.remove("../../x\0")  # any text will do: it is shown, and nothing else
        if type(now) is int:
            odd += [*([] if "start" in way else [-1]), 2**63, 1e18, True] if way[0] == "policy" else [-1, True]
        if type(now) is float:
            odd += [-1e300, True] if way[-1] in ("scale", "value_scale", "epsilon") else [True]
        if type(now) is bool:
            odd += [1, "true"]
        if isinstance(now, str):
            odd += [7]
        if isinstance(now, dict) and not now:
            odd.remove({"$call": "os.system"})  # the bundle's hyperparameters are looked at where an agent is made
        if way[-1] == "embed_above":
            odd.remove(2**63)  # any number will do: numbers of values are compared with it, and nothing else
        for value in odd:
            yield f"{way} is {str(value)[:30]}", packed(_put(header, way, value)), *told
        if way[-1] not in LATER and way not in free and not isinstance(way[-1], int):
            yield f"{way} is missing", packed(_put(header, way, _put)), *told
    for way in [(), ("policy",), ("policy", "architecture"), ("policy", "action"), ("policy", "obs", 0)]:
        yield f"{way} says more", packed(_put(header, (*way, "hook"), "os:system")), *told


def _split(weights: bytes) -> tuple[dict[str, Any], bytes]:
    size = int.from_bytes(weights[:8], "little")
    return json.loads(weights[8 : 8 + size]), weights[8 + size :]


def _joined(index: Any, rest: bytes) -> bytes:
    text = index if isinstance(index, bytes) else json.dumps(index).encode()
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text + rest


def _indices() -> Iterator[Case]:
    """Indices of the weights that name places, shapes and types which are not there."""
    header, weights = members()
    index, rest = _split(weights)
    told = "weights.safetensors"
    for name, facts in index.items():
        start, stop = facts["data_offsets"]
        for what, change in {
            "beyond": {"data_offsets": [start, 2**40]},
            "before": {"data_offsets": [-8, stop]},
            "backwards": {"data_offsets": [stop, start]},
            "nowhere": {"data_offsets": []},
            "of text": {"data_offsets": ["0", "8"]},
            "overflow": {"shape": [2**40, 2**40]},
            "wrap": {"shape": [2**62, 4]},
            "minus": {"shape": [-1]},
            "half": {"shape": [0.5]},
            "rank 99": {"shape": [1] * 99},
            "shape of text": {"shape": "1"},
            "more": {"hook": 1},
            "object": {"dtype": "O"},
            "BF16": {"dtype": "BF16"},
            "F8": {"dtype": "F8_E4M3"},
            "no dtype": {"dtype": None},
            "F4": {"dtype": "F4"},
            "list dtype": {"dtype": ["F32"]},
        }.items():
            yield f"{name}: {what}", packed(header, _joined(index | {name: facts | change}, rest)), told
        yield f"{name}: facts a list", packed(header, _joined(index | {name: [1]}, rest)), told
        yield f"{name}: on another", packed(header, _joined(index | {"z": facts}, rest)), told
        missing = {key: value for key, value in facts.items() if key != "shape"}
        yield f"{name}: no shape", packed(header, _joined(index | {name: missing}, rest)), told
    text = json.dumps(index)
    for what, data in {
        "garbage": b"\xff" * 200,
        "short": b"\x01",
        "nothing": b"",
        "long": (2**63).to_bytes(8, "little") + b"{}",
        "a list": _joined([], rest),
        "twice": _joined((text[:-1] + "," + text[1:]).encode(), rest),
        "metadata": _joined(index | {"__metadata__": {"x": "y"}}, rest),
        "after": weights + bytes(8),
        "cut": weights[:-4],
        "unaligned": len(text).to_bytes(8, "little") + text.encode() + rest if len(text) % 8 else weights + b"x",
    }.items():
        yield f"index is {what}", packed(header, data), told


def _tensors() -> Iterator[Case]:
    """Each tensor missing, under another name, of another shape or type, and with numbers that are none."""
    header, weights = members()
    good = load_tensors(weights)
    for name, tensor in good.items():
        other = {key: value for key, value in good.items() if key != name}
        told = (name, "tensor", "weights, but there are")
        yield f"{name} missing", packed(header, save_tensors(other)), *told
        yield f"{name} renamed", packed(header, save_tensors(other | {name + "x": tensor})), *told
        yield f"{name} twice", packed(header, save_tensors(good | {name + "x": tensor.clone()})), *told
        for dtype in (torch.float16, torch.float64, torch.int32, torch.bool, torch.bfloat16):
            if dtype != tensor.dtype:
                yield (
                    f"{name} as {dtype}",
                    packed(header, save_tensors(good | {name: tensor.to(dtype)})),
                    *told,
                    "weights.safetensors",
                )
        for shape in {(1, *tensor.shape), (*tensor.shape, 1), (0,)}:
            data = save_tensors(good | {name: tensor.reshape(shape) if 0 not in shape else tensor.new_zeros(shape)})
            yield f"{name} of shape {shape}", packed(header, data), *told
        for value in (torch.nan, torch.inf, -torch.inf):
            for place in {0, tensor.numel() - 1}:
                changed = tensor.clone()
                changed.view(-1)[place] = value
                yield f"{name}[{place}] is {value}", packed(header, save_tensors(good | {name: changed})), "not finite"
        if name.startswith(("normalizer.m2", "normalizer.count")):
            yield f"{name} below 0", packed(header, save_tensors(good | {name: -tensor - 1})), "negative"
