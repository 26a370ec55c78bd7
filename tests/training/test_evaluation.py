"""Evaluation stands apart: own environments, own seeds, frozen statistics, every episode counted fairly."""

from functools import partial
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium.vector import AutoresetMode

import steadyrl as srl
from steadyrl.seeding import Seeds
from steadyrl.training import evaluating
from steadyrl.training.agent import Agent
from steadyrl.training.evaluating import MAX_ENVS, run_episodes
from steadyrl.training.evaluation import Evaluation
from support.envs import ConstantReward, SpaceProbe
from support.training_envs import GlobalDrawer, PaysVector, SeedLength, length_of

SMALL: dict[str, Any] = {"preset": "none", "n_steps": 16, "batch_size": 16, "n_epochs": 2, "net_arch": (16,)}


def small(env: Any = SeedLength, **options: Any) -> Agent:
    return srl.PPO(env, **{**SMALL, **options})


@pytest.mark.parametrize("episodes", [1, MAX_ENVS - 1, MAX_ENVS, 2 * MAX_ENVS + 3])
def test_every_seed_is_played_once_however_long_its_episode_is(episodes: int) -> None:
    result = srl.evaluate(small(), episodes=episodes)
    expected = [length_of(seed) for seed in Seeds(0).eval_episode_seeds(episodes)]
    assert result.lengths.tolist() == expected
    assert result.returns.tolist() == [float(length) for length in expected]
    assert result.episodes == episodes


