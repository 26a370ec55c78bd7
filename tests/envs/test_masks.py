"""Masks from the environments to the training: those of the observation they stand beside, in every backend."""

from __future__ import annotations

import warnings
from functools import partial
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode, SyncVectorEnv

from steadyrl.envs.make import make_env_factory
from steadyrl.envs.nonfinite import Skipping
from steadyrl.envs.restart import Restarts
from steadyrl.envs.types import Step
from steadyrl.envs.vector import VectorAdapter, make_vec
from steadyrl.errors import SteadyRLError, UserError
from steadyrl.spaces.masks import MASK
from support.masked import Masked

SEEDS = [5, 6, 7]


def legal(obs: Any, nvec: tuple[int, ...] = (4,)) -> Any:
    """The first allowed action of each environment."""
    parts = [part.argmax(axis=1) for part in np.split(obs[MASK], np.cumsum(nvec)[:-1], axis=1)]
    return parts[0] if len(parts) == 1 else np.stack(parts, axis=1)


def played(venv: VectorAdapter, steps: int, nvec: tuple[int, ...] = (4,), start: int = 0) -> list[Step]:
    obs, told = venv.reset(SEEDS[: venv.num_envs]), []
    for _ in range(steps):
        told.append(venv.step(legal(obs, nvec) + start))
        obs = told[-1].obs
    venv.close()
    return told


def by_hand(steps: int, **options: Any) -> tuple[list[Any], list[Any]]:
    """Masks of what to act on next and of the true successors, [steps][N, width], from environments alone."""
    envs = [Masked(**options) for _ in SEEDS]
    masks = [env.reset(seed=seed)[1]["action_mask"].copy() for env, seed in zip(envs, SEEDS, strict=True)]
    now, final = [], []
    for _ in range(steps):
        last = []
        for i, env in enumerate(envs):
            *_, terminated, truncated, info = env.step(int(masks[i].argmax()))
            last.append(np.ones_like(masks[i]) if terminated else info["action_mask"].copy())
            masks[i] = env.reset()[1]["action_mask"].copy() if terminated or truncated else last[-1]
        now.append(np.array(masks) != 0)
        final.append(np.array(last) != 0)
    return now, final


@pytest.mark.parametrize("vec", ["sync", "async"])
@pytest.mark.parametrize("terminates", [False, True])
def test_masks_stand_beside_the_observation_they_came_with(vec: Any, terminates: bool) -> None:
    make = partial(Masked, terminates=terminates)
    told = played(make_vec(make, 3, vec=vec, masks="auto"), 12)
    now, final = by_hand(12, terminates=terminates)
    assert sum((step.terminated | step.truncated).sum() for step in told) == 6
    for step, expected, successor in zip(told, now, final, strict=True):
        np.testing.assert_array_equal(step.obs[MASK], expected)
        np.testing.assert_array_equal(step.final_obs[MASK], successor)


@pytest.mark.parametrize("mode", list(AutoresetMode))
def test_a_vector_environment_of_gymnasium_tells_the_same_masks(mode: AutoresetMode) -> None:
    vector = SyncVectorEnv([Masked] * 3, autoreset_mode=mode)
    told = played(make_vec(vector, masks="auto"), 12)
    now, final = by_hand(12)
    rows = [[step for step in told if step.valid[i]] for i in range(3)]
    for i, steps in enumerate(rows):
        for t, step in enumerate(steps):
            np.testing.assert_array_equal(step.final_obs[MASK][i], final[t][i])
            over = step.terminated[i] or step.truncated[i]
            if not (over and mode is AutoresetMode.NEXT_STEP):  # whose next row is made up
                np.testing.assert_array_equal(step.obs[MASK][i], now[t][i])
    assert min(map(len, rows)) >= 10


@pytest.mark.parametrize("form", [np.bool_, np.int8, np.int64, np.float32, np.float64])
@pytest.mark.parametrize("method", [False, True])
def test_the_form_and_the_way_of_a_mask_change_nothing(form: Any, method: bool) -> None:
    plain = played(make_vec(Masked, 2, vec="sync", masks="auto"), 8)
    other = played(make_vec(partial(Masked, form=form, method=method), 2, vec="sync", masks="auto"), 8)
    for one, two in zip(plain, other, strict=True):
        np.testing.assert_array_equal(one.obs[MASK], two.obs[MASK])
        np.testing.assert_array_equal(one.final_obs[MASK], two.final_obs[MASK])


def test_multidiscrete_masks_lie_side_by_side() -> None:
    nvec = (2, 3, 4)
    told = played(make_vec(partial(Masked, nvec), 2, vec="sync", masks="auto"), 12, nvec)
    assert told[-1].obs[MASK].shape == (2, 9)


def test_auto_leaves_environments_without_masks_alone() -> None:
    venv = make_vec("CartPole-v1", 2, vec="sync", masks="auto")
    assert not venv.look_for_masks([1, 2])
    assert MASK not in venv.reset([1, 2])
    venv.close()


def test_looking_for_masks_is_the_first_reset_and_no_second_one() -> None:
    resets: list[int | None] = []

    class Counted(Masked):
        def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
            resets.append(seed)
            return super().reset(seed=seed, options=options)

    venv = make_vec(Counted, 2, vec="sync", masks="auto")
    assert venv.look_for_masks([1, 2])
    venv.reset([1, 2])
    assert resets == [1, 2]
    venv.reset([1, 2])
    assert resets == [1, 2, 1, 2]


