"""Trainings in environments that allow only some actions: every part of a run keeps to the masks."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch

import steadyrl as srl
from steadyrl.algorithms.dqn import DQN
from steadyrl.algorithms.sac_discrete import DiscreteSAC
from steadyrl.data.transitions import ReplayBatch
from steadyrl.spaces.masks import MASK
from steadyrl.training.agent import Agent
from steadyrl.training.events import EvaluationEnded, MetricsLogged, Notice
from steadyrl.training.off_policy import OffPolicyLoop
from support.kernels import needs_native
from support.masked import Few, Masked, Thousands

ALGOS: dict[str, tuple[type[Agent], dict[str, Any]]] = {
    "ppo": (srl.PPO, {"n_steps": 32, "batch_size": 16, "n_epochs": 2}),
    "a2c": (srl.A2C, {}),
    "dqn": (srl.DQN, {"learning_starts": 40, "buffer_size": 200, "batch_size": 16, "target_update_interval": 20}),
    "dqn n-step": (
        srl.DQN,
        {"learning_starts": 40, "buffer_size": 200, "batch_size": 16, "n_step": 3, "prioritized": True, "double": True},
    ),
    "c51": (srl.DQN, {"learning_starts": 40, "buffer_size": 200, "batch_size": 16, "head": "c51"}),
    "sac": (srl.SAC, {"learning_starts": 40, "buffer_size": 200, "batch_size": 16, "net_arch": (16,)}),
}


def agent_of(algo: str, env: Any, **options: Any) -> Agent:
    cls, own = ALGOS[algo]
    return cls(env, **{"preset": "none", "num_envs": 2, "vec": "sync", "threads": 1, **own, **options})


@pytest.mark.parametrize("algo", ALGOS)
@pytest.mark.parametrize("kernels", ["native", "torch"])
def test_only_what_is_allowed_is_done_in_training_evaluation_and_prediction(
    algo: str, kernels: str, tmp_path: Path
) -> None:
    if kernels == "native":
        pytest.importorskip("steadyrl.kernels._native")
    told: list[Any] = []
    agent = agent_of(algo, Masked, kernels=kernels, eval_freq=100, eval_episodes=3, log_interval=1)
    agent.learn(200, callback=told.append)  # the environments insist on legal actions
    assert [event.mean for event in told if isinstance(event, EvaluationEnded)]
    assert not [event for event in told if isinstance(event, Notice)]  # nothing falls back to PyTorch
    rows = [event.metrics for event in told if isinstance(event, MetricsLogged)]
    assert all(np.isfinite([value for name, value in row.items() if name != "train/explained_variance"]).all()
               for row in rows)  # fmt: skip
    agent.close()
    again = srl.load(agent.save(tmp_path / "agent"))
    for loaded in (agent, again):
        masks = np.eye(4)
        for deterministic in (True, False):
            actions, _ = loaded.predict(np.zeros((4, 2)), action_masks=masks, deterministic=deterministic)
            np.testing.assert_array_equal(actions, [0, 1, 2, 3])
    assert again.policy.masked


@pytest.mark.parametrize("algo", ["ppo", "dqn"])
def test_sync_and_async_train_alike(algo: str) -> None:
    found = []
    for vec in ("sync", "async"):
        agent = agent_of(algo, Masked, vec=vec)
        agent.learn(100)
        found.append(agent.policy.sha256())
        agent.close()
    assert found[0] == found[1]


@pytest.mark.parametrize("algo", ["ppo", "a2c"])
def test_multidiscrete_actions(algo: str) -> None:
    agent = agent_of(algo, partial(Masked, (2, 3, 4)))
    agent.learn(100)
    action, _ = agent.predict(np.zeros(2), action_masks=[0, 1, 1, 0, 0, 0, 0, 1, 0])
    np.testing.assert_array_equal(action, [1, 0, 2])
    agent.close()


@pytest.mark.parametrize("kernels", [pytest.param("native", marks=needs_native), "torch"])
@pytest.mark.parametrize("nvec", [(4,), (2, 3, 4)])
def test_ratio_is_1_in_the_first_minibatch(nvec: tuple[int, ...], kernels: str) -> None:
    told: list[Any] = []
    tight = {"n_steps": 16, "batch_size": 32, "n_epochs": 1, "clip_range": 1e-6, "learning_rate": 1e-2}
    agent = agent_of("ppo", partial(Masked, nvec), kernels=kernels, **tight)
    agent.learn(96, callback=told.append)
    rows = [event.metrics for event in told if isinstance(event, MetricsLogged)]
    assert [row["train/clip_fraction"] for row in rows] == [0.0] * 3
    assert all(abs(row["train/approx_kl"]) < 1e-7 < row["train/grad_norm"] for row in rows)
    agent.close()


def test_environments_that_insist_are_timed_with_what_they_allow() -> None:
    agent = agent_of("ppo", Masked, vec="auto")
    agent.learn(32)
    choice = agent.require_setup().choice
    assert choice is not None
    assert "a step of 2 environments takes" in choice.reason or choice.rates, choice.reason
    agent.close()


def test_a_discrete_space_that_does_not_begin_at_zero() -> None:
    agent = agent_of("dqn", partial(Masked, start=-2))
    agent.learn(100)
    assert agent.predict(np.zeros(2), action_masks=[0, 0, 1, 0])[0] == 0
    agent.close()


def widened(few: Agent, wide: Agent, places: tuple[int, ...]) -> None:
    """Give the agent of the larger action space the weights of the other, in the rows that stand for its actions."""
    source, target = few.policy.net.state_dict(), wide.policy.net.state_dict()
    for name, weight in source.items():
        if name.startswith("policy_head"):
            target[name][list(places)] = weight
        else:
            target[name] = weight
    wide.policy.net.load_state_dict(target)
    wide.policy.regain()


@pytest.mark.parametrize("kernels", [pytest.param("native", marks=needs_native), "torch"])
@pytest.mark.parametrize("algo", ["ppo", "a2c"])
def test_a_masked_agent_is_the_unmasked_one_of_the_smaller_action_space(algo: str, kernels: str) -> None:
    """Masked logits give the allowed actions the same probabilities, so the same numbers choose the same of them, and
    no gradient reaches the rest: all that may differ is the order in which sums are rounded."""
    places = (1, 4, 7)
    envs = Few(), Few(places)
    few, wide = (
        agent_of(algo, env, num_envs=1, kernels=kernels, ent_coef=0.01, learning_rate=1e-3, seed=5) for env in envs
    )
    few.settle(lambda notice: None)
    wide.settle(lambda notice: None)
    assert (few.policy.masked, wide.policy.masked) == (False, True)
    widened(few, wide, places)
    for name, weight in wide.policy.net.state_dict().items():
        if name == "policy_head.logits.weight":
            others = weight[[0, 2, 3, 5, 6, 8]].clone()
    few.learn(640)
    wide.learn(640)
    assert envs[0].actions == envs[1].actions
    assert len(set(envs[0].actions)) == 3
    after = wide.policy.net.state_dict()
    for name, weight in few.policy.net.state_dict().items():
        kept = after[name][list(places)] if name.startswith("policy_head") else after[name]
        np.testing.assert_allclose(kept, weight, atol=2e-5, rtol=0)
    assert torch.equal(after["policy_head.logits.weight"][[0, 2, 3, 5, 6, 8]], others)


def test_the_target_takes_the_largest_value_that_the_next_mask_allows() -> None:
    agent = agent_of("dqn", Masked)
    algorithm = agent.loop.algorithm
    assert isinstance(algorithm, DQN)
    n = 6
    obs = torch.zeros(n, 2)
    masks = torch.eye(4)[torch.arange(n) % 4]
    values = algorithm._target.evaluate({"": obs})[0].squeeze(-1)
    ones = torch.ones(n)
    batch = ReplayBatch(
        {"": obs, MASK: torch.ones(n, 4)},
        torch.zeros(n, dtype=torch.int64),
        ones,
        {"": obs, MASK: masks},
        torch.zeros(n, dtype=torch.bool),
        0.5 * ones,
        ones,
        torch.arange(n),
    )
    expected = 1.0 + 0.5 * values[torch.arange(n), torch.arange(n) % 4]
    np.testing.assert_allclose(algorithm._targets(batch), expected, atol=1e-6)
    agent.close()


def test_the_temperature_aims_at_what_the_masks_leave() -> None:
    """0.98 of the mean of log n, n the allowed actions: one alone leaves no entropy to aim at."""
    agent = agent_of("sac", Masked)
    algorithm = agent.loop.algorithm
    assert isinstance(algorithm, DiscreteSAC)
    masks = torch.tensor([[1.0, 0.0, 0.0, 0.0], [1.0, 1.0, 0.0, 0.0], [1.0, 1.0, 1.0, 1.0]])
    some = torch.zeros(3)
    batch = ReplayBatch({MASK: masks}, some, some, {}, some, some, some, some)
    wanted = 0.98 * (0.0 + np.log(2.0) + np.log(4.0)) / 3
    missed = algorithm._missed(batch)
    np.testing.assert_allclose(algorithm.temperature.target_entropy + float(missed), wanted, rtol=1e-6)
    assert algorithm._missed(batch._replace(obs={})) == 0.0
    agent.close()


def test_the_replay_keeps_the_masks_of_both_observations() -> None:
    agent = agent_of("dqn", Masked)
    agent.learn(30)
    loop = agent.loop
    assert isinstance(loop, OffPolicyLoop)
    batch = loop.sample(64)
    assert batch.obs[MASK].shape == batch.next_obs[MASK].shape == (64, 4)
    chosen = batch.obs[MASK][torch.arange(64), batch.actions]
    assert bool((chosen == 1).all())
    assert 0.0 < float(batch.next_obs[MASK].mean()) < 1.0
    agent.close()


def test_thousands_of_actions_with_float_masks() -> None:
    """Case 20: no sum of probabilities is ever insisted on, and every number stays finite."""
    told: list[Any] = []
    agent = agent_of("ppo", Thousands, n_steps=64, batch_size=64, learning_rate=0.01, ent_coef=0.01)
    agent.learn(1024, callback=told.append)
    rows = [event.metrics for event in told if isinstance(event, MetricsLogged)]
    assert len(rows) == 8
    for row in rows:
        assert np.isfinite(row["train/loss"])
        assert 0.0 < -row["train/entropy_loss"] < np.log(1400)
    assert bool(agent.policy.parts["net"].flat.data.isfinite().all())
    agent.close()


@pytest.mark.soak
def test_thousands_of_actions_for_long() -> None:
    agent = agent_of("ppo", Thousands, n_steps=128, batch_size=128, learning_rate=0.01, ent_coef=0.0)
    agent.learn(60_000)
    assert bool(agent.policy.parts["net"].flat.data.isfinite().all())
    agent.close()


def test_a_mask_that_allows_nothing_ends_the_run_and_names_environment_and_step() -> None:
    agent = agent_of("ppo", partial(Masked, fault="empty"))
    with pytest.raises(srl.SteadyRLError, match=r"environment 0\), in step 2 of its episode, allows nothing"):
        agent.learn(100)


@pytest.mark.parametrize("algo", ["dqn", "dqn n-step", "sac"])
@pytest.mark.parametrize("vec", ["sync", "async"])
def test_a_truncated_step_without_a_mask_ends_a_run_that_learns_from_what_could_be_done_there(
    algo: str, vec: str
) -> None:
    agent = agent_of(algo, partial(Masked, fault="cut"), vec=vec)
    said = r"\(environment 0\) gave no action mask in step 5 of its episode, which truncated it"
    with pytest.raises(srl.UserError, match=said):
        agent.learn(100)
    agent.close()


@pytest.mark.parametrize("ends", [True, False])
def test_hindsight_needs_masks_wherever_another_goal_lets_an_episode_go_on(ends: bool) -> None:
    class Goals(Masked):
        def __init__(self) -> None:
            super().__init__(terminates=True)
            parts = dict.fromkeys(("observation", "achieved_goal", "desired_goal"), self.observation_space)
            self.observation_space: Any = gym.spaces.Dict(parts)

        def _obs(self) -> Any:
            return dict.fromkeys(("observation", "achieved_goal", "desired_goal"), super()._obs())

        def compute_reward(self, achieved: Any, desired: Any, info: dict[str, Any]) -> Any:
            return np.zeros(len(achieved))

    if ends:
        Goals.compute_terminated = lambda self, achieved, desired, info: False  # type: ignore[attr-defined]
    options = {"hindsight": "future", "n_sampled_goal": 1}
    agent = agent_of("dqn", Goals, **options)
    if ends:
        with pytest.raises(srl.UserError, match="where it did end no action mask says what could be done next"):
            agent.learn(60)
        agent.close()
        return
    agent.learn(60)
    agent.close()


@pytest.mark.parametrize("algo", ["ppo", "a2c"])
def test_a_value_needs_no_mask_at_a_truncated_step(algo: str) -> None:
    agent, other = (agent_of(algo, partial(Masked, fault=fault)) for fault in ("cut", ""))
    for each in (agent, other):
        each.learn(100)
        each.close()
    assert agent.policy.masked
    assert agent.policy.sha256() == other.policy.sha256()


@pytest.mark.parametrize("algo", ["dqn", "c51", "sac"])
@pytest.mark.parametrize("kernels", ["auto", "torch"])
def test_a_value_is_that_of_what_is_allowed(algo: str, kernels: str) -> None:
    agent: Any = agent_of(algo, Masked, kernels=kernels)
    agent.learn(60)
    obs, masks = np.array([[0.1, 0.5], [0.3, -0.5]]), np.array([[1, 0, 1, 0], [0, 1, 0, 0]])
    with torch.no_grad():
        tensors = {"": torch.from_numpy(obs.astype(np.float32))}
        net = agent.policy.net
        if algo == "sac":
            weights = net.actor(tensors)[0].exp().numpy() * masks
            expected = (weights / weights.sum(1, keepdims=True) * net.q(tensors).min(dim=0).values.numpy()).sum(1)
        else:
            expected = np.where(masks, net.actor(tensors)[0].numpy(), -np.inf).max(1)
    np.testing.assert_allclose(agent.value(obs, action_masks=masks), expected, rtol=1e-5, atol=1e-7)
    np.testing.assert_allclose(agent.value(obs[0], action_masks=masks[0]), expected[0], rtol=1e-5, atol=1e-7)
    with pytest.raises(srl.UserError, match="allows nothing"):
        agent.value(obs[0], action_masks=np.zeros(4))
    agent.close()


@pytest.mark.parametrize("algo", ["ppo", "a2c"])
def test_masks_in_parts_are_learned_and_predicted_by(algo: str) -> None:
    parts, flat = (agent_of(algo, partial(Masked, (2, 3), parts=parts)) for parts in (True, False))
    for each in (parts, flat):
        each.learn(100, eval_env=partial(Masked, (2, 3), parts=each is parts))
        each.close()
    assert parts.policy.sha256() == flat.policy.sha256()
    one = (np.array([0, 1]), np.array([0, 0, 1]))
    np.testing.assert_array_equal(parts.predict(np.zeros(2), action_masks=one)[0], [1, 2])
    two = [one, (np.array([1, 0]), np.array([0, 1, 0]))]
    np.testing.assert_array_equal(parts.predict(np.zeros((2, 2)), action_masks=two)[0], [[1, 2], [0, 1]])
    with pytest.raises(srl.UserError, match=r"of the observation has 3 entries in part 0, but entry 0"):
        parts.predict(np.zeros(2), action_masks=one[::-1])


def test_masks_can_be_left_alone() -> None:
    class Lenient(Masked):
        def step(self, action: Any) -> Any:
            return super().step(int(self.masks[-1].argmax()))

    agent = agent_of("ppo", Lenient, action_masks="off")
    agent.learn(64)
    assert not agent.policy.masked
    with pytest.raises(srl.UserError, match="action_masks were given, but this policy was not made for masks"):
        agent.predict(np.zeros(2), action_masks=[1, 1, 1, 1])
    agent.close()


def test_masks_that_are_insisted_on_have_to_be_there() -> None:
    agent = agent_of("ppo", "CartPole-v1", action_masks="on")
    with pytest.raises(srl.UserError, match=r"CartPole-v1 \(environment 0\) gave no action mask at its reset"):
        agent.learn(64)


def test_algorithms_for_continuous_actions_say_that_they_have_none() -> None:
    with pytest.raises(srl.UserError, match="Action masks are for Discrete and MultiDiscrete actions, but the action"):
        srl.SAC("Pendulum-v1", action_masks="on")


def test_a_policy_with_masks_is_not_evaluated_without() -> None:
    agent = agent_of("ppo", Masked)
    agent.learn(64)

    def bare() -> gym.Env[Any, Any]:
        return gym.wrappers.TransformReward(Masked(fault="missing"), lambda reward: reward)

    with pytest.raises(srl.UserError, match="The evaluation environment bare gave no action mask in step 2"):
        srl.evaluate(agent, 2, env=bare)
    agent.close()


def test_another_environment_is_looked_at_anew(capsys: pytest.CaptureFixture[str]) -> None:
    class Free(Masked):
        def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
            return super().reset(seed=seed)[0], {}

        def step(self, action: Any) -> Any:
            return *super().step(int(self.masks[-1].argmax()))[:4], {}

    agent = agent_of("ppo", Masked)
    agent.learn(64)
    assert agent.policy.masked
    agent.set_env(Free)
    agent.learn(64)
    assert not agent.policy.masked
    agent.set_env(Masked)
    agent.learn(64)
    assert agent.policy.masked
    agent.close()
    assert capsys.readouterr().err.count("gives action masks") == 2


def test_memory_for_masks_is_asked_for_before_the_start() -> None:
    agent = agent_of("dqn", Thousands, buffer_size=3_000_000, memory_limit="1GB")
    with pytest.raises(srl.UserError, match="memory"):
        agent.learn(10)


@pytest.mark.parametrize("algo", ["ppo", "dqn"])
def test_the_configuration_of_a_run_says_what_auto_became(algo: str, tmp_path: Path) -> None:
    agent = agent_of(algo, Masked)
    agent.learn(64, run_dir=tmp_path / "run")
    agent.close()
    settings = json.loads((tmp_path / "run" / "config.json").read_text())["settings"]
    assert settings["action_masks"] == "on"
