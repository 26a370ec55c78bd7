"""Cases 6, 7, 9, 10, 11 and 16 over a vector of environments, and Gymnasium's own defects."""

from __future__ import annotations

import re
from functools import partial
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, SyncVectorEnv

from steadyrl.envs.vector import make_vec
from steadyrl.errors import RunFailedError, UserError
from steadyrl.spaces import ActionSpec
from support.envs import (
    REWARD_FORMS,
    ConstantReward,
    Ending,
    LifeLoss,
    OddTypes,
    Reuser,
    Scripted,
    ScriptedVector,
    SpaceProbe,
)
from support.families import newest
from support.faulty_envs import Altered, Failing, Walk
from support.vectors import collect


@pytest.mark.parametrize("form", REWARD_FORMS)
def test_rewards_of_every_form_are_the_same_numbers(form: str) -> None:
    envs = make_vec(OddTypes, 2, env_kwargs={"reward": form, "flag": np.bool_})
    envs.reset([0, 1])
    steps = [envs.step(np.zeros(2, np.int64)) for _ in range(4)]
    envs.close()
    assert [s.rewards.tolist() for s in steps] == [[1.0] * 2, [2.0] * 2, [3.0] * 2, [1.0] * 2]
    assert [(e.return_, e.length) for e in steps[2].episodes] == [(6.0, 3)] * 2


def test_rewards_of_shape_1_work_in_processes_too() -> None:
    # AsyncVectorEnv 1.4.0 itself crashes on them.
    envs = make_vec(OddTypes, 2, vec="async", env_kwargs={"reward": "(1,)"})
    envs.reset([0, 1])
    steps = [envs.step(np.zeros(2, np.int64)) for _ in range(4)]
    envs.close()
    assert [s.rewards.tolist() for s in steps] == [[1.0] * 2, [2.0] * 2, [3.0] * 2, [1.0] * 2]


@pytest.mark.parametrize("vec", ["sync", "async"])
def test_an_environment_that_reuses_its_arrays_gives_distinct_true_values(vec: Any) -> None:
    envs = make_vec(Reuser, 2, vec=vec, env_kwargs={"horizon": 2})
    obs = envs.reset([0, 1])
    steps = [envs.step(np.zeros(2, np.int64)) for _ in range(5)]
    envs.close()
    # Observations are numbered: 0 reset, 1, 2 end, 3 reset, 4, 5 end, 6 reset, 7.
    assert obs[""][:, 0].tolist() == [0, 0]
    assert [s.obs[""][0, 0] for s in steps] == [1, 3, 4, 6, 7]
    assert [s.final_obs[""][0, 0] for s in steps] == [1, 2, 4, 5, 7]
    assert [e.success for s in steps for e in s.episodes] == [True] * 4


@pytest.mark.parametrize("mode", list(AutoresetMode))
def test_success_is_unknown_where_it_is_not_told(mode: AutoresetMode) -> None:
    class Silent(Scripted):
        def step(self, action: Any) -> Any:
            return *super().step(action)[:4], {}

    script = [Ending(1, False, True)]
    vector = SyncVectorEnv([partial(Scripted, script), partial(Silent, script)], autoreset_mode=mode)
    envs = make_vec(vector)
    envs.reset([0, 1])
    assert [e.success for e in envs.step(np.array([0, 0])).episodes] == [False, None]
    envs.close()


def test_episodes_truncated_at_every_step() -> None:
    envs = make_vec(lambda: ConstantReward(horizon=1), 3)
    envs.reset([0, 1, 2])
    for _ in range(4):
        step = envs.step(np.zeros(3, np.int64))
        assert step.truncated.all()
        assert not step.terminated.any()
        assert step.valid.all()
        assert [(e.length, e.return_, e.truncated) for e in step.episodes] == [(1, 1.0, True)] * 3
        assert (step.obs[""] != step.final_obs[""]).any(axis=1).all()
    envs.close()


