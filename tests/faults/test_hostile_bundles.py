"""Hostile bundles by the hundred: each refused by name, nothing written, imported or taken."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from gymnasium import spaces as gs

from steadyrl.bundle import Bundle, read_bundle, to_bytes
from steadyrl.errors import UserError
from support.bundles import ABOUT, GOOD, packed
from support.hostile import Hostile, watched
from support.hostile_bundles import bundles
from support.policies import CPU, make_policy

ALL = list(bundles())


def refuse(case: Hostile, place: Path) -> None:
    """Loads one and insists on the refusal."""
    path = place / "x.srl"
    case.put(path)
    size = path.lstat().st_size if path.is_file() and path.stat().st_size < 1 << 30 else 0
    with watched(place, size), pytest.raises(UserError) as caught:
        read_bundle(path, CPU)
    assert caught.value.code in ("bad-bundle", "no-such-file"), case.name
    assert str(path) in caught.value.message, case.name
    assert any(word in caught.value.message for word in case.told), (case.name, caught.value.message)
    assert len(caught.value.message) < 1500
    if path.is_dir() and not path.is_symlink():
        path.rmdir()
    else:
        path.unlink()


def test_there_are_hundreds_and_each_is_another_one() -> None:
    assert len({case.name for case in ALL}) == len(ALL) >= 300


def test_the_good_one_is_taken(tmp_path: Path) -> None:
    """Else every refusal would prove nothing; and a harmless change of each kind is taken too."""
    path = tmp_path / "x.srl"
    header = json.loads(GOOD[GOOD.index(b"{") : GOOD.index(b"PK", 4)])
    for data in (GOOD, packed(header), packed(header | {"about": ABOUT | {"seed": 5}})):
        path.write_bytes(data)
        with watched(tmp_path, len(data)):
            read_bundle(path, CPU)


def test_each_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError):
        read_bundle(tmp_path / "missing.srl", CPU)  # what errors import is imported
    for case in ALL:
        refuse(case, tmp_path)


def test_a_large_one_takes_its_size_twice_at_most(tmp_path: Path) -> None:
    """Refused for its very last number, when everything else was looked at."""
    path = tmp_path / "x.srl"
    policy = make_policy(gs.Box(-1, 1, (2,)), gs.Discrete(2), net_arch=(3200, 3200))
    data = bytearray(to_bytes(Bundle(policy, ABOUT)))
    header = json.loads(data[data.index(b"{") : data.index(b"PK", 4)])
    at = data.index(b"weights.safetensors") + len(b"weights.safetensors")
    weights = data[at : data.index(b"PK\x01\x02")]
    weights[-4:] = np.float32(np.nan).tobytes()
    path.write_bytes(packed(header, bytes(weights)))
    del policy, data, weights
    size = path.stat().st_size
    assert size > 75 << 20
    with watched(tmp_path, size), pytest.raises(UserError, match="not finite"):
        read_bundle(path, torch.device("cpu"))
