"""Acting on kernels beside acting through PyTorch, and whose memory it is."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces as gs

from steadyrl import kernels
from steadyrl.nn.normalizer import ObsNormalizer
from support.policies import ACTIONS, TREE, VECTOR, make_policy, sample

pytestmark = pytest.mark.skipif(not kernels.available(), reason=kernels.reason() or "-")


@pytest.mark.parametrize("obs", [VECTOR, TREE], ids=["vector", "tree"])
@pytest.mark.parametrize("name", ACTIONS)
def test_actions_are_those_of_pytorch(name: str, obs: gs.Space[Any]) -> None:
    action, options = ACTIONS[name]
    native, plain = (make_policy(obs, action, native=kind, normalize_obs=True, **options) for kind in (True, False))
    for n, seed in ((5, 0), (5, 1), (1, 2), (5, 3)):
        raw = native.obs_spec.store(sample(obs, n, seed), batch=True)
        noise = native.distribution.draw(native_stream(seed), n)
        found = native.act(native.normalise(raw), noise)
        expected = plain.act(plain.normalise(raw), noise)
        for ours, theirs in zip(found, expected, strict=True):
            assert ours.dtype == theirs.dtype
            torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-5)
        np.testing.assert_allclose(native.to_env(found[0]), plain.to_env(expected[0]), rtol=1e-5, atol=1e-5)


def native_stream(seed: int) -> Any:
    from steadyrl.seeding import Stream

    return Stream(seed, "noise")


def test_the_memory_is_used_again_and_a_copy_has_its_own() -> None:
    policy = make_policy(native=True)
    one, two = ({"": np.full((4, 3), x, dtype=np.float32)} for x in (1.0, -2.0))
    noise = policy.distribution.draw(native_stream(0), 4)
    first = policy.act(one, noise)
    kept = [x.clone() for x in first]
    twin = copy.deepcopy(policy)
    assert all(torch.equal(a, b) for a, b in zip(twin.act(one, noise), kept, strict=True))
    twin.act(two, 1.0 - noise)
    assert all(torch.equal(a, b) for a, b in zip(first, kept, strict=True))
    again = policy.act(two, noise)
    assert again[2].data_ptr() == first[2].data_ptr()
    assert not torch.equal(again[2], kept[2])


def test_mapped_actions_are_fresh_and_in_the_environments_shape() -> None:
    policy = make_policy(action=gs.Box(-2.0, 4.0, (2, 3)), native=True)
    actions = np.linspace(-1.5, 1.5, 12, dtype=np.float32).reshape(2, 6)
    found = policy.mapped(actions)
    assert found.shape == (2, 2, 3)
    assert found.dtype == np.float32
    np.testing.assert_array_equal(found, policy.action_spec.to_env(actions))
    np.testing.assert_array_equal(policy.mapped(actions.astype(np.float64)), policy.action_spec.to_env(actions))


def test_the_normaliser_computes_as_its_policy_does() -> None:
    for native in (True, False):
        normalizer = make_policy(native=native, normalize_obs=True).normalizer
        assert isinstance(normalizer, ObsNormalizer)
        assert normalizer.native is native