def test_made_up_rows_are_dropped_and_steps_counted_exactly() -> None:
    scripts = [[Ending(2, True, False)], [Ending(3, False, True)]]
    envs = make_vec(ScriptedVector(scripts, AutoresetMode.NEXT_STEP))
    envs.reset([0, 1])
    lengths = {0: 0, 1: 0}
    valid = 0
    for _ in range(12):
        step = envs.step(np.zeros(2, np.int64))
        valid += int(step.valid.sum())
        assert not (step.terminated | step.truncated)[~step.valid].any()
        assert not step.rewards[~step.valid].any()
        for e in step.episodes:
            lengths[e.env_index] += e.length
    # Of 12 vector steps environment 0 loses each third row, environment 1 each fourth.
    assert (valid, lengths) == (8 + 9, {0: 8, 1: 9})


def test_what_a_made_up_row_says_is_ignored() -> None:
    class Talkative(ScriptedVector):
        def step(self, actions: Any) -> Any:
            made_up = self.over.copy()
            obs, rewards, terminated, truncated, infos = super().step(actions)
            rewards[made_up] = np.nan
            return obs, rewards, terminated | made_up, truncated | made_up, infos

    envs = make_vec(Talkative([[Ending(1, True, False)], [Ending(9, True, False)]], AutoresetMode.NEXT_STEP))
    envs.reset([0, 1])
    envs.step(np.array([0, 0]))
    step = envs.step(np.array([0, 0]))
    assert step.valid.tolist() == [False, True]
    assert (step.rewards[0], step.terminated[0], step.truncated[0], step.episodes) == (0.0, False, False, [])
    assert envs.step(np.array([0, 0])).episodes[0].return_ == 100 + 1


def test_what_is_handed_out_belongs_to_the_caller() -> None:
    envs = make_vec(ConstantReward, 2)
    envs.reset([0, 1])
    for _ in range(2):
        step = envs.step(np.zeros(2, np.int64))
        assert step.valid.all()
        step.valid[:] = False  # as for rows beyond the total
    envs.close()


@pytest.mark.parametrize("outer", [True, False])
def test_lives_with_a_time_limit_leave_the_counters_right(outer: bool) -> None:
    def make() -> gym.Env[Any, Any]:
        if outer:
            return gym.wrappers.TimeLimit(LifeLoss(ConstantReward(horizon=100), life=3), 5)
        return LifeLoss(gym.wrappers.TimeLimit(ConstantReward(horizon=100), 5), life=3)

    envs = make_vec(make, 2)
    envs.reset([0, 1])
    episodes = []
    for _ in range(12):
        episodes += [
            (e.length, e.return_, e.terminated, e.truncated)
            for e in envs.step(np.zeros(2, np.int64)).episodes
            if e.env_index == 1
        ]
    envs.close()
    # A limit outside counts from each reset, so a life is always lost first; inside, the fifth step of the game
    # truncates.
    alive = [(3, 3.0, True, False), (2, 2.0, False, True)] * 2
    assert episodes == ([(3, 3.0, True, False)] * 4 if outer else alive)


