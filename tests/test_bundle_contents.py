"""Bundles whose container is sound and whose parts are not: description, tensors, index of the tensors."""

from __future__ import annotations

import copy
import hashlib
import json
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load as load_tensors
from safetensors.torch import save as save_tensors
from torch import nn

from steadyrl.bundle import read_bundle
from steadyrl.errors import UserError
from steadyrl.nn import networks
from steadyrl.nn.init import BlankLinear
from support.bundles import ABOUT, members, packed, why_refused
from support.policies import CPU


def replaced(value: Any, draw: random.Random) -> Any:
    odd: list[Any] = [None, True, -1, 0, 10**9, 2**63 - 1, 1e300, 0.5, "", "a" * 99, "../x", [], {}, [[]], [0], [-1]]
    return copy.deepcopy(draw.choice([value, *odd]))


def test_random_values_in_the_description(tmp_path: Path) -> None:
    """Every field of the description by something else of any type and size."""
    header, _ = members()
    draw, path = random.Random(3), tmp_path / "x.srl"
    seen = {"good": 0, "bad": 0}
    for _ in range(500):
        changed = copy.deepcopy(header)
        for _ in range(draw.randint(1, 2)):
            place: Any = changed
            while True:
                key = draw.choice(list(place)) if isinstance(place, dict) else draw.randrange(len(place))
                inner = place[key]
                if isinstance(inner, dict | list) and inner and draw.random() < 0.8:
                    place = inner
                    continue
                place[key] = replaced(inner, draw)
                break
        path.write_bytes(packed(changed))
        try:
            read_bundle(path, CPU).policy.predict({"": np.zeros((1, 2), dtype=np.float32)})
            seen["good"] += 1
        except UserError:
            seen["bad"] += 1
    assert seen["bad"] > 300


def headers() -> dict[str, tuple[bytes, str]]:
    """A description in JSON and a word of the reason for its refusal."""
    header, weights = members()
    sums = {"weights_size": len(weights), "weights_sha256": hashlib.sha256(weights).hexdigest()}
    text = json.dumps(header | sums)

    def changed(**values: Any) -> bytes:
        return json.dumps(header | sums | values).encode()

    def raw(old: str, new: str) -> bytes:
        assert old in text
        return text.replace(old, new, 1).encode()

    deep = "[" * 140 + "]" * 140
    return {
        "no-json": (b"{", "strict JSON"),
        "array": (b"[]", "not an object"),
        "utf-16": (text.encode("utf-16"), "strict JSON"),
        "bom": (b"\xef\xbb\xbf" + text.encode(), "strict JSON"),
        "latin-1": (raw("X-v0", "X-v0?").replace(b"?", b"\xe9"), "strict JSON"),
        "trailing": (text.encode() + b"{}", "strict JSON"),
        "duplicate": (raw('"version": 1', '"version": 1, "version": 1'), "a key stands twice"),
        "deep-duplicate": (raw('"seed": 3', '"seed": 3, "seed": 4'), "a key stands twice"),
        "nan": (raw('"seed": 3', '"seed": NaN'), "NaN"),
        "infinity": (raw('"seed": 3', '"seed": -Infinity'), "Infinity"),
        "overflow": (raw('"seed": 3', '"seed": 1e999'), "1e999"),
        "long-integer": (raw('"seed": 3', '"seed": ' + "9" * 5000), "64 bits"),
        "deep": (raw('"seed": 3', f'"x": {deep}, "seed": 3'), "nested deeper"),
        "very-deep": (raw('"seed": 3', '"x": ' + "[" * 100_000 + "]" * 100_000 + ', "seed": 3'), "strict JSON"),
        "huge": (raw('"seed": 3', '"x": "' + "x" * 2**20 + '", "seed": 3'), "larger than"),
        "surrogate": (raw("X-v0", "\\ud800"), "strict JSON"),
        "format": (changed(format="zip"), "steadyrl-bundle"),
        "version": (changed(version=2), "its version is 2"),
        "version-text": (changed(version="1"), "its version is '1'"),
        "maker-number": (changed(steadyrl=1), "`steadyrl` is '1', not the version that made it"),
        "maker-none": (changed(steadyrl=None), "`steadyrl` is 'None'"),
        "version-bool": (changed(version=True), "its version is True"),
        "extra-key": (changed(code="import os"), "exactly the keys"),
        "no-policy": (
            json.dumps({k: v for k, v in (header | sums).items() if k != "policy"}).encode(),
            "exactly the keys",
        ),
        "checksum": (changed(weights_sha256="0" * 64), "checksum"),
        "size": (changed(weights_size=1), "checksum"),
        "about": (changed(about=[]), "`about` is not an object"),
        "about-algo": (changed(about=ABOUT | {"algo": ["ppo"]}), "`about.algo`"),
        "about-config": (changed(about={"algo": "ppo"}), "`about.config`"),
        "about-seed": (changed(about=ABOUT | {"seed": -1}), "`about.seed`"),
        "about-steps": (changed(about=ABOUT | {"num_timesteps": True}), "`about.num_timesteps`"),
    }


