"""Cases from public bug reports, with their kind: PPO and A2C through the public interface."""

import itertools
import json
import os
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium import spaces

import steadyrl as srl
from steadyrl.data.rollout import RolloutBatch
from steadyrl.training.agent import Agent
from support.envs import REWARD_FORMS, Ending, OddTypes, Reuser, Scripted
from support.spies import lessons_not_learnt, rollouts_of
from support.training_envs import Keeper, Scales

AGENTS: dict[str, tuple[Callable[..., Agent], dict[str, Any]]] = {
    "ppo": (srl.PPO, {"n_steps": 16, "batch_size": 16, "n_epochs": 2}),
    "a2c": (srl.A2C, {"n_steps": 8}),
}
BOX = spaces.Box(-1.0, 1.0, (3,), np.float32)
each_algorithm = pytest.mark.parametrize("algo", AGENTS)


def make(algo: str, env: Any, **options: Any) -> Agent:
    constructor, settings = AGENTS[algo]
    return constructor(env, **{"preset": "none", "net_arch": (16,), "num_envs": 2, **settings, **options})


def train_in(algo: str, observation: gym.Space[Any], action: gym.Space[Any], steps: int = 200, **options: Any) -> Agent:
    """Trains in environments that insist on their own spaces, and checks predictions for one and several of them."""
    Keeper.made.clear()
    agent = make(algo, partial(Keeper, observation, action), **options)
    agent.learn(steps)
    assert sum(len(env.actions) for env in Keeper.made) >= steps
    assert all(bool(torch.isfinite(tensor).all()) for tensor in agent.policy.state_dict().values())
    check_prediction(agent, observation, action)
    agent.close()
    return agent


def check_prediction(agent: Agent, observation: gym.Space[Any], action: gym.Space[Any]) -> None:
    observations = [observation.sample() for _ in range(3)]
    stacked = np.stack(observations)
    for deterministic in (False, True):
        single, state = agent.predict(observations[0], deterministic=deterministic)
        assert state is None
        assert action.contains(single), f"{single!r} is not in {action}"
        assert np.asarray(single).dtype == action.dtype
        batch, _ = agent.predict(stacked, deterministic=deterministic)
        assert batch.shape == (3, *(action.shape or ()))
        assert batch.dtype == action.dtype
        assert all(action.contains(row) for row in batch)
    np.testing.assert_array_equal(
        agent.predict(stacked[:1], deterministic=True)[0][0], agent.predict(observations[0], deterministic=True)[0]
    )
    assert agent.value(observations[0]).shape == ()
    assert agent.value(stacked).shape == (3,)


@each_algorithm
@pytest.mark.parametrize(
    "action",
    [
        spaces.Discrete(3, start=-1),
        spaces.Discrete(4, start=7),
        spaces.Discrete(3),
        spaces.MultiDiscrete([3, 2], start=[-1, 5]),
        spaces.MultiDiscrete(np.array([[2], [2]])),
        spaces.MultiDiscrete(np.array([[2, 3], [4, 5]]), start=np.array([[1, 1], [0, -9]])),
        spaces.MultiBinary(3),
        spaces.MultiBinary((2, 2)),
    ],
    ids=str,
)
def test_cases_1_and_16_integer_actions_arrive_as_the_environment_counts_them(
    algo: str, action: gym.Space[Any]
) -> None:
    train_in(algo, BOX, action)
    seen = np.stack([np.ravel(taken) for env in Keeper.made for taken in env.actions])
    low = np.ravel(getattr(action, "start", 0)) + np.zeros(seen.shape[1])
    counts = np.ravel(getattr(action, "nvec", 2 if isinstance(action, spaces.MultiBinary) else getattr(action, "n", 0)))
    np.testing.assert_array_equal(seen.min(axis=0), low)  # and every choice is taken
    np.testing.assert_array_equal(seen.max(axis=0), low + counts - 1)


