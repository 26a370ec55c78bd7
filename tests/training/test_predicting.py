"""What `predict` says of masks that are none."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch

import steadyrl as srl
from steadyrl.training.agent import Agent
from support.masked import Masked

ONE, TWO = np.zeros(2), np.zeros((2, 2))
WRONG: list[tuple[Any, str]] = [
    (5, "is 5 (int)"),
    (True, "is True (bool)"),
    (np.float32(1), "is "),
    (np.array(1), "is an array of shape ()"),
    ("1111", "is '1111' (str)"),
    ({"mask": 1}, "is {'mask': 1} (dict)"),
    (object(), "is <object"),
    (iter([1, 1, 1, 1]), "is <list_iterator"),
    (["a", "b", "c", "d"], "is ['a', 'b', 'c', 'd'] (list)"),
    ([[1, 0], [1, 0, 0]], "is [[1, 0], [1, 0, 0]] (list)"),
    (np.ones(4, dtype=complex), "is an array of shape (4,) and dtype complex128"),
    ([], "has shape (0,)"),
    (np.ones((0, 4)), "has shape (0, 4)"),
    (np.ones(3), "has shape (3,)"),
    (np.ones((3, 4)), "has shape (3, 4)"),
    (np.ones((2, 2, 4)), "has shape (2, 2, 4)"),
    (torch.ones(5), "has shape (5,)"),
]


@pytest.fixture(scope="module")
def agent() -> Iterator[Agent]:
    made = srl.PPO(Masked, num_envs=1, n_steps=16, batch_size=16, preset="none", vec="sync", action_masks="on")
    yield made
    made.close()


@pytest.mark.parametrize(("given", "found"), WRONG, ids=lambda value: str(value)[:20])
@pytest.mark.parametrize(
    ("obs", "needed"), [(ONE, "one observation needs truth values of shape (4,)"), (TWO, "2 observations need truth")]
)
def test_what_is_no_mask_is_said(agent: Agent, obs: Any, needed: str, given: Any, found: str) -> None:
    with pytest.raises(srl.UserError) as caught:
        agent.predict(obs, action_masks=given)
    assert f"action_masks {found}" in caught.value.message
    assert needed in caught.value.message
    assert caught.value.remedy.startswith("Give 4 truth values, one for each action")


@pytest.mark.parametrize("given", [np.ones(4), np.ones((1, 4)), np.ones((4, 2))], ids=lambda array: str(array.shape))
def test_a_batch_needs_a_mask_for_each(agent: Agent, given: Any) -> None:
    with pytest.raises(srl.UserError, match=r"2 observations need truth values of shape \(2, 4\)"):
        agent.predict(TWO, action_masks=given)


def test_the_observation_whose_mask_allows_nothing_is_named(agent: Agent) -> None:
    with pytest.raises(srl.UserError, match="The action mask of the observation allows nothing"):
        agent.predict(ONE, action_masks=[0, 0, 0, 0])
    with pytest.raises(srl.UserError, match="The action mask of observation 1 of the batch allows nothing"):
        agent.predict(TWO, action_masks=[[1, 0, 0, 0], [0, 0, 0, 0]])
    with pytest.raises(srl.UserError, match="The action mask of observation 1 of the batch holds NaN"):
        agent.predict(TWO, action_masks=[[1, 0, 0, 0], [np.nan, 0, 0, 1]])


@pytest.mark.parametrize(
    "given",
    [[0, 0, 1, 0], (False, False, True, False), np.array([[0.0], [0.0], [0.5], [0.0]]), torch.eye(4)[2]],
    ids=str,
)
def test_any_array_of_truth_values_is_taken(agent: Agent, given: Any) -> None:
    assert agent.predict(ONE, action_masks=given)[0] == 2
    rows = np.asarray(given).reshape(1, 4).repeat(2, axis=0)
    np.testing.assert_array_equal(agent.predict(TWO, action_masks=rows)[0], [2, 2])


def test_the_entries_of_a_multidiscrete_action_stand_side_by_side() -> None:
    agent = srl.A2C(partial(Masked, (2, 3)), num_envs=1, preset="none", vec="sync", action_masks="on")
    np.testing.assert_array_equal(agent.predict(ONE, action_masks=[0, 1, 0, 0, 1])[0], [1, 2])
    with pytest.raises(srl.UserError, match="allows nothing for entry 1"):
        agent.predict(ONE, action_masks=[0, 1, 0, 0, 0])
    agent.close()
