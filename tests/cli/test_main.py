import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from steadyrl import __version__
from steadyrl.cli.main import COMMANDS, main, wants_json

HEAVY = ("torch", "numpy", "gymnasium", "rich", "tensorboardX", "psutil")


def steadyrl(*args: str, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "steadyrl", *args]
    env = {**os.environ, **environment}
    return subprocess.run(command, capture_output=True, text=True, check=False, env=env)


@pytest.mark.parametrize(
    "args",
    [
        ["--version"],
        ["--help"],
        ["train", "--help"],
        ["train", "ppo", "--help"],
        ["train", "ppo", "CartPole-v1", "--gamma", "-h"],
        ["presets"],
        ["eval", "--help"],
        ["record", "-h"],
        ["completion", "bash"],
        ["train", "pp0", "CartPole-v1"],
    ],
)
def test_quick_commands_import_nothing_heavy(args: list[str]) -> None:
    code = (
        "import sys\n"
        "from steadyrl.cli.main import main\n"
        "main(sys.argv[1:])\n"
        f"print('LOADED', [name for name in {HEAVY} if name in sys.modules])\n"
    )
    result = subprocess.run([sys.executable, "-c", code, *args], capture_output=True, text=True, check=True)
    assert result.stdout.splitlines()[-1] == "LOADED []"


def test_version_and_help_are_printed_by_the_module_itself() -> None:
    assert steadyrl("--version").stdout == f"steadyrl {__version__}\n"
    result = steadyrl("--help")
    assert result.returncode == 0
    assert all(f"  {name} " in result.stdout for name in COMMANDS)


def test_no_command_shows_the_help_and_is_wrong_usage(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 2
    assert "usage: steadyrl COMMAND" in capsys.readouterr().out


@pytest.mark.parametrize("args", [["help", "eval"], ["eval", "latest", "--episodes", "3", "-h"]])
def test_help_of_a_command_is_found_from_anywhere(args: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(args) == 0
    assert capsys.readouterr().out.startswith("usage: steadyrl eval RUN")


MISTAKES: list[tuple[Sequence[str], str, str]] = [
    (["trian", "ppo", "CartPole-v1"], "unknown-command", "Did you mean train?"),
    (["--json", "train"], "unknown-command", "first word must be a command"),
    (["train", "pp0", "CartPole-v1"], "unknown-algorithm", "Did you mean ppo?"),
    (["train"], "usage", "needs an algorithm"),
    (["train", "ppo"], "usage", "needs an environment"),
    (["train", "ppo", "CartPole-v1", "more"], "usage", "Unrecognized arguments: more."),
    (["train", "ppo", "CartPole-v1", "--gama", "1"], "unknown-flag", "Did you mean --gamma"),
    (["train", "a2c", "CartPole-v1", "--batch-size", "8"], "unknown-flag", "--batch-size is a flag of ppo and"),
    (["train", "ppo", "CartPole-v1", "--gamma", "big"], "bad-value", "gamma is 'big'"),
    (["train", "ppo", "CartPole-v1", "--total-timesteps", "0"], "bad-value", "total_timesteps is 0"),
    (["train", "ppo", "CartPole-v1", "--preset", "CartPol-v1"], "unknown-preset", "Did you mean CartPole-v1"),
    (["train", "ppo", "CartPol-v1"], "unknown-env", "CartPole"),
    (["eval", "no-such-folder"], "not-a-run", "no-such-folder does not exist"),
    (["train", "ppo", "cartpole-v1"], "unknown-env", "Did you mean CartPole-v1?"),
    (["train", "ppo", "CartPole-v1", "--net-arch", "64", "64"], "bad-value", "Write --net-arch 64,64."),
    (["train", "ppo", "CartPole-v1", "--total-timesteps"], "missing-value", "--total-timesteps 100000"),
    (["eval", "agent.srl"], "not-a-run", "steadyrl.load"),
    (["eval"], "usage", "needs a run folder"),
    (["eval", "x", "--episodes", "0"], "bad-value", "episodes is 0"),
    (["record", "x", "-o", "film.gif"], "bad-value", "film.gif is no mp4"),
    (["presets", "ppo", "Cartpol-v1"], "unknown-preset", "Did you mean CartPole-v1"),
    (["info", "CartPole-v1", "more"], "usage", "Unrecognized arguments: more"),
    (["completion", "tcsh"], "usage", "bash, zsh, fish"),
]


@pytest.mark.parametrize(("args", "code", "words"), MISTAKES, ids=[" ".join(case[0]) or "-" for case in MISTAKES])
def test_a_mistake_is_a_short_sentence_with_its_cure(
    args: Sequence[str],
    code: str,
    words: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    monkeypatch.chdir(tmp_path)
    if "--json" not in args:
        assert main(args) == 2
        out, err = capsys.readouterr()
        assert out == ""
        assert err.startswith("error: ")
        assert words in err
        assert len(err.splitlines()) <= 8
        assert "Traceback" not in err
    assert main([*args, "--json"]) == 2
    out, err = capsys.readouterr()
    error = json.loads(out)["error"]
    assert set(error) == {"code", "message", "remedy"}
    assert error["code"] == code
    assert words in f"{error['message']} {error['remedy']}"
    assert list(tmp_path.iterdir()) == []


def test_a_reader_that_goes_away_is_no_error() -> None:
    # The pipe's reader is closed before anything is written; the flush at the end of the command meets that.
    reader, writer = os.pipe()
    os.close(reader)
    command = [sys.executable, "-m", "steadyrl", "presets"]
    result = subprocess.run(command, stdout=writer, stderr=subprocess.PIPE, text=True, check=False)
    os.close(writer)
    assert (result.returncode, result.stderr) == (141, "")


@pytest.mark.parametrize(
    ("line", "wanted"),
    [
        ("info", False),
        ("info --json", True),
        ("train --json ppo CartPole-v1", True),
        ("info --json=True", True),
        ("info --json yes", True),
        ("info --json=False", False),
        ("info --json false", False),
        ("info --json=0", False),
        ("info --no-json", False),
        ("info --json --no-json", False),
        ("info --json false --json", True),
        ("train --display json", False),
        ("", False),
    ],
)
def test_json_is_on_or_off_in_every_spelling(line: str, wanted: bool) -> None:
    assert wants_json(line.split()) is wanted


def test_the_short_flag_is_in_the_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["record", "--help"]) == 0
    assert "-o PATH, --output PATH" in capsys.readouterr().out
