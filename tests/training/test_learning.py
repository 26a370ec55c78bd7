"""One call of `learn` from the outside: events, schedules, the stop of an update, and how it ends."""

import json
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pytest
import torch

import steadyrl as srl
from steadyrl.training.agent import Agent
from steadyrl.training.events import (
    CheckpointSaved,
    EpisodeEnded,
    EvaluationEnded,
    Event,
    MetricsLogged,
    Progress,
    RunEnded,
    RunStarted,
)
from support.envs import ConstantReward
from support.faulty_envs import Failing
from support.training_envs import Fast

Kind = TypeVar("Kind")
SMALL: dict[str, Any] = {"preset": "none", "n_steps": 16, "num_envs": 2, "net_arch": (16,)}


def ppo(env: Any = ConstantReward, **options: Any) -> Agent:
    return srl.PPO(env, **{"batch_size": 16, "n_epochs": 2, **SMALL, **options})


def learnt(agent: Agent, steps: int, **options: Any) -> list[Event]:
    """The events of one call."""
    events: list[Event] = []
    agent.learn(steps, callback=events.append, **options)
    agent.close()
    return events


def of_kind(events: list[Event], kind: type[Kind]) -> list[Kind]:
    return [event for event in events if isinstance(event, kind)]


def test_events_come_in_order_with_their_facts(tmp_path: Path) -> None:
    agent = ppo(seed=4, eval_freq=64, checkpoint_freq=32, eval_episodes=2)
    events = learnt(agent, 128, run_dir=tmp_path / "run")
    first, last = events[0], events[-1]
    assert isinstance(first, RunStarted)
    assert (first.algo, first.env, first.seed, first.step, first.total_timesteps) == (
        "ppo",
        "ConstantReward",
        4,
        0,
        128,
    )
    assert first.run_dir == tmp_path / "run"
    assert first.config["hyperparameters"]["n_steps"] == 16
    assert isinstance(last, RunEnded)
    assert (last.step, last.status, last.run_dir, last.message) == (128, "finished", tmp_path / "run", "")
    assert len(of_kind(events, RunStarted)) == len(of_kind(events, RunEnded)) == 1

    episodes = of_kind(events, EpisodeEnded)
    assert [(e.step, e.env_index, e.return_, e.length) for e in episodes[:4]] == [
        (20, 0, 10.0, 10), (20, 1, 10.0, 10), (40, 0, 10.0, 10), (40, 1, 10.0, 10)
    ]  # fmt: skip
    assert all(e.truncated and not e.terminated and e.success is None for e in episodes)
    assert [event.step for event in of_kind(events, MetricsLogged)] == [32, 64, 96, 128]
    assert [event.step for event in of_kind(events, EvaluationEnded)] == [64, 128]
    saved = [(event.step, event.kind) for event in of_kind(events, CheckpointSaved)]
    assert saved == [(32, "step"), (64, "best"), (64, "step"), (96, "step"), (128, "step"), (128, "final")]
    assert all(event.path.is_dir() for event in of_kind(events, CheckpointSaved))
    steps = [event.step for event in events if hasattr(event, "step")]
    assert steps == sorted(steps)
    progress = of_kind(events, Progress)[-1]
    assert (progress.step, progress.total_timesteps, progress.start_step) == (128, 128, 0)
    assert {"env", "act", "learn", "eval"} <= progress.phases.keys()
    assert sum(progress.phases.values()) <= progress.elapsed_s


def test_several_listeners_hear_the_same() -> None:
    first: list[Event] = []
    second: list[Event] = []
    ppo().learn(64, callback=[first.append, second.append])
    assert first == second != []


def test_a_listener_that_returns_false_ends_the_call_with_a_saved_agent(tmp_path: Path) -> None:
    agent = ppo()
    events: list[Event] = []

    def callback(event: Event) -> bool | None:
        events.append(event)
        return False if isinstance(event, MetricsLogged) and event.step >= 64 else None

    agent.learn(10_000, callback=callback, run_dir=tmp_path / "run")
    assert agent.num_timesteps == 64
    assert of_kind(events, RunEnded)[0].status == "stopped"
    manifest = json.loads((tmp_path / "run" / "manifest.json").read_text())
    assert (manifest["status"], manifest["timesteps"], manifest["signal"]) == ("stopped", 64, None)
    final = srl.load(tmp_path / "run" / "checkpoints" / "final" / "step_64" / "policy.srl")
    assert final.policy.sha256() == agent.policy.sha256() == manifest["weights_sha256"]
    agent.learn(10)  # and may go on
    assert agent.num_timesteps == 74
    agent.close()


