"""Evaluation episodes that fail are left out and said, where the run is told to go on, as long as most are whole."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import steadyrl as srl
from steadyrl.envs.make import make_env_factory
from steadyrl.errors import RunFailedError
from steadyrl.seeding import Seeds
from steadyrl.training.evaluating import Spared, run_episodes
from steadyrl.training.evaluation import Evaluation, left_out
from steadyrl.training.events import EvaluationEnded, Event, Notice
from support.training_envs import SeedLength, length_of

SMALL: dict[str, Any] = {"preset": "none", "n_steps": 16, "batch_size": 16, "n_epochs": 1, "net_arch": (8,), "seed": 0}
SEEDS = [11, 12, 13, 14, 15, 16, 17, 18]


class Faulty(SeedLength):
    """Fails in the episodes of the seeds in `bad`: in reset (at 0) or in a step, by an error or a number."""

    bad: tuple[int, ...] = ()
    at = 2
    how = "raise"
    made: list[Faulty]
    closed: list[Faulty]

    def __init__(self) -> None:
        super().__init__()
        self.own = 0
        self.made.append(self)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        obs, info = super().reset(seed=seed)
        self.own = seed or 0
        return self._faulty(obs, 0), info

    def step(self, action: Any) -> Any:
        obs, reward, terminated, truncated, info = super().step(action)
        if self.how == "reward" and self.own in self.bad and self.t == self.at:
            reward = np.inf
        return self._faulty(obs, self.t), reward, terminated, truncated, info

    def close(self) -> None:
        self.closed.append(self)

    def _faulty(self, obs: Any, t: int) -> Any:
        if self.own in self.bad and t == self.at:
            if self.how == "raise":
                raise LookupError(f"no map {self.own}")
            if self.how == "nan":
                return obs * np.nan
        return obs


def faulty(bad: tuple[int, ...], at: int = 2, how: str = "raise") -> type[Faulty]:
    return type("Faulty", (Faulty,), {"bad": bad, "at": at, "how": how, "made": [], "closed": []})


def played(env: type[Faulty], envs: int, codes: tuple[str, ...] = ("env-error", "env-nonfinite")) -> Evaluation:
    factory = make_env_factory(env)

    def another() -> Any:
        return factory(role="An evaluation environment")

    policy = srl.PPO(SeedLength, **SMALL).policy
    spared = Spared(frozenset(codes), another)
    return run_episodes(policy, [another() for _ in range(envs)], SEEDS, spared=spared)


@pytest.mark.parametrize("envs", [1, 3, 8])
@pytest.mark.parametrize("at", [0, 1, 2])
@pytest.mark.parametrize("how", ["raise", "nan", "reward"])
def test_the_others_come_to_what_they_do_without(how: str, at: int, envs: int) -> None:
    if how == "reward" and at == 0:
        how = "nan"
    bad = (11, 12, 15, 18)  # the first, the last, two in a row: half of them
    env = faulty(bad, at, how)
    result = played(env, envs)
    assert result.lengths.tolist() == [length_of(seed) for seed in SEEDS if seed not in bad]
    assert result.returns.tolist() == result.lengths.tolist()
    assert (result.episodes, len(result.failed)) == (4, 4)
    said = "LookupError" if how == "raise" else "gave "
    assert all(said in reason for reason in result.failed)
    anew = len(bad) if how == "raise" else 0
    assert (len(env.made), len(env.closed)) == (envs + anew, anew)


@pytest.mark.parametrize("envs", [1, 3, 8])
def test_more_than_half_end_it_with_the_last_error(envs: int) -> None:
    with pytest.raises(RunFailedError, match=r"An evaluation environment \(Faulty\) raised LookupError") as caught:
        played(faulty((11, 12, 14, 15, 18)), envs)
    assert "5 of 8 evaluation episodes had failed by then, more than half." in caught.value.remedy


@pytest.mark.parametrize(("codes", "how"), [(("env-error",), "nan"), (("env-nonfinite",), "raise"), ((), "reward")])
def test_only_what_is_to_be_spared_is(codes: tuple[str, ...], how: str) -> None:
    with pytest.raises(RunFailedError) as caught:
        played(faulty((13,), how=how), 2, codes)
    assert "more than half" not in caught.value.remedy


@pytest.mark.parametrize(
    ("settings", "how", "spared"),
    [
        ({"on_env_error": "restart"}, "raise", True),
        ({"on_nonfinite": "skip"}, "nan", True),
        ({"on_nonfinite": "skip"}, "raise", False),
        ({"on_env_error": "restart"}, "reward", False),
        ({}, "raise", False),
    ],
)
def test_a_training_goes_on_and_says_how_many_failed(
    settings: dict[str, Any], how: str, spared: bool, tmp_path: Path
) -> None:
    seeds = Seeds(0).eval_episode_seeds(4)
    events: list[Event] = []
    agent = srl.PPO(SeedLength, eval_episodes=4, **SMALL, **settings)
    env: Any = faulty((seeds[1], seeds[2]), how=how)
    if not spared:
        with pytest.raises(RunFailedError):
            agent.learn(32, run_dir=tmp_path / "run", eval_env=env)
        return
    agent.learn(32, run_dir=tmp_path / "run", eval_env=env, callback=events.append)
    notices = [event for event in events if isinstance(event, Notice) and event.code == "failed-evaluation"]
    assert notices[0].level == "warning"
    assert notices[0].message.startswith("2 of 4 evaluation episodes failed and are left out; the last one: ")
    told = [event.lengths for event in events if isinstance(event, EvaluationEnded)]
    assert told[0] == (length_of(seeds[0]), length_of(seeds[3]))
    assert srl.Run.open(tmp_path / "run").status == "finished"


@pytest.mark.parametrize("settings", [{}, {"on_env_error": "restart"}])
def test_evaluate_leaves_out_what_the_training_would(settings: dict[str, Any]) -> None:
    seeds = Seeds(0).eval_episode_seeds(4)
    agent = srl.PPO(SeedLength, **SMALL, **settings)
    env = faulty((seeds[1],))
    if not settings:
        with pytest.raises(RunFailedError, match="raised LookupError"):
            srl.evaluate(agent, 4, env=env)
        return
    result = srl.evaluate(agent, 4, env=env)
    assert result.lengths.tolist() == [length_of(seeds[i]) for i in (0, 2, 3)]
    assert len(result.failed) == 1
    assert left_out(result).startswith(
        "1 of 4 evaluation episodes failed and are left out; the last one: An evaluation"
    )
