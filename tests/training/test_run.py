"""A run folder: what is in it, in which form, and how it is opened again."""

import hashlib
import json
import signal
import sys
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.envs.registration import registry
from tensorboardX.proto.event_pb2 import Event as TensorBoardEvent

import steadyrl as srl
from steadyrl.training import learning
from steadyrl.training.finding import find_checkpoint
from steadyrl.training.plan import prepare
from support.envs import ConstantReward
from support.faulty_envs import Failing, OldStep
from support.training_envs import Fast


class WrongShape(ConstantReward):
    """Its observations are not those of its space."""

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        return np.zeros(77, dtype=np.float32), super().reset(seed=seed)[1]


MOVER = """
import os

import gymnasium as gym
import numpy as np


class Mover(gym.Env):
    def __init__(self, place):
        self.observation_space = gym.spaces.Box(-1.0, 1.0, (2,), np.float32)
        self.action_space = gym.spaces.Discrete(2)
        os.chdir(place)

    def reset(self, *, seed=None, options=None):
        return np.zeros(2, np.float32), {}

    def step(self, action):
        return np.zeros(2, np.float32), 1.0, True, False, {}
"""

OPTIONS: dict[str, Any] = {
    "preset": "none", "n_steps": 16, "batch_size": 16, "n_epochs": 2, "num_envs": 2, "eval_episodes": 2,
    "eval_freq": 64, "checkpoint_freq": 96, "net_arch": (16,), "seed": 3,
}  # fmt: skip


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> srl.Run:
    path = tmp_path_factory.mktemp("runs") / "cartpole"
    return srl.train("ppo", "CartPole-v1", total_timesteps=300, run_dir=str(path), **OPTIONS)


def strict_rows(path: Path) -> list[dict[str, Any]]:
    def refuse(name: str) -> Any:
        raise ValueError(f"{name} is not JSON")

    return [json.loads(line, parse_constant=refuse) for line in path.read_text().splitlines()]


def test_the_folder_holds_what_it_promises(run: srl.Run) -> None:
    names = {path.name for path in run.path.iterdir()}
    assert {"config.json", "manifest.json", "metrics.jsonl", "episodes.jsonl", "evals.jsonl", "checkpoints"} <= names
    assert any(name.startswith("events.out.tfevents") for name in names)
    assert {path.name for path in (run.path / "checkpoints").iterdir()} == {
        "step_96",
        "step_192",
        "step_288",
        "step_300",
        "best",
        "final",
    }
    assert not list(run.path.rglob(".*"))  # nothing temporary is left


def test_the_configuration_is_complete_and_tells_where_values_come_from(run: srl.Run) -> None:
    config = json.loads((run.path / "config.json").read_text())
    assert config == run.config
    assert (config["algo"], config["total_timesteps"], config["preset"]) == ("ppo", 300, None)
    hyper, sources = config["hyperparameters"], config["sources"]
    assert hyper.keys() | {"total_timesteps"} == sources.keys()
    assert (hyper["n_steps"], hyper["clip_range"], hyper["net_arch"]) == (16, 0.2, [16])
    assert (sources["n_steps"], sources["clip_range"]) == ("explicit", "default")
    settings = config["settings"]
    assert (settings["env"], settings["seed"], settings["vec"]) == ("CartPole-v1", 3, "sync")


def test_the_manifest_tells_where_the_run_comes_from_and_how_it_ended(run: srl.Run) -> None:
    manifest = json.loads((run.path / "manifest.json").read_text())
    assert manifest == run.manifest
    assert manifest["status"] == run.status == "finished"
    assert manifest["timesteps"] == 300
    assert manifest["seeds"]["seed"] == 3
    assert {"torch", "numpy", "gymnasium"} <= manifest["packages"].keys()
    assert {"started", "ended", "git", "command_line", "platform", "cpu", "threads", "python"} <= manifest.keys()
    assert manifest["started"] <= manifest["ended"]
    assert manifest["weights_sha256"] == run.agent.policy.sha256()


def test_the_summary_is_what_programs_rely_on(run: srl.Run) -> None:
    summary = run.summary()
    assert {
        "run", "algo", "env", "seed", "total_timesteps", "status", "fps", "wall_s", "weights_sha256", "eval"
    } <= summary.keys()  # fmt: skip
    assert summary["eval"].keys() == {"mean", "std", "ci95", "episodes"}
    assert summary["eval"]["episodes"] == 2
    assert summary["total_timesteps"] == 300
    assert summary["fps"] == pytest.approx(300 / summary["wall_s"], rel=0.5)


