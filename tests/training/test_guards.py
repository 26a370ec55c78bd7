"""Numbers that nothing may be computed from are found, wherever they are, and large good ones are not."""

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

import steadyrl as srl
from steadyrl.errors import NonFiniteError, UserError
from steadyrl.nn.policy import Policy
from steadyrl.training.guards import (
    entry,
    first_absurd,
    is_sane,
    require_sane,
    require_sane_actions,
    require_sane_outputs,
    require_sane_policy,
)


@given(arrays(np.float32, (3, 4), elements=st.floats(width=32) | st.sampled_from([1e18, 9e17, -1e18])))
def test_an_entry_is_found_exactly_where_there_is_one(leaf: Any) -> None:
    bad = [tuple(map(int, i)) for i in np.argwhere(~(np.abs(leaf) <= np.float32(1e18)))]
    found = first_absurd({"good": np.zeros((3, 1), dtype=np.float32), "x": leaf})
    if not bad:
        assert found is None
    else:
        assert found is not None
        assert found[:2] == ("x", bad[0])
        np.testing.assert_array_equal(found[2], leaf[bad[0]])


@pytest.mark.parametrize("value", [1.1e18, -1e19, 3e38])
def test_one_whose_square_is_finite_is_found_too(value: float) -> None:
    leaf = np.zeros((2, 3), dtype=np.float64)
    leaf[1, 2] = value
    assert first_absurd({"": leaf}) == ("", (1, 2), value)


def test_integers_are_never_absurd() -> None:
    assert first_absurd({"": np.full((2, 2), 2**62)}) is None


@pytest.mark.parametrize("number", [np.nan, np.inf, -np.inf, 1.1e18, -1.1e18])
def test_numbers_that_are_absurd(number: float) -> None:
    assert not is_sane(number)


@pytest.mark.parametrize("number", [0.0, -1e18, 1e18, 5.0])
def test_numbers_that_are_sane(number: float) -> None:
    assert is_sane(number)


def test_entries_have_a_name() -> None:
    assert entry("", (3,)) == "entry 3"
    assert entry("camera", (1, 2)) == "entry (1, 2) at 'camera'"
    assert entry("", ()) == "entry"


@pytest.mark.parametrize(("single", "said"), [(True, "entry 1 at 'x'"), (False, "entry (2, 1) at 'x'")])
def test_an_observation_of_the_users_is_named_by_its_entry(single: bool, said: str) -> None:
    leaf = np.zeros((3, 2), dtype=np.float32)
    require_sane({"x": leaf}, single)
    leaf[2, 1] = np.inf
    with pytest.raises(UserError) as caught:
        require_sane({"good": np.zeros((3, 1), np.float32), "x": leaf}, single)
    assert caught.value.message == f"The observation holds inf as {said}."
    assert (caught.value.code, "1e18" in caught.value.remedy) == ("obs-nonfinite", True)


@pytest.mark.parametrize("value", [np.nan, -np.inf, 1.1e18])
def test_an_action_is_named_by_environment_and_dimension(value: float) -> None:
    actions = np.zeros((3, 2, 2))
    actions[2, 1, 1] = 1e18
    require_sane_actions(actions, 40)
    actions[1, 1, 0], actions[2, 0, 0] = value, value
    with pytest.raises(NonFiniteError) as caught:
        require_sane_actions(actions, 40)
    error = caught.value
    assert error.message == (
        f"The policy's action for environment 1 has {value} in dimension 2, at environment step 40: "
        "no environment was sent it."
    )
    assert error.facts == {"source": "action", "environment": 1, "dimension": 2, "value": str(value), "step": 40}
    assert error.batch["actions"] is actions
    assert (error.code, bool(error.remedy)) == ("non-finite-action", True)


def test_an_output_is_named_by_environment_and_step_of_its_rollout() -> None:
    outputs = {"values": np.zeros((4, 3), np.float32), "log_probs": np.full((4, 3), 9e17, np.float32)}
    require_sane_outputs(outputs, 40)
    outputs["log_probs"][2, 1] = np.nan
    with pytest.raises(NonFiniteError) as caught:
        require_sane_outputs(outputs, 40)
    error = caught.value
    assert error.message == (
        "The policy's log_probs for environment 1 in step 2 of the rollout that ended at environment step 40 is nan: "
        "it was not trained on."
    )
    facts = {"source": "log_probs", "environment": 1, "rollout_step": 2, "value": "nan", "step": 40}
    assert (error.facts, error.code, bool(error.remedy)) == (facts, "non-finite-output", True)
    assert error.batch is not None
    assert error.batch.keys() == outputs.keys()


def policy(**options: Any) -> Policy:
    return srl.PPO("CartPole-v1", preset="none", net_arch=(4,), seed=1, **options).policy


@pytest.mark.parametrize("value", [np.nan, 2e18, 9e17])
def test_a_weight_is_named_by_its_place(value: float) -> None:
    found = policy()
    found.touched = True
    require_sane_policy(found, 40)
    assert not found.touched
    name, weights = next(iter(found.net.named_parameters()))
    weights.data.view(-1)[3] = value
    if abs(value) < 1e18:
        require_sane_policy(found, 40)
        return
    found.touched = True
    with pytest.raises(NonFiniteError) as caught:
        require_sane_policy(found, 40)
    error = caught.value
    shown = weights.data.view(-1)[3].item()
    assert error.message == f"Weight 3 of {name} is {shown} at environment step 40: it was not trained on."
    assert error.facts == {"source": "parameters", "step": 40, "key": name, "value": str(shown)}
    assert (error.code, bool(error.remedy), found.touched) == ("non-finite-weights", True, True)


def test_many_large_weights_are_no_bad_one() -> None:
    found = policy()
    found.parts["net"].flat.data.fill_(9e17)
    require_sane_policy(found, 40)


def test_statistics_that_are_not_finite_are_named() -> None:
    found = policy(normalize_obs=True)
    require_sane_policy(found, 40)
    assert found.normalizer is not None
    found.normalizer.statistics[""].mean = np.array([0.0, np.nan, 0.0, 0.0])
    with pytest.raises(
        NonFiniteError, match="The statistics of the observations are not finite at environment step 40"
    ):
        require_sane_policy(found, 40)
    assert torch.isfinite(found.parts["net"].flat.data).all()
