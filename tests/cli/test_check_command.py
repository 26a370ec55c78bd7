"""`steadyrl check`: words in, page or document out."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from steadyrl.checker import run as run_module
from steadyrl.checker.finding import RULES, Finding
from steadyrl.checker.report import Report
from steadyrl.cli.main import main
from support.leftovers import gone, until

NUMBERS = {"steps": 10_000, "episodes": 178, "policies": 6, "step_us": 11.2, "random_steps": 1_004}
DONE = dict.fromkeys(("facts", "fits", "survey", "repeat"), 0.1)


def finding(code: str) -> Finding:
    rule = RULES[code]
    return Finding(code, rule.kind, rule.severity, "It was seen at step 3.", {"step": 3}, rule.remedy, rule.docs)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """What was asked for; the code of a finding as the environment's name is the answer."""
    calls: list[dict[str, Any]] = []

    def check_env(env: str, **options: Any) -> Report:
        calls.append({"env": env, **options})
        findings = [finding(code) for code in RULES if code in env]
        return Report(env, "full", findings, options["strict"], NUMBERS, {"ppo": "", "dqn": "no"}, 6.2, DONE)

    monkeypatch.setattr(run_module, "check_env", check_env)
    return calls


def test_every_flag_arrives(asked: list[dict[str, Any]], capsys: pytest.CaptureFixture[str]) -> None:
    words = "Env --quick --no-side-effects --strict --ignore SRL-OBS-001,obs-shape --only obs-type --timeout 5"
    assert main(["check", *words.split(), "--env-kwargs", "a=1"]) == 0
    assert asked == [
        {
            "env": "Env",
            "env_kwargs": {"a": 1},
            "quick": True,
            "no_side_effects": True,
            "strict": True,
            "ignore": ["SRL-OBS-001", "obs-shape"],
            "only": ["obs-type"],
            "timeout": 5.0,
        }
    ]
    assert "Env passed: no errors, no warnings, no notes" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "status", "verdict"),
    [
        (["SRL-OBS-003"], 1, "did not pass: 1 error, no warnings, no notes"),
        (["SRL-OBS-008"], 0, "passed: no errors, 1 warning, no notes"),
        (["SRL-OBS-008", "--strict"], 1, "did not pass: no errors, 1 warning, no notes"),
        (["SRL-FIT-001", "--strict"], 0, "passed: no errors, no warnings, 1 note"),
    ],
)
def test_errors_fail_and_warnings_only_where_strict(
    words: list[str], status: int, verdict: str, asked: list[dict[str, Any]], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["check", *words]) == status
    out = capsys.readouterr().out
    assert verdict in out
    assert "It was seen at step 3." in out
    assert " ".join(RULES[words[0]].remedy.split()) in " ".join(out.split())
    assert "1,000 random steps hold" in out
    assert "Looked through 10,000 steps of 178 episodes by 6 policies" in out


def test_json_has_the_promised_fields(asked: list[dict[str, Any]], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "SRL-OBS-003", "--json"]) == 1
    document = json.loads(capsys.readouterr().out)
    assert document["ok"] is False
    (told,) = document["findings"]
    assert told.keys() >= {"code", "kind", "severity", "message", "evidence", "remedy", "docs"}
    assert (told["code"], told["kind"], told["severity"]) == ("SRL-OBS-003", "obs-shape", "error")
    assert told["evidence"] == {"step": 3}
    assert [each["state"] for each in document["practice"]] == ["no", "yes", "yes"]


def test_all_rules_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "--list"]) == 0
    out = capsys.readouterr().out
    assert [code for code in RULES if f"  {code} " not in out and f"  {code:<13}" not in out] == []
    assert main(["check", "--list", "--json"]) == 0
    assert {rule["code"] for rule in json.loads(capsys.readouterr().out)["rules"]} == set(RULES)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "`steadyrl check` needs an environment."),
        (["CartPol-v1"], "There is no environment 'CartPol-v1'"),
        (["CartPole-v1", "--ignore", "obs-dtpe"], "There is no rule 'obs-dtpe'"),
        (["CartPole-v1", "--quick", "--no-side-effects"], "are two ways to check"),
        (["CartPole-v1", "--timeout", "0"], "timeout is 0"),
        (["CartPole-v1", "--strickt"], "There is no flag --strickt"),
    ],
)
def test_wrong_words_are_answered(words: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", *words]) == 2
    assert message in capsys.readouterr().err


SLEEPY = """
import os, subprocess, time
from pathlib import Path
import gymnasium as gym

class Sleepy(gym.Env):
    observation_space, action_space = gym.spaces.Discrete(2), gym.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return 0, {}

    def step(self, action):
        if not Path("pids").exists():
            Path("part").write_text(f"{os.getpid()} {subprocess.Popen(['sleep', '600']).pid}")
            os.rename("part", "pids")
        time.sleep(600)
"""


@pytest.mark.parametrize(("how", "status"), [("SIGTERM", 143), ("SIGINT", 130), ("SIGKILL", -9)])
def test_a_signal_ends_the_environment_too(how: str, status: int, tmp_path: Path) -> None:
    (tmp_path / "sleepy.py").write_text(SLEEPY)
    line = [sys.executable, "-m", "steadyrl", "check", "sleepy.py:Sleepy", "--timeout", "500"]
    program = subprocess.Popen(line, cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    assert until((tmp_path / "pids").exists, 120)
    child, sleep = map(int, (tmp_path / "pids").read_text().split())
    program.send_signal(getattr(signal, how))
    assert program.wait(60) == status
    assert until(lambda: gone({child}), 20)
    if how == "SIGKILL":  # nobody is left to end what the environment started
        os.kill(sleep, signal.SIGKILL)
    assert until(lambda: gone({sleep}), 20)


def test_an_empty_list_of_rules_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    for flag in ("--only", "--ignore"):
        assert main(["check", "CartPole-v1", flag, ""]) == 2
        assert f"{flag[2:]} names no rule." in capsys.readouterr().err