@pytest.mark.parametrize(
    ("obs_space", "action_space"),
    [
        (spaces.MultiBinary((8, 8)), spaces.Discrete(3, start=-1)),
        (spaces.Discrete(5, start=2), spaces.MultiDiscrete(np.array([[2], [2]]))),
        (spaces.MultiDiscrete(np.array([[3], [4]])), spaces.MultiBinary((2, 2))),
        (spaces.Box(-1, 1, (3,), np.float64), spaces.Box(-2, 0, (2,), np.float64)),
        (spaces.Box(0, 255, (4, 4, 3), np.uint8), spaces.MultiDiscrete([3, 2], start=[1, -1])),
        (spaces.Dict({"a": spaces.Box(-1, 1, (2,), np.float64), "b": spaces.Discrete(3)}), spaces.Discrete(2)),
    ],
)
def test_shapes_and_dtypes_survive_the_way_there_and_back(
    obs_space: gym.Space[Any], action_space: gym.Space[Any]
) -> None:
    probes: list[SpaceProbe] = []

    def make() -> SpaceProbe:
        probes.append(SpaceProbe(obs_space, action_space, horizon=3))
        return probes[-1]

    envs = make_vec(make, 4)
    actions = ActionSpec.of(action_space)
    rng = np.random.default_rng(0)
    obs = envs.reset([0, 1, 2, 3])
    sent = []
    for _ in range(5):
        policy = (
            rng.uniform(-1, 1, (4, actions.size)).astype(np.float32)
            if actions.kind == "continuous"
            else rng.integers(0, np.array(actions.nvec), (4, actions.size))
        )
        sent.append(actions.to_env(policy))
        step = envs.step(sent[-1])
        obs = step.obs
    envs.close()
    stored = envs.obs_spec.store(probes[2].observations[-1], batch=False)
    for path, leaf in obs.items():
        np.testing.assert_array_equal(leaf[2], stored[path][0])
    np.testing.assert_array_equal(probes[2].actions, np.array([a[2] for a in sent]))
    # The observation before the last reset was the true successor.
    final = envs.obs_spec.store(probes[2].observations[3], batch=False)
    assert all((final[path].shape == stored[path].shape) for path in final)


def test_final_observations_of_dictionaries_are_dense() -> None:
    space = spaces.Dict({"a": spaces.Box(-1, 1, (2,), np.float64), "b": spaces.Discrete(50)})
    probes: list[SpaceProbe] = []

    def make() -> SpaceProbe:
        probes.append(SpaceProbe(space, spaces.Discrete(2), horizon=2 + len(probes)))
        return probes[-1]

    envs = make_vec(make, 2)
    envs.reset([3, 4])
    envs.step(np.zeros(2, np.int64))
    step = envs.step(np.zeros(2, np.int64))  # environment 0 ends, environment 1 goes on
    envs.close()
    ended = envs.obs_spec.store(probes[0].observations[2], batch=False)
    going_on = envs.obs_spec.store(probes[1].observations[2], batch=False)
    for path in ("a", "b"):
        np.testing.assert_array_equal(step.final_obs[path][0], ended[path][0])
        np.testing.assert_array_equal(step.final_obs[path][1], going_on[path][0])
        np.testing.assert_array_equal(step.obs[path][1], going_on[path][0])


def test_taxi_with_four_environments() -> None:
    envs = make_vec(newest("Taxi"), 4)
    obs = envs.reset([0, 1, 2, 3])
    single = gym.make(envs.spec.id)
    expected = [single.reset(seed=i)[0] for i in range(4)]
    assert obs[""].tolist() == [[e] for e in expected]
    assert envs.step(np.array([0, 1, 2, 3])).rewards.tolist() == [-1.0] * 4
    envs.close()


@pytest.mark.parametrize(
    ("how", "at", "text"),
    [
        ("nan-obs", 3, r"Environment 1 .* gave nan as entry 1 of its observation in step 3 of its episode \(seed 8\)"),
        ("inf-obs", 0, r"Environment 1 .* gave inf as entry 1 of its observation in step 0 of its episode \(seed 8\)"),
        ("nan-reward", 2, r"Environment 1 .* gave nan as its reward in step 2 of its episode"),
    ],
)
def test_a_number_that_is_not_finite_is_named(how: str, at: int, text: str) -> None:
    kinds = ["none", how]
    envs = make_vec(lambda: Failing(kinds.pop(0), at), 2)
    with pytest.raises(RunFailedError, match=text) as caught:
        collect(envs, [7, 8], 3)
    assert caught.value.code == "env-nonfinite"
    envs.close()


