"""Architectures as JSON: what they make, and that a hostile one makes nothing."""

from __future__ import annotations

import json
import tracemalloc
from dataclasses import asdict
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces as gs

from steadyrl.nn.architecture import Architecture
from steadyrl.nn.build import build
from steadyrl.nn.policy import Policy
from steadyrl.seeding import Stream
from steadyrl.spaces import ActionSpec, ObsSpec
from support.off_policy import FAMILIES, architecture, off_policy, parameters
from support.policies import CPU, VECTOR

OBS = ObsSpec.of(VECTOR)


def as_json(family: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(json.dumps(asdict(architecture(family))))
    return found


@pytest.mark.parametrize("family", FAMILIES)
def test_json_and_back(family: str) -> None:
    assert Architecture.from_json(as_json(family)) == architecture(family)


@pytest.mark.parametrize("family", FAMILIES)
def test_weights_are_counted_without_making_any(family: str) -> None:
    policy = off_policy(family)
    assert architecture(family).parameters(OBS, policy.action_spec) == parameters(policy.net).size


def test_the_count_of_each_network_by_hand() -> None:
    """Observation 3, hidden 8, 3 discrete or 2 continuous actions."""

    def count(family: str) -> int:
        return architecture(family).parameters(OBS, ActionSpec.of(FAMILIES[family][0]))

    hidden = 3 * 8 + 8
    assert count("dqn") == hidden + 8 * 3 + 3
    assert count("dueling") == hidden + 8 * 3 + 3 + 8 + 1
    assert count("c51") == hidden + 8 * 15 + 15
    assert count("quantile") == hidden + 8 * 12 + 12
    critic = (3 + 2) * 8 + 8 + 8 + 1
    assert count("td3") == hidden + 8 * 2 + 2 + 2 * critic
    assert count("sac") == hidden + 2 * (8 * 2 + 2) + 2 * critic
    assert count("sac-gsde") == hidden + 8 * 2 + 2 + 8 * 2 + 2 * critic
    assert count("sac-discrete") == 3 * (hidden + 8 * 3 + 3)


HOSTILE: dict[str, tuple[str, dict[str, Any]]] = {
    "unknown family": ("td3", {"family": "worm"}),
    "family of another type": ("td3", {"family": ["td3"]}),
    "unknown head": ("dqn", {"head": "tail"}),
    "many critics": ("td3", {"n_critics": 10**9}),
    "many critics without hidden layers": ("td3", {"n_critics": 10**9, "net_arch": {"pi": [], "qf": []}}),
    "no critic": ("sac", {"n_critics": 0}),
    "a switch for a number": ("sac", {"n_critics": True}),
    "a number for a switch": ("dqn", {"dueling": 1}),
    "many layers": ("dqn", {"net_arch": {"qf": [1] * 10**5}}),
    "a width of 0": ("dqn", {"net_arch": {"qf": [0]}}),
    "a negative width": ("dqn", {"net_arch": {"qf": [-8]}}),
    "a width in words": ("dqn", {"net_arch": {"qf": "88"}}),
    "networks of another family": ("dqn", {"net_arch": {"pi": [8], "vf": [8]}}),
    "no outputs": ("quantile", {"outputs": 0}),
    "outputs of a mean": ("dqn", {"outputs": 7}),
    "one atom": ("c51", {"outputs": 1}),
    "a support that is upside down": ("c51", {"v_min": 1.0, "v_max": -1.0}),
    "a support without width": ("c51", {"v_min": 1.0, "v_max": 1.0}),
    "an infinite support": ("c51", {"v_max": float("inf")}),
    "NaN": ("c51", {"v_max": float("nan")}),
    "a support in words": ("c51", {"v_max": "1"}),
    "a distribution of an actor-critic": ("td3", {"head": "quantile", "outputs": 4}),
    "an exploration rate above 1": ("dqn", {"epsilon": 2.0}),
    "a normalisation of 1": ("dqn", {"layer_norm": 1}),
    "a normalisation of nothing": ("sac", {"layer_norm": None}),
    "a normalisation in words": ("dqn", {"layer_norm": "true"}),
    "an unknown field": ("dqn", {"colour": "red"}),
    "networks that are no table": ("dqn", {"net_arch": [8]}),
}


@pytest.mark.parametrize("case", HOSTILE)
def test_a_hostile_architecture_is_refused_and_nothing_is_allocated(case: str) -> None:
    family, change = HOSTILE[case]
    data = as_json(family) | change
    tracemalloc.start()
    try:
        with pytest.raises((ValueError, TypeError, KeyError, AttributeError)):
            Architecture.from_json(data)
        assert tracemalloc.get_traced_memory()[1] < 20_000_000
    finally:
        tracemalloc.stop()


def description(family: str, change: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(json.dumps(off_policy(family).describe()))
    found["architecture"] |= change
    return found


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("width", [10**6, 10**12, 2**62, 2**63, 2**64 - 1])
def test_a_network_larger_than_its_weights_is_never_made(
    family: str, width: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = architecture(family).net_arch
    changes: list[dict[str, Any]] = [{"net_arch": {name: [width, width] for name in names}}]
    if family in ("c51", "quantile"):
        changes.append({"outputs": width})
    hostile = [description(family, change) for change in changes]
    monkeypatch.setattr(Policy, "__init__", lambda *_: pytest.fail("a network was made"))
    for data in hostile:
        with pytest.raises((ValueError, TypeError, KeyError, RuntimeError)):
            Policy.from_description(data, CPU, parameters=100)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize(
    "action", [gs.Discrete(3), gs.Box(-1, 1, (2,)), gs.MultiDiscrete([2, 3]), gs.MultiBinary(2)], ids=str
)
def test_a_family_is_made_for_the_actions_it_has_networks_for(family: str, action: gs.Space[Any]) -> None:
    made = architecture(family)
    space = FAMILIES[family][0]
    fits = type(action) is type(space) or (made.family == "sac" and isinstance(action, gs.Discrete | gs.Box))
    if fits:
        build(OBS, ActionSpec.of(action), made)
        return
    for refused in (
        lambda: build(OBS, ActionSpec.of(action), made),
        lambda: made.parameters(OBS, ActionSpec.of(action)),
    ):
        with pytest.raises(ValueError, match="has no network for"):
            refused()


@pytest.mark.parametrize("family", FAMILIES)
def test_a_description_makes_the_same_policy(family: str) -> None:
    policy = off_policy(family)
    data = json.loads(json.dumps(policy.describe()))
    again = Policy.from_description(data, CPU, parameters=parameters(policy.net).size)
    assert not parameters(again.net)[: 3 * 8].any()  # the first layer is blank until the weights come
    again.load_state_dict(policy.state_dict())
    assert again.sha256() == policy.sha256()
    obs = {"": np.random.default_rng(0).normal(size=(5, 3)).astype(np.float32)}
    np.testing.assert_array_equal(policy.predict(obs), again.predict(obs))
    np.testing.assert_array_equal(policy.predict(obs, Stream(0, "a")), again.predict(obs, Stream(0, "a")))
    assert torch.equal(policy.values(obs), again.values(obs))
    with pytest.raises(ValueError, match="weights, but there are"):
        Policy.from_description(data, CPU, parameters=7)
