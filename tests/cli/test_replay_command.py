"""`steadyrl replay`: a failure of a run, again in the open."""

from __future__ import annotations

import json
import pdb
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from steadyrl.cli.main import main
from steadyrl.envs import failures
from steadyrl.envs.failure import Failure
from steadyrl.envs.failures import Origin
from steadyrl.envs.workers.loss import kind_of

WALK = """
import gymnasium as gym

class Walk(gym.Env):
    observation_space = gym.spaces.Discrete(9)
    action_space = gym.spaces.Discrete(2)

    def __init__(self, at=2):
        self.at = at

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.place = 0
        return 0, {}

    def step(self, action):
        self.place += 1
        if self.place == self.at:
            raise RuntimeError("the floor is wet")
        return self.place, 0.0, self.place == 8, False, {}

def make():
    return Walk()
"""


@pytest.fixture
def failed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> str:
    """The file that a failed run of `walk.py` names."""
    monkeypatch.chdir(tmp_path)
    Path("walk.py").write_text(WALK)
    command = "train ppo walk.py:Walk --env-kwargs at=4 --total-timesteps 100 --num-envs 2 --run-dir run --eval-freq 0"
    assert main(command.split()) == 3
    said = capsys.readouterr().err
    (file,) = Path("run/failures").iterdir()
    assert f"Run it again: `steadyrl replay {file}`. Traceback: run/error.txt" in said
    return str(file)


def test_a_failure_that_comes_again_is_status_1(failed: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["replay", failed]) == 1
    told = capsys.readouterr().out
    assert "walk.py:Walk, environment 0, seed " in told
    assert "RuntimeError: the floor is wet\n  in step 4, after 3 good steps." in told
    assert "It failed again in step 4, with the same error.\nTraceback (most recent call last):\n" in told
    assert 'raise RuntimeError("the floor is wet")' in told
    assert "steadyrl/envs" not in told  # from the environment's own first frame on


def test_a_mended_environment_is_status_0(failed: str, capsys: pytest.CaptureFixture[str]) -> None:
    Path("mended.py").write_text(WALK.replace("if self.place == self.at", "if False"))
    assert main(["replay", failed, "--env", "mended.py:Walk"]) == 0
    told = capsys.readouterr().out
    assert "It did not fail this time: 4 steps taken." in told
    assert "The traceback in the record:\nTraceback" in told
    assert "What differs" not in told


def test_another_error_is_status_1_and_says_so(failed: str, capsys: pytest.CaptureFixture[str]) -> None:
    Path("worse.py").write_text(WALK.replace("self.place == self.at", "self.place == 2").replace("wet", "gone"))
    assert main(["replay", failed, "--env", "worse.py:Walk"]) == 1
    assert "It failed in step 2, but not as recorded: RuntimeError: the floor is gone" in capsys.readouterr().out


def test_json(failed: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["replay", failed, "--json"]) == 1
    document = json.loads(capsys.readouterr().out)
    assert document | {"recorded": 0, "found": 0, "seed": 0} == {
        "file": failed,
        "env": "walk.py:Walk",
        "env_index": 0,
        "seed": 0,
        "failed": True,
        "result": "same",
        "steps": 4,
        "recorded": 0,
        "found": 0,
        "note": "",
    }
    assert document["recorded"] == document["found"]
    assert document["found"]["step"] == 4