@pytest.mark.parametrize("name", list(headers()))
def test_a_bad_description(name: str, tmp_path: Path) -> None:
    text, reason = headers()[name]
    assert reason in why_refused(packed(text), tmp_path)


HUGE = {"path": "", "kind": "discrete", "shape": [], "dtype": "int64", "nvec": [2**60], "start": [0], "scale": 1.0}


def descriptions() -> dict[str, tuple[str, Any]]:
    """Where in the description of the policy which value is put."""
    return {
        "huge-layer": ("architecture/net_arch/pi", [10**9]),
        "huge-layers": ("architecture/net_arch/pi", [60_000, 60_000]),
        "many-layers": ("architecture/net_arch/vf", [1] * 100_000),
        "other-layer": ("architecture/net_arch/pi", [4]),
        "no-layer": ("architecture/net_arch/pi", [0]),
        "fractional": ("architecture/net_arch/pi", [3.0]),
        "boolean": ("architecture/net_arch/pi", [True]),
        "text-layers": ("architecture/net_arch/pi", "3"),
        "trunks": ("architecture/net_arch", {"pi": [3]}),
        "list-of-trunks": ("architecture/net_arch", [3]),
        "activation": ("architecture/activation_fn", "os.system"),
        "activation-list": ("architecture/activation_fn", ["tanh"]),
        "extra": ("architecture/hook", "x"),
        "gsde-on-discrete": ("architecture/use_sde", True),
        "squash-number": ("architecture/squash_output", 1),
        "log-std": ("architecture/log_std_init", "0"),
        "huge-obs": ("obs/0/shape", [10**9, 10**9]),
        "wide-obs": ("obs/0/shape", [10**7]),
        "negative-obs": ("obs/0/shape", [-2]),
        "huge-discrete": ("obs/0", HUGE),
        "other-obs": ("obs/0/shape", [3]),
        "kind": ("obs/0/kind", "pickle"),
        "path": ("obs/0/path", 7),
        "dtype": ("obs/0/dtype", "object"),
        "scale": ("obs/0/scale", 0.0),
        "obs-field": ("obs/0/extra", 1),
        "no-leaf": ("obs", []),
        "obs-number": ("obs", 3),
        "actions": ("action/nvec", [2**62]),
        "more-actions": ("action/nvec", [3]),
        "action-kind": ("action/kind", "continuous"),
        "action-dtype": ("action/dtype", "U9"),
        "action-field": ("action/extra", 1),
        "normalizer": ("normalize_obs", 1),
        "no-normalizer": ("normalize_obs", False),
        "value-scale": ("value_scale", -1.0),
        "value-scale-null": ("value_scale", None),
        "field": ("extra", 1),
        "null": ("", None),
    }