def test_a_listener_that_stops_at_the_start_trains_nothing() -> None:
    agent = ppo()
    agent.learn(100, callback=lambda event: not isinstance(event, RunStarted))
    assert agent.num_timesteps == 0


def test_a_listener_that_returns_nothing_or_something_false_does_not_stop() -> None:
    agent = ppo()
    agent.learn(64, callback=lambda event: 0)
    assert agent.num_timesteps == 64


def test_a_listener_that_raises_ends_the_run_as_failed(tmp_path: Path) -> None:
    def callback(event: Event) -> None:
        if isinstance(event, MetricsLogged):
            raise LookupError("my own mistake")

    with pytest.raises(LookupError, match="my own mistake"):
        ppo().learn(64, callback=callback, run_dir=tmp_path / "run")
    manifest = json.loads((tmp_path / "run" / "manifest.json").read_text())
    assert manifest["status"] == "failed"
    assert "my own mistake" in manifest["message"]


@pytest.mark.parametrize("algo", [srl.PPO, srl.A2C])
def test_schedules_run_over_absolute_steps(algo: Any) -> None:
    agent = algo(ConstantReward, **SMALL, learning_rate=srl.LinearSchedule(1e-3, 1e-4), log_interval=1)
    rows = []
    for steps in (64, 32, 104):
        events: list[Event] = []
        agent.learn(steps, schedule_steps=200, callback=events.append)
        rows += [(event.step, event.metrics["train/learning_rate"]) for event in of_kind(events, MetricsLogged)]
    assert [step for step, _ in rows] == [32, 64, 96, 128, 160, 192, 200]
    for step, rate in rows:
        before = (step - 1) // 32 * 32  # the step count before the rollout decides
        assert rate == pytest.approx(1e-3 + before / 200 * (1e-4 - 1e-3), rel=1e-12)
    agent.close()


def test_a_schedule_that_ends_early_stays_and_the_clip_range_has_its_own() -> None:
    options = {"clip_range": srl.LinearSchedule(0.4, 0.1, fraction=0.5), "learning_rate": 1e-3}
    rows = [event.metrics for event in of_kind(learnt(ppo(**options), 128), MetricsLogged)]
    assert [row["train/clip_range"] for row in rows] == pytest.approx([0.4, 0.25, 0.1, 0.1])
    assert [row["train/learning_rate"] for row in rows] == [1e-3] * 4


def test_a_second_call_says_that_schedules_were_stretched(capsys: pytest.CaptureFixture[str]) -> None:
    agent = ppo(learning_rate=srl.LinearSchedule(1e-3, 0.0))
    agent.learn(64)
    assert "Schedules" not in capsys.readouterr().err
    agent.learn(64)
    assert "Schedules now run over 128 steps" in capsys.readouterr().err
    plain = ppo()
    plain.learn(32)
    plain.learn(32)
    assert "Schedules" not in capsys.readouterr().err


def test_the_divergence_ends_an_update_before_the_minibatch_is_applied() -> None:
    free = learnt(ppo("CartPole-v1", learning_rate=1e-2, n_epochs=20), 128)
    held = learnt(ppo("CartPole-v1", learning_rate=1e-2, n_epochs=20, target_kl=0.005), 128)
    full = 20 * 2  # epochs times minibatches
    assert [event.metrics["train/minibatches"] for event in of_kind(free, MetricsLogged)] == [full] * 4
    counts = [event.metrics["train/minibatches"] for event in of_kind(held, MetricsLogged)]
    assert all(1 <= count < full for count in counts)
    assert max(event.metrics["train/approx_kl"] for event in of_kind(held, MetricsLogged)) <= 1.5 * 0.005
    assert max(event.metrics["train/approx_kl"] for event in of_kind(free, MetricsLogged)) > 1.5 * 0.005