def test_episodes_are_one_row_each(run: srl.Run) -> None:
    rows = strict_rows(run.path / "episodes.jsonl")
    assert rows == run.episodes()
    assert all(row.keys() >= {"step", "env_index", "return", "length", "terminated", "truncated"} for row in rows)
    assert all(row["return"] == row["length"] for row in rows)  # CartPole pays 1 a step
    for index in (0, 1):  # the lengths of an environment add up to the step of its last episode
        own = [row for row in rows if row["env_index"] == index]
        assert sum(row["length"] for row in own) * 2 == own[-1]["step"]


def test_metrics_have_their_step_axis(run: srl.Run) -> None:
    rows = strict_rows(run.path / "metrics.jsonl")
    assert rows == run.metrics()
    assert [row["step"] for row in rows] == [32 * i for i in range(1, 10)] + [300]
    assert [row["updates"] for row in rows] == list(range(1, 11))
    assert all(row["time_s"] >= 0 and row["train/learning_rate"] == 3e-4 for row in rows)


def test_evaluations_are_kept_with_every_return(run: srl.Run) -> None:
    rows = strict_rows(run.path / "evals.jsonl")
    assert rows == run.evals()
    assert [row["step"] for row in rows] == [64, 128, 192, 256, 300]
    for row in rows:
        assert len(row["returns"]) == len(row["lengths"]) == 2
        assert row["mean"] == pytest.approx(np.mean(row["returns"]))
        assert row["ci95"][0] <= row["mean"] <= row["ci95"][1]
    means = [row["mean"] for row in rows]
    assert [row["best"] for row in rows] == [i == 0 or means[i] > max(means[:i]) for i in range(5)]


def test_the_last_evaluation_is_that_of_the_final_agent(run: srl.Run) -> None:
    again = srl.evaluate(run.load_agent(), episodes=2)
    assert again.returns.tolist() == run.evals()[-1]["returns"]
    assert run.summary()["eval"]["mean"] == again.mean


def test_the_best_agent_is_the_one_that_scored_best(run: srl.Run) -> None:
    best = [row for row in run.evals() if row["best"]]
    folders = {path.name for path in (run.path / "checkpoints" / "best").iterdir()}
    assert folders == {f"step_{row['step']}" for row in best}
    agent = run.load_agent("best")
    assert agent.num_timesteps == best[-1]["step"]
    assert srl.evaluate(agent, episodes=2).returns.tolist() == best[-1]["returns"]


def test_checkpoints_are_found_by_step_and_whole(run: srl.Run) -> None:
    assert run.load_agent("96").num_timesteps == run.load_agent(96).num_timesteps == 96
    assert run.load_agent("step_192").num_timesteps == 192
    with pytest.raises(srl.UserError, match="no whole checkpoint '100'") as caught:
        run.load_agent("100")
    assert "final, best, 96, 192, 288" in caught.value.remedy
    path = find_checkpoint(run.path / "checkpoints", "final")
    index = json.loads((path.parent / "checkpoint.json").read_text())
    assert index["step"] == 300
    assert index["files"]["policy.srl"] == {
        "size": path.stat().st_size, "sha256": hashlib.sha256(path.read_bytes()).hexdigest()
    }  # fmt: skip