def test_the_debugger_is_at_the_line_that_raised(
    failed: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    stopped: list[Any] = []
    monkeypatch.setattr(pdb, "post_mortem", stopped.append)
    assert main(["replay", failed, "--pdb"]) == 1
    frame = stopped[0]
    while frame.tb_next is not None:
        frame = frame.tb_next
    assert (frame.tb_frame.f_code.co_name, frame.tb_frame.f_locals["self"].place) == ("step", 4)
    Path("mended.py").write_text(WALK.replace("if self.place == self.at", "if False"))
    assert main(["replay", failed, "--pdb", "--env", "mended.py:Walk"]) == 0
    assert "nothing to debug" in capsys.readouterr().err
    assert len(stopped) == 1


@pytest.mark.parametrize(
    ("args", "told"),
    [
        ([], "needs the file of a failure"),
        (["nowhere.json"], "There is no file nowhere.json"),
        (["FILE", "--pdb", "--json"], "--pdb talks on stdout"),
        (["FILE", "--render"], "has no render mode human: it declares none"),
        (["FILE", "--env", "walk.py:Run"], "defines no 'Run'"),
    ],
)
def test_wrong_use_is_status_2(args: list[str], told: str, failed: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["replay", *(failed if arg == "FILE" else arg for arg in args)]) == 2
    out = capsys.readouterr()
    assert told in out.err + out.out


def test_an_environment_that_has_no_name_is_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("walk.py").write_text(WALK)
    failure = Failure(0, None, "step", 2, 1, None, None, [1, 0], True, "RuntimeError: the floor is wet", "")
    path = str(failures.write(tmp_path, failure, Origin("make", None, {}, None)))
    assert main(["replay", path]) == 2
    said = capsys.readouterr().err
    assert "made by a function" in said
    assert "--env path/to/file.py:make" in said
    assert main(["replay", path, "--env", "walk.py:make"]) == 1
    moved = str(failures.write(tmp_path, failure, Origin("make", "/gone/walk.py:make", {}, None)))
    assert main(["replay", moved]) == 2
    assert "Or say where it is found now: --env" in capsys.readouterr().err


def test_other_versions_and_other_random_numbers_are_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("walk.py").write_text(WALK)
    failure = Failure(0, None, "step", 3, None, None, None, [1, 0, 1], True, "ValueError: x", "")
    path = failures.write(tmp_path, failure, Origin("Walk", str(tmp_path / "walk.py:Walk"), {"at": 5}, None))
    document = json.loads(path.read_text())
    document["versions"] |= {"numpy": "1.0", "lost": "2.0"}
    path.write_text(json.dumps(document))
    assert main(["replay", str(path)]) == 0
    told = capsys.readouterr().out
    assert f"Recorded with numpy 1.0, now {failures.versions()['numpy']}." in told
    assert "were not known" in told
    assert "kept from one episode to the next" in told


def test_it_needs_no_torch(failed: str) -> None:
    import subprocess

    code = (
        f"import sys; from steadyrl.cli.main import main; main(['replay', {failed!r}]); print('torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "False"


def test_escape_sequences_of_a_failure_do_not_reach_the_terminal(
    failed: str, capsys: pytest.CaptureFixture[str]
) -> None:
    document = json.loads(Path(failed).read_text())
    document["error"] = "RuntimeError: \x1b[2Jgone"
    document["traceback"] = "\x1b]0;owned\x07"
    Path(failed).write_text(json.dumps(document))
    assert main(["replay", failed]) == 1
    told = capsys.readouterr().out
    assert "\x1b" not in told
    assert "RuntimeError: \\x1b[2Jgone" in told
    Path("well.py").write_text(WALK.replace("self.place == self.at", "False"))
    assert main(["replay", failed, "--env", "well.py:Walk"]) == 0
    told = capsys.readouterr().out
    assert "\x1b" not in told
    assert "\\x1b]0;owned\\x07" in told


HANG = WALK.replace('raise RuntimeError("the floor is wet")', 'print("there", flush=True) or HOW')


@pytest.mark.parametrize(
    ("how", "before", "status", "after"),
    [
        ("__import__('time').sleep(100)", "If it hangs again, Ctrl-C tells where.", 130, 'walk.py", line 19, in step'),
        ("__import__('os')._exit(7)", "If nothing follows, it ended this process too.", 7, ""),
        ("__import__('ctypes').string_at(0)", "If nothing follows", -signal.SIGSEGV, 'walk.py", line 19 in step'),
    ],
    ids=["hang", "exit", "signal"],
)
def test_what_hung_or_ended_its_process_does_so_again_and_tells_where(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str, before: str, status: int, after: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("walk.py").write_text(HANG.replace("HOW", how))
    train = "train ppo walk.py:Walk --vec async --env-timeout 2 --num-envs 1 --run-dir run --eval-freq 0"
    assert main([*train.split(), "--total-timesteps", "100"]) == 3
    (file,) = Path("run/failures").iterdir()
    command = [sys.executable, "-m", "steadyrl", "replay", str(file)]
    with subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # shells ignore it for what they start behind
    ) as process:
        assert process.stdout is not None
        heading = "".join(iter(process.stdout.readline, "there\n"))
        if status == 130:
            process.send_signal(signal.SIGINT)
        _, told = process.communicate(timeout=60)
    assert before in heading
    assert process.returncode == status
    assert after in told


def test_a_failure_that_was_raised_is_told_as_one_however_it_reads() -> None:
    failure = Failure(0, 0, "step", 3, 1, None, None, [], True, "ValueError: it did not answer within 3 s", "")
    assert kind_of(failure) == "raised"
    assert (
        kind_of(replace(failure, error="Environment 0 (x) in worker 0 did not answer within 3 s in step 3.")) == "hung"
    )
    assert kind_of(replace(failure, error="The process of environment 0 ended by itself (exit status 1).")) == "ended"
