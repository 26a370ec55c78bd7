import errno
import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import steadyrl
from steadyrl.cli.session import Session, finite, guarded
from steadyrl.errors import RunFailedError, UserError
from steadyrl.training.signals import signalled


def fails(error: BaseException) -> int:
    raise error


@pytest.mark.parametrize(
    ("error", "status", "text"),
    [
        (UserError("Bad key.", remedy="Drop it."), 2, "error: Bad key.\nDrop it.\n"),
        (RunFailedError("Loss is NaN.", remedy="Lower the rate."), 3, "error: Loss is NaN.\nLower the rate.\n"),
        (KeyboardInterrupt(), 130, "\nInterrupted.\n"),
    ],
)
def test_each_kind_of_error_has_its_status_and_message(
    error: BaseException, status: int, text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert guarded(lambda: fails(error), Session()) == status
    assert capsys.readouterr() == ("", text)


def test_the_status_of_a_good_call_is_its_own() -> None:
    assert guarded(lambda: 7, Session()) == 7


def test_an_unforeseen_error_leaves_its_traceback_in_the_run_folder(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    session = Session(json=True, run_dir=tmp_path)
    assert guarded(lambda: fails(ZeroDivisionError("by\nzero")), session) == 3
    error = json.loads(capsys.readouterr().out)["error"]
    assert error["code"] == "unexpected"
    assert error["message"] == "Unexpected ZeroDivisionError: by"
    assert str(tmp_path / "error.txt") in error["remedy"]
    assert "in fails" in (tmp_path / "error.txt").read_text()


def test_without_a_run_folder_the_traceback_is_in_a_temporary_file(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    assert guarded(lambda: fails(KeyError("x")), Session()) == 3
    err = capsys.readouterr().err
    assert len(err.splitlines()) <= 8
    found = re.search(r"The details are in (\S+\.txt)\.", err)
    assert found is not None
    assert "KeyError: 'x'" in Path(found[1]).read_text()


def test_debug_mode_shows_the_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STEADYRL_DEBUG", "1")
    with pytest.raises(ZeroDivisionError):
        guarded(lambda: fails(ZeroDivisionError()), Session())


def test_a_full_disk_is_told_in_words(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    error = OSError(errno.ENOSPC, "No space left on device", "metrics.jsonl")
    assert guarded(lambda: fails(error), Session(run_dir=tmp_path)) == 3
    err = capsys.readouterr().err
    assert err.startswith("error: No space is left on the disk that holds metrics.jsonl.\n")
    assert str(tmp_path) in err


def test_words_go_to_stderr_where_stdout_belongs_to_json(capsys: pytest.CaptureFixture[str]) -> None:
    Session(json=True).say("hello")
    Session().say("world")
    assert capsys.readouterr() == ("world\n", "hello\n")


def test_json_has_no_nan() -> None:
    nan, infinity = float("nan"), float("inf")
    assert finite({"a": [1.0, nan], "b": (infinity, -infinity), "c": "nan"}) == {
        "a": [1.0, None],
        "b": [None, None],
        "c": "nan",
    }


def run_python(code: str, **streams: Any) -> subprocess.CompletedProcess[str]:
    source = str(Path(steadyrl.__file__).parent.parent)
    env = {**os.environ, "PYTHONPATH": source, "OMP_NUM_THREADS": "1"}
    options = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE} | streams
    return subprocess.run([sys.executable, "-c", code], text=True, check=False, env=env, **options)


NOISY = """
import ctypes, os, subprocess, sys
from steadyrl.cli.session import Session, guarded

def call():
    print("python")
    os.write(1, b"file number\\n")
    ctypes.CDLL(None).printf(b"C code\\n")  # held by the C library until the process ends
    subprocess.run([sys.executable, "-c", "print('child')"])
    session.emit({"n": 1})
    print("after")
    return 0

session = Session(json=True)
sys.exit(guarded(call, session, for_good=True))
"""


@pytest.mark.skipif(sys.platform == "win32", reason="the C library has another name")
def test_json_is_alone_on_stdout_whatever_else_prints() -> None:
    result = run_python(NOISY)
    assert (result.returncode, json.loads(result.stdout)) == (0, {"n": 1}), result.stderr
    for text in ("python", "file number", "C code", "child", "after"):
        assert text in result.stderr


def test_stdout_is_given_back_to_a_program_that_goes_on() -> None:
    code = """
import os
from steadyrl.cli.session import Session, guarded
session = Session(json=True)
guarded(lambda: os.write(1, b"noise") and session.emit({}) or 0, session)
print("later")
"""
    result = run_python(code)
    assert (result.stdout, result.stderr) == ("{}\nlater\n", "noise")


@pytest.mark.parametrize(
    ("error", "code", "status"),
    [
        (KeyboardInterrupt(), "interrupted", 130),
        (signalled("SIGTERM"), "preempted", 143),
        (SystemExit(0), "unexpected", 3),
    ],
)
def test_whatever_ends_a_command_is_a_document_too(
    error: BaseException, code: str, status: int, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert guarded(lambda: fails(error), Session(json=True, run_dir=tmp_path)) == status
    assert json.loads(capsys.readouterr().out)["error"]["code"] == code


SAYS = """
import sys
from steadyrl.cli.session import Session, guarded

def call():
    for text in ("said", "\\u00fc"):
        session.say(text)
    return 0

session = Session()
status = guarded(call, session)
assert open("/dev/null").fileno() > 2
sys.exit(status)
"""


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")
@pytest.mark.parametrize("stream", ["stdout", "stderr"])
def test_a_line_that_cannot_be_written_stops_nothing(stream: str) -> None:
    with open("/dev/full", "w") as full:
        result = run_python(SAYS, **{stream: full})
    assert (result.returncode, result.stderr or "") == (0, "")


@pytest.mark.parametrize("closed", [(1,), (2,), (0, 1, 2)])
def test_closed_streams_are_no_error_and_their_numbers_are_not_taken(closed: tuple[int, ...]) -> None:
    source = str(Path(steadyrl.__file__).parent.parent)
    command = f"exec {shlex.quote(sys.executable)} -c {shlex.quote(SAYS)} " + " ".join(f"{n}>&-" for n in closed)
    env = {**os.environ, "PYTHONPATH": source}
    result = subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=False, env=env)
    assert (result.returncode, result.stderr) == (0, "")


def test_text_that_the_encoding_lacks_is_escaped() -> None:
    source = str(Path(steadyrl.__file__).parent.parent)
    env = {**os.environ, "PYTHONPATH": source, "PYTHONIOENCODING": "ascii"}
    result = subprocess.run([sys.executable, "-c", SAYS], capture_output=True, text=True, check=False, env=env)
    assert (result.returncode, result.stdout) == (0, "said\n\\xfc\n")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")
@pytest.mark.parametrize("json_wanted", [True, False])
def test_a_result_that_cannot_be_written_is_said(json_wanted: bool) -> None:
    code = f"""
import sys
from steadyrl.cli.session import Session, guarded
session = Session(json={json_wanted})
sys.exit(guarded(lambda: session.emit({{}}) if session.json else print("result") or 0, session, for_good=True))
"""
    with open("/dev/full", "w") as full:
        result = run_python(code, stdout=full)
    assert result.returncode == 3
    assert result.stderr.startswith("error: stdout cannot be written: No space left on device.\n")


def test_a_second_signal_does_not_cut_off_the_message_of_the_first() -> None:
    code = """
import signal, sys
from steadyrl.cli import session as module
from steadyrl.cli.main import main
real = module.finite

def finite(document):
    signal.raise_signal(signal.SIGTERM)
    signal.raise_signal(signal.SIGINT)
    return real(document)

def dispatch(args, session):
    raise KeyboardInterrupt

module.finite = finite
sys.modules["steadyrl.cli.main"]._dispatch = dispatch
sys.argv = ["steadyrl", "info", "--json"]
status = main()
signal.raise_signal(signal.SIGTERM)
sys.exit(status)
"""
    result = run_python(code)
    assert (result.returncode, result.stderr) == (130, "")
    assert json.loads(result.stdout)["error"]["code"] == "interrupted"


def test_remarks_on_an_environment_come_without_lines_of_the_library(tmp_path: Path) -> None:
    (tmp_path / "wide.py").write_text(
        "import gymnasium as gym\nimport numpy as np\nimport warnings\n\n"
        "class Wide(gym.Env):\n"
        "    observation_space, action_space = gym.spaces.Box(-1.0, 1.0, (2,)), gym.spaces.Discrete(2)\n"
        "    def reset(self, *, seed=None, options=None):\n"
        "        super().reset(seed=seed)\n        warnings.warn('of the environment')\n"
        "        return np.zeros(2), {}\n"
        "    def step(self, action):\n        return np.zeros(2), 1.0, False, True, {}\n"
    )
    words = "train ppo wide.py:Wide --n-steps 8 --batch-size 8 --total-timesteps 8 --eval-freq 0 --run-dir run --quiet"
    done = subprocess.run(
        [sys.executable, "-m", "steadyrl", *words.split()], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert "warning: The observation of wide.py:Wide (environment 0) is float64, but its space says" in done.stderr
    assert "self._note" not in done.stderr
    assert "adapter.py" not in done.stderr
    assert "wide.py:9: UserWarning: of the environment" in done.stderr