def test_a_damaged_best_checkpoint_gives_way_to_the_one_before(tmp_path: Path) -> None:
    run = srl.train("ppo", Fast, total_timesteps=96, run_dir=tmp_path / "run", **OPTIONS)
    best = run.path / "checkpoints" / "best"
    (first,) = best.iterdir()
    newer = best / "step_90"
    newer.mkdir()
    for file in first.iterdir():
        (newer / file.name).write_bytes(file.read_bytes())
    assert find_checkpoint(run.path / "checkpoints", "best").parent == newer
    data = bytearray((newer / "policy.srl").read_bytes())
    data[len(data) // 2] ^= 1
    (newer / "policy.srl").write_bytes(bytes(data))
    assert find_checkpoint(run.path / "checkpoints", "best").parent == first


def test_tensorboard_has_the_same_numbers(run: srl.Run) -> None:
    (path,) = run.path.glob("events.out.tfevents*")
    scalars: dict[tuple[str, int], float] = {}
    data, at = path.read_bytes(), 0
    while at < len(data):  # length (8 bytes), its checksum (4), the event, its checksum (4)
        size = int.from_bytes(data[at : at + 8], "little")
        event = TensorBoardEvent.FromString(data[at + 12 : at + 12 + size])
        scalars |= {(value.tag, event.step): value.simple_value for value in event.summary.value}
        at += size + 16
    for row in run.metrics():
        for tag, number in row.items():
            if "/" in tag:
                assert scalars[tag, row["step"]] == pytest.approx(number, rel=1e-6)
    for row in run.evals():
        assert scalars["eval/mean_reward", row["step"]] == pytest.approx(row["mean"])


def test_a_number_that_json_does_not_have_is_null_and_named(tmp_path: Path) -> None:
    # A constant return has no variance to explain.
    run = srl.train(
        "a2c", ConstantReward, total_timesteps=20, run_dir=tmp_path / "run", preset="none", gamma=0.0, n_steps=5
    )
    rows = strict_rows(run.path / "metrics.jsonl")
    assert rows[-1]["train/explained_variance"] is None
    assert rows[-1]["nonfinite"] == ["train/explained_variance"]


def test_the_folder_has_a_name_of_its_own_and_never_collides(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    options = {**OPTIONS, "eval_freq": 0, "checkpoint_freq": 0, "name": "a/b"}
    paths = [srl.train("ppo", "CartPole-v1", total_timesteps=1, **options).path for _ in range(2)]
    assert paths[0] != paths[1]
    for path in paths:
        assert path.parent == tmp_path / "runs/CartPole-v1/ppo"
        assert "-seed3-a-b" in path.name


def test_a_folder_that_exists_is_refused_and_left_alone(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "mine").write_text("precious")
    with pytest.raises(srl.UserError, match="exists already"):
        srl.train("ppo", Fast, total_timesteps=1, run_dir=tmp_path / "run", **OPTIONS)
    assert [path.name for path in (tmp_path / "run").iterdir()] == ["mine"]


def test_a_run_is_opened_again(run: srl.Run, tmp_path: Path) -> None:
    again = srl.Run.open(run.path)
    assert again.metrics() == run.metrics()
    assert again.agent.policy.sha256() == run.agent.policy.sha256()
    assert again.summary() | {"fps": 0} == run.summary() | {"fps": 0}
    with pytest.raises(srl.UserError, match="does not exist"):
        srl.Run.open(tmp_path / "nowhere")
    with pytest.raises(srl.UserError, match="is not a run folder"):
        srl.Run.open(tmp_path)


def test_a_run_of_a_function_is_opened_with_its_environment(tmp_path: Path) -> None:
    run = srl.train("ppo", Fast, total_timesteps=96, run_dir=tmp_path / "run", **OPTIONS)
    agent = srl.Run.open(run.path).load_agent(env=Fast)
    assert agent.policy.sha256() == run.manifest["weights_sha256"]
    agent.learn(10)
    assert agent.num_timesteps == 106


def test_a_run_of_a_modules_environment_is_evaluated_by_another_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "locks_and_bolts.py").write_text(
        "import gymnasium as gym\n"
        "gym.register('Locks-v0', 'gymnasium.envs.classic_control:CartPoleEnv', max_episode_steps=7)\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    run = srl.train("ppo", "locks_and_bolts:Locks-v0", total_timesteps=96, run_dir=tmp_path / "run", **OPTIONS)
    assert (run.summary()["env"], run.config["settings"]["env"]) == ("locks_and_bolts:Locks-v0",) * 2
    del registry["Locks-v0"], sys.modules["locks_and_bolts"]
    result = srl.evaluate(srl.Run.open(run.path).load_agent(), 3)
    assert result.lengths.tolist() == [7, 7, 7]
    del registry["Locks-v0"]


@pytest.mark.parametrize("fault", ["same twice", "device", "old step", "wrong shape"])
def test_bad_input_that_shows_before_the_first_step_leaves_no_folder(fault: str, tmp_path: Path) -> None:
    the_one = Fast()
    faults: dict[str, tuple[Any, dict[str, Any]]] = {
        "same twice": (lambda: the_one, {}),
        "device": (Fast, {"device": "cuda:99"}),
        "old step": (OldStep, {}),
        "wrong shape": (WrongShape, {}),
    }
    env, more = faults[fault]
    with pytest.raises(srl.UserError):
        srl.train("ppo", env, total_timesteps=96, run_dir=tmp_path / "a" / "run", **{**OPTIONS, **more})
    assert list(tmp_path.iterdir()) == []


def test_an_environment_that_changes_the_working_folder_moves_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "other").mkdir()
    (tmp_path / "mover.py").write_text(MOVER)
    monkeypatch.chdir(tmp_path)
    options = {**OPTIONS, "env_kwargs": {"place": str(tmp_path / "other")}}
    run = srl.train("ppo", "mover.py:Mover", total_timesteps=32, **options)
    assert Path.cwd() == tmp_path / "other"
    assert list(Path.cwd().iterdir()) == []
    assert run.path.is_relative_to(tmp_path / "runs")
    assert run.summary()["env"] == "mover.py:Mover"
    assert srl.Run.open(run.path).load_agent().num_timesteps == 32  # finds the file from elsewhere


def test_the_traceback_of_a_failing_environment_is_in_the_run_folder(tmp_path: Path) -> None:
    options = {**OPTIONS, "env_kwargs": {"how": "raise", "at": 37}, "eval_freq": 0}
    with pytest.raises(srl.RunFailedError) as caught:
        srl.train("ppo", Failing, total_timesteps=1000, run_dir=tmp_path / "run", **options)
    text = (tmp_path / "run" / "error.txt").read_text()
    assert "the motor fell off" in text
    assert "in _now" in text
    assert str(tmp_path / "run" / "error.txt") in caught.value.remedy
    manifest = srl.Run.open(tmp_path / "run").manifest
    assert (manifest["status"], manifest["error_file"], manifest["timesteps"]) == ("failed", "error.txt", 72)


def test_a_killed_run_is_opened_with_what_is_known(tmp_path: Path) -> None:
    plan = prepare("ppo", "CartPole-v1", {"run_dir": str(tmp_path / "run")}, total_timesteps=10)
    run = srl.Run.open(plan.folder.path)
    summary = run.summary()
    assert (summary["status"], summary["algo"], summary["env"], summary["seed"]) == ("running", "ppo", "CartPole-v1", 0)
    unknown = ("total_timesteps", "fps", "wall_s", "weights_sha256", "eval", "signal")
    assert [summary[name] for name in unknown] == [None] * 6
    assert (run.metrics(), run.episodes(), run.evals()) == ([], [], [])


def test_a_signal_while_environments_are_made_is_in_the_manifest(tmp_path: Path) -> None:
    made = 0

    def make() -> Fast:
        nonlocal made
        made += 1
        if made == 2:  # the first one shows the spaces, before there is a folder
            assert (tmp_path / "run").is_dir()
            signal.raise_signal(signal.SIGTERM)
        return Fast()

    before = signal.getsignal(signal.SIGTERM)
    with pytest.raises(SystemExit) as caught:
        srl.train("ppo", make, total_timesteps=96, run_dir=tmp_path / "run", **OPTIONS)
    assert caught.value.code == 143
    assert signal.getsignal(signal.SIGTERM) is before
    manifest = srl.Run.open(tmp_path / "run").manifest
    assert (manifest["status"], manifest["signal"], manifest["timesteps"]) == ("preempted", "SIGTERM", 0)


def test_a_signal_after_the_loop_waits_until_the_folder_is_complete(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def write_curve(path: Path) -> None:
        signal.raise_signal(signal.SIGINT)
        (path / "curve.svg").write_text("whole")

    monkeypatch.setattr(learning, "write_curve", write_curve)
    with pytest.raises(KeyboardInterrupt):
        srl.train("ppo", Fast, total_timesteps=96, run_dir=tmp_path / "run", **OPTIONS)
    assert (tmp_path / "run" / "curve.svg").read_text() == "whole"
    run = srl.Run.open(tmp_path / "run")
    assert (run.status, run.manifest["signal"], run.manifest["timesteps"]) == ("interrupted", "SIGINT", 96)
    assert run.manifest["weights_sha256"] == run.load_agent(env=Fast).policy.sha256()


def test_an_agent_does_not_take_a_run_folder() -> None:
    with pytest.raises(srl.UserError, match=r"learn\(total_timesteps, run_dir=...\)"):
        srl.PPO("CartPole-v1", run_dir="runs/x")


def test_a_run_is_evaluated_where_one_says(tmp_path: Path) -> None:
    options: dict[str, Any] = {"preset": "none", "n_steps": 8, "batch_size": 8, "eval_freq": 16, "eval_episodes": 2}
    vector = gym.vector.SyncVectorEnv([lambda: gym.make("CartPole-v1")] * 2)
    short = gym.make("CartPole-v1", max_episode_steps=5)
    run = srl.train("ppo", vector, total_timesteps=32, eval_env=short, run_dir=tmp_path / "run", **options)
    assert [row["lengths"] for row in run.evals()] == [[5, 5], [5, 5]]
