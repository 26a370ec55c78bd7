"""An environment that tells a bad number is started anew, alone, where that is asked for."""

from __future__ import annotations

from functools import partial
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.vector import SyncVectorEnv

from steadyrl.envs.adapter import VectorAdapter
from steadyrl.envs.nonfinite import Skipping
from steadyrl.envs.restart import Restarts
from steadyrl.envs.vector import make_vec
from steadyrl.errors import NonFiniteError, RunFailedError, UserError
from support.envs import ConstantReward
from support.nonfinite import Poisoned

ACTIONS = np.zeros((2, 2), dtype=np.float32)


def adapter(where: str, value: float, at: int, *, limit: int = 10, waits: Any = None, **options: Any) -> VectorAdapter:
    """Two environments; the second of them tells a bad number."""
    made: list[Poisoned] = []

    def make() -> Poisoned:
        made.append(Poisoned(where if made else "", value, at, **options))
        return made[-1]

    restarts = Restarts(2, 100, root=3, wait=(lambda seconds: None) if waits is None else waits.append)
    return make_vec(make, 2, skipping=Skipping(restarts, limit))


@pytest.mark.parametrize("tree", [False, True], ids=["box", "dict"])
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 1e38])
@pytest.mark.parametrize("where", ["observation", "final", "reward"])
def test_only_that_environment_is_started_anew(where: str, value: float, tree: bool) -> None:
    envs, twin = adapter(where, value, 3, tree=tree), adapter("", 0.0, -1, tree=tree)
    for each in (envs, twin):
        each.reset([5, 6])
    for _ in range(2):
        envs.step(ACTIONS)
        twin.step(ACTIONS)
    with pytest.warns(
        UserWarning, match="Left out, as on_nonfinite is skip: Environment 1 .* in step 3 of its episode"
    ):
        step = envs.step(ACTIONS)
    other = twin.step(ACTIONS)
    assert step.broken is not None
    assert step.broken.tolist() == [False, True]
    assert step.valid.tolist() == [True, False]
    assert step.rewards.tolist() == [other.rewards[0], 0.0]
    assert not (step.terminated | step.truncated).any()
    assert step.episodes == []
    fresh = Poisoned(tree=tree).reset(seed=Restarts(2, 1, root=3).next_seed(1, ValueError()))[0]
    for path, leaf in step.obs.items():
        np.testing.assert_array_equal(leaf[0], other.obs[path][0])
        np.testing.assert_array_equal(leaf[1], (fresh[path] if tree else fresh).astype(np.float32))
        np.testing.assert_array_equal(step.final_obs[path], leaf)
    while not step.episodes:
        step = envs.step(ACTIONS)
        other = twin.step(ACTIONS)
        np.testing.assert_array_equal(step.rewards[0], other.rewards[0])
    assert step.broken is None
    assert [(record.env_index, record.length) for record in step.episodes] == [(0, 40)]
    for _ in range(3):
        step = envs.step(ACTIONS)
    (record,) = step.episodes
    assert (record.env_index, record.length, record.truncated) == (1, 40, True)
    assert record.seed == Restarts(2, 1, root=3).next_seed(1, ValueError())
    assert np.isfinite(record.return_)
    assert envs.dropped == 1


def test_the_first_bad_number_of_each_environment_is_told() -> None:
    envs = make_vec(lambda: Poisoned("reward", np.nan, 2), 2, skipping=Skipping(Restarts(2, 9, 0), 10))
    envs.reset([1, 2])
    envs.step(ACTIONS)
    with pytest.warns(UserWarning, match="Environment 0"):
        step = envs.step(ACTIONS)
    assert step.broken is not None
    assert step.broken.all()
    assert envs.dropped == 2


@pytest.mark.filterwarnings("ignore:Left out")
def test_broken_episodes_in_a_row_have_a_limit_and_a_back_off() -> None:
    waits: list[float] = []
    envs = adapter("observation", np.nan, 2, times=10**6, limit=4, waits=waits)
    envs.reset([1, 2])
    envs.step(ACTIONS)
    for _ in range(3):
        envs.step(ACTIONS)
    with pytest.raises(NonFiniteError, match=r"Environment 1 .* gave nan"):
        envs.step(ACTIONS)
    assert envs.dropped == 3
    assert waits == [0.1, 0.2]


@pytest.mark.filterwarnings("ignore:Left out")
def test_a_whole_episode_between_two_broken_ones_begins_the_count_anew() -> None:
    made: list[Poisoned] = []

    def make() -> Poisoned:
        made.append(Poisoned("reward", np.nan, 1))
        return made[-1]

    envs = make_vec(make, 1, skipping=Skipping(Restarts(1, 100, 0, wait=lambda seconds: None), 2))
    envs.reset([1])
    for _ in range(4):
        made[0].at = made[0].life + 1
        envs.step(ACTIONS[:1])
        for _ in range(40):
            step = envs.step(ACTIONS[:1])
        assert len(step.episodes) == 1
    assert envs.dropped == 4


