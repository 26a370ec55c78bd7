"""EnvPool as a backend: flags, last observations and seeds, on a stand-in and (`make test-full`) on the package."""

from __future__ import annotations

import sys
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.envs.registration import registry

from steadyrl.envs import envpool
from steadyrl.envs.make import make_env_factory
from steadyrl.envs.types import EpisodeRecord
from steadyrl.envs.vector import make_vec
from steadyrl.errors import UserError
from support.pools import FALLS, FakePool, fake_envpool


@pytest.fixture
def pool(monkeypatch: pytest.MonkeyPatch) -> None:
    module = fake_envpool()
    monkeypatch.setitem(sys.modules, "envpool", module)
    monkeypatch.setattr(envpool, "installed", lambda: True)
    monkeypatch.setattr(FakePool, "made", [])


def played(envs: Any, steps: int) -> tuple[list[Any], list[EpisodeRecord]]:
    """Every step, and every episode that ended."""
    found = [envs.step(np.zeros(envs.num_envs, dtype=np.int64)) for _ in range(steps)]
    return found, [episode for step in found for episode in step.episodes]


@pytest.mark.usefixtures("pool")
@pytest.mark.parametrize(
    ("limit", "flags"), [(FALLS - 1, (False, True)), (FALLS, (True, True)), (FALLS + 1, (True, False))]
)
def test_an_end_at_the_limit_keeps_both_its_flags(limit: int, flags: tuple[bool, bool]) -> None:
    envs = make_vec("envpool:Fall-v0", 3, vec="envpool", max_episode_steps=limit)
    envs.reset([11, 22, 33])
    length = min(limit, FALLS)
    steps, episodes = played(envs, 2 * length)
    assert [(e.env_index, e.length, e.return_, (e.terminated, e.truncated)) for e in episodes] == [
        (i, length, float(length), flags) for i in range(3)
    ] * 2
    assert all(step.valid.all() for step in steps)  # no row is made up
    assert envs.spec.max_episode_steps == limit


@pytest.mark.usefixtures("pool")
def test_rows_are_in_order_and_successors_true() -> None:
    envs = make_vec("envpool:Fall-v0", 2, vec="envpool", max_episode_steps=2)
    assert envs.reset([5, 6])[""].tolist() == [[5, 0, 0], [6, 0, 0]]
    steps, _ = played(envs, 3)
    assert [step.obs[""].tolist() for step in steps] == [
        [[5, 0, 1], [6, 0, 1]],
        [[5, 1, 0], [6, 1, 0]],
        [[5, 1, 1], [6, 1, 1]],
    ]
    assert steps[1].final_obs[""].tolist() == [[5, 0, 2], [6, 0, 2]]
    assert FakePool.made[0].resets == [[0, 1], [0, 1]]


@pytest.mark.usefixtures("pool")
def test_rewards_and_flags_belong_to_their_rows() -> None:
    envs = make_vec("envpool:Fall-v0", 3, vec="envpool", max_episode_steps=3)
    envs.reset([5, 6, 7])
    FakePool.made[0].falls[0] = 2
    actions = np.array([0, 1, 2])
    steps = [envs.step(actions) for _ in range(3)]
    assert [step.rewards.tolist() for step in steps] == [[1.0, 2.0, 3.0]] * 3
    assert [step.terminated.tolist() for step in steps] == [[False] * 3, [True, False, False], [False] * 3]
    assert [step.truncated.tolist() for step in steps] == [[False] * 3, [False] * 3, [False, True, True]]


@pytest.mark.usefixtures("pool")
def test_each_seeding_makes_a_pool_and_later_resets_draw_on() -> None:
    vector = envpool.PoolVectorEnv(envpool.Pool("Fall-v0", {}), 2, None)
    vector.reset(seed=[1, 2**31])
    vector.reset()
    assert [made.seeds.tolist() for made in FakePool.made] == [[1, 1]]
    assert vector.reset(seed=[3, 4])[0][:, 0].tolist() == [3, 4]
    assert [made.limit for made in FakePool.made] == [2**31 - 1] * 2
    assert FakePool.made[0].options["num_threads"] in (1, 2)


@pytest.mark.usefixtures("pool")
def test_one_environment_of_a_pool_is_a_gymnasium_one_with_the_same_episodes() -> None:
    single = make_vec("envpool:Fall-v0", 2, vec="sync", max_episode_steps=3)
    together = make_vec("envpool:Fall-v0", 2, vec="envpool", max_episode_steps=3)
    assert single.reset([8, 9])[""].tolist() == together.reset([8, 9])[""].tolist()
    for one, other in zip(played(single, 8)[0], played(together, 8)[0], strict=True):
        np.testing.assert_array_equal(one.obs[""], other.obs[""])
        np.testing.assert_array_equal(one.final_obs[""], other.final_obs[""])
        assert one.episodes == other.episodes
    assert (single.spec.backend, together.spec.backend) == ("sync", "envpool")


