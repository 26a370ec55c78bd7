"""Bundles: the same policy gives the same bytes, and comes back as the same policy."""

from __future__ import annotations

import io
import json
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces as gs

from steadyrl.bundle import Bundle, read_bundle, to_bytes
from steadyrl.errors import UserError
from steadyrl.nn.policy import Policy
from steadyrl.seeding import Stream
from support.policies import ACTIONS, CPU, TREE, VECTOR, make_policy, sample

ABOUT: dict[str, Any] = {"algo": "ppo", "config": {"gamma": 0.9}, "env": "X-v0", "seed": 3, "num_timesteps": 7}


def written(path: Path, policy: Policy) -> Path:
    path.write_bytes(to_bytes(Bundle(policy, ABOUT)))
    return path


def test_the_same_policy_gives_the_same_bytes() -> None:
    first = to_bytes(Bundle(make_policy(normalize_obs=True), ABOUT))
    assert first == to_bytes(Bundle(make_policy(normalize_obs=True), dict(reversed(ABOUT.items()))))
    assert first != to_bytes(Bundle(make_policy(normalize_obs=True, seed=1), ABOUT))


def test_any_zip_program_can_read_it() -> None:
    policy = make_policy()
    with zipfile.ZipFile(io.BytesIO(to_bytes(Bundle(policy, ABOUT)))) as archive:
        assert archive.testzip() is None
        assert archive.namelist() == ["bundle.json", "weights.safetensors"]
        for info in archive.infolist():
            assert (info.compress_type, info.date_time) == (zipfile.ZIP_STORED, (1980, 1, 1, 0, 0, 0))
            assert info.external_attr >> 16 == 0o644
        header = json.loads(archive.read("bundle.json"))
    assert (header["format"], header["version"], header["about"]) == ("steadyrl-bundle", 1, ABOUT)
    assert header["policy"] == json.loads(json.dumps(policy.describe()))


ARCHITECTURES: dict[str, dict[str, Any]] = {
    "plain": {},
    "linear": {"net_arch": ()},
    "deep": {"net_arch": (5, 4, 3), "activation_fn": "relu"},
    "normalised": {"normalize_obs": True, "activation_fn": "silu"},
    "normalised layers": {"net_arch": (5, 4), "layer_norm": True},
}


@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("obs", [VECTOR, TREE, gs.Discrete(4, start=2)], ids=["vector", "tree", "discrete"])
@pytest.mark.parametrize("name", ACTIONS)
def test_a_loaded_policy_is_the_saved_one(name: str, obs: gs.Space[Any], architecture: str, tmp_path: Path) -> None:
    action, options = ACTIONS[name]
    policy = make_policy(obs, action, **ARCHITECTURES[architecture], **options)
    policy.value_scale = 2.5
    path = written(tmp_path / "a.srl", policy)
    loaded = read_bundle(path, CPU)
    assert loaded.about == ABOUT
    again = loaded.policy
    assert again.sha256() == policy.sha256()
    assert (again.obs_spec.leaves, again.action_spec) == (policy.obs_spec.leaves, policy.action_spec)
    assert again.value_scale == 2.5
    tree = policy.obs_spec.store(sample(obs, 9, seed=4), batch=True)
    for first, second in ((None, None), (Stream(0, "x"), Stream(0, "x"))):
        expected, found = policy.predict(tree, first), again.predict(tree, second)
        assert found.dtype == action.dtype
        assert found.shape == (9, *(action.shape or ()))
        assert np.array_equal(expected, found)
    assert torch.equal(policy.values(policy.normalise(tree)), again.values(again.normalise(tree)))
    assert to_bytes(loaded) == path.read_bytes()


def test_weights_in_one_flat_buffer_are_saved_as_they_are(tmp_path: Path) -> None:
    from steadyrl.nn.flat import FlatParameters

    policy = make_policy()
    expected = to_bytes(Bundle(policy, ABOUT))
    FlatParameters(policy.net)
    assert to_bytes(Bundle(policy, ABOUT)) == expected
    loaded = read_bundle(written(tmp_path / "a.srl", policy), CPU).policy
    assert loaded.sha256() == policy.sha256()


def test_normaliser_statistics_go_on_where_they_were(tmp_path: Path) -> None:
    policy = make_policy(normalize_obs=True)
    loaded = read_bundle(written(tmp_path / "a.srl", policy), CPU).policy
    rows = policy.obs_spec.store(sample(VECTOR, 5, seed=9), batch=True)
    for each in (policy, loaded):
        assert each.normalizer is not None
        each.normalizer.update(rows, np.ones(5, dtype=bool))
    assert loaded.sha256() == policy.sha256()


@pytest.mark.parametrize("name", ["missing.srl", "folder"])
def test_a_file_that_cannot_be_read(name: str, tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    with pytest.raises(UserError, match=name) as caught:
        read_bundle(tmp_path / name, CPU)
    assert caught.value.code == "no-such-file"


def test_what_cannot_be_json_is_refused_before_a_byte_is_written() -> None:
    with pytest.raises(ValueError, match="JSON compliant"):
        to_bytes(Bundle(make_policy(), ABOUT | {"score": float("nan")}))


def test_too_large_a_description_is_a_user_error() -> None:
    with pytest.raises(UserError, match="too large"):
        to_bytes(Bundle(make_policy(), ABOUT | {"note": "x" * 2**20}))