@pytest.mark.parametrize("episodes", [1, 5, 200])
def test_the_mean_comes_first_where_a_result_is_shown(episodes: int) -> None:
    numbers = np.arange(episodes, dtype=np.int64)
    result = Evaluation(numbers / 7, numbers, ("one", "two")[: episodes // 5])
    failed = {1: "", 5: ", failed=1", 200: ", failed=2"}[episodes]
    begin = f"Evaluation(mean={result.mean:.6g}, std={result.std:.6g}, episodes={episodes}{failed}, returns=[0"
    assert str(result) == repr(result)
    assert str(result).startswith(begin)
    assert "\n" not in str(result)
    assert len(str(result)) < 200


def test_a_result_without_episodes_can_be_shown() -> None:
    none = Evaluation(np.zeros(0), np.zeros(0, dtype=np.int64))
    assert repr(none) == "Evaluation(mean=nan, std=nan, episodes=0, returns=[], lengths=[])"


def test_the_first_episodes_do_not_depend_on_how_many_there_are() -> None:
    agent = small()
    few, many = srl.evaluate(agent, episodes=5), srl.evaluate(agent, episodes=40)
    assert few.lengths.tolist() == many.lengths[:5].tolist()
    assert len(set(many.lengths.tolist())) > 10


def test_the_number_of_environments_does_not_matter() -> None:
    policy, seeds = small().policy, Seeds(0).eval_episode_seeds(7)
    results = [run_episodes(policy, [SeedLength() for _ in range(m)], seeds).lengths.tolist() for m in (1, 3, 7)]
    assert results[0] == results[1] == results[2]


def test_training_seeds_share_their_evaluation_episodes_and_an_eval_seed_changes_them() -> None:
    first, second, other = (
        srl.evaluate(small(**seeds), episodes=10).lengths.tolist()
        for seeds in ({"seed": 1}, {"seed": 2}, {"seed": 1, "eval_seed": 5})
    )
    assert first == second
    assert other == [length_of(seed) for seed in Seeds(1, eval_seed=5).eval_episode_seeds(10)] != first
    assert srl.evaluate(small(), episodes=10, seed=5).lengths.tolist() == other


def test_repeating_an_evaluation_repeats_it_and_sampling_differs() -> None:
    agent = small("CartPole-v1")
    agent.learn(64)
    results = [
        srl.evaluate(agent, episodes=8, deterministic=flag).returns.tolist() for flag in (True, True, False, False)
    ]
    assert results[0] == results[1] != results[2] == results[3]


def test_the_statistics() -> None:
    result = srl.evaluate(small(), episodes=50)
    assert result.mean == pytest.approx(np.mean(result.lengths))
    assert result.std == pytest.approx(np.std(result.lengths))
    low, high = result.ci95
    error = result.std / np.sqrt(50)
    assert low == pytest.approx(result.mean - 1.96 * error, abs=error / 2)
    assert high == pytest.approx(result.mean + 1.96 * error, abs=error / 2)


def test_the_normaliser_is_frozen_and_rewards_are_raw() -> None:
    agent = small("Pendulum-v1", normalize_obs=True, normalize_reward=True)
    agent.learn(64)
    before = agent.policy.sha256()
    result = srl.evaluate(agent, episodes=3)
    assert agent.policy.sha256() == before
    env = gym.make("Pendulum-v1")
    for seed, expected in zip(Seeds(0).eval_episode_seeds(3), result.returns, strict=True):
        obs, _ = env.reset(seed=seed)
        total, over = 0.0, False
        while not over:
            obs, reward, terminated, truncated, _ = env.step(agent.predict(obs, deterministic=True)[0])
            total, over = total + float(reward), terminated or truncated
        assert total == pytest.approx(expected, rel=1e-5)  # a batch may round otherwise than one observation
    env.close()


def test_process_wide_generators_are_as_before() -> None:
    np.random.seed(3)
    torch.manual_seed(3)
    before = np.random.get_state()[1].tolist(), torch.get_rng_state().tolist()  # type: ignore[index]
    srl.evaluate(small(GlobalDrawer), episodes=3)
    assert (np.random.get_state()[1].tolist(), torch.get_rng_state().tolist()) == before  # type: ignore[index]


def test_torch_computes_with_as_many_threads_as_before() -> None:
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        agent = small(threads=1)
        agent.learn(16)
        agent.predict(np.zeros(1))
        srl.evaluate(agent, episodes=1)
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)


@pytest.mark.parametrize("mode", list(AutoresetMode))
@pytest.mark.parametrize("episodes", [1, 3, 8])
def test_a_vector_environment_shares_the_episodes_out_beforehand(mode: AutoresetMode, episodes: int) -> None:
    agent = small(partial(ConstantReward, 3))
    vector = PaysVector(mode, num_envs=3, length=2)  # episodes of 2, 3 and 4 steps
    result = srl.evaluate(agent, episodes=episodes, env=vector)
    share = [episodes // 3 + (i < episodes % 3) for i in range(3)]
    assert sorted(result.lengths.tolist()) == sorted(2 + i for i in range(3) for _ in range(share[i]))
    assert result.returns.tolist() == result.lengths.tolist()
    again = srl.evaluate(agent, episodes=episodes, env=vector)
    assert again.lengths.tolist() == result.lengths.tolist()


def test_a_vector_environment_that_takes_seeds_plays_them() -> None:
    vector = gym.vector.SyncVectorEnv([SeedLength] * 4)
    result = srl.evaluate(small(), episodes=4, env=vector)
    assert sorted(result.lengths.tolist()) == sorted(length_of(seed) for seed in Seeds(0).eval_episode_seeds(4))


def test_one_environment_that_the_user_made_plays_every_episode_and_stays_open() -> None:
    class Closable(SeedLength):
        closed = False

        def close(self) -> None:
            self.closed = True

    env = Closable()
    result = srl.evaluate(small(), episodes=12, env=env)
    assert result.lengths.tolist() == [length_of(seed) for seed in Seeds(0).eval_episode_seeds(12)]
    assert not env.closed


def test_environments_that_were_made_for_an_evaluation_are_closed() -> None:
    made: list[SeedLength] = []
    closed: list[SeedLength] = []

    class Counted(SeedLength):
        def __init__(self) -> None:
            super().__init__()
            made.append(self)

        def close(self) -> None:
            closed.append(self)

    agent = small(Counted)
    agent.learn(16)
    before = len(made) - len(closed)
    srl.evaluate(agent, episodes=12)
    assert len(made) - len(closed) == before
    agent.close()
    assert len(made) == len(closed)


class Spoilt(SeedLength):
    """Tells one number that it should not, from the second evaluation episode on, in step 3 (observation or reward)."""

    def __init__(self, what: str, number: float, step: int = 3) -> None:
        super().__init__()
        self.what = what
        self.number = number
        self.at = step
        self.resets = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        obs, info = super().reset(seed=seed)
        self.length = 10
        self.resets += 1
        return (self._spoilt(obs) if self.at == 0 else obs), info

    def step(self, action: Any) -> Any:
        obs, reward, terminated, truncated, info = super().step(action)
        if self.t == self.at and self.resets > 1:
            if self.what == "reward":
                reward = self.number
            else:
                obs = self._spoilt(obs)
        return obs, reward, terminated, truncated, info

    def _spoilt(self, obs: Any) -> Any:
        return obs if self.what == "reward" or self.resets < 2 else np.full_like(obs, self.number)


@pytest.mark.parametrize("number", [np.nan, np.inf, -np.inf, 1e19, -2e18])
@pytest.mark.parametrize(("what", "step"), [("reward", 3), ("observation", 3), ("observation", 10), ("observation", 0)])
def test_a_number_that_is_absurd_ends_the_evaluation(what: str, step: int, number: float) -> None:
    seeds = Seeds(0).eval_episode_seeds(4)
    with pytest.raises(srl.RunFailedError) as caught:
        run_episodes(small().policy, [Spoilt(what, number, step)], seeds)
    told = f"{number} as its reward" if what == "reward" else " as entry 0 of its observation"
    assert "The evaluation environment Spoilt gave " in caught.value.message
    assert told in caught.value.message
    assert caught.value.message.endswith(f" in step {step} of the episode with seed {seeds[1]}.")


def test_numbers_just_below_are_taken() -> None:
    result = run_episodes(small().policy, [Spoilt("reward", 1e18), Spoilt("observation", -1e18)], [0, 1, 2, 3])
    assert result.returns.max() == pytest.approx(1e18)


def test_a_run_whose_evaluation_is_not_finite_fails(tmp_path: Any) -> None:
    made: list[Any] = []

    def make() -> SeedLength:
        made.append(0)
        return SeedLength() if len(made) < 3 else Spoilt("reward", np.nan)

    with pytest.raises(srl.RunFailedError, match="seed"):
        srl.train("ppo", make, total_timesteps=64, run_dir=tmp_path / "run", eval_episodes=20, **SMALL)
    assert srl.Run.open(tmp_path / "run").status == "failed"
    assert not (tmp_path / "run" / "checkpoints" / "best").exists()


class Endless(SeedLength):
    def step(self, action: Any) -> Any:
        obs, reward, _, _, info = super().step(action)
        return obs, reward, False, False, info


@pytest.mark.parametrize("vector", [False, True])
def test_an_evaluation_without_an_end_is_ended(vector: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(evaluating, "ENDLESS", 60)
    agent = small(Endless)
    env: Any = gym.vector.SyncVectorEnv([Endless] * 2) if vector else None
    with pytest.raises(srl.RunFailedError, match="has lasted 60 steps without an end") as caught:
        srl.evaluate(agent, episodes=3, env=env)
    assert "max_episode_steps" in caught.value.remedy
    assert "eval_freq=0" in caught.value.remedy
    limited = small(Endless, max_episode_steps=100)
    assert srl.evaluate(limited, episodes=2).lengths.tolist() == [100, 100]


def test_the_limit_of_an_evaluation_is_far_beyond_usual_episodes() -> None:
    assert evaluating.ENDLESS == 100_000


@pytest.mark.parametrize("episodes", [0, -1, "3", 1.5, None, True, np.nan, 10**7])
def test_numbers_of_episodes_that_are_none_are_refused(episodes: Any) -> None:
    with pytest.raises(srl.UserError, match=r"episodes is .*, but it must be a whole number"):
        srl.evaluate(small(), episodes)


@pytest.mark.parametrize("name", ["seed", "eval_seed"])
@pytest.mark.parametrize("seed", [-1, 2**63, "1", 0.5])
def test_seeds_that_are_none_are_refused(name: str, seed: Any) -> None:
    with pytest.raises(srl.UserError, match=f"{name} is .*, but it must be a whole number"):
        srl.evaluate(small(), 1, **{name: seed})


def test_the_seed_has_the_name_of_its_flag_too() -> None:
    agent = small()
    eight: Any = np.int64(8)
    by_flag = srl.evaluate(agent, eight, eval_seed=9).lengths.tolist()
    assert by_flag == srl.evaluate(agent, 8, seed=9).lengths.tolist() != srl.evaluate(agent, 8).lengths.tolist()
    with pytest.raises(srl.UserError, match="two names of one thing"):
        srl.evaluate(agent, 8, seed=9, eval_seed=9)


@pytest.mark.parametrize(
    "given", [("CartPole-v1", 5), ("CartPole-v1",), (SeedLength,), (SeedLength(),), (5, SeedLength)]
)
def test_an_environment_that_is_given_by_position_is_sent_to_its_name(given: tuple[Any, ...]) -> None:
    with pytest.raises(srl.UserError, match="evaluate takes the agent and a number of episodes") as caught:
        srl.evaluate(small(), *given)
    assert "steadyrl.evaluate(agent, 5, env='CartPole-v1')" in caught.value.remedy


@pytest.mark.parametrize(
    ("argument", "said"),
    [
        ("n_eval_episodes", "It is called episodes here."),
        ("return_episode_rewards", "the result has returns and lengths"),
        ("determinstic", "Did you mean deterministic?"),
        ("callback", "It takes episodes, seed, eval_seed, deterministic, env."),
    ],
)
def test_arguments_that_evaluate_does_not_have_are_answered(argument: str, said: str) -> None:
    given: dict[str, Any] = {argument: 5}
    with pytest.raises(srl.UserError, match=f"evaluate has no argument '{argument}'") as caught:
        srl.evaluate(small(), **given)
    assert said in caught.value.remedy


def test_only_agents_are_evaluated() -> None:
    with pytest.raises(srl.UserError, match="evaluate was given a str, not an agent"):
        srl.evaluate("cartpole")  # type: ignore[arg-type]


def test_the_environment_of_the_training_is_not_evaluated_in() -> None:
    env: Any = gym.wrappers.TimeLimit(SeedLength(), 20)
    vector: Any = gym.vector.SyncVectorEnv([SeedLength] * 2)
    for mine in (env, vector):
        agent = small(mine)
        agent.learn(16)
        given: list[Any] = [mine] if mine is vector else [mine, mine.unwrapped, gym.wrappers.TimeLimit(mine, 5)]
        for it in given:
            with pytest.raises(srl.UserError, match="is the one that the agent is trained in"):
                srl.evaluate(agent, 1, env=it)
            with pytest.raises(srl.UserError, match="is the one that the agent is trained in"):
                agent.learn(16, eval_env=it)
        assert srl.evaluate(agent, 1, env=SeedLength()).episodes == 1


def test_a_function_that_gives_the_same_environment_again_is_refused() -> None:
    env = SpaceProbe(gym.spaces.Box(0.0, 1.0, (1,)), gym.spaces.Discrete(2))
    agent = small(lambda: env)
    with pytest.raises(srl.UserError, match="returned the same environment twice"):
        srl.evaluate(agent, 3)