def test_the_smallest_target_lets_only_the_first_minibatch_through() -> None:
    events = learnt(ppo("CartPole-v1", learning_rate=1e-2, target_kl=1e-9, batch_size=32), 64)
    # Of the one minibatch an epoch the first has ratio 1; the second shows what it did, and ends the update.
    assert [event.metrics["train/minibatches"] for event in of_kind(events, MetricsLogged)] == [1.0, 1.0]


@pytest.mark.parametrize("log_interval", [1, 3])
def test_rows_are_averages_since_the_last_one(log_interval: int) -> None:
    rows = of_kind(learnt(ppo(log_interval=log_interval), 7 * 32), MetricsLogged)
    expected = [1, 2, 3, 4, 5, 6, 7] if log_interval == 1 else [3, 6, 7]
    assert [row.updates for row in rows] == expected
    assert [row.metrics["train/n_updates"] for row in rows] == expected


@pytest.mark.parametrize("algo", [srl.PPO, srl.A2C])
def test_the_metrics_have_the_names_that_people_expect(algo: Any) -> None:
    agent = algo("CartPole-v1", **SMALL, log_interval=1)
    row = of_kind(learnt(agent, 320), MetricsLogged)[-1]
    common = {
        "rollout/ep_rew_mean", "rollout/ep_len_mean", "time/fps", "time/time_elapsed", "train/n_updates",
        "train/learning_rate", "train/loss", "train/value_loss", "train/entropy_loss", "train/explained_variance",
        "train/grad_norm",
    }  # fmt: skip
    own = {"train/approx_kl", "train/clip_fraction", "train/clip_range", "train/policy_gradient_loss"}
    assert common | (own if algo is srl.PPO else {"train/policy_loss"}) <= row.metrics.keys()
    assert all(np.isfinite(value) for value in row.metrics.values())
    assert -np.log(2) - 1e-6 <= row.metrics["train/entropy_loss"] < 0


def test_evaluation_is_due_in_environment_steps() -> None:
    agent = ppo(Fast, num_envs=8, eval_freq=100, eval_episodes=1)
    events = learnt(agent, 1000)
    # A vector step is 8 steps, so each comes at the first multiple of 8 that reaches the hundred.
    assert [event.step for event in of_kind(events, EvaluationEnded)] == [
        104,
        200,
        304,
        400,
        504,
        600,
        704,
        800,
        904,
        1000,
    ]


def test_nothing_is_evaluated_or_written_unless_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    events = learnt(ppo(), 128)
    assert not of_kind(events, EvaluationEnded)
    assert not of_kind(events, CheckpointSaved)
    assert list(tmp_path.iterdir()) == []


def test_eval_freq_zero_is_never(tmp_path: Path) -> None:
    events = learnt(ppo(eval_freq=0, checkpoint_freq=0), 64, run_dir=tmp_path / "run")
    assert not of_kind(events, EvaluationEnded)
    assert [event.kind for event in of_kind(events, CheckpointSaved)] == ["final"]


@pytest.mark.parametrize("vec", ["sync", "async"])
def test_a_failing_environment_ends_the_run_as_failed(vec: str, tmp_path: Path) -> None:
    agent = ppo(partial(Failing, "raise", 37), vec=vec, eval_freq=0)
    events: list[Event] = []
    with pytest.raises(srl.RunFailedError, match="LookupError in step 37 of its episode: the motor fell off") as caught:
        agent.learn(1000, run_dir=tmp_path / "run", callback=events.append)
    assert "Environment 0 (" in str(caught.value)
    assert agent.num_timesteps == 2 * 36
    assert of_kind(events, RunEnded)[0].status == "failed"
    manifest = json.loads((tmp_path / "run" / "manifest.json").read_text())
    assert (manifest["status"], manifest["timesteps"]) == ("failed", 72)
    assert "the motor fell off" in manifest["message"]
    agent.close()


