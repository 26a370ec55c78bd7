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
from support.masked import Elsewhere, Masked

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


def bare_vector(make: Any, mode: AutoresetMode) -> VectorAdapter:
    return make_vec(SyncVectorEnv([make] * 2, autoreset_mode=mode), masks="auto")


@pytest.mark.parametrize("backend", ["sync", "async", "method", *AutoresetMode])
def test_masks_in_parts_are_masks_one_after_the_other(backend: Any) -> None:
    nvec = (2, 3, 4)
    make = partial(Masked, nvec, parts=True, method=backend == "method")
    if isinstance(backend, AutoresetMode):
        told, plain = (
            played(bare_vector(partial(Masked, nvec, parts=parts), backend), 12, nvec) for parts in (True, False)
        )
    else:
        vec: Any = "async" if backend == "async" else "sync"
        told = played(make_vec(make, 2, vec=vec, masks="auto"), 12, nvec)
        plain = played(make_vec(partial(Masked, nvec), 2, vec="sync", masks="auto"), 12, nvec)
    for one, two in zip(told, plain, strict=True):
        np.testing.assert_array_equal(one.obs[MASK], two.obs[MASK])
        np.testing.assert_array_equal(one.final_obs[MASK], two.final_obs[MASK])


RAGGED = [np.ones(2), np.ones(3)]


@pytest.mark.parametrize("backend", ["sync", "async", *AutoresetMode])
@pytest.mark.parametrize("masks", ["auto", "off"])
@pytest.mark.parametrize(
    "value", [RAGGED, {"a": RAGGED}, "none", 3, object()], ids=["ragged", "dict", "str", "int", "object"]
)
def test_what_is_no_mask_is_refused_in_words_where_masks_are_read_and_else_left_alone(
    value: Any, masks: Any, backend: Any
) -> None:
    class Odd(Masked):
        def _info(self) -> dict[str, Any]:
            return {"action_mask": value, "other": RAGGED, "action_masks": RAGGED}

        def step(self, action: Any) -> Any:
            self.masks[:] = [np.ones(4)]
            return super().step(action)

    Odd.__module__ = "__main__"
    if isinstance(backend, AutoresetMode):
        venv = make_vec(SyncVectorEnv([Odd] * 2, autoreset_mode=backend), masks=masks)
    else:
        factory = make_env_factory(Odd)
        factory.action_masks = masks != "off"
        venv = make_vec(factory, 2, vec=backend, masks=masks)
    if masks == "off":
        assert MASK not in venv.reset([1, 2])
        for _ in range(7):
            venv.step(np.zeros(2, dtype=np.int64))
        assert venv.notes == []
    else:
        with pytest.raises(UserError, match=r"action_mask|action mask") as caught:
            venv.reset([1, 2])
        assert caught.value.code in ("mask-type", "mask-size")
    venv.close()


@pytest.mark.parametrize("backend", ["sync", "async", *AutoresetMode])
@pytest.mark.parametrize("needed", [True, False])
def test_a_truncated_step_without_a_mask_is_told_where_its_mask_is_needed(needed: bool, backend: Any) -> None:
    make = partial(Masked, fault="cut")
    gymnasiums = isinstance(backend, AutoresetMode)
    venv = bare_vector(make, backend) if gymnasiums else make_vec(make, 2, vec=backend, masks="auto")
    if not needed:
        ends = [step for step in played(venv, 12) if step.truncated.any()]
        assert len(ends) == 2
        assert all((step.final_obs[MASK][step.truncated] == 1).all() for step in ends)  # nobody asks what was allowed
        return
    venv.insist_on_last_masks()
    said = r"\(environment 0\) gave no action mask in step 5 of its episode, which truncated it"
    with pytest.raises(UserError, match=said) as caught:
        played(venv, 12)
    assert caught.value.code == "mask-missing"


@pytest.mark.parametrize("backend", ["sync", "async", *AutoresetMode])
def test_the_mask_of_a_truncated_step_is_no_mask_of_the_next_episode(backend: Any) -> None:
    make = partial(Masked, fault="begun")
    gymnasiums = isinstance(backend, AutoresetMode)
    venv = bare_vector(make, backend) if gymnasiums else make_vec(make, 2, vec=backend, masks="auto")
    with pytest.raises(UserError, match=r"\(environment 0\) gave no action mask at its reset"):
        played(venv, 12)


@pytest.mark.parametrize("mode", list(AutoresetMode))
def test_a_bad_mask_of_a_truncated_step_is_told_with_that_step(mode: AutoresetMode) -> None:
    class Wide(Masked):
        def _info(self) -> dict[str, Any]:
            told = super()._info()
            return {"action_mask": np.ones(5)} if self.t >= self.horizon else told

    venv = bare_vector(Wide, mode)
    with pytest.raises(UserError, match=r"\(environment 0\), in step 5 of its episode, has 5 entries"):
        played(venv, 12)


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


@pytest.mark.parametrize("backend", ["sync", "async", AutoresetMode.SAME_STEP, AutoresetMode.NEXT_STEP])
@pytest.mark.parametrize(
    ("place", "said"),
    [
        ("action_masks", r"info\['action_masks'\] of .*"),
        ("legal_actions_mask", r"info\['legal_actions_mask'\] of .*"),
        ("obs", r"The part 'action_mask' of the observation of .*"),
        ("attribute", "The attribute action_masks, which is no method, of .*"),
    ],
)
def test_what_is_called_like_a_mask_and_is_none_is_said_once(place: str, said: str, backend: Any) -> None:
    if place == "attribute" and isinstance(backend, AutoresetMode):
        pytest.skip("environments in a vector of the user's are not asked")
    make = partial(Elsewhere, place)
    venv = (
        bare_vector(make, backend)
        if isinstance(backend, AutoresetMode)
        else make_vec(make, 2, vec=backend, masks="auto")
    )
    with pytest.warns(UserWarning, match=f"{said} is not used as an action mask"):
        assert MASK not in venv.reset([1, 2])
    for _ in range(12):
        venv.step(np.zeros(2, dtype=np.int64))
    venv.reset([1, 2])
    assert len(venv.notes) == 1
    venv.close()


@pytest.mark.parametrize("vec", ["sync", "gymnasium"])
@pytest.mark.parametrize("place", ["action_masks", "obs"])
def test_nothing_is_said_of_it_where_masks_are_used_or_not_wanted(place: str, vec: Any) -> None:
    for masks, beside in (("auto", True), ("off", False)):
        factory = make_env_factory(partial(Elsewhere, place, beside))
        factory.action_masks = masks != "off"
        vector = SyncVectorEnv([partial(Elsewhere, place, beside)] * 2)
        venv = make_vec(vector if vec == "gymnasium" else factory, 2, masks=masks)  # type: ignore[arg-type]
        assert (MASK in venv.reset([1, 2])) is beside
        assert venv.notes == []
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
