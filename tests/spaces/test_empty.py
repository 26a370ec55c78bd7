"""Spaces that hold nothing, a 0 in their shape: said with the leaf and the cure, wherever they are met."""

from __future__ import annotations

import warnings
from functools import partial
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces as gs

import steadyrl as srl
from steadyrl.cli.main import main
from steadyrl.errors import UserError
from steadyrl.spaces import ActionSpec, ObsSpec
from support.envs import Reset, Stepped

NONE = gs.MultiDiscrete(np.zeros((2, 0), dtype=np.int64))
WHOLE: dict[str, gym.Space[Any]] = {
    "a Box of shape (0,)": gs.Box(-1.0, 1.0, (0,)),
    "a Box of shape (3, 0)": gs.Box(-1.0, 1.0, (3, 0)),
    "a Box of shape (0, 84, 3)": gs.Box(0, 255, (0, 84, 3), np.uint8),
    "a MultiDiscrete of shape (2, 0)": NONE,
}
TEXTS: dict[str, gym.Space[Any]] = {
    "a Text of at most 0 out of 62 characters": gs.Text(0, min_length=0),
    "a Text of at most 3 out of 0 characters": gs.Text(3, charset=""),
}


class Empty(gym.Env[Any, Any]):
    """Observes nothing where `leaf` says so."""

    def __init__(self, space: str = "Box", leaf: bool = False) -> None:
        empty = gs.Box(-1.0, 1.0, (3, 0)) if space == "Box" else NONE
        parts = gs.Dict({"good": gs.Box(-1.0, 1.0, (2,)), "bad": gs.Tuple((gs.Discrete(2), empty))})
        self.observation_space: gym.Space[Any] = parts if leaf else empty
        self.action_space = gs.Discrete(2)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Reset:
        super().reset(seed=seed)
        return self.observation_space.sample(), {}

    def step(self, action: Any) -> Stepped:
        return self.observation_space.sample(), 1.0, False, True, {}


@pytest.mark.parametrize("found", [*WHOLE, *TEXTS])
def test_observations_are_refused_with_the_cure(found: str) -> None:
    space = (WHOLE | TEXTS)[found]
    with pytest.raises(UserError) as caught:
        ObsSpec.of(space)
    assert caught.value.message == f"The observation space is {found}, which holds nothing."
    assert caught.value.remedy == "Give observations at least one entry."
    with pytest.raises(UserError) as caught:
        ObsSpec.of(gs.Dict({"a": gs.Discrete(2), "b": space}))
    assert caught.value.message == f"The observation space at 'b' is {found}, which holds nothing."
    assert "Leave this part out of the space (gymnasium.wrappers.FilterObservation)" in caught.value.remedy


@pytest.mark.parametrize("found", WHOLE)
def test_actions_are_refused_with_the_cure(found: str) -> None:
    with pytest.raises(UserError, match="Give actions at least one entry") as caught:
        ActionSpec.of(WHOLE[found])
    assert caught.value.message == f"The action space is {found}, which holds nothing."
    with pytest.raises(UserError, match="The action space at 'a/1' is") as caught:
        ActionSpec.of(gs.Dict({"a": gs.Tuple((gs.Discrete(2), WHOLE[found]))}))
    assert "Leave this part out of the space" in caught.value.remedy


def test_the_entries_of_a_sequence_hold_something() -> None:
    with pytest.raises(UserError, match=r"at 'a/\*' is a Box of shape \(0,\), which holds nothing") as caught:
        ObsSpec.of(gs.Dict({"a": gs.Sequence(gs.Box(-1.0, 1.0, (0,)))}))
    assert caught.value.remedy == "Give the entries of the sequence at least one number."


@pytest.mark.parametrize("algo", [srl.PPO, srl.A2C, srl.DQN, srl.SAC])
@pytest.mark.parametrize("space", ["Box", "MultiDiscrete"])
@pytest.mark.parametrize(("leaf", "where"), [(False, "The observation space is"), (True, "space at 'bad/1' is")])
def test_python_says_it_as_the_agent_is_made(algo: Any, space: str, leaf: bool, where: str) -> None:
    for given in (partial(Empty, space, leaf), Empty(space, leaf)):
        with pytest.raises(UserError, match=where):
            algo(given, preset="none")
    with pytest.raises(UserError, match=where):
        srl.make_vec(partial(Empty, space, leaf), 2)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        vector = gym.vector.SyncVectorEnv([partial(Empty, space, leaf)] * 2)
    with pytest.raises(UserError, match=where):
        algo(vector, preset="none")


@pytest.mark.parametrize("words", [["info"], ["train", "ppo"]], ids=str)
def test_the_command_line_says_it(
    words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    status = main([*words, f"{__file__}:Empty"])
    told = capsys.readouterr()
    said = " ".join((told.out + told.err).split())
    assert status == (0 if words == ["info"] else 2)
    assert "The observation space is a Box of shape (3, 0), which holds nothing." in said
    assert "report it" not in said
    assert list(tmp_path.iterdir()) == []
