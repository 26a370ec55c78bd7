"""`check_env`: environments in processes of their own, whatever they do to these."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import gymnasium as gym
import pytest

import steadyrl as srl
from steadyrl.checker import child, run
from steadyrl.checker.finding import RULES
from steadyrl.checker.plan import Plan, plan_of
from steadyrl.errors import UserError
from support import checked_envs as envs
from support.checked_envs import Hops, Walk

TINY = Plan("quick", 200, 1.0, 30, 1, 1.0, 300, 20, 20, timeout=20.0)


@pytest.fixture(autouse=True)
def tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    """Few steps, so that the processes take most of the time."""

    def planned(**options: Any) -> Plan:
        plan = plan_of(**options)
        fields = vars(TINY) | {"name": plan.name, "timeout": plan.timeout}
        return Plan(**fields)

    monkeypatch.setattr(run, "plan_of", planned)


def grave(report: Any) -> list[tuple[str, str]]:
    return [(finding.kind, finding.severity) for finding in report.findings if finding.severity != "note"]


def test_an_environment_that_ends_its_process_is_reported_and_the_rest_is_looked_at() -> None:
    report = srl.check_env(envs.Dying)
    found = next(finding for finding in report.findings if finding.kind == "exits-process")
    assert found.message.startswith("The process ended with exit status 7 in step 5 of an episode with seed")
    assert found.evidence["step"] == 5
    assert not report.ok


def test_an_environment_that_hangs_is_reported_with_its_place() -> None:
    report = srl.check_env(envs.Hanging, timeout=1.0)
    (found,) = [finding for finding in report.findings if finding.severity == "error"]
    assert (found.kind, found.evidence["step"], found.evidence["phase"]) == ("hangs", 5, "step")
    assert "checked_envs.py" in found.evidence["stack"]
    assert "did not answer within 1 s in step 5" in found.message


def test_an_environment_that_forks_is_reported() -> None:
    assert ("forks", "error") in grave(srl.check_env(envs.Forking, quick=True))


def test_megabytes_on_stdout_stay_out_of_ours(capfd: pytest.CaptureFixture[str]) -> None:
    report = srl.check_env(envs.Shouting, quick=True)
    assert ("stdout-noise", "warning") in grave(report)
    assert report.ok
    assert not srl.check_env(envs.Shouting, quick=True, strict=True, only=["stdout-noise"]).ok
    assert capfd.readouterr() == ("", "")


def test_the_order_of_sets_is_found_by_a_fresh_process() -> None:
    assert ("nondeterministic", "error") in grave(srl.check_env(envs.Hashed))


def test_a_sound_environment_passes_by_class_id_function_and_instance() -> None:
    gym.register("Walk-v0", entry_point=Walk)  # type: ignore[arg-type]
    try:
        for given in (Walk, lambda: Walk(), "Walk-v0", gym.make("Walk-v0"), Walk()):
            report = srl.check_env(given, quick=True)
            assert grave(report) == [], report
            assert report.ok
            assert {"facts", "survey", "repeat", "render"} <= report.experiments.keys()
    finally:
        del gym.registry["Walk-v0"]


def test_an_instance_that_cannot_be_sent_is_played_here_alone() -> None:
    env = Walk()
    env.lock = __import__("threading").Lock()  # type: ignore[attr-defined]
    report = srl.check_env(env)
    assert grave(report) == [("not-picklable", "error")]
    assert report.experiments.keys() == {"facts", "fits", "survey"}


def test_no_side_effects_makes_one_instance_and_resets_only_after_an_end(tmp_path: Path) -> None:
    log = tmp_path / "log"
    file = tmp_path / "noted.py"
    file.write_text(
        "from support.checked_envs import Walk\n\n\nclass Noted(Walk):\n"
        f"    def note(self, word):\n        open({str(log)!r}, 'a').write(word)\n\n"
        "    def __init__(self, render_mode=None):\n        super().__init__(render_mode)\n        self.note('m')\n\n"
        "    def reset(self, **given):\n        self.note('r')\n        return super().reset(**given)\n\n"
        "    def step(self, action):\n        told = super().step(action)\n"
        "        self.note('e' if told[2] or told[3] else 's')\n        return told\n"
    )
    report = srl.check_env(f"{file}:Noted", no_side_effects=True)
    calls = log.read_text()
    assert report.plan == "no-side-effects"
    assert calls.count("m") == 1
    assert calls.replace("m", "").startswith("rs")
    assert "sr" not in calls
    assert "rr" not in calls
    assert calls.count("s") > 100


def test_rules_are_chosen_by_code_and_by_kind() -> None:
    every = run.chosen((), ())
    assert every == set(RULES)
    assert run.chosen(["obs-aliased"], ()) == every - {"SRL-OBS-007", "SRL-SEED-010", "SRL-VEC-007"}
    assert run.chosen(["srl-obs-007"], ["obs-aliased"]) == {"SRL-SEED-010", "SRL-VEC-007"}
    with pytest.raises(UserError, match="no rule 'obs-dtpe'") as caught:
        run.chosen(["obs-dtpe"], ())
    assert "obs-dtype" in caught.value.remedy


def test_a_report_says_which_rules_of_practice_hold() -> None:
    report = srl.check_env(Hops, quick=True)
    states = {each.rule: each.state for each in report.practice}
    assert states["reset leaves nothing behind"] == "yes"
    assert states["spaces match the algorithm"] == "yes"
    assert states["1,000 random steps hold"] == "not looked at"  # only 200 were taken
    assert {name for name, reason in report.fits.items() if not reason} == {"ppo", "a2c", "dqn", "sac"}
    assert "errors" in str(report)


def test_a_class_of_a_script_can_be_pickled_where_the_script_can(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        "import dataclasses, steadyrl as srl\n"
        "from support.checked_envs import Walk\n"
        "@dataclasses.dataclass\nclass Cart:\n    x: float = 0.0\n"
        "class Mine(Walk):\n"
        "    def begin(self):\n        super().begin()\n        self.cart = Cart(self.x)\n"
        "if __name__ == '__main__':\n"
        "    report = srl.check_env(Mine, quick=True)\n"
        "    print([f.message for f in report.findings if f.severity == 'error'], 'process' in report.experiments)\n"
    )
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, check=False, env=with_tests())
    assert (done.stdout, done.stderr) == ("[] True\n", "")


def with_tests() -> dict[str, str]:
    """The environment of a process that finds what this one does."""
    return os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}


def test_no_process_of_the_checker_imports_torch() -> None:
    code = (
        "import sys, steadyrl as srl\n"
        "from steadyrl.checker import child\n"
        "report = srl.check_env('CartPole-v1', no_side_effects=True)\n"
        "assert report.ok, report\n"
        "print('torch' in sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("False\n", "")


def test_the_childs_phases_are_what_drivers_tell() -> None:
    assert set(child.PHASES) == {"", "make", "reset", "step", "render", "close"}