@each_algorithm
@pytest.mark.parametrize(
    "action",
    [
        spaces.Box(-2.0, 0.0, (1,), np.float32),
        spaces.Box(np.array([-1.0, 0.0]), np.array([1.0, 100.0]), dtype=np.float32),
        spaces.Box(np.array([-1.0, 0.0]), np.array([1.0, 100.0]), dtype=np.float64),
        spaces.Box(-np.inf, np.inf, (2,), np.float32),
        spaces.Box(np.array([0.0, -np.inf]), np.array([np.inf, 1.0]), dtype=np.float32),
        spaces.Box(-1.0, 1.0, (2, 2), np.float32),
    ],
    ids=str,
)
@pytest.mark.parametrize("options", [{}, {"squash_output": True}, {"use_sde": True}], ids=["gauss", "tanh", "gsde"])
def test_case_3_continuous_actions_stay_in_their_bounds(
    algo: str, action: spaces.Box, options: dict[str, Any], request: pytest.FixtureRequest
) -> None:
    bounded = np.isfinite(action.low) & np.isfinite(action.high)
    if options.get("squash_output") and not bounded.all():
        with pytest.raises(srl.UserError, match="squash_output needs"):
            make(algo, partial(Keeper, BOX, action), **options)
        return
    train_in(algo, BOX, action, **options)
    # The probe asserted membership, dtype and shape of every action; each dimension and environment has its own noise.
    first, second = (np.stack(env.actions).reshape(len(env.actions), -1) for env in Keeper.made if env.actions)
    half = np.where(bounded, (action.high - action.low) / 2, 1.0).ravel() if bounded.all() else np.ones(action.low.size)
    scaled = (np.concatenate([first, second]) / half).astype(np.float64)
    for i, j in itertools.combinations(range(scaled.shape[1]), 2):
        assert abs(np.corrcoef(scaled[:, i], scaled[:, j])[0, 1]) < 0.7
    assert not np.allclose(first, second)
    if bounded.all() and not options.get("use_sde"):
        spread = scaled.std(axis=0)
        assert spread.max() < 1.5 * spread.min()  # scaled to the bounds, no dimension is noisier than another
        assert spread.min() > 0.3


@each_algorithm
@pytest.mark.parametrize("options", [{}, {"squash_output": True}, {"use_sde": True}], ids=["gauss", "tanh", "gsde"])
def test_case_3_the_stored_log_probability_belongs_to_the_stored_action(algo: str, options: dict[str, Any]) -> None:
    action = spaces.Box(np.array([-1.0, 0.0]), np.array([1.0, 100.0]), dtype=np.float32)
    Keeper.made.clear()
    agent = make(algo, partial(Keeper, BOX, action), num_envs=1, log_std_init=0.7, **options)
    for batch in first_batches(agent):
        params, _ = agent.policy.net(batch.obs)
        again = agent.policy.distribution.log_prob(params, batch.actions)
        torch.testing.assert_close(again, batch.log_probs, rtol=1e-5, atol=1e-5)
        sent = agent.policy.to_env(batch.actions)
        env = next(env for env in Keeper.made if env.actions)
        np.testing.assert_array_equal(sent, np.stack(env.actions[: len(sent)]))
        if not options.get("squash_output"):
            assert float(batch.actions.abs().max()) > 1.0  # unclipped is what is stored


def first_batches(agent: Agent) -> list[RolloutBatch]:
    """The first batch of a training, not learnt from."""
    lessons = lessons_not_learnt(agent)
    agent.learn(rollouts_of(agent).rollout.n_steps * agent.config.num_envs)
    agent.close()
    return [lesson.batch for lesson in lessons]


@each_algorithm
@pytest.mark.parametrize("observation", [np.float64, np.float32, np.float16, np.int32, np.uint8])
@pytest.mark.parametrize("action", [np.float64, np.float32])
def test_case_4_dtypes_are_the_environments_own(algo: str, observation: Any, action: Any) -> None:
    train_in(algo, spaces.Box(0, 10, (3,), observation), spaces.Box(-2, 2, (2,), action), 64)