def test_a_final_observation_that_is_not_finite_names_its_environment() -> None:
    class EndsInNan(ConstantReward):
        def step(self, action: Any) -> Any:
            obs, reward, terminated, truncated, info = super().step(action)
            return (obs * np.nan if truncated else obs), reward, terminated, truncated, info

    horizons = [9, 2]
    envs = make_vec(lambda: EndsInNan(horizons.pop(0)), 2)
    envs.reset([0, 1])
    envs.step(np.zeros(2, np.int64))
    with pytest.raises(RunFailedError, match=r"Environment 1 .*nan.* in step 2"):
        envs.step(np.zeros(2, np.int64))
    envs.close()


@pytest.mark.parametrize("size", [1, 50])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_large_numbers_pass_up_to_the_absurd(dtype: Any, size: int) -> None:
    # The sum of 50 squares is above the square of the limit, though no entry is beyond it.
    space = spaces.Box(-np.inf, np.inf, (size,), dtype)
    envs = make_vec(lambda: Walk(space, lambda t: np.full(size, [9e17, -9e17, 1.01e18][t], dtype)))
    assert envs.reset([0])[""].tolist() == [[np.float32(9e17)] * size]
    envs.step(np.zeros(1, np.int64))
    with pytest.raises(RunFailedError, match=r"gave 1\.01e\+18 as entry 0 of its observation in step 2") as caught:
        envs.step(np.zeros(1, np.int64))
    assert caught.value.code == "env-absurd"
    envs.close()


@pytest.mark.parametrize("value", [1e19, 1e38, 1e39, -1e39, 1e300])
def test_an_absurd_observation_is_told_as_the_environment_gave_it(value: float) -> None:
    part = spaces.Box(-np.inf, np.inf, (2,), np.float64)
    space = spaces.Dict({"a": part, "b": part})
    envs = make_vec(lambda: Walk(space, lambda t: {"a": np.zeros(2), "b": np.array([0.0, value if t else 0.0])}), 2)
    envs.reset([5, 6])
    said = (
        rf"Environment 0 \(env\) gave {re.escape(str(value))} as entry 1 of its observation at 'b' in step 1 .*seed 5"
    )
    with pytest.raises(RunFailedError, match=said) as caught:
        envs.step(np.zeros(2, np.int64))
    assert "above 1e+18" in caught.value.remedy
    envs.close()


def test_an_absurd_integer_is_refused_too() -> None:
    space = spaces.Box(-(2**62), 2**62, (1,), np.int64)
    envs = make_vec(lambda: Walk(space, lambda t: np.array([2**61 if t else 0])))
    envs.reset([0])
    with pytest.raises(RunFailedError, match=str(2**61)):
        envs.step(np.zeros(1, np.int64))
    envs.close()


@pytest.mark.parametrize("value", [1.1e18, -1e19, 1e38, 1e308])
def test_an_absurd_reward_is_named(value: float) -> None:
    def alter(parts: list[Any]) -> Any:
        return parts[0], np.array([1e17, value]), *parts[2:]

    envs = make_vec(Altered(alter))
    envs.reset([0, 1])
    with pytest.raises(RunFailedError, match=rf"Environment 1 .* gave {re.escape(str(value))} as its reward in step 1"):
        envs.step(np.zeros(2, np.int64))
    envs.close()


def test_large_rewards_pass_up_to_the_absurd() -> None:
    envs = make_vec(Altered(lambda parts: (parts[0], np.full(2, 1e18), *parts[2:])))
    envs.reset([0, 1])
    assert envs.step(np.zeros(2, np.int64)).rewards.tolist() == [1e18, 1e18]


def test_an_absurd_final_observation_is_named() -> None:
    def alter(parts: list[Any]) -> Any:
        parts[4]["final_obs"][1] = np.full(4, 1e25)
        return tuple(parts)

    envs = make_vec(Altered(alter, AutoresetMode.SAME_STEP, ends=True))
    envs.reset([0, 1])
    with pytest.raises(RunFailedError, match=r"Environment 1 .* gave 1e\+25 as entry 0 of its observation in step 1"):
        envs.step(np.zeros(2, np.int64))