@pytest.mark.parametrize("name", list(descriptions()))
def test_a_description_of_another_policy(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Refused before a network is made, so that no description can ask for memory that the file does not hold."""
    path, value = descriptions()[name]
    header, _ = members()
    place: Any = header
    *way, last = ["policy", *path.split("/")] if path else ["policy"]
    for key in way:
        place = place[int(key) if isinstance(place, list) else key]
    place[int(last) if isinstance(place, list) else last] = value
    made: list[int] = []

    def build(width_in: int, width_out: int) -> nn.Linear:
        if torch.get_default_device().type != "meta":  # layers without memory are how weights are counted
            made.append(width_in * width_out)
        return BlankLinear(width_in, width_out)

    monkeypatch.setattr(networks, "BlankLinear", build)
    why_refused(packed(header), tmp_path)
    assert sum(made) < 100


def tensors() -> dict[str, tuple[dict[str, torch.Tensor], str]]:
    """Other tensors and a word of the reason for their refusal."""
    good = load_tensors(members()[1])
    weight = "net.policy_head.logits.weight"

    def with_value(name: str, index: int, value: float) -> dict[str, torch.Tensor]:
        tensor = good[name].clone()
        tensor.view(-1)[index] = value
        return good | {name: tensor}

    return {
        "nan": (with_value(weight, 2, torch.nan), "not finite"),
        "infinity": (with_value(weight, 0, -torch.inf), "not finite"),
        "nan-mean": (with_value("normalizer.mean/", 1, torch.nan), "not finite"),
        "negative-variance": (with_value("normalizer.m2/", 0, -1.0), "negative"),
        "negative-count": (with_value("normalizer.count/", 0, -1.0), "negative"),
        "missing": ({name: tensor for name, tensor in good.items() if name != "normalizer.m2/"}, "missing"),
        "missing-weight": ({name: tensor for name, tensor in good.items() if name != weight}, "weights"),
        "unexpected": (good | {"other": torch.zeros(1)}, "unexpected"),
        "unexpected-weight": (good | {"net.other": torch.zeros(1)}, "weights"),
        "transposed": (good | {weight: good[weight].T.contiguous()}, "the tensor 'net.policy_head"),
        "other-shape": (good | {"normalizer.mean/": torch.zeros(3).double()}, "the tensor 'normalizer.mean/'"),
        "double": (good | {weight: good[weight].double()}, "torch.float64"),
        "integer": (good | {weight: good[weight].int()}, "torch.int32"),
        "renamed": ({name.replace("policy", "p0licy"): tensor for name, tensor in good.items()}, "unexpected"),
        "none": ({}, "weights"),
    }


@pytest.mark.parametrize("name", list(tensors()))
def test_other_tensors(name: str, tmp_path: Path) -> None:
    changed, reason = tensors()[name]
    assert reason in why_refused(packed(members()[0], save_tensors(changed)), tmp_path)


def index_of(weights: bytes) -> tuple[dict[str, Any], bytes]:
    size = int.from_bytes(weights[:8], "little")
    return json.loads(weights[8 : 8 + size]), weights[8 + size :]


def with_index(index: dict[str, Any] | str, rest: bytes) -> bytes:
    text = index.encode() if isinstance(index, str) else json.dumps(index).encode()
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text + rest


def indices() -> dict[str, bytes]:
    index, rest = index_of(members()[1])
    name = next(iter(index))
    row = index[name]
    text = json.dumps(index)
    return {
        "garbage": b"\xff" * 200,
        "short": b"\x01",
        "empty": b"",
        "long-index": (2**63).to_bytes(8, "little") + b"{}",
        "overflow": with_index(index | {name: row | {"shape": [2**40, 2**40]}}, rest),
        "negative": with_index(index | {name: row | {"shape": [-1]}}, rest),
        "beyond": with_index(index | {name: row | {"data_offsets": [0, 2**40]}}, rest),
        "overlap": with_index(index | {name: row | {"data_offsets": [8, 0]}}, rest),
        "dtype": with_index(index | {name: row | {"dtype": "PICKLE"}}, rest),
        "half": with_index(index | {name: row | {"dtype": "F8_E4M3"}}, rest),
        "duplicate": with_index(text[:-1] + f', "{name}": {json.dumps(row)}' + "}", rest),
        "deep": with_index(text[:-1] + ', "__metadata__": ' + "[" * 150 + "]" * 150 + "}", rest),
        "trailing": with_index(index, rest + b"\0" * 8),
        "truncated": with_index(index, rest[:-4]),
    }


@pytest.mark.parametrize("name", list(indices()))
def test_bad_safetensors(name: str, tmp_path: Path) -> None:
    why_refused(packed(members()[0], indices()[name]), tmp_path)