def test_case_5_a_remainder_of_one_is_said_and_stays_finite(capsys: pytest.CaptureFixture[str]) -> None:
    agent = make("ppo", "CartPole-v1", num_envs=1, n_steps=65, batch_size=32)
    said = capsys.readouterr().err
    assert "2 minibatches of 32 and a smaller one of 1, whose single advantage is not normalised" in said
    agent.learn(3 * 65)
    assert agent.loop.counters.updates == 3
    assert all(bool(tensor.isfinite().all()) for tensor in agent.policy.state_dict().values())
    agent.close()


@each_algorithm
def test_case_6_rewards_of_every_form_give_the_same_weights_in_every_backend(algo: str) -> None:
    hashes = {}
    for form, vec in [
        *((form, "sync") for form in REWARD_FORMS),
        ("(1,)", "async"),
        ("0-d", "async"),
        ("int", "async"),
    ]:
        agent = make(algo, partial(OddTypes, form), vec=vec)
        agent.learn(100)
        agent.close()
        hashes[form, vec] = agent.policy.sha256()
    assert len(set(hashes.values())) == 1, hashes


@pytest.mark.parametrize("vec", ["sync", "async"])
def test_case_7_arrays_that_the_environment_uses_again_are_told_as_they_were(vec: str) -> None:
    agent = make("a2c", Reuser, num_envs=1, n_steps=7, vec=vec)
    (batch,) = first_batches(agent)
    # Counted up at every observation; after three steps the last one (3, then 7) is not acted on.
    assert batch.obs[""].ravel().tolist() == [0, 1, 2, 4, 5, 6, 8]
    assert [episode.success for episode in agent.loop.episodes] == [True, True]


@each_algorithm
@pytest.mark.parametrize("length", [1, 3])
def test_cases_7_and_9_a_truncated_step_is_worth_gamma_times_the_true_final_value(algo: str, length: int) -> None:
    gamma, gae_lambda = 0.9, 0.8
    env = partial(Scripted, [Ending(length, False, True)])
    sizes = {"n_steps": 6, "batch_size": 6} if algo == "ppo" else {"n_steps": 6}
    agent = make(algo, env, num_envs=1, gamma=gamma, gae_lambda=gae_lambda, **sizes)
    policy = agent.policy
    (batch,) = first_batches(agent)
    obs, returns = batch.obs[""].numpy(), batch.returns.numpy()
    step, actions = obs[:, 1], batch.actions.numpy()
    np.testing.assert_array_equal(step, np.arange(6) % length)
    rewards = 100 * obs[:, 0] + step + 1 + actions / 8
    for t in range(6):
        if step[t] == length - 1:  # the last of its episode: nothing of the next one flows back
            final = np.array([[obs[t, 0], length, actions[t], obs[t, 3]]], dtype=np.float32)
            expected = rewards[t] + gamma * policy.values({"": final}).item()
            assert returns[t] == pytest.approx(expected, rel=1e-5)
        elif t + 1 < 6:
            delta = rewards[t] + gamma * batch.values[t + 1].item() - batch.values[t].item()
            expected = delta + gamma * gae_lambda * batch.advantages[t + 1].item()
            assert batch.advantages[t].item() == pytest.approx(expected, rel=1e-4)


@each_algorithm
def test_case_9_a_terminated_step_is_worth_its_reward_alone(algo: str) -> None:
    agent = make(algo, partial(Scripted, [Ending(1, True, False), Ending(1, True, True)]), n_steps=8)
    (batch,) = first_batches(agent)
    rewards = 100 * batch.obs[""][:, 0] + 1 + batch.actions / 8
    torch.testing.assert_close(batch.returns, rewards, rtol=1e-4, atol=1e-4)


