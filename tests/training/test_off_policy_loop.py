"""The off-policy loop: exact counts, when it trains, what the replay holds, and the same bits every time."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode

import steadyrl as srl
from steadyrl.algorithms import TD3
from steadyrl.data.prioritised import PrioritisedReplay
from steadyrl.training.agent import Agent
from steadyrl.training.events import EvaluationEnded, Event, MetricsLogged
from support.envs import Ending, Scripted, ScriptedVector
from support.off_policy import PaysVectorForMoving, agent_of, loop_of
from support.spies import tap
from support.training_envs import Fast, PaysVector

NEVER = 10**6


def updates_of(agent: Agent) -> list[tuple[int, int]]:
    """From now on the environment step of each update and its number of minibatches; nothing is learnt."""
    found: list[tuple[int, int]] = []

    def keep(source: Any, gradient_steps: int, step: int, progress: float) -> dict[str, float]:
        found.append((step, gradient_steps))
        return {}

    setattr(loop_of(agent).algorithm, "learn", keep)  # noqa: B010  (mypy does not let a method be assigned)
    return found


@pytest.mark.parametrize("native", [False, True], ids=["sync", "next-step"])
@pytest.mark.parametrize("num_envs", [1, 4, 8])
@pytest.mark.parametrize("total", [1, 7, 100, 999])
def test_exactly_so_many_steps_are_counted_and_stored(total: int, num_envs: int, native: bool) -> None:
    env: Any = PaysVector(AutoresetMode.NEXT_STEP, num_envs=num_envs, length=3) if native else Fast
    agent = agent_of("dqn", env, num_envs=num_envs, learning_starts=NEVER)
    agent.learn(total)
    agent.close()
    assert agent.num_timesteps == total
    assert len(loop_of(agent).replay) == total
    assert agent.loop.counters.updates == 0
    if native:
        assert total <= env.real_steps < total + num_envs


@pytest.mark.parametrize("calls", [[1] * 7, [3, 50, 2], [99]], ids=str)
def test_every_call_is_exact(calls: list[int]) -> None:
    agent = agent_of("dqn", Fast, num_envs=4)
    done = 0
    for steps in calls:
        agent.learn(steps, schedule_steps=sum(calls))
        done += steps
        assert agent.num_timesteps == len(loop_of(agent).replay) == done
    agent.close()


@pytest.mark.parametrize("num_envs", [1, 2, 4, 8])
@pytest.mark.parametrize(
    ("gradient_steps", "expected"),
    [(1, 20), (3, 60), (-1, 80)],  # 20 periods of 4 steps after the first 16
)
def test_frequencies_are_counted_in_environment_steps(num_envs: int, gradient_steps: int, expected: int) -> None:
    agent = agent_of("dqn", Fast, num_envs=num_envs, train_freq=4, gradient_steps=gradient_steps, learning_starts=16)
    updates = updates_of(agent)
    agent.learn(96)
    agent.close()
    assert sum(n for _, n in updates) == expected
    assert agent.loop.counters.updates == expected
    every = max(num_envs, 4)
    assert [step for step, _ in updates] == list(range(16 + every, 97, every))


def test_nothing_is_learnt_before_learning_starts() -> None:
    agent = agent_of("dqn", Fast, learning_starts=10, train_freq=1)
    updates = updates_of(agent)
    agent.learn(13)
    agent.close()
    assert updates == [(11, 1), (12, 1), (13, 1)]


def test_the_first_step_may_be_learnt_from() -> None:
    agent = agent_of("sac", "Pendulum-v1", learning_starts=0)
    updates = updates_of(agent)
    agent.learn(2)
    agent.close()
    assert updates == [(1, 1), (2, 1)]


@pytest.mark.parametrize(
    ("num_envs", "gradient_steps", "expected"),
    [
        (1, 1, [(8, 1), (16, 1), (20, 1)]),
        (1, -1, [(8, 8), (16, 8), (20, 4)]),
        (3, -1, [(9, 9), (18, 9), (20, 2)]),
        (3, 2, [(9, 2), (18, 2), (20, 2)]),
        (8, -1, [(8, 8), (16, 8), (20, 4)]),
    ],
)
def test_an_unfinished_period_is_trained_short_at_the_declared_total(
    num_envs: int, gradient_steps: int, expected: list[tuple[int, int]]
) -> None:
    agent = agent_of("dqn", Fast, num_envs=num_envs, train_freq=8, gradient_steps=gradient_steps, learning_starts=1)
    updates = updates_of(agent)
    agent.learn(20)
    agent.close()
    assert updates == expected


def test_an_unfinished_period_waits_for_the_next_call() -> None:
    agent = agent_of("dqn", Fast, train_freq=8, learning_starts=1, gradient_steps=-1)
    updates = updates_of(agent)
    for steps, expected in ((5, []), (2, []), (1, [(8, 8)]), (7, [(8, 8)]), (4, [(8, 8), (16, 8)])):
        agent.learn(steps, schedule_steps=20)
        assert updates == expected
    agent.learn(1, schedule_steps=20)
    assert updates == [(8, 8), (16, 8), (20, 4)]
    agent.close()


def test_the_target_network_follows_in_environment_steps_with_any_number_of_environments() -> None:
    found = {}
    for num_envs in (1, 4):
        agent = agent_of(
            "dqn", Fast, num_envs=num_envs, train_freq=8, target_update_interval=16, tau=0.5, learning_starts=1
        )
        agent.learn(64)
        agent.close()
        found[num_envs] = loop_of(agent).algorithm.state_dict()["target_updates"]
    assert found == {1: 4, 4: 4}


SCRIPT = [Ending(2, True, False), Ending(3, False, True), Ending(1, False, True), Ending(2, True, True)]
WAYS: dict[str, Callable[[], Any]] = {
    "sync": lambda: partial(Scripted, SCRIPT),
    "gymnasium": lambda: gym.vector.SyncVectorEnv([partial(Scripted, SCRIPT)] * 2),
    "next-step": lambda: ScriptedVector([SCRIPT, SCRIPT[1:]], AutoresetMode.NEXT_STEP),
    "same-step": lambda: ScriptedVector([SCRIPT, SCRIPT[1:]], AutoresetMode.SAME_STEP),
    "disabled": lambda: ScriptedVector([SCRIPT, SCRIPT[1:]], AutoresetMode.DISABLED),
}


@pytest.mark.parametrize("way", WAYS)
def test_the_replay_holds_what_really_happened(way: str) -> None:
    """`Scripted` tells episode, step and last action, and pays 100 * episode + step + action / 8."""
    agent = agent_of("dqn", WAYS[way](), num_envs=2, learning_starts=NEVER)
    agent.learn(41)
    agent.close()
    replay = loop_of(agent).replay
    batch = replay.gather(replay.indices())
    assert len(batch.rewards) == 41
    before, after, actions = batch.obs[""].numpy(), batch.next_obs[""].numpy(), batch.actions.numpy()
    np.testing.assert_array_equal(after[:, 0], before[:, 0])  # the true final observation, not the next episode's
    np.testing.assert_array_equal(after[:, 1], before[:, 1] + 1)
    np.testing.assert_array_equal(after[:, 2], actions)
    np.testing.assert_array_equal(after[:, 3], before[:, 3])
    np.testing.assert_array_equal(batch.rewards.numpy(), 100 * before[:, 0] + after[:, 1] + actions / 8)
    np.testing.assert_array_equal(before[:, 2] == -1, before[:, 1] == 0)
    truncated = replay._flat["truncated"][replay.indices() % replay.capacity]
    for i, (env_index, row) in enumerate(zip(batch.index.numpy() % 2, before, strict=True)):
        script = SCRIPT[1:] if way in ("next-step", "same-step", "disabled") and env_index == 1 else SCRIPT
        ending = script[int(row[0]) % len(script)]
        over = row[1] + 1 == ending.length
        assert bool(batch.terminated[i]) == (over and ending.terminated)
        assert bool(truncated[i]) == (over and ending.truncated)
    for env_index in (0, 1):  # nothing is left out and nothing stands twice
        rows = before[batch.index.numpy() % 2 == env_index]
        script = SCRIPT[1:] if way in ("next-step", "same-step", "disabled") and env_index == 1 else SCRIPT
        wanted = [(e, t) for e in range(40) for t in range(script[e % len(script)].length)][: len(rows)]
        assert [(int(e), int(t)) for e, t in rows[:, :2]] == wanted


def test_the_replay_is_raw_and_normalised_where_it_is_used() -> None:
    agent = agent_of("dqn", "CartPole-v1", normalize_obs=True, learning_starts=NEVER)
    agent.learn(200)
    loop = loop_of(agent)
    state = loop._sampling.state_dict()
    used = loop.sample(50)
    loop._sampling.load_state_dict(state)
    raw = loop.replay.sample(50, loop._sampling)
    assert loop.policy.normalizer is not None
    assert loop.policy.normalizer.statistics[""].count == 200  # sampling and training leave it as it is
    for name in ("obs", "next_obs"):
        expected = loop.policy.normalise({"": getattr(raw, name)[""].numpy()})[""]
        np.testing.assert_array_equal(getattr(used, name)[""].numpy(), expected)
        assert not np.allclose(expected, getattr(raw, name)[""].numpy())
    agent.close()


def test_prioritised_sampling_gets_its_exponent_by_schedule_and_the_errors_back() -> None:
    agent = agent_of(
        "dqn", "CartPole-v1", prioritized=True, prioritized_beta=srl.LinearSchedule(0.4, 1.0), train_freq=10
    )
    loop = loop_of(agent)
    assert isinstance(loop.replay, PrioritisedReplay)
    betas: list[float] = []
    indices: list[Any] = []
    tap(loop.replay, "sample", lambda size, stream, beta: betas.append(beta))
    tap(loop.replay, "update_priorities", lambda index, errors: indices.append((index.clone(), errors.clone())))
    agent.learn(100)
    agent.close()
    np.testing.assert_allclose(betas, [0.4 + 0.6 * (step - 1) / 100 for step in range(30, 101, 10)])
    assert len(indices) == 8
    index, errors = indices[-1]
    newest: dict[int, float] = {}
    for number, error in zip(index.tolist(), errors.tolist(), strict=True):
        newest[number] = error
    priorities = loop.replay.state_dict()["priorities"]
    assert isinstance(priorities, np.ndarray)
    for number, error in newest.items():
        assert priorities[number] == pytest.approx((error + 1e-6) ** 0.6, rel=1e-6)


@pytest.mark.parametrize("mode", AutoresetMode)
def test_correlated_noise_starts_anew_at_the_first_step_of_an_episode(mode: AutoresetMode) -> None:
    agent = agent_of(
        "td3",
        PaysVectorForMoving(mode, length=4),
        learning_starts=0,
        train_freq=NEVER,
        action_noise_type="ornstein-uhlenbeck",
        action_noise_std=0.5,
    )
    loop = loop_of(agent)
    assert isinstance(loop.algorithm, TD3)
    noise = loop.algorithm._noise
    levels: list[Any] = []  # [steps, N]: what was added to the actions
    valid: list[Any] = []
    ended: list[Any] = []

    def look(obs: Any, actions: Any, step: Any, counts: Any) -> None:
        levels.append(noise._level[:, 0].copy())
        valid.append(counts.copy())
        ended.append(step.terminated | step.truncated)

    tap(loop.replay, "add", look)
    for _ in range(14):
        loop.step(1000, 1000)
    assert all(valid[k].all() for k in range(14)) == (mode is not AutoresetMode.NEXT_STEP)
    # The exact values: the process of the paper on the same numbers, begun at 0 in each episode.
    stream = agent.seeds.stream("algo", "exploration")
    x = np.zeros(2)
    for k in range(14):
        x = x * (1 - 0.15 * 0.01) + 0.5 * 0.1 * stream.normal((2, 1))[:, 0]
        np.testing.assert_allclose(levels[k], x, atol=1e-5)
        x = np.where(ended[k] | ~valid[k], 0.0, x)
    agent.close()


def test_metrics_have_their_usual_names_and_the_episodes_are_told() -> None:
    wanted = {
        "dqn": {"train/loss", "train/learning_rate", "train/grad_norm", "rollout/exploration_rate", "train/q_mean"},
        "td3": {"train/critic_loss", "train/actor_loss", "train/learning_rate"},
        "sac": {"train/critic_loss", "train/actor_loss", "train/ent_coef", "train/ent_coef_loss"},
    }
    for algo, names in wanted.items():
        told: list[Event] = []
        env = "CartPole-v1" if algo == "dqn" else "Pendulum-v1"
        agent = agent_of(algo, env, max_episode_steps=20, log_interval=50)
        agent.learn(200, callback=told.append)
        agent.close()
        rows = [event for event in told if isinstance(event, MetricsLogged)]
        assert [row.step for row in rows] == [50, 100, 150, 200]
        last = rows[-1].metrics
        assert names | {"rollout/ep_rew_mean", "rollout/ep_len_mean", "time/fps"} <= last.keys()
        assert all(np.isfinite(value) for value in last.values())
        assert last["train/n_updates"] == agent.loop.counters.updates
        if algo == "dqn":
            assert last["rollout/exploration_rate"] == pytest.approx(0.05)


def test_evaluations_happen_on_their_schedule() -> None:
    found: list[Any] = []
    agent = agent_of("dqn", "CartPole-v1", eval_freq=50, eval_episodes=2)
    agent.learn(150, callback=found.append)
    agent.close()
    assert [event.step for event in found if isinstance(event, EvaluationEnded)] == [50, 100, 150]