@pytest.mark.usefixtures("pool")
def test_spaces_that_only_say_float_become_unbounded_and_limits_default_to_the_pools_own() -> None:
    envs = make_vec("envpool:Fall-v0", 1, vec="envpool")
    assert envs.spec.obs_space == gym.spaces.Box(-np.inf, np.inf, (3,), np.float32)
    assert envs.spec.max_episode_steps == 5
    assert make_env_factory("envpool:Fall-v0")().get_wrapper_attr("_max_episode_steps") == 5


@pytest.mark.usefixtures("pool")
@pytest.mark.parametrize(
    ("env", "options", "message"),
    [
        ("CartPole-v1", {}, "EnvPool's CartPole-v1 is another environment than Gymnasium's.*\n.*envpool:CartPole-v1"),
        ("Acrobot-v1", {}, "EnvPool has no environment 'Acrobot-v1'.\n.*take any environment"),
        ("envpool:Pon-v5", {}, "EnvPool has no environment 'Pon-v5'.\nDid you mean Pong-v5"),
        ("envpool:Fall-v0", {"env_kwargs": {"gravit": 1}}, "gravit.*\nDid you mean gravity?"),
    ],
)
def test_what_envpool_does_not_have_is_named_with_what_is_near(env: str, options: Any, message: str) -> None:
    with pytest.raises(UserError, match=message):
        make_vec(env, 2, vec="envpool", **options)


@pytest.mark.usefixtures("pool")
def test_another_package_s_name_is_found_among_envpools() -> None:
    assert "It has an environment Pong-v5 of its own: envpool:Pong-v5." in str(envpool.unknown_task("ALE/Pong-v5"))


def test_without_the_package_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(envpool, "installed", lambda: False)
    for env in ("CartPole-v1", "envpool:Pong-v5"):
        with pytest.raises(UserError, match=r"not installed.\nInstall it: pip install '\.\[envpool\]' in a clone"):
            make_vec(env, 2, vec="envpool")


def test_a_package_that_cannot_be_imported_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(envpool, "installed", lambda: True)
    monkeypatch.setitem(sys.modules, "envpool", None)
    with pytest.raises(UserError, match=r"cannot be imported: ModuleNotFoundError"):
        make_vec("CartPole-v1", 2, vec="envpool")


REAL = ["CartPole-v1", "Pendulum-v1", "Acrobot-v1", "MountainCar-v0", "MountainCarContinuous-v0", "HalfCheetah-v5"]


@pytest.mark.full
@pytest.mark.parametrize("env", REAL)
def test_the_real_package_agrees_with_itself_one_by_one_and_together(env: str) -> None:
    assert envpool.installed(), "pip install 'steadyrl[envpool]'"
    assert env in registry
    together = make_vec(env, 4, vec="envpool", max_episode_steps=17)
    single = make_vec(f"envpool:{env}", 4, vec="sync", max_episode_steps=17)
    seeds = [5, 6, 7, 2**31 - 2]
    np.testing.assert_array_equal(single.reset(seeds)[""], together.reset(seeds)[""])
    space = gym.vector.utils.batch_space(together.spec.action_space, 4)
    space.seed(1)
    ended = 0
    for _ in range(60):
        actions = space.sample()
        one, other = single.step(actions), together.step(actions)
        for field in ("rewards", "terminated", "truncated", "valid"):
            np.testing.assert_array_equal(getattr(one, field), getattr(other, field))
        np.testing.assert_array_equal(one.obs[""], other.obs[""])
        np.testing.assert_array_equal(one.final_obs[""], other.final_obs[""])
        assert one.episodes == other.episodes
        ended += len(one.episodes)
    assert ended >= 12
    single.close()
    together.close()


@pytest.mark.full
@pytest.mark.parametrize("env", REAL)
def test_the_real_package_has_gymnasiums_spaces_and_limits(env: str) -> None:
    pool = envpool.Pool(env, {})
    own = gym.make(env)
    assert envpool.same_kind(pool.observation_space, own.observation_space)
    assert envpool.same_kind(pool.action_space, own.action_space)
    assert own.spec is not None
    assert pool.max_episode_steps == own.spec.max_episode_steps
    own.close()