@each_algorithm
def test_case_10_made_up_rows_of_the_default_autoreset_are_dropped(algo: str) -> None:
    script = [Ending(2, True, False), Ending(3, False, True)]
    native: Any = gym.vector.SyncVectorEnv([partial(Scripted, script)] * 2)
    assert native.metadata["autoreset_mode"] is gym.vector.AutoresetMode.NEXT_STEP
    agent = make(algo, native, n_steps=16)
    assert agent.loop.venv.num_envs == 2
    lessons = lessons_not_learnt(agent)
    agent.learn(50, schedule_steps=1000)
    batch = lessons[0].batch
    # 16 vector steps hold episodes of 2 and 3 steps with one made-up row after each: 2+1+3+1+2+1+3+1+2.
    assert len(batch.returns) == 2 * 12
    assert agent.num_timesteps == 50
    step, action = batch.obs[""][:, 1], batch.obs[""][:, 2]
    for env_index in (0, 1):
        assert step[env_index::2].tolist() == [0, 1, 0, 1, 2, 0, 1, 0, 1, 2, 0, 1]
    assert ((step == 0) == (action == -1)).all()  # an observation of a reset has had no action
    assert {(e.length, e.terminated, e.truncated) for e in agent.loop.episodes} == {(2, True, False), (3, False, True)}
    agent.close()


@each_algorithm
def test_case_12_a_policy_evaluates_to_the_same_in_a_fresh_process(algo: str, tmp_path: Path) -> None:
    settings: dict[str, Any] = {"ppo": {"n_steps": 64, "batch_size": 64, "n_epochs": 10}, "a2c": {"n_steps": 16}}[algo]
    agent = make(algo, Scales, num_envs=4, normalize_obs=True, learning_rate=5e-3, **settings)
    agent.learn(8000)
    here = srl.evaluate(agent, episodes=5)
    assert here.mean > 15.5  # of 20; one of the two observations alone would give 15
    path = agent.save(tmp_path / "scales")
    agent.close()
    code = (
        "import json, sys, steadyrl as srl\n"
        "from support.training_envs import Scales\n"
        "agent = srl.load(sys.argv[1])\n"
        "print(json.dumps([agent.policy.sha256(), srl.evaluate(agent, episodes=5, env=Scales).returns.tolist()]))"
    )
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [sys.executable, "-c", code, path], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == [agent.policy.sha256(), here.returns.tolist()]


@each_algorithm
@pytest.mark.parametrize(
    "observation",
    [
        spaces.Discrete(500),
        spaces.Discrete(4, start=-2),
        spaces.MultiBinary((8, 8)),
        spaces.MultiBinary(5),
        spaces.MultiDiscrete([3, 4]),
        spaces.MultiDiscrete(np.array([[3, 4], [2, 2]]), start=np.array([[1, 1], [0, -3]])),
        spaces.Box(-1.0, 1.0, (2, 3), np.float32),
        spaces.Box(-1.0, 1.0, (), np.float32),
    ],
    ids=str,
)
def test_case_16_observations_of_every_space(algo: str, observation: gym.Space[Any]) -> None:
    train_in(algo, observation, spaces.MultiDiscrete(np.array([[2], [2]])), 64, num_envs=4)


@each_algorithm
@pytest.mark.parametrize("normalised", [False, True])
def test_case_16_flat_dictionaries_of_vectors(algo: str, normalised: bool) -> None:
    observation = spaces.Dict(
        {"a": spaces.Box(-1.0, 1.0, (2,), np.float64), "b": spaces.Discrete(3), "c": spaces.MultiBinary(2)}
    )
    agent = make(algo, partial(Keeper, observation, spaces.Discrete(2)), normalize_obs=normalised)
    agent.learn(64)
    samples = [observation.sample() for _ in range(3)]
    stacked = {key: np.stack([sample[key] for sample in samples]) for key in observation}
    actions, _ = agent.predict(stacked, deterministic=True)
    np.testing.assert_array_equal(actions, [agent.predict(sample, deterministic=True)[0] for sample in samples])
    np.testing.assert_allclose(agent.value(stacked), [agent.value(sample) for sample in samples], rtol=1e-5)
    agent.close()


@each_algorithm
def test_case_16_taxi_in_four_environments(algo: str) -> None:
    agent = make(algo, "Taxi-v3" if "Taxi-v3" in gym.registry else "Taxi-v4", num_envs=4)
    agent.learn(200)
    assert agent.predict(499, deterministic=True)[0].shape == ()
    agent.close()