def test_columns_are_taken_and_other_shapes_refused() -> None:
    class Columns(ScriptedVector):
        width = 1

        def step(self, actions: Any) -> Any:
            obs, rewards, terminated, truncated, infos = super().step(actions)
            columns = [np.repeat(x[:, None], self.width, axis=1) for x in (rewards, terminated, truncated)]
            return obs, *columns, infos

    script = [[Ending(1, True, False)]] * 2
    envs = make_vec(Columns(script, AutoresetMode.NEXT_STEP))
    envs.reset([0, 1])
    step = envs.step(np.array([0, 0]))
    assert (step.rewards.tolist(), step.terminated.tolist()) == ([1.0, 1.0], [True, True])
    Columns.width = 2
    with pytest.raises(UserError, match=r"`rewards` .* has shape \(2, 2\) instead of \(2,\)"):
        envs.step(np.array([0, 0]))


def test_reset_starts_over_and_wants_a_seed_for_each() -> None:
    envs = make_vec(ScriptedVector([[Ending(2, True, False)]] * 2, AutoresetMode.NEXT_STEP))
    with pytest.raises(UserError, match="1 seeds for 2 environments"):
        envs.reset([0])
    envs.reset([0, 1])
    envs.step(np.array([0, 0]))
    envs.step(np.array([0, 0]))
    assert not envs.live.any()
    envs.reset([0, 1])
    assert envs.live.all()
    step = envs.step(np.array([0, 0]))
    assert step.valid.all()
    step = envs.step(np.array([0, 0]))
    assert [e.length for e in step.episodes] == [2, 2]


def test_close_may_be_called_twice() -> None:
    closed = []

    class Closes(ConstantReward):
        def close(self) -> None:
            closed.append(self)

    envs = make_vec(Closes, 2)
    envs.close()
    envs.close()
    assert len(closed) == 2


def test_a_vector_environment_that_cannot_be_closed_is_told_and_no_more() -> None:
    class Stuck(ScriptedVector):
        locked = True

        def close_extras(self, **kwargs: Any) -> None:
            if self.locked:
                raise OSError("the door is locked")

    envs = make_vec(Stuck([[Ending(1, True, False)]], AutoresetMode.NEXT_STEP))
    with pytest.warns(UserWarning, match=r"close\(\) of Stuck raised OSError: the door is locked"):
        envs.close()
    envs.close()
    Stuck.locked = False  # up to Gymnasium 1.2 its destructor closes once more


@pytest.mark.parametrize("method", ["reset", "step"])
@pytest.mark.parametrize("error", [ValueError("worn out"), SystemExit(0), GeneratorExit("worn out")])
def test_what_a_vector_environment_raises_is_told_with_its_name(method: str, error: BaseException) -> None:
    def fails(*args: Any, **kwargs: Any) -> Any:
        raise error

    vector = ScriptedVector([[Ending(1, True, False)]], AutoresetMode.NEXT_STEP)
    envs = make_vec(vector)
    if method == "step":
        envs.reset([0])
    setattr(vector, method, fails)
    with pytest.raises(
        RunFailedError, match=rf"ScriptedVector raised {type(error).__name__} in {method}\(\)"
    ) as caught:
        envs.reset([0]) if method == "reset" else envs.step(np.array([0]))
    assert (caught.value.code, caught.value.__cause__) == ("env-error", error)


def test_ctrl_c_in_a_vector_environment_stays_one() -> None:
    class Interrupted(ScriptedVector):
        def step(self, actions: Any) -> Any:
            raise KeyboardInterrupt

    envs = make_vec(Interrupted([[Ending(1, True, False)]], AutoresetMode.NEXT_STEP))
    envs.reset([0])
    with pytest.raises(KeyboardInterrupt):
        envs.step(np.array([0]))
