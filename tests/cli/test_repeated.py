"""A flag that is given twice is an error in every command: nobody knows which of the two is meant."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from steadyrl.cli.main import COMMANDS, main

WORDS = {
    "train": ["ppo", "CartPole-v1"],
    "verify-resume": ["ppo", "CartPole-v1"],
    "presets": ["ppo"],
    "info": ["CartPole-v1"],
    "check": ["CartPole-v1"],
    "new-env": ["mine"],
    "bench": ["CartPole-v1"],
}
OTHERS = {"completion"}  # takes no flags


@pytest.fixture(autouse=True)
def nothing_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("command", sorted(COMMANDS.keys() - OTHERS))
def test_every_command_refuses(command: str, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main([command, *WORDS.get(command, ["latest"]), "--json", "--json"]) == 2
    told = json.loads(capsys.readouterr().out)
    assert told["error"] == {
        "code": "repeated-flag",
        "message": "--json is given twice, as True and True.",
        "remedy": "Give it once.",
    }
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("train ppo CartPole-v1 --seed 1 --seed 2", "--seed is given twice, as 1 and 2."),
        ("train ppo CartPole-v1 --n-envs 2 --num-envs 4", "--num-envs is given twice, as 2 and 4."),
        (
            "train ppo CartPole-v1 --env-id Acrobot-v1",
            "The environment is given twice, as CartPole-v1 and with --env as Acrobot-v1.",
        ),
        ("train ppo --env CartPole-v1 --env-id Acrobot-v1", "--env is given twice, as CartPole-v1 and Acrobot-v1."),
        ("verify-resume ppo CartPole-v1 --seed 1 --seed 2", "--seed is given twice, as 1 and 2."),
        ("verify-resume ppo CartPole-v1 --kills 1 --kills 2", "--kills is given twice, as 1 and 2."),
        ("record latest -o a.mp4 --output b.mp4", "--output is given twice, as a.mp4 and b.mp4."),
        ("bench CartPole-v1 --num-envs 1 --num-envs 4", "--num-envs is given twice, as 1 and 4."),
        ("check CartPole-v1 --ignore A --ignore B", "--ignore is given twice, as A and B."),
    ],
)
def test_the_flag_and_both_values_are_named(
    words: str, said: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert main(words.split()) == 2
    assert capsys.readouterr().err.splitlines() == [f"error: {said}", "Give it once."]
    assert list(tmp_path.iterdir()) == []


def test_verify_resume_makes_its_folders_itself(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["verify-resume", "ppo", "CartPole-v1", "--run-dir", "mine"]) == 2
    assert "--run-dir cannot name one" in capsys.readouterr().err