@pytest.mark.parametrize("vec", ["sync", "async"])
@pytest.mark.parametrize(
    ("fault", "said"),
    [
        ("empty", r"Masked \(environment 0\), in step 2 of its episode, allows nothing\."),
        ("size", r"Masked \(environment 0\), in step 2 of its episode, has 5 entries, but the actions have 4"),
        ("missing", r"Masked \(environment 0\) gave no action mask in step 2 of its episode"),
    ],
)
def test_a_bad_mask_names_environment_and_step(vec: Any, fault: str, said: str) -> None:
    make = make_env_factory(Masked, env_kwargs={"fault": fault})
    with pytest.raises(SteadyRLError, match=said):
        played(make_vec(make, 2, vec=vec, masks="auto"), 12)


def test_a_bad_mask_of_a_gymnasium_vector_is_found_too() -> None:
    vector = SyncVectorEnv([partial(Masked, fault="empty")] * 2, autoreset_mode=AutoresetMode.SAME_STEP)
    with pytest.raises(UserError, match=r"\(environment 0\), in step 2 of its episode, allows nothing"):
        played(make_vec(vector, masks="auto"), 12)


@pytest.mark.parametrize("vec", ["sync", "async", "gymnasium"])
def test_masks_that_begin_after_the_reset_are_refused(vec: Any) -> None:
    class Late(Masked):
        def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
            return super().reset(seed=seed, options=options)[0], {}

    Late.__module__ = "__main__"  # another process takes its code along
    bare = SyncVectorEnv([Late] * 2, autoreset_mode=AutoresetMode.SAME_STEP)
    venv = make_vec(bare, masks="auto") if vec == "gymnasium" else make_vec(Late, 2, vec=vec, masks="auto")
    assert MASK not in venv.reset([1, 2])
    with pytest.raises(
        UserError, match=r"\(environment 0\) gave an action mask in step 1 of .*, but none at its reset"
    ):
        venv.step(np.zeros(2, dtype=np.int64))
    venv.close()


def test_an_environment_that_cannot_be_asked_for_its_masks_is_named() -> None:
    class Endless(Masked):
        def __getattr__(self, name: str) -> Any:
            return getattr(self.inner, name)

    with pytest.raises(UserError, match=r"Endless.* whether it has action_masks\(\) raised RecursionError"):
        make_vec(Endless, 1, masks="auto")


def test_masks_that_are_not_wanted_are_not_looked_at() -> None:
    factory = make_env_factory(partial(Masked, fault="size"))
    factory.action_masks = False
    venv = make_vec(factory, 2, vec="sync", masks="off")
    obs = venv.reset([1, 2])
    assert MASK not in obs
    venv.step(np.zeros(2, dtype=np.int64))
    venv.step(np.ones(2, dtype=np.int64))
    venv.close()


def test_masks_of_continuous_actions_are_said_to_have_no_effect() -> None:
    class Odd(gym.Env[Any, Any]):
        observation_space = gym.spaces.Box(-1.0, 1.0, (1,))
        action_space = gym.spaces.Box(-1.0, 1.0, (1,))

        def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
            super().reset(seed=seed)
            return np.zeros(1, dtype=np.float32), {"action_mask": np.ones(1)}

        def step(self, action: Any) -> Any:
            return np.zeros(1, dtype=np.float32), 0.0, False, False, {"action_mask": np.ones(1)}

    venv = make_vec(Odd, 1, vec="sync", masks="auto")
    with pytest.warns(UserWarning, match=r"info\['action_mask'\] of Odd .* is not used: its actions are a Box"):
        venv.reset([1])
    venv.close()


def test_masks_go_on_where_the_state_was_taken() -> None:
    venv = make_vec(Masked, 2, vec="sync", masks="auto")
    obs = venv.reset([1, 2])
    for _ in range(3):
        obs = venv.step(legal(obs)).obs
    other = make_vec(Masked, 2, vec="sync", masks="on")
    restored = other.restore(venv.state())
    np.testing.assert_array_equal(restored[MASK], obs[MASK])
    for _ in range(7):
        one, two = venv.step(legal(obs)), other.step(legal(restored))
        obs, restored = one.obs, two.obs
        np.testing.assert_array_equal(one.obs[MASK], two.obs[MASK])
    venv.close()
    other.close()


class Spoilt(Masked):
    """Observes NaN in step 2 of its second episode."""

    episodes = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        self.episodes += 1
        return super().reset(seed=seed, options=options)

    def _obs(self) -> Any:
        obs = super()._obs()
        obs[0] = np.nan if (self.t, self.episodes) == (2, 2) else obs[0]
        return obs


@pytest.mark.parametrize("vec", ["sync", "async"])
def test_an_environment_that_is_started_anew_brings_its_new_mask(vec: Any) -> None:
    skipping = Skipping(Restarts(2, 9, 0), 10)
    venv = make_vec(Spoilt, 2, vec=vec, masks="auto", skipping=skipping)
    obs = venv.reset([1, 2])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for _ in range(20):  # the environment itself insists on legal actions
            obs = venv.step(legal(obs)).obs
    assert venv.dropped == 2
    venv.close()
