import json
import sys

import pytest

from steadyrl import __version__, kernels
from steadyrl.cli.main import main
from steadyrl.training.setup import prepare_training
from support.games import needs_ale


def test_info_names_versions_and_hardware(capsys: pytest.CaptureFixture[str]) -> None:
    import gymnasium
    import torch

    assert main(["info", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["steadyrl"] == __version__
    assert document["python"].split(".")[:2] == [str(part) for part in sys.version_info[:2]]
    assert document["packages"]["torch"] == torch.__version__
    assert document["packages"]["gymnasium"] == gymnasium.__version__
    assert document["memory_bytes"] > 2**28
    assert document["cpu"]["threads"] >= document["cpu"]["usable"] >= 1
    assert document["native_kernels"] == {
        "available": kernels.available(),
        "isa": kernels.isa() if kernels.available() else None,
        "reason": kernels.reason() or None,
    }


@pytest.mark.parametrize("reason", ["", "There was no compiler."])
def test_people_get_one_line_a_fact(
    reason: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kernels, "reason", lambda: reason)
    monkeypatch.setattr(kernels, "isa", lambda: "avx2")
    assert main(["info"]) == 0
    rows = dict(line.split(maxsplit=1) for line in capsys.readouterr().out.splitlines() if " " in line)
    assert rows["steadyrl"] == __version__
    assert rows["native"] == (f"kernels  no ({reason})" if reason else "kernels  yes (avx2)")


def test_an_environment_is_told_with_what_becomes_of_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["info", "Blackjack-v1"]) == 0
    text = capsys.readouterr().out
    assert "Tuple(Discrete(32), Discrete(11), Discrete(2))" in text
    assert "Observation at '1': one of 11 values -> one-hot, 11 numbers." in text
    assert "ppo, a2c, dqn, sac" in text
    assert main(["info", "Pendulum-v1", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["max_episode_steps"] == 200
    assert document["algorithms"]["ppo"] == ""
    assert "single discrete" in document["algorithms"]["dqn"]
    assert document["made_of_them"][0] == "Observation: float32 numbers of shape (3,) -> 3 numbers."


@needs_ale
def test_a_game_is_told_as_training_sees_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["info", "ALE/Pong-v5"]) == 0
    text = capsys.readouterr().out
    assert "Box(0, 255, (4, 84, 84), uint8)" in text
    assert "Atari preprocessing, which train puts around this id" in text
    setup = prepare_training("ppo", "ALE/Pong-v5", {}, preset="none")
    becomes = next(notice.message for notice in setup.notices if notice.code == "spaces")
    assert main(["info", "ALE/Pong-v5", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["atari"]
    assert " ".join(document["made_of_them"]) == becomes


def test_an_environment_that_is_not_there_is_bad_input(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["info", "NoSuch-v0"]) == 2
    assert "NoSuch-v0" in capsys.readouterr().err
