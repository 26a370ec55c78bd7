"""A run is made again as it was made: as far as it came, in the stages of its lineage, or it is told why not."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import steadyrl as srl
from steadyrl.cli.main import main
from steadyrl.errors import RunFailedError, UserError
from steadyrl.training.comparing import first_difference
from steadyrl.training.events import Event
from steadyrl.training.reproducing import Stage, not_compared, reproduce, stages_of

OPTIONS: dict[str, Any] = {
    "preset": "none", "n_steps": 16, "batch_size": 16, "num_envs": 2, "checkpoint_freq": 50, "eval_freq": 100,
    "eval_episodes": 1, "seed": 1, "vec": "sync", "learning_rate": srl.LinearSchedule(1e-2, 0.0),
}  # fmt: skip
ENVIRONMENT = """
import gymnasium as gym
import numpy as np


class Walk(gym.Env):
    observation_space = gym.spaces.Box(-1.0, 1.0, (1,), np.float32)
    action_space = gym.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.t = 0
        return np.zeros(1, np.float32), {}

    def step(self, action):
        self.t += 1
        if self.t == FAILS_AT:
            raise ValueError("the motor is broken")
        return np.full(1, 0.1 * self.t, np.float32), REWARD * int(action), self.t >= 9, False, {}
"""


def environment(path: Path, reward: float = 1.0, fails_at: int = 0) -> str:
    path.write_text(ENVIRONMENT.replace("REWARD", str(reward)).replace("FAILS_AT", str(fails_at)))
    return f"{path}:Walk"


def train(path: Path, total: int = 200, env: str = "CartPole-v1", **more: Any) -> srl.Run:
    return srl.train("ppo", env, total_timesteps=total, run_dir=path, **(OPTIONS | more))


def stop_at(step: int) -> Any:
    def listen(event: Event) -> bool | None:
        return False if getattr(event, "step", 0) >= step else None

    return listen


def again(run: Path, target: Path) -> tuple[srl.Run, list[str]]:
    said: list[str] = []
    return reproduce(run, target, lambda notice: said.append(notice.message)), said


def lineage(*entries: tuple[int, int, int, str]) -> list[dict[str, Any]]:
    keys = ("from_step", "was")
    return [
        dict(zip(keys, (step, was), strict=True), total_timesteps=[old, new], target=old)
        for step, old, new, was in entries
    ]


@pytest.mark.parametrize(
    ("entries", "total", "status", "timesteps", "expected"),
    [
        ((), 100, "finished", 100, [Stage(100, 100, None)]),
        ((), 100, "stopped", 60, [Stage(100, 100, 60)]),
        (((50, 100, 100, "stopped"),), 100, "finished", 100, [Stage(100, 100, None)]),
        (((100, 100, 300, "finished"),), 300, "finished", 300, [Stage(100, 100, None), Stage(300, 300, None)]),
        (((50, 100, 300, "stopped"),), 300, "finished", 300, [Stage(100, 100, 50), Stage(300, 300, None)]),
        (  # killed soon after it was extended, and taken up from before that
            ((100, 100, 300, "finished"), (80, 300, 300, "running")),
            300,
            "interrupted",
            200,
            [Stage(100, 100, 80), Stage(300, 300, 200)],
        ),
        (  # extended, and taken up once more from the same checkpoint with another total
            ((100, 100, 300, "finished"), (100, 300, 400, "running")),
            400,
            "finished",
            400,
            [Stage(100, 100, 100), Stage(400, 400, None)],
        ),
    ],
)
def test_the_stages_are_those_that_left_a_trace(
    entries: tuple[tuple[int, int, int, str], ...],
    total: int,
    status: str,
    timesteps: int,
    expected: list[Stage],
) -> None:
    manifest = {"lineage": lineage(*entries), "status": status, "timesteps": timesteps, "target": total}
    found = stages_of(manifest, total)
    assert [(stage.total, stage.end) for stage in found] == [(stage.total, stage.end) for stage in expected]
    assert found[-1] == expected[-1]


def test_a_stopped_run_is_made_again_as_far_as_it_came(tmp_path: Path) -> None:
    run = train(tmp_path / "run", callback=stop_at(116))
    assert run.status == "stopped"
    made, said = again(run.path, tmp_path / "again")
    assert made.manifest["timesteps"] == run.manifest["timesteps"] < 200
    assert made.manifest["weights_sha256"] == run.manifest["weights_sha256"]
    assert first_difference(run.path, made.path) is None
    assert not [text for text in said if "stages" in text or "Not as it was" in text]


@pytest.mark.parametrize("cut_off", [True, False], ids=["in the evaluation", "after it"])
def test_a_run_that_an_evaluation_stopped_is_made_again_as_far(cut_off: bool, tmp_path: Path) -> None:
    at = [100]

    def listen(event: Event) -> bool | None:
        before = type(event).__name__ == "Progress" and getattr(event, "step", 0) == at[0]
        return False if (before if cut_off else type(event).__name__ == "EvaluationEnded") else None

    run = train(tmp_path / "run", callback=listen)
    assert (run.status, run.manifest["timesteps"], len(run.evals())) == ("stopped", 100, 0 if cut_off else 1)
    made, _ = again(run.path, tmp_path / "again")
    assert (made.status, made.manifest["timesteps"], len(made.evals())) == ("stopped", 100, 0 if cut_off else 1)
    assert first_difference(run.path, made.path) is None


@pytest.mark.parametrize("stopped", [None, 116], ids=["finished", "stopped away from a checkpoint"])
def test_an_extended_run_is_made_again_in_its_stages(stopped: int | None, tmp_path: Path) -> None:
    run = tmp_path / "run"
    train(run, callback=None if stopped is None else stop_at(stopped))
    srl.resume(run, 500, callback=stop_at(350))  # a stop that leaves no trace
    srl.resume(run)
    made, said = again(run, tmp_path / "again")
    entry = made.manifest["lineage"][0]
    assert entry["total_timesteps"] == [200, 500]
    assert entry["from_step"] == srl.Run.open(run).manifest["lineage"][0]["from_step"]
    assert first_difference(run, made.path) is None
    assert any(text.startswith("The run was made in 2 stages") for text in said)
    straight = train(tmp_path / "straight", 500)
    assert first_difference(run, straight.path) is not None  # so the stages are what makes them equal


def test_a_call_of_learn_is_made_again_to_its_own_end(tmp_path: Path) -> None:
    agent = srl.PPO("CartPole-v1", **OPTIONS)
    agent.learn(120, schedule_steps=1000, run_dir=tmp_path / "first")
    agent.learn(120, schedule_steps=1000, run_dir=tmp_path / "second")
    made, _ = again(tmp_path / "first", tmp_path / "again")
    assert made.agent.num_timesteps == 120
    difference = first_difference(tmp_path / "first", made.path)
    assert difference is not None
    assert difference.name.startswith("generators/")  # the process had them before, and no run folder tells how
    assert not_compared(tmp_path / "first") == ("generators",)
    assert not_compared(made.path) == ()
    assert first_difference(tmp_path / "first", made.path, not_compared(tmp_path / "first")) is None
    with pytest.raises(UserError, match="began at step 120 of an agent in memory"):
        again(tmp_path / "second", tmp_path / "not")


def test_a_run_that_failed_fails_again_and_is_the_same_so_far(tmp_path: Path) -> None:
    env = environment(tmp_path / "walk.py", fails_at=8)
    with pytest.raises(RunFailedError, match="the motor is broken"):
        train(tmp_path / "run", env=env)
    made, said = again(tmp_path / "run", tmp_path / "again")
    assert made.status == "failed"
    assert any(text.startswith("It failed, as the run did") for text in said)
    assert first_difference(tmp_path / "run", made.path) is None
    environment(tmp_path / "walk.py", fails_at=1_000)  # mended
    found = in_a_fresh_process(tmp_path / "run")
    assert found["not_as_it_was"] == [f"the code of {tmp_path / 'walk.py'} is another one"]
    assert found["first_difference"]["name"] == "rows"


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("finished")
    env = environment(place / "walk.py")
    run = train(place / "run", env=env, eval_freq=0)
    assert run.manifest["timesteps"] == 200
    return run.path


@pytest.fixture
def copied(finished: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(finished, tmp_path / "run"))


def in_a_fresh_process(run: Path, *places: str) -> dict[str, Any]:
    """What `steadyrl reproduce` says of a run that it makes otherwise, with these folders before all others."""
    variables = os.environ | {"PYTHONPATH": os.pathsep.join([*places, *sys.path])}
    command = [sys.executable, "-m", "steadyrl", "reproduce", str(run), "--json"]
    done = subprocess.run(command, env=variables, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 1, done.stderr
    return dict(json.loads(done.stdout))


def told(capsys: pytest.CaptureFixture[str], run: Path, status: int) -> dict[str, Any]:
    assert main(["reproduce", str(run), "--json"]) == status
    return dict(json.loads(capsys.readouterr().out))


def test_the_command_says_identical_with_the_chain(copied: Path, capsys: pytest.CaptureFixture[str]) -> None:
    document = told(capsys, copied, 0)
    assert (document["identical"], document["first_difference"], document["not_as_it_was"]) == (True, None, [])
    assert document["chain"]["intervals"] == document["compared"]["checkpoints"] + 1 == 5
    assert told(capsys, copied, 0)["chain"] == document["chain"]


@pytest.mark.parametrize(
    ("file", "place", "name", "value", "said"),
    [
        ("config.json", "hyperparameters", "gamma", 0.9, "gamma is 0.9 in config.json, and the saved agent was"),
        ("config.json", "settings", "seed", 2, "seed is 2 in config.json, and the run began with 1"),
        ("manifest.json", "packages", "gymnasium", "1.0.0", "packages gymnasium was 1.0.0 and is "),
    ],
)
def test_what_was_changed_in_the_record_is_named(
    file: str, place: str, name: str, value: Any, said: str, copied: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    document = json.loads((copied / file).read_text())
    document[place][name] = value
    (copied / file).write_text(json.dumps(document))
    differs = file == "config.json"
    found = told(capsys, copied, int(differs))
    assert len(found["not_as_it_was"]) == 1
    assert found["not_as_it_was"][0].startswith(said)
    assert (found["first_difference"] is not None) == differs


def test_another_line_of_the_environment_is_named(finished: Path, copied: Path) -> None:
    file = finished.parent / "walk.py"
    before = file.read_text()
    try:
        environment(file, reward=1.001)
        found = in_a_fresh_process(copied)
    finally:
        file.write_text(before)
    assert found["not_as_it_was"] == [f"the code of {file} is another one"]
    assert found["first_difference"]["where"] == "episodes.jsonl"


def test_another_line_of_the_library_is_named(copied: Path, tmp_path: Path) -> None:
    """The library's own code, with one line changed, in a process of its own."""
    place = tmp_path / "src"
    shutil.copytree(Path(srl.__file__).parent, place / "steadyrl", ignore=shutil.ignore_patterns("__pycache__"))
    source = place / "steadyrl" / "nn" / "init.py"
    line = "parameter.copy_(torch.from_numpy(np.ascontiguousarray(values)))"
    text = source.read_text()
    assert text.count(line) == 1
    source.write_text(text.replace(line, line.replace("values", "values * np.float32(1.0001)")))
    found = in_a_fresh_process(copied, str(place))
    assert found["not_as_it_was"] == ["the code of steadyrl/nn/init.py is another one"]
    assert found["first_difference"]["step"] > 0
