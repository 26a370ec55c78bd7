"""Which actions fit which algorithm, and that what does not fit is refused with the cure."""

from __future__ import annotations

import itertools
import re
from functools import partial
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces as gs

from steadyrl.configs import CONFIGS
from steadyrl.configs.suitability import check_suitable
from steadyrl.errors import UserError
from steadyrl.spaces import ActionSpec
from steadyrl.training.setup import prepare_training

SPACES: dict[str, gym.Space[Any]] = {
    "discrete": gs.Discrete(3, start=-1),
    "multi-discrete": gs.MultiDiscrete([2, 3]),
    "multi-binary": gs.MultiBinary(3),
    "bounded": gs.Box(np.array([-2.0, 0.0]), np.array([0.0, 100.0]), dtype=np.float64),
    "unbounded": gs.Box(-np.inf, np.inf, (2,)),
    "one-sided": gs.Box(np.array([-1.0, 0.0]), np.array([1.0, np.inf]), dtype=np.float64),
    "dict": gs.Dict({"move": gs.Box(-1.0, 1.0, (2,)), "grip": gs.Discrete(2)}),
    "tuple": gs.Tuple((gs.Discrete(2), gs.MultiBinary(3))),
    "one part": gs.Tuple((gs.Discrete(2),)),
}
ANY = set(SPACES)
FITS: dict[str, set[str]] = {
    "ppo": ANY,
    "a2c": ANY,
    "dqn": {"discrete"},
    "ddpg": {"bounded"},
    "td3": {"bounded"},
    "sac": {"bounded", "discrete"},
}


def check(algo: str, space: str, **options: Any) -> None:
    check_suitable(algo, CONFIGS[algo](**options), ActionSpec.of(SPACES[space]))


@pytest.mark.parametrize(("algo", "space"), [*itertools.product(FITS, SPACES)])
def test_each_pair(algo: str, space: str) -> None:
    if space in FITS[algo]:
        check(algo, space)
        return
    with pytest.raises(UserError) as caught:
        check(algo, space)
    assert caught.value.code == "unsuitable"
    assert caught.value.message.startswith(algo.upper())
    assert _named(caught.value.remedy) == {name for name, spaces in FITS.items() if space in spaces}


def _named(advice: str) -> set[str]:
    """The algorithms that an advice names."""
    return {name for name in CONFIGS if re.search(rf"\b{name.upper()}\b", advice)}


@pytest.mark.parametrize(("algo", "space"), [*itertools.product(FITS, SPACES)])
def test_what_an_advice_names_takes_the_actions(algo: str, space: str) -> None:
    """From the constructor that a user calls, to those that its answer sends him to."""

    def made(name: str) -> None:
        prepare_training(name, partial(Acting, SPACES[space]), {}, preset="none")

    if space in FITS[algo]:
        made(algo)
        return
    with pytest.raises(UserError) as caught:
        made(algo)
    advised = _named(caught.value.remedy)
    assert advised
    for name in advised:
        made(name)


class Acting(gym.Env[Any, Any]):
    """Has an action space; it is never stepped."""

    observation_space = gs.Box(-1.0, 1.0, (2,))

    def __init__(self, space: gym.Space[Any]) -> None:
        self.action_space = space


@pytest.mark.parametrize("algo", ["sac", "td3", "ddpg"])
def test_the_dimension_that_is_not_bounded_is_named(algo: str) -> None:
    with pytest.raises(
        UserError, match=r"dimension 1 of the action space is not bounded \(low 0, high inf\)"
    ) as caught:
        check(algo, "one-sided")
    assert "finite bounds" in caught.value.remedy


def test_dqn_points_to_the_algorithms_for_what_it_cannot_do() -> None:
    with pytest.raises(UserError, match="continuous, with 2 dimensions") as caught:
        check("dqn", "bounded")
    assert {"sac", "td3", "ddpg"} <= _named(caught.value.remedy)


@pytest.mark.parametrize("options", [{"use_sde": True}, {"action_noise_type": "normal"}], ids=str)
def test_what_is_for_continuous_actions_alone(options: dict[str, Any]) -> None:
    check("sac", "bounded", **options)
    with pytest.raises(UserError, match="are for continuous actions"):
        check("sac", "discrete", **options)


@pytest.mark.parametrize(("algo", "space"), [*itertools.product(["ppo", "a2c"], SPACES)])
def test_the_options_of_the_on_policy_algorithms(algo: str, space: str) -> None:
    for option, good in (
        ("use_sde", {"bounded", "unbounded", "one-sided"}),
        ("squash_output", {"bounded"}),
    ):
        if space in good:
            check(algo, space, **{option: True})
        else:
            with pytest.raises(UserError, match=option):
                check(algo, space, **{option: True})
