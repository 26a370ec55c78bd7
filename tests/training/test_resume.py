"""A run that is stopped anywhere and resumed is the run that was not stopped, bit for bit."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import steadyrl as srl
from steadyrl.envs.snapshots.values import flatten
from steadyrl.errors import UserError
from steadyrl.training.checkpoint import INDEX, POLICY, steps_in
from steadyrl.training.comparing import compared, first_difference
from steadyrl.training.events import Event, Progress, RunEnded
from steadyrl.training.run import Run
from steadyrl.training.saving import ARRAYS, STATE

ON = {"n_steps": 32, "num_envs": 4}
PPO = {**ON, "batch_size": 64, "n_epochs": 2}
OFF = {"learning_starts": 64, "batch_size": 16, "buffer_size": 300, "net_arch": (16,), "num_envs": 2}
MASKED = f"{Path(__file__).parents[1] / 'support' / 'masked.py'}:Masked"
CASES: dict[str, tuple[str, str, int, dict[str, Any]]] = {
    "ppo": ("ppo", "CartPole-v1", 1000, PPO),
    "ppo, normalised": (
        "ppo", "Pendulum-v1", 1000, {**PPO, "normalize_obs": True, "normalize_reward": True}
    ),
    "ppo, gSDE": ("ppo", "Pendulum-v1", 1000, {**PPO, "use_sde": True, "sde_sample_freq": 7}),
    "ppo, async": ("ppo", "CartPole-v1", 1000, {**PPO, "vec": "async", "num_envs": 2}),
    "ppo, native vector": ("ppo", "CartPole-v1", 1000, {**PPO, "vec": "native"}),
    "ppo, PyTorch": ("ppo", "CartPole-v1", 1000, {**PPO, "kernels": "torch"}),
    "a2c": ("a2c", "CartPole-v1", 1000, {"n_steps": 5, "num_envs": 4}),
    "dqn": ("dqn", "CartPole-v1", 800, OFF),
    "dqn, prioritised, n-step": ("dqn", "CartPole-v1", 800, {**OFF, "prioritized": True, "n_step": 3}),
    "sac": ("sac", "Pendulum-v1", 400, OFF),
    "sac, normalised, n-step": ("sac", "Pendulum-v1", 400, {**OFF, "normalize_obs": True, "n_step": 3}),
    "sac, discrete": ("sac", "CartPole-v1", 400, OFF),
    "td3": ("td3", "Pendulum-v1", 400, {**OFF, "action_noise_type": "ornstein-uhlenbeck", "action_noise_std": 0.1}),
    "ddpg": ("ddpg", "Pendulum-v1", 400, OFF),
    "ppo, masked": ("ppo", MASKED, 600, PPO),
    "ppo, masked, async": ("ppo", MASKED, 600, {**PPO, "vec": "async", "num_envs": 2}),
    "dqn, masked": ("dqn", MASKED, 500, {**OFF, "n_step": 3}),
    "ppo, LSTM": ("ppo", "CartPole-v1", 600, {**PPO, "recurrent": "lstm", "recurrent_size": 8}),
    "ppo, masked, GRU": (
        "ppo", MASKED, 600, {**PPO, "recurrent": "gru", "recurrent_size": 8, "recurrent_shared": True}
    ),
    "a2c, LSTM": ("a2c", "CartPole-v1", 600, {"n_steps": 5, "num_envs": 4, "recurrent": "lstm", "recurrent_size": 8}),
    "ppo, Box2D": ("ppo", "LunarLander-v3", 600, PPO),
}  # fmt: skip


def stop_at(step: int) -> Callable[[Event], bool | None]:
    """Ends the run at the first sign of life after this step."""
    return lambda event: False if getattr(event, "step", 0) >= step and not isinstance(event, Progress) else None


def train(case: str, path: Path, **options: Any) -> Run:
    algo, env, total, given = CASES[case]
    schedule = {"seed": 3, "eval_freq": total // 4, "eval_episodes": 2, "checkpoint_freq": total // 5, "preset": "none"}
    return srl.train(algo, env, total_timesteps=total, run_dir=path, **{**schedule, **given, **options})


@pytest.mark.parametrize("case", CASES)
def test_stopped_twice_and_resumed_is_the_same_run(case: str, tmp_path: Path) -> None:
    total = CASES[case][2]
    whole = train(case, tmp_path / "whole")
    assert whole.status == "finished"
    stopped = train(case, tmp_path / "stopped", callback=stop_at(total // 3))
    first = max(steps_in(stopped.path / "checkpoints"))
    assert stopped.status == "stopped"
    assert total // 3 <= first < total
    again = srl.resume(stopped.path, callback=stop_at(2 * total // 3))
    assert first < max(steps_in(again.path / "checkpoints")) < total
    done = srl.resume(stopped.path)
    assert done.status == "finished"
    difference = first_difference(whole.path, done.path)
    assert difference is None, str(difference)
    counts = compared(whole.path, done.path)
    assert counts["checkpoints"] >= 3
    assert counts["evals.jsonl"] >= 3
    assert counts["metrics.jsonl"] >= 1
    assert whole.manifest["weights_sha256"] == done.manifest["weights_sha256"]
    assert done.manifest["lineage"][0]["from_step"] == first


def test_a_kill_leaves_rows_that_resuming_takes_back(tmp_path: Path) -> None:
    """As if killed well after a checkpoint: later rows and later agents are there, later checkpoints are not."""
    whole = train("dqn", tmp_path / "whole")
    killed = train("dqn", tmp_path / "killed")
    for step, folder in steps_in(killed.path / "checkpoints").items():
        if step > 320:
            folder.rename(tmp_path / folder.name)
    before = (killed.path / "episodes.jsonl").stat().st_size
    done = srl.resume(killed.path)
    assert done.manifest["lineage"][0]["from_step"] == 320
    assert (killed.path / "episodes.jsonl").stat().st_size == before
    assert first_difference(whole.path, done.path) is None
    assert list((killed.path / "checkpoints" / "final").glob("*.superseded-1"))


@pytest.mark.parametrize("name", [POLICY, INDEX, STATE, ARRAYS, "chunk"])
@pytest.mark.parametrize("damage", ["flip", "cut", "gone"])
def test_a_damaged_checkpoint_is_set_aside_and_the_one_before_is_taken(name: str, damage: str, tmp_path: Path) -> None:
    run = train("dqn", tmp_path / "run", callback=stop_at(500))
    newest, older = sorted(steps_in(run.path / "checkpoints"), reverse=True)[:2]
    folder = run.path / "checkpoints" / f"step_{newest}"
    path = folder / name
    if name == "chunk":
        chunks = json.loads((folder / INDEX).read_text())["about"]["replay"]["obs/"]["chunks"]
        path = run.path / "checkpoints" / "chunks" / chunks[-1]
    data = path.read_bytes()
    if damage == "gone":
        path.unlink()
    else:
        path.write_bytes(data[: len(data) // 2] if damage == "cut" else bytes([data[0] ^ 1]) + data[1:])
    said: list[str] = []
    done = srl.resume(run.path, say=lambda notice: said.append(notice.message))
    assert done.manifest["lineage"][0]["from_step"] == older
    assert any(f"step_{newest}" in text and path.name in text for text in said)
    assert (run.path / "checkpoints" / f"step_{newest}.damaged-1").is_dir()


def test_a_finished_run_goes_on_only_over_more_steps(tmp_path: Path) -> None:
    run = train("ppo", tmp_path / "run")
    with pytest.raises(UserError, match="is finished: it stands at its last step, 1000"):
        srl.resume(run.path)
    said: list[str] = []
    longer = srl.resume(run.path, 1200, say=lambda notice: said.append(notice.message))
    assert longer.summary()["total_timesteps"] == 1200
    assert longer.config["total_timesteps"] == 1200
    assert "The total is 1200 steps and was 1000: schedules run over 1200." in said
    steps = [row["step"] for row in longer.metrics()]
    assert steps == sorted(set(steps))


def test_a_run_that_is_being_written_is_left_alone(tmp_path: Path) -> None:
    found: list[str] = []

    def intrude(event: Event) -> bool | None:
        if getattr(event, "step", 0) < 300:
            return None
        with pytest.raises(UserError, match="Another process is writing") as caught:
            srl.resume(tmp_path / "run")
        found.append(caught.value.code)
        return False

    train("ppo", tmp_path / "run", callback=intrude)
    assert found[0] == "run-in-use"


def test_a_policy_alone_cannot_be_resumed(tmp_path: Path) -> None:
    run = train("ppo", tmp_path / "run", callback=stop_at(500), save_state=False)
    with pytest.raises(UserError, match="only saved policies"):
        srl.resume(run.path)


def test_the_environment_is_where_it_was(tmp_path: Path) -> None:
    """Its state is in the checkpoint, and is the one that the observations to act on come from."""
    run = train("ppo", tmp_path / "run", callback=stop_at(500))
    folder = run.path / "checkpoints" / f"step_{max(steps_in(run.path / 'checkpoints'))}"
    packed, arrays = json.loads((folder / STATE).read_text()), (folder / ARRAYS).read_bytes()
    assert packed
    assert arrays
    assert flatten({"a": np.zeros(2)})[1]
    assert json.loads((folder / INDEX).read_text())["about"]["environments"]["kind"] == "native"


def test_an_environment_of_a_relative_path_is_found_and_known_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From another working folder too: `config.json` has the absolute path, the first run the one that was typed."""
    (tmp_path / "walk.py").write_text(
        "import gymnasium as gym\n\n\nclass Walk(gym.Wrapper):\n"
        "    def __init__(self):\n        super().__init__(gym.make('CartPole-v1'))\n"
    )
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path)
    options = {**CASES["ppo"][3], "seed": 3, "preset": "none", "eval_freq": 0, "checkpoint_freq": 200}
    whole = srl.train("ppo", "walk.py:Walk", total_timesteps=600, run_dir="whole", **options)
    stopped = srl.train("ppo", "walk.py:Walk", total_timesteps=600, run_dir="stopped", callback=stop_at(300), **options)
    monkeypatch.chdir(tmp_path / "elsewhere")
    said: list[str] = []
    done = srl.resume(stopped.path, say=lambda notice: said.append(notice.message))
    assert first_difference(whole.path, done.path) is None
    assert any(text.startswith("Going on from step 3") and text.endswith("of 600.") for text in said)
    assert done.summary()["fps"] == pytest.approx(600 / done.manifest["wall_s"], rel=0.2)


def test_what_is_shown_of_a_resumed_run_counts_from_where_it_goes_on(tmp_path: Path) -> None:
    stopped = train("ppo", tmp_path / "run", callback=stop_at(500))
    went_on_at = max(steps_in(stopped.path / "checkpoints"))
    manifest = json.loads((stopped.path / "manifest.json").read_text())
    events: list[Event] = []
    done = srl.resume(stopped.path, callback=events.append)
    shown = [event for event in events if isinstance(event, Progress)]
    assert {event.start_step for event in shown} == {went_on_at}
    ended = next(event for event in events if isinstance(event, RunEnded))
    assert shown[-1].elapsed_s <= ended.elapsed_s < done.manifest["wall_s"] - 0.5 * manifest["wall_s"]