@pytest.mark.parametrize("how", ["nan-obs", "inf-obs", "nan-reward"])
def test_numbers_that_are_not_finite_end_the_run_before_anything_is_learnt_from_them(how: str) -> None:
    agent = ppo(partial(Failing, how, 37), normalize_obs=True)
    hashes: list[str] = []
    with pytest.raises(srl.RunFailedError, match="in step 37 of its episode"):
        agent.learn(
            1000, callback=lambda event: hashes.append(weights(agent)) if isinstance(event, MetricsLogged) else None
        )
    assert len(hashes) == 2  # updates at steps 16 and 32
    assert weights(agent) == hashes[-1]
    assert all(bool(tensor.isfinite().all()) for tensor in agent.policy.state_dict().values())
    agent.close()


def weights(agent: Agent) -> str:
    """The network's parameters, without the normaliser, which moves on with every step."""
    return str([tensor.sum().item() for tensor in agent.policy.net.state_dict().values()])


@pytest.mark.parametrize(
    ("options", "learn"),
    [({}, {"eval_env": "NoSuchEnv-v0"}), ({"capture_video": True}, {}), ({}, {"schedule_steps": 1})],
)
def test_bad_input_makes_no_run_folder(options: dict[str, Any], learn: dict[str, Any], tmp_path: Path) -> None:
    env: Any = Fast() if options else Fast
    with pytest.raises(srl.UserError):
        srl.PPO(env, **{**SMALL, "num_envs": 1, "batch_size": 16, **options}).learn(
            64, run_dir=tmp_path / "run", **learn
        )
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("total", ["100", "many", float("nan"), None])
def test_a_total_that_is_no_number_is_bad_input(total: Any) -> None:
    with pytest.raises(srl.UserError, match="total_timesteps"):
        ppo().learn(total)


def test_a_new_run_folder_keeps_a_best_agent_of_its_own(tmp_path: Path) -> None:
    agent = ppo(eval_episodes=1)
    for name in ("first", "second"):
        agent.learn(64, run_dir=tmp_path / name)
        assert (tmp_path / name / "checkpoints" / "best").is_dir()
    agent.close()


def test_the_run_folder_of_a_call_tells_the_steps_of_that_call(tmp_path: Path) -> None:
    agent = ppo()
    agent.learn(64)
    agent.learn(32, schedule_steps=200, run_dir=tmp_path / "run")
    agent.close()
    for name in ("config.json", "manifest.json"):
        assert json.loads((tmp_path / "run" / name).read_text())["total_timesteps"] == 200


def test_a_false_of_numpy_ends_the_call_too() -> None:
    agent = ppo()
    agent.learn(100, callback=lambda event: np.bool_(not isinstance(event, RunStarted)))
    assert agent.num_timesteps == 0


@pytest.mark.parametrize("callback", [5, [5], "print", [print, None], object()])
def test_callbacks_that_cannot_be_called_are_refused(callback: Any) -> None:
    with pytest.raises(srl.UserError, match=r"callback holds .*, which is no function"):
        ppo().learn(32, callback=callback)


def test_videos_without_a_run_folder_are_refused() -> None:
    agent = ppo("CartPole-v1", capture_video=True)
    with pytest.raises(srl.UserError, match="capture_video has no effect without a run folder"):
        agent.learn(32)
    assert agent.num_timesteps == 0


def test_stretched_schedules_are_said_once_an_agent(capsys: pytest.CaptureFixture[str]) -> None:
    agent = ppo(learning_rate=srl.LinearSchedule(1e-3, 0.0))
    for _ in range(4):
        agent.learn(32)
    assert capsys.readouterr().err.count("Schedules now run over") == 1


class TurnsGradientsOff(ConstantReward):
    """What a model-based environment does that forgets to restore torch."""

    def step(self, action: Any) -> Any:
        torch.set_grad_enabled(False)
        return super().step(action)


def test_an_environment_may_turn_gradients_off() -> None:
    try:
        plain, other = ppo(), ppo(TurnsGradientsOff)
        plain.learn(96)
        other.learn(96)
    finally:
        torch.set_grad_enabled(True)
    assert other.loop.counters.updates == 3
    assert other.policy.sha256() == plain.policy.sha256()
