"""A run that was killed has checkpoints and no final agent: what the commands say of it, and that it holds."""

from pathlib import Path

import pytest

from steadyrl.cli.main import main
from support.stored_run import stored_run

RUN = "runs/CartPole-v1/dqn/run"


@pytest.fixture
def killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The stored run, which has a checkpoint of step 40 and nothing else."""
    (tmp_path / RUN).parent.mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    return stored_run(Path(RUN).parent)


@pytest.mark.parametrize("command", ["eval", "record"])
@pytest.mark.parametrize(
    ("word", "told"),
    [
        (
            "latest",
            f"which has a checkpoint of step 40. Take one: steadyrl %s {RUN} --checkpoint 40. "
            f"Or let the run go on to its end: steadyrl resume {RUN}.",
        ),
        (RUN, "Choose one of: 40. Or let the run go on to its end: steadyrl resume %s."),
    ],
)
def test_both_ways_on_are_named(
    command: str, word: str, told: str, killed: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([command, word]) == 2
    said = " ".join(capsys.readouterr().err.split())
    assert told % (command if word == "latest" else killed.absolute()) in said


def test_what_is_named_works(killed: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["eval", RUN, "--checkpoint", "40", "--episodes", "1"]) == 0
    assert "Return of the 40 agent" in capsys.readouterr().out
    assert main(["resume", "latest", "--quiet"]) == 0
    assert main(["eval", "latest", "--episodes", "1"]) == 0
    assert "Return of the final agent" in capsys.readouterr().out
