"""The reward of another goal is what a step would have paid: it goes through the same wrappers, or is refused."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import pytest

import steadyrl as srl
from steadyrl.configs.wrapping import WrapperSettings
from steadyrl.envs.goals import goal_functions
from steadyrl.envs.make import make_env_factory
from steadyrl.envs.score import LearnedReward
from steadyrl.errors import UserError
from steadyrl.seeding import Seeds
from support.goals import Reach

OWN = "support.own_wrappers"
CLIPPED = {"name": "ClipReward", "kwargs": {"min_reward": -1.0, "max_reward": 0.0}}


class Far(Reach):
    """Pays the negative distance, which no two goals share."""

    def compute_reward(self, achieved: Any, desired: Any, info: dict[str, Any]) -> Any:
        return -np.linalg.norm(achieved - desired, axis=-1)


def functions(make: Any = Far, **settings: Any) -> Any:
    return goal_functions(make_env_factory(make, wrappers=WrapperSettings(**settings)))


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"reward_scale": 0.1},
        {"clip_reward": "sign"},
        {"reward_scale": 3.0, "wrappers": [f"{OWN}:Passing"]},
        {"reward_scale": 3.0, "delay_actions": 1},
    ],
    ids=str,
)
def test_other_goals_are_paid_as_the_steps_are(settings: dict[str, Any]) -> None:
    env = make_env_factory(Far, wrappers=WrapperSettings(**settings))()
    found = functions(**settings)
    env.reset(seed=0)
    for action in np.random.default_rng(0).uniform(-1, 1, (20, 2)).astype(np.float32):
        obs, reward, *_ = env.step(action)
        goals = [np.stack([obs[key]] * 2) for key in ("achieved_goal", "desired_goal")]
        np.testing.assert_allclose(found.reward(*goals, {}), [reward] * 2, rtol=1e-12)
    found.env.close()


@pytest.mark.parametrize(("sign", "scale"), [(False, 1.0), (False, 0.1), (True, 1.0)])
def test_what_is_learned_of_a_step_and_of_an_array_is_the_same(sign: bool, scale: float) -> None:
    env = LearnedReward(Far(), sign=sign, scale=scale)
    env.reset(seed=0)
    bare = Far()
    bare.reset(seed=0)
    action = np.ones(2, dtype=np.float32)
    raw = [float(bare.step(action)[1]) for _ in range(20)]
    np.testing.assert_array_equal(env.learned(np.array(raw)), [env.step(action)[1] for _ in raw])


@pytest.mark.parametrize(
    ("settings", "said", "cure"),
    [
        ({"action_repeat": 2}, "repeated actions add up the rewards of several steps of Far", "--action-repeat"),
        ({"wrappers": [f"{OWN}:Halves"]}, "the wrapper Halves may change the rewards of Far", "Give Halves a compute"),
        ({"wrappers": [CLIPPED]}, "the wrapper ClipReward may change the rewards of Far", "leave hindsight out"),
        ({"wrappers": [f"{OWN}:Masking"]}, "the wrapper Masking may change the rewards", "Give Masking a compute"),
        ({"wrappers": ["support.goals:Shrunk"]}, "make .* of its achieved_goal, which is Box", "leave achieved_goal"),
    ],
    ids=str,
)
def test_what_cannot_be_done_to_another_goals_reward_is_refused(settings: Any, said: str, cure: str) -> None:
    with pytest.raises(UserError, match=said) as caught:
        functions(**settings)
    assert caught.value.code == "unsuitable"
    assert cure in caught.value.remedy
    with pytest.raises(UserError, match=said):
        srl.SAC(Far, hindsight="future", preset="none", **settings)


def test_what_a_users_function_puts_around_is_held_to_the_same() -> None:
    with pytest.raises(UserError, match="the wrapper NormalizeReward may change the rewards of env"):
        functions(lambda: gym.wrappers.NormalizeReward(Far()))
    limited = functions(lambda: gym.wrappers.TimeLimit(gym.wrappers.RecordEpisodeStatistics(Far()), 9))
    assert limited.reward(np.array([[3.0, 4.0]]), np.zeros((1, 2)), {}) == [-5.0]


def test_a_wrapper_that_answers_itself_is_asked() -> None:
    class Tenfold(gym.Wrapper[Any, Any, Any, Any]):
        def step(self, action: Any) -> Any:
            obs, reward, *rest = self.env.step(action)
            return obs, 10 * float(reward), *rest

        def compute_reward(self, achieved: Any, desired: Any, info: dict[str, Any]) -> Any:
            return 10 * self.env.unwrapped.compute_reward(achieved, desired, info)  # type: ignore[attr-defined]

    found = functions(lambda: Tenfold(Far()), reward_scale=0.5)
    assert found.reward(np.array([[3.0, 4.0]]), np.zeros((1, 2)), {}) == [-25.0]


def test_a_replay_of_a_training_holds_one_kind_of_rewards() -> None:
    """Transitions that keep their goal and those with another one: all pay -0.1 or nothing."""
    agent = srl.SAC(
        Reach, hindsight="future", reward_scale=0.1, preset="none", learning_starts=100, buffer_size=1000, num_envs=1,
        eval_freq=0, net_arch=(8,),
    )  # fmt: skip
    agent.learn(90)
    replay: Any = agent.loop.replay  # type: ignore[attr-defined]
    batch = replay.sample(256, Seeds(1).stream("algo", "x"))
    relabelled = int(replay.her_ratio * 256)
    for part in (batch.rewards[:relabelled], batch.rewards[relabelled:]):
        assert set(np.unique(part.numpy())) <= {np.float32(-0.1), np.float32(0.0)}
        assert (part == np.float32(-0.1)).any()
    agent.close()
