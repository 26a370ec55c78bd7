"""A policy's description makes the same policy again, and says beforehand what tensors it has."""

from __future__ import annotations

import json
from typing import Any

import pytest
from gymnasium import spaces as gs

from steadyrl.nn.description import Description
from steadyrl.nn.policy import Policy
from support.policies import ACTIONS, CPU, TREE, VECTOR, make_policy


@pytest.mark.parametrize("obs", [VECTOR, TREE, gs.Discrete(7)], ids=["vector", "tree", "discrete"])
@pytest.mark.parametrize("name", ACTIONS)
def test_a_description_makes_the_same_policy(name: str, obs: gs.Space[Any]) -> None:
    action, options = ACTIONS[name]
    policy = make_policy(obs, action, normalize_obs=True, **options)
    policy.value_scale = 0.25
    described = json.loads(json.dumps(policy.describe(), allow_nan=False))
    again = Policy.from_description(described, CPU)
    assert again.describe() == policy.describe()
    assert again.distribution == policy.distribution
    assert again.value_scale == 0.25
    again.load_state_dict(policy.state_dict())
    assert again.sha256() == policy.sha256()


@pytest.mark.parametrize("normalize_obs", [True, False])
@pytest.mark.parametrize("name", ACTIONS)
def test_the_tensors_are_known_without_making_the_policy(name: str, normalize_obs: bool) -> None:
    action, options = ACTIONS[name]
    policy = make_policy(TREE, action, normalize_obs=normalize_obs, **options)
    forms = Description.from_json(policy.describe()).tensor_forms()
    assert forms == {key: (tuple(x.shape), x.dtype) for key, x in policy.state_dict().items()}


HOSTILE: dict[str, dict[str, Any]] = {
    "exactly": {"colour": "red"},
    "described by": {"action_masks": 1},
    "is described": {"normalize_obs": "yes"},
    "not a number above 0": {"value_scale": 0.0},
    "value_scale is 1,": {"value_scale": 1},
    "no action masks for continuous": {"action_masks": True},
}


@pytest.mark.parametrize("said", HOSTILE)
def test_what_is_no_description_is_refused(said: str) -> None:
    data = make_policy(VECTOR, gs.Box(-1, 1, (2,))).describe()
    assert Description.from_json(data).to_json() == data
    with pytest.raises(ValueError, match=said):
        Description.from_json(data | HOSTILE[said])
