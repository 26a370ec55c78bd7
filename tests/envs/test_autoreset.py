"""The autoreset modes where environments get them wrong, and Gymnasium's own defects."""

from __future__ import annotations

from functools import partial
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv

from steadyrl.envs.vector import make_vec
from steadyrl.errors import RunFailedError, UserError
from support.envs import Ending, Scripted, ScriptedVector
from support.vectors import collect, oracle


def test_a_same_step_environment_without_final_observations_is_refused() -> None:
    class Forgets(ScriptedVector):
        def step(self, actions: Any) -> Any:
            *rest, _ = super().step(actions)
            return *rest, {}

    envs = make_vec(Forgets([[Ending(1, True, False)]], AutoresetMode.SAME_STEP))
    envs.reset([0])
    with pytest.raises(RunFailedError, match=r"environment 0 without infos\['final_obs'\]"):
        envs.step(np.array([0]))


def test_async_without_shared_memory_resets_twice_after_an_explicit_reset() -> None:
    script = (Ending(2, True, False),)
    vector = AsyncVectorEnv(
        [lambda: Scripted(script)] * 2,
        shared_memory=False,
        context="forkserver",
        autoreset_mode=AutoresetMode.NEXT_STEP,
    )
    envs = make_vec(vector)
    envs.reset([1, 2])
    envs.step(np.array([0, 0]))
    assert len(envs.step(np.array([0, 0])).episodes) == 2
    before = envs.reset([1, 2])
    steps = [envs.step(np.array([0, 0])) for _ in range(3)]
    envs.close()
    # The first step after the reset is a second reset (episode 3 begins, time stays 0): it is not real.
    assert (before[""][0, :2].tolist(), steps[0].obs[""][0, :2].tolist()) == ([1, 0], [2, 0])
    assert [s.valid.tolist() for s in steps] == [[False] * 2, [True] * 2, [True] * 2]
    assert [e.length for e in steps[2].episodes] == [2, 2]
    assert steps[2].episodes[0].return_ == 200 + 1 + 200 + 2


def test_a_reset_mask_that_is_popped_leaves_our_counters_alone() -> None:
    # SyncVectorEnv pops `reset_mask` from the dictionary, so the vector RecordEpisodeStatistics around it clears every
    # counter.
    scripts = [[Ending(2, True, False)], [Ending(3, True, False)]]
    sync = SyncVectorEnv([partial(Scripted, s) for s in scripts], autoreset_mode=AutoresetMode.DISABLED)
    envs = make_vec(gym.wrappers.vector.RecordEpisodeStatistics(sync))
    rows, episodes = collect(envs, [4, 5], 6)
    envs.close()
    for i in range(2):
        expected_rows, expected_episodes = oracle(scripts[i], i, 4 + i, 6)
        assert rows[i] == expected_rows
        assert [(e.return_, e.length) for e in episodes[i]] == [e[:2] for e in expected_episodes]


def test_each_partial_reset_gets_a_dictionary_of_its_own() -> None:
    seen: list[Any] = []

    class Keeps(ScriptedVector):
        def reset(self, *, seed: Any = None, options: dict[str, Any] | None = None) -> Any:
            if options is not None:
                seen.append((options, options["reset_mask"], options["reset_mask"].copy()))
            return super().reset(seed=seed, options=options)

    envs = make_vec(Keeps([[Ending(1, True, False)], [Ending(2, True, False)]], AutoresetMode.DISABLED))
    envs.reset([0, 1])
    steps = [envs.step(np.array([0, 0])) for _ in range(3)]
    assert [s.terminated.tolist() for s in steps] == [[True, False], [True, True], [True, False]]
    assert [copy.tolist() for *_, copy in seen] == [[True, False], [True, True], [True, False]]
    assert all((mask == copy).all() for _, mask, copy in seen)
    assert len({id(options) for options, *_ in seen}) == 3


def test_a_backend_that_loses_transitions_next_to_a_reset_is_not_mended() -> None:
    """What `valid` means: it is right for a NEXT_STEP environment that keeps to the contract, and only for such a one.

    `FunctionalJaxVectorEnv` freezes the other environments while one resets; the rows it gives for them look like real
    ones.
    """
    scripts = [[Ending(1, True, False)], [Ending(5, True, False)]]
    rows = {}
    for lossy in (False, True):
        envs = make_vec(ScriptedVector(scripts, AutoresetMode.NEXT_STEP, lossy=lossy))
        rows[lossy], _ = collect(envs, [0, 1], 5)
    expected, _ = oracle(scripts[1], 1, 1, 5)
    assert rows[False][1] == expected
    lost = [row for row in rows[True][1] if row.reward == 0 and row.obs == row.final_obs]
    assert len(lost) == 2


def test_a_disabled_environment_that_ignores_the_mask_is_refused() -> None:
    class Ignores(ScriptedVector):
        def reset(self, *, seed: Any = None, options: dict[str, Any] | None = None) -> Any:
            return super().reset(seed=seed)

    envs = make_vec(Ignores([[Ending(2, True, False)], [Ending(3, True, False)]], AutoresetMode.DISABLED))
    envs.reset([0, 1])
    envs.step(np.array([0, 0]))
    with pytest.raises(UserError, match=r"'?reset_mask'?.* leaves out") as caught:
        envs.step(np.array([0, 0]))
    assert (caught.value.code, "another autoreset mode" in caught.value.remedy) == ("reset-mask", True)


def test_gymnasiums_own_that_ignores_the_mask_is_refused() -> None:
    vector = gym.make_vec("CartPole-v1", 4, vectorization_mode="vector_entry_point")
    vector.metadata = {**vector.metadata, "autoreset_mode": AutoresetMode.DISABLED}
    envs = make_vec(vector)
    envs.reset([0, 1, 2, 3])
    with pytest.raises(UserError, match="declares autoreset mode DISABLED"):
        all(envs.step(np.array([1, 0, 1, 0])).valid.all() for _ in range(60))
    envs.close()
