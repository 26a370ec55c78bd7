"""Environments that fail while something is trained in them: what is learnt from, counted, told and kept."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

import steadyrl as srl
from steadyrl.data.rollout import Rollout, RolloutBatch
from steadyrl.envs import failures, restart
from steadyrl.envs.replay import replay
from steadyrl.errors import RunFailedError, UserError
from steadyrl.nn.normalizer import RewardNormalizer
from steadyrl.training.displays.jsonstream import event_line
from steadyrl.training.events import EpisodeBroken, EpisodeEnded, Event, MetricsLogged, Notice
from steadyrl.training.failing import MAX_RESTARTS_KEPT
from steadyrl.training.jsonlines import broken_line
from steadyrl.training.off_policy import OffPolicyLoop
from steadyrl.training.on_policy import OnPolicyLoop
from support.breaking_envs import Fragile, Plan, episodes_in
from support.envs import ConstantReward

SMALL: dict[str, Any] = {"preset": "none", "net_arch": (8,), "on_env_error": "restart", "seed": 3}


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(restart, "BACK_OFF_S", 0.0)


def steps_of(plan: Plan) -> Callable[[int], int]:
    """How many steps an episode came to before it broke or ended."""
    ends = {episode: step - 1 for episode, step in plan.failing}
    return lambda episode: max(ends.get(episode, plan.length), 0)


# Two environments: episodes 0 and 1 begin; 1 breaks in its third step, 2 follows it, and so on.
FAILING = {(1, 3), (3, 1), (4, 5), (7, 0), (8, 4)}


def test_ppo_learns_from_no_step_of_a_broken_episode_that_its_rollout_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    learnt: list[list[tuple[int, int]]] = []
    stored: list[list[tuple[int, int, bool]]] = [[]]
    take, add = Rollout.batch, Rollout.add

    def spied(rollout: Rollout, *args: Any) -> RolloutBatch:
        batch = take(rollout, *args)
        learnt.append(episodes_in(batch.obs[""]))
        stored.append([])
        return batch

    def added(rollout: Rollout, obs: Any, *args: Any) -> None:
        stored[-1] += [(int(row[0]), int(row[1]), bool(valid)) for row, valid in zip(obs[""], args[-1], strict=True)]
        add(rollout, obs, *args)

    monkeypatch.setattr(Rollout, "batch", spied)
    monkeypatch.setattr(Rollout, "add", added)
    plan = Plan(FAILING)
    agent = srl.PPO(plan, num_envs=2, n_steps=7, batch_size=8, n_epochs=1, **SMALL)
    agent.learn(56)
    assert set(plan.broken) == {episode for episode, _ in FAILING}
    assert len(learnt) >= 4
    crossed = 0
    for rollout, (found, rows) in enumerate(zip(learnt, stored, strict=False)):
        here = {(e, s) for e, s, _ in rows}
        broke = {e for e, s in plan.failing if (e, s - 1) in here}  # acted on in this rollout just before it broke
        expected = sorted((e, s) for e, s, valid in rows if valid and e not in broke)
        assert found == expected, rollout
        crossed += any(e in broke for earlier in stored[:rollout] for e, *_ in earlier)
    assert crossed >= 1  # an episode broke whose first steps an earlier rollout had held
    assert agent.num_timesteps == 56


@pytest.mark.parametrize("kind", ["uniform", "prioritised"])
def test_dqn_keeps_the_whole_episodes_and_none_that_broke(kind: str) -> None:
    plan = Plan(FAILING)
    agent = srl.DQN(
        plan,
        num_envs=2,
        learning_starts=5,
        batch_size=8,
        train_freq=1,
        n_step=3,
        buffer_size=1000,
        prioritized=kind == "prioritised",
        **SMALL,
    )
    agent.learn(60)
    loop = agent.loop
    assert isinstance(loop, OffPolicyLoop)
    steps, broken = steps_of(plan), set(plan.broken)
    batch = loop.replay.gather(loop.replay.indices())
    kept = episodes_in(batch.obs[""])
    whole = [(e, s) for e in range(len(plan.begun)) if e not in broken for s in range(steps(e))]
    unfinished = len(whole) - len(kept)
    assert kept == [item for item in whole if item in set(kept)]
    assert 0 <= unfinished < 2 * plan.length  # the two episodes that are still going on
    assert not broken & {e for e, _ in kept}
    # No window leaves its episode: the successor is of the same one.
    assert batch.obs[""][:, 0].tolist() == batch.next_obs[""][:, 0].tolist()
    dropped = sum(steps(episode) for episode in broken)
    assert dropped > 0
    assert agent.num_timesteps == 60 == len(kept) + dropped  # steps taken stay counted, though nobody learns from them


@pytest.mark.parametrize("algo", [srl.PPO, srl.DQN])
@pytest.mark.parametrize("total", [11, 30, 37])
def test_totals_are_exact_wherever_something_breaks(algo: Any, total: int) -> None:
    """Also in the very last vector step, whose missing row is then taken in one more."""
    plan = Plan({(episode, 1 + episode % 3) for episode in range(0, 200, 2)})
    own: dict[str, Any] = {"n_steps": 5} if algo is srl.PPO else {"learning_starts": 4, "batch_size": 4}
    agent = algo(plan, num_envs=3, **own, **SMALL)
    counted = 0
    step = agent.loop.venv.step

    def spied(actions: Any) -> Any:
        nonlocal counted
        found = step(actions)
        counted += int(found.valid.sum())
        return found

    agent.loop.venv.step = spied
    agent.learn(total)
    assert agent.num_timesteps == total
    assert total <= counted <= total + 2  # the rows beyond the total are stepped and thrown away
    assert agent.loop.counters.restarts == len(plan.broken) > 0


def test_the_normaliser_of_rewards_begins_each_episode_anew() -> None:
    plan = Plan({(episode, 3) for episode in range(0, 100, 3)})
    agent = srl.PPO(plan, num_envs=2, n_steps=5, normalize_reward=True, gamma=0.5, **SMALL)
    agent.learn(32)
    loop = agent.loop
    assert isinstance(loop, OnPolicyLoop)
    assert isinstance(loop.rewards, RewardNormalizer)
    now = loop._stepper.obs[""]
    for row, found in zip(now, loop.rewards._returns, strict=True):
        episode, t = float(row[0]), int(row[1])
        assert found == pytest.approx(sum((1 + episode + s / 100) * 0.5 ** (t - s) for s in range(1, t + 1)))


def test_what_is_told_and_written(tmp_path: Path) -> None:
    plan = Plan(FAILING)
    events: list[Event] = []
    agent = srl.PPO(plan, num_envs=2, n_steps=7, batch_size=8, n_epochs=1, eval_freq=0, **SMALL)
    agent.learn(56, run_dir=tmp_path / "run", callback=events.append)
    broken = [event for event in events if isinstance(event, EpisodeBroken)]
    steps = steps_of(plan)
    assert [event.restarts for event in broken] == [1, 2, 3, 4, 5]
    assert [event.length for event in broken] == [steps(episode) for episode in plan.broken]
    assert [event.reason for event in broken] == [f"LookupError: episode {episode} broke" for episode in plan.broken]
    notices = [event.message for event in events if isinstance(event, Notice) and event.code == "env-restart"]
    assert len(notices) == 3  # at 1, 2 and 4
    assert notices[0].startswith(
        "Environment 1 failed in step 3 of its episode (LookupError: episode 1 broke) and was "
    )
    assert f"Run it again: `steadyrl replay {broken[0].file}`." in notices[0]
    assert "Restarts so far: 4." in notices[2]

    run = srl.Run.open(tmp_path / "run")
    rows = run.episodes()
    assert [row["length"] for row in rows if row.get("broken")] == [event.length for event in broken]
    assert rows[0]["reason"] == broken[0].reason
    assert (run.path / rows[0]["failure"]).is_file()
    ended = [event for event in events if isinstance(event, EpisodeEnded)]
    assert [row["return"] for row in rows if "broken" not in row] == [event.return_ for event in ended]
    assert all(row["length"] == plan.length for row in rows if "broken" not in row)
    totals = [row.get("env/restarts") for row in run.metrics()]
    assert totals[-1] == 5
    last = [event for event in events if isinstance(event, MetricsLogged)][-1]
    assert last.metrics["rollout/ep_rew_mean"] == pytest.approx(np.mean([event.return_ for event in ended]))


def test_without_a_restart_there_is_no_word_of_any() -> None:
    events: list[Event] = []
    agent = srl.PPO(Plan(), num_envs=2, n_steps=7, batch_size=7, n_epochs=1, **SMALL)
    agent.learn(28, callback=events.append)
    assert not any(isinstance(event, EpisodeBroken) for event in events)
    assert not any("env/restarts" in event.metrics for event in events if isinstance(event, MetricsLogged))


def test_every_kept_failure_can_be_run_again_and_there_are_no_more_than_so_many(tmp_path: Path) -> None:
    agent = srl.PPO(Fragile, env_kwargs={"p": 0.1}, num_envs=2, n_steps=32, eval_freq=0, **SMALL)
    agent.learn(400, run_dir=tmp_path / "run")
    files = sorted((tmp_path / "run" / "failures").iterdir())
    assert len(files) == MAX_RESTARTS_KEPT < agent.loop.counters.restarts
    factory = agent.env_factory
    assert factory is not None
    for file in files:
        outcome = replay(failures.read(file), factory)
        assert (outcome.result, outcome.failure and outcome.failure.error) == ("same", "ArithmeticError: a fuse blew")


MAKERS: dict[str, Callable[[], Any]] = {
    "ppo": partial(srl.PPO, n_steps=16, batch_size=16, n_epochs=2, normalize_obs=True, normalize_reward=True),
    "dqn": partial(srl.DQN, learning_starts=50, batch_size=16, n_step=3, prioritized=True, buffer_size=300),
}


@pytest.mark.parametrize("algo", MAKERS)
def test_a_training_with_restarts_repeats_bit_for_bit(algo: str, tmp_path: Path) -> None:
    found = []
    for name in ("first", "second"):
        make: Any = MAKERS[algo]
        agent = make(Fragile, env_kwargs={"p": 0.05}, num_envs=3, eval_freq=0, **SMALL)
        agent.learn(600, run_dir=tmp_path / name)
        rows = (tmp_path / name / "episodes.jsonl").read_text()
        facts = [{k: v for k, v in json.loads(row).items() if k != "failure"} for row in rows.splitlines()]
        found.append((agent.policy.sha256(), agent.loop.counters.restarts, facts))
    assert found[0] == found[1]
    assert found[0][1] > 15


def test_the_budget_ends_the_run_with_the_last_error(tmp_path: Path) -> None:
    plan = Plan({(episode, 2 + episode % 2) for episode in range(50)})
    agent = srl.PPO(plan, num_envs=2, n_steps=8, eval_freq=0, env_restart_budget=3, **SMALL)
    with pytest.raises(RunFailedError, match="broke") as caught:
        agent.learn(100, run_dir=tmp_path / "run")
    assert "Environments were started anew 3 times before, all that env_restart_budget allows." in caught.value.remedy
    run = srl.Run.open(tmp_path / "run")
    assert run.status == "failed"
    assert len(list((run.path / "failures").iterdir())) == 4
    assert sum(row.get("broken", False) for row in run.episodes()) == 3


def test_stop_is_the_default_and_says_how_to_keep_the_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    agent = srl.PPO(Plan({(0, 4)}), num_envs=2, n_steps=8, preset="none")
    with pytest.raises(RunFailedError, match="episode 0 broke") as caught:
        agent.learn(100)
    assert "With a run folder (run_dir=) the failure is kept in a file" in caught.value.remedy
    assert list(tmp_path.iterdir()) == []


def test_a_failing_evaluation_stops_the_run_and_its_record_names_its_own_environment(tmp_path: Path) -> None:
    training, evaluation = Plan(), Plan({(1, 2)})
    agent = srl.PPO(training, num_envs=2, n_steps=8, eval_freq=16, **SMALL | {"on_env_error": "stop"})

    def other() -> gym.Env[Any, Any]:
        return evaluation()

    with pytest.raises(RunFailedError, match=r"An evaluation environment \(other\) raised LookupError") as caught:
        agent.learn(64, run_dir=tmp_path / "run", eval_env=other)
    (file,) = (tmp_path / "run" / "failures").iterdir()
    record = failures.read(file)
    assert (record.origin.id, record.failure.error) == ("other", "LookupError: episode 1 broke")
    assert file.name in caught.value.remedy
    assert agent.loop.counters.restarts == 0


def test_a_failure_after_an_evaluation_is_one_of_the_training_environment_again(tmp_path: Path) -> None:
    training, evaluation = Plan({(4, 3)}), Plan()
    agent = srl.PPO(training, num_envs=2, n_steps=8, eval_freq=8, eval_episodes=2, preset="none", net_arch=(8,))

    def other() -> gym.Env[Any, Any]:
        return evaluation()

    with pytest.raises(RunFailedError, match="episode 4 broke"):
        agent.learn(64, run_dir=tmp_path / "run", eval_env=other)
    assert evaluation.begun
    (file,) = (tmp_path / "run" / "failures").iterdir()
    assert failures.read(file).origin.id == "Plan"


def test_an_episode_that_broke_is_one_line_in_the_stream_of_events() -> None:
    event = EpisodeBroken(12, 1, 2.5, 3, "ValueError: x", 4, "run/failures/a.json")
    told = json.loads(event_line(event))
    assert told.pop("event") == "episode_broken"
    assert told == dataclasses.asdict(event)
    row = json.loads(broken_line(event))
    assert (row["return"], row["length"], row["failure"]) == (2.5, 3, "failures/a.json")


def test_a_record_that_cannot_be_written_hides_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*args: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(failures, "write", full)
    plan = Plan({(0, 2), (2, 3)})
    agent = srl.PPO(plan, num_envs=2, n_steps=8, eval_freq=0, env_restart_budget=1, **SMALL)
    with pytest.raises(RunFailedError, match="episode 2 broke") as caught:
        agent.learn(64, run_dir=tmp_path / "run")
    assert "Its record cannot be written: No space left on device." in caught.value.remedy
    (row,) = [row for row in srl.Run.open(tmp_path / "run").episodes() if row.get("broken")]
    assert "failure" not in row


@pytest.mark.parametrize(
    ("env", "own", "told"),
    [
        ("CartPole-v1", {"vec": "native"}, "With vec='native'"),
        (ConstantReward(3), {}, "does not say how it was made"),
        (gym.make_vec("CartPole-v1", 2, vectorization_mode="sync"), {}, "A vector environment makes"),
    ],
)
def test_where_restarts_are_impossible_that_is_said_before_the_run(env: Any, own: dict[str, Any], told: str) -> None:
    with pytest.raises(UserError, match=told):
        srl.PPO(env, **own, **SMALL)


@pytest.mark.parametrize("budget", [-1, 2.5])
def test_the_budget_is_a_count(budget: Any) -> None:
    with pytest.raises(UserError, match="env_restart_budget"):
        srl.PPO("CartPole-v1", env_restart_budget=budget, preset="none")


def test_a_training_goes_on_through_killed_workers_and_repeats() -> None:
    hashes = set()
    for _ in range(2):
        options = {"n_steps": 32, "num_envs": 4, "batch_size": 64, "vec": "async", "num_workers": 2}
        agent = srl.PPO(Fragile, env_kwargs={"p": 0.02, "killed": True}, **{**SMALL, **options})
        agent.learn(600)
        assert agent.num_timesteps == 600
        assert agent.loop.counters.restarts >= 4
        hashes.add(agent.policy.sha256())
        agent.close()
    assert len(hashes) == 1


@pytest.mark.soak
@pytest.mark.timeout(3600)
@pytest.mark.parametrize(("killed", "vec"), [(False, "sync"), (True, "async")])
def test_ppo_solves_cartpole_through_a_thousand_failures(killed: bool, vec: str) -> None:
    agent = srl.PPO(
        Fragile,
        env_kwargs={"p": 0.011, "killed": killed},
        preset="CartPole-v1",
        seed=0,
        vec=vec,
        num_workers=8 if vec == "async" else None,
        on_env_error="restart",
        env_restart_budget=100_000,
    )
    healthy = partial(gym.make, "CartPole-v1")
    agent.learn(100_000, eval_env=healthy)
    result = srl.evaluate(agent, episodes=100, env=healthy)
    print(f"restarts {agent.loop.counters.restarts}, return {result.mean:.1f} of 500")
    assert agent.num_timesteps == 100_000
    assert agent.loop.counters.restarts >= 1_000
    assert result.mean >= 475
