"""A run is taken up as its record tells: backend, kernels, compiled losses, schedules, and what cannot be told."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import gymnasium as gym
import pytest

import steadyrl as srl
from steadyrl.configs import DQNConfig, LinearSchedule, PPOConfig
from steadyrl.errors import RunFailedError, UserError
from steadyrl.nn.policy import Policy
from steadyrl.training.checkpoint import steps_in
from steadyrl.training.comparing import first_difference
from steadyrl.training.compiling import take_up
from steadyrl.training.events import Event
from steadyrl.training.going_on import edited
from steadyrl.training.reproducing import reproduce
from steadyrl.training.run_folder import RunFolder
from steadyrl.training.sources import CODE, PATCH, changed_code, write_sources
from steadyrl.training.taking_up import changed_settings, setup_of, stretched
from support.policies import make_policy

OPTIONS: dict[str, Any] = {
    "preset": "none", "n_steps": 16, "batch_size": 16, "num_envs": 2, "checkpoint_freq": 50, "eval_freq": 0, "seed": 1
}  # fmt: skip


def stop(event: Event) -> bool | None:
    return False if getattr(event, "kind", "") == "step" and getattr(event, "step", 0) >= 100 else None


def train(path: Path, total: int = 200, **more: Any) -> srl.Run:
    return srl.train("ppo", "CartPole-v1", total_timesteps=total, run_dir=path, **(OPTIONS | more))


def edit(run: Path, name: str, **changes: Any) -> None:
    path = run / name
    document = json.loads(path.read_text())
    for key, value in changes.items():
        place, *rest = key.split("__")
        if rest:
            document[place][rest[0]] = value
        else:
            document[place] = value
    path.write_text(json.dumps(document))


def test_the_settled_backend_is_taken_again(tmp_path: Path) -> None:
    run = train(tmp_path / "run", callback=stop, vec="auto")
    assert run.config["settings"]["vec"] in ("sync", "async")
    assert setup_of(RunFolder.open(run.path)).settings.vec == run.config["settings"]["vec"]
    edit(run.path, "config.json", settings__vec="async", settings__num_workers=2)
    settings = setup_of(RunFolder.open(run.path)).settings
    assert (settings.vec, settings.num_workers) == ("async", 2)


def test_a_run_without_kernels_goes_on_without_them(tmp_path: Path) -> None:
    run = train(tmp_path / "run", callback=stop)
    assert setup_of(RunFolder.open(run.path)).settings.kernels == "auto"
    edit(run.path, "manifest.json", native_kernels=None)
    assert setup_of(RunFolder.open(run.path)).settings.kernels == "torch"


def test_compiled_losses_stay_compiled_and_others_eager(monkeypatch: pytest.MonkeyPatch) -> None:
    config, policy = PPOConfig(), make_policy()
    assert isinstance(policy, Policy)
    assert take_up(None, config, policy) is None
    assert take_up({"used": "yes"}, config, policy) is None
    eager = take_up({"used": False, "why": "failed"}, config, policy)
    assert eager is not None
    assert (eager.used, policy.compiler.rows) == (False, 0)
    monkeypatch.setattr("steadyrl.training.compiling.missing_program", lambda device: "")
    compiled = take_up({"used": True, "from_step": 300}, config, policy)
    assert compiled is not None
    assert (compiled.used, compiled.since, policy.compiler.rows) == (True, 300, config.batch_size)
    monkeypatch.setattr("steadyrl.training.compiling.missing_program", lambda device: "the C++ compiler g++")
    with pytest.raises(UserError, match=r"needs the C\+\+ compiler g\+\+, which was not found"):
        take_up({"used": True}, config, policy)


def test_another_total_tells_what_schedules_give() -> None:
    ppo = PPOConfig(learning_rate=LinearSchedule(1.0, 0.0), clip_range=0.2)
    assert stretched(ppo, 500, 1000, 2000) == ["learning_rate at step 500 was 0.5 and is 0.75"]
    dqn = DQNConfig(exploration_fraction=0.5, exploration_initial_eps=1.0, exploration_final_eps=0.0)
    assert stretched(dqn, 250, 1000, 2000) == ["exploration_rate at step 250 was 0.5 and is 0.75"]


def test_a_longer_total_says_so(tmp_path: Path) -> None:
    run = train(tmp_path / "run", learning_rate=LinearSchedule(1e-3, 0.0))
    said: list[str] = []
    srl.resume(run.path, 400, say=lambda notice: said.append(notice.message))
    assert "Because of that, learning_rate at step 200 was 0 and is 0.0005." in said


def test_a_total_that_was_edited_by_hand_is_told_with_what_it_does_to_schedules(tmp_path: Path) -> None:
    run = train(tmp_path / "run", learning_rate=LinearSchedule(1e-3, 0.0), callback=stop)
    edit(run.path, "config.json", total_timesteps=150)
    said: list[str] = []
    done = srl.resume(run.path, say=lambda notice: said.append(notice.message))
    assert "Not as it was: total_timesteps is 150 in config.json, and the run was to take 200." in said
    assert "The total is 150 steps and was 200: schedules run over 150." in said
    assert "Because of that, learning_rate at step 100 was 0.0005 and is 0.0003333." in said
    assert (done.status, done.manifest["total_timesteps"]) == ("finished", 150)
    assert [text for text in changed_settings(RunFolder.open(run.path)) if "total_timesteps" in text] == []


@pytest.mark.parametrize(
    ("env", "words"),
    [
        (lambda: gym.make("CartPole-v1"), "was a function or class of the script"),
        (gym.make("CartPole-v1"), "was an object that the script made"),
        (gym.make_vec("CartPole-v1", 2), "was a vector of environments that the script made"),
    ],
)
def test_an_environment_that_no_file_holds_cannot_be_taken_up(env: Any, words: str, tmp_path: Path) -> None:
    options = {name: value for name, value in OPTIONS.items() if name != "num_envs"}
    srl.train("ppo", env, total_timesteps=100, run_dir=tmp_path / "run", **options)
    with pytest.raises(UserError, match=words) as caught:
        srl.resume(tmp_path / "run", 200)
    assert caught.value.code == "env-not-named"


def test_a_call_of_learn_with_a_run_folder_is_resumed_to_its_own_end(tmp_path: Path) -> None:
    options = {name: value for name, value in OPTIONS.items() if name != "preset"}
    for name, callback in (("whole", None), ("stopped", stop)):
        agent = srl.PPO("CartPole-v1", preset="none", **options)
        agent.learn(200, schedule_steps=1000, run_dir=tmp_path / name, callback=callback)
    done = srl.resume(tmp_path / "stopped")
    assert done.agent.num_timesteps == 200
    assert first_difference(tmp_path / "whole", done.path) is None


def test_a_run_that_cannot_be_taken_up_stays_as_it_was(tmp_path: Path) -> None:
    run = train(tmp_path / "run", callback=stop)
    edit(run.path, "manifest.json", status="running")  # as if it had been killed
    edit(run.path, "config.json", hyperparameters__net_arch=[8])
    before = {path: path.read_bytes() for path in run.path.rglob("*") if path.is_file()}
    with pytest.raises(UserError, match="step_100 cannot be taken up"):
        srl.resume(run.path)
    assert {path: path.read_bytes() for path in run.path.rglob("*") if path.is_file()} == before


def test_stopped_in_the_last_evaluation_only_that_is_left(tmp_path: Path) -> None:
    whole = train(tmp_path / "whole", eval_freq=1000, eval_episodes=3)
    calls = [0]

    def in_evaluation(event: Event) -> bool | None:
        calls[0] += getattr(event, "step", 0) == 200
        return False if getattr(event, "step", 0) == 200 else None

    run = train(tmp_path / "run", eval_freq=1000, eval_episodes=3, callback=in_evaluation)
    assert (run.status, max(steps_in(run.path / "checkpoints"))) == ("stopped", 200)
    done = srl.resume(run.path)
    assert done.status == "finished"
    assert done.manifest["eval"] == whole.manifest["eval"]
    assert first_difference(whole.path, done.path) is None


def test_a_run_keeps_its_code_and_what_differs_from_the_commit(tmp_path: Path) -> None:
    place = tmp_path / "project"
    place.mkdir()
    file = place / "env.py"
    file.write_text("a = 1\n")
    git = ["git", "-c", "user.name=x", "-c", "user.email=x@y"]
    for command in (["init", "-q"], ["add", "."], ["commit", "-qm", "first"]):
        subprocess.run([*git, *command], cwd=place, check=True)
    file.write_text("a = 2\n")
    run = tmp_path / "run"
    run.mkdir()
    env = f"{file}:Class"
    write_sources(run, env, str(place))
    assert b"+a = 2" in (run / PATCH).read_bytes()
    names = json.loads((run / CODE).read_text())["files"]
    assert str(file) in names
    assert "steadyrl/training/saving.py" in names
    assert changed_code(run, env) == []
    file.write_text("a = 3\n")
    assert changed_code(run, env) == [f"the code of {file} is another one"]


def test_reproduce_is_identical_and_names_what_is_not_as_it_was(tmp_path: Path) -> None:
    run = train(tmp_path / "run")
    said: list[str] = []
    again = reproduce(run.path, tmp_path / "again", lambda notice: said.append(notice.message))
    assert first_difference(run.path, again.path) is None
    assert edited(run.path) == []
    assert not [text for text in said if text.startswith("Not as it was")]
    edit(run.path, "manifest.json", packages=run.manifest["packages"] | {"torch": "1.0"})
    code = json.loads((run.path / CODE).read_text())
    code["files"]["steadyrl/algorithms/ppo.py"] = "0" * 64
    (run.path / CODE).write_text(json.dumps(code))
    edit(run.path, "config.json", hyperparameters__gamma=0.9)
    third = reproduce(run.path, tmp_path / "third", lambda notice: said.append(notice.message))
    assert any("packages torch was 1.0 and is" in text for text in said)
    assert any("the code of steadyrl/algorithms/ppo.py is another one" in text for text in said)
    assert edited(run.path) == ["gamma is 0.9 in config.json, and the saved agent was trained with 0.99"]
    difference = first_difference(run.path, third.path)
    assert difference is not None
    assert (difference.step, difference.where) == (32, "metrics.jsonl")


def test_a_full_disk_says_how_to_go_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*args: Any, **kwargs: Any) -> None:
        raise OSError(28, "No space left on device")

    def fill(event: Event) -> None:
        if getattr(event, "kind", "") == "step" and getattr(event, "step", 0) >= 100:
            monkeypatch.setattr("steadyrl.training.checkpoint.commit_folder", full)

    with pytest.raises(RunFailedError, match="No space left") as caught:
        train(tmp_path / "run", callback=fill)
    assert f"Then go on: steadyrl resume {tmp_path / 'run'}" in caught.value.remedy
    monkeypatch.undo()
    assert srl.resume(tmp_path / "run").status == "finished"