def test_a_bad_number_right_after_the_start_ends_the_run() -> None:
    class AlwaysBad(Poisoned):
        def _obs(self, *, bad: bool) -> Any:
            return super()._obs(bad=self.life > 1)

    envs = make_vec(lambda: AlwaysBad("observation", np.nan), 1, skipping=Skipping(Restarts(1, 9, 0), 10))
    envs.reset([1])
    envs.step(ACTIONS[:1])
    with pytest.warns(UserWarning, match="Left out"), pytest.raises(NonFiniteError, match="in step 0 of its episode"):
        envs.step(ACTIONS[:1])


def test_an_environment_that_cannot_be_restarted_alone_stops_the_run() -> None:
    vector = SyncVectorEnv([partial(Poisoned, "reward", np.inf, 2), Poisoned])
    envs = VectorAdapter(vector, make_vec(Poisoned).spec, seeds_each=True, skipping=Skipping(Restarts(2, 9, 0), 10))
    envs.reset([1, 2])
    envs.step(ACTIONS)
    with pytest.raises(NonFiniteError, match=r"Environment 0 .* gave inf as its reward"):
        envs.step(ACTIONS)


def test_the_error_brings_the_whole_step() -> None:
    envs = make_vec(lambda: Poisoned("observation", np.nan, 2, tree=True), 2)
    envs.reset([1, 2])
    envs.step(ACTIONS)
    with pytest.raises(NonFiniteError) as caught:
        envs.step(ACTIONS)
    names = {"actions", "rewards", "terminated", "truncated", "observation/goal", "observation/place"}
    assert caught.value.batch.keys() == names
    assert np.isnan(caught.value.batch["observation/place"]).tolist() == [[False, True, False]] * 2
    facts = caught.value.facts
    assert (facts["key"], facts["entry"], facts["value"], facts["episode_seed"]) == ("place", 1, "nan", 1)


def test_actions_of_parts_come_with_the_error_as_an_array_for_each_part() -> None:
    class Jointed(Poisoned):
        def __init__(self) -> None:
            super().__init__("reward", np.nan, 1)
            self.action_space = gym.spaces.Dict({"move": gym.spaces.Discrete(3), "on": gym.spaces.Discrete(2)})

        def step(self, action: Any) -> Any:
            return super().step(action["move"])

    envs = make_vec(Jointed, 2)
    envs.reset([1, 2])
    actions = np.array([(1, 0), (2, 1)], dtype=[("move", "<i8"), ("on", "<i8")])
    with pytest.raises(NonFiniteError) as caught:
        envs.step(actions)
    found = caught.value.batch
    assert "actions" not in found
    assert [found[f"actions/{name}"].tolist() for name in ("move", "on")] == [[1, 2], [0, 1]]


def test_nothing_is_counted_of_a_refused_reward() -> None:
    envs = make_vec(lambda: Poisoned("reward", np.nan, 2), 1)
    envs.reset([1])
    before = envs.step(ACTIONS[:1]).rewards[0]
    with pytest.raises(RunFailedError):
        envs.step(ACTIONS[:1])
    assert envs.state()["returns"].tolist() == [before]


@pytest.mark.parametrize("value", [np.inf, -np.inf, 1e38, np.nan])
def test_a_success_that_is_no_number_names_environment_and_step(value: float) -> None:
    envs = make_vec(lambda: Poisoned("info", value, 2), 1)
    envs.reset([1])
    envs.step(ACTIONS[:1])
    text = r"info\['is_success'\] of \S+ \(environment 0\), in step 2 of its episode, is .*(nan|inf|1e\+38)"
    with pytest.raises(UserError, match=text):
        envs.step(ACTIONS[:1])


def test_a_healthy_step_has_nothing_broken() -> None:
    envs = make_vec(ConstantReward, 2, skipping=Skipping(Restarts(2, 9, 0), 10))
    envs.reset([1, 2])
    for _ in range(20):
        assert envs.step(np.zeros(2, np.int64)).broken is None
    assert envs.dropped == 0


@pytest.mark.filterwarnings("ignore:Left out")
def test_what_was_left_out_goes_on_from_a_state() -> None:
    envs, other = (adapter("observation", np.nan, 2, times=10**6, limit=4) for _ in range(2))
    envs.reset([1, 2])
    envs.step(ACTIONS)
    envs.step(ACTIONS)
    envs.step(ACTIONS)
    state = envs._skips.state()
    assert state == {"dropped": 2, "in_a_row": [0, 2]}
    envs.step(ACTIONS)
    other.reset([1, 2])
    other._skips.restore(state)
    other.step(ACTIONS)
    other.step(ACTIONS)
    assert other.dropped == 3
    with pytest.raises(NonFiniteError):
        other.step(ACTIONS)
    assert state == {"dropped": 2, "in_a_row": [0, 2]}
