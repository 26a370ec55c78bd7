"""Rules that read what is hard to bring about: their records, made by hand."""

from __future__ import annotations

from typing import Any

import pytest

from steadyrl.checker.experiments import EXPERIMENTS, Context, found_in, perform
from steadyrl.checker.finding import ANY, RULES, Finding, rule, settled
from steadyrl.checker.probe.goals import Goals
from steadyrl.checker.probe.process import Process
from steadyrl.checker.probe.resources import Resources
from steadyrl.checker.probe.survey import Survey
from steadyrl.checker.records import Died, Fits, Saving
from support.checked_envs import Walk
from support.checker import codes, stage_of

RECORDS: list[tuple[str, str, Any, Any]] = [
    ("SRL-GOL-003", "goals", Goals(shapes="achieved_goal has shape (2,), desired_goal (3,)"), Goals()),
    ("SRL-PRC-003", "died", Died(7, "survey", "step", 5, 1), Died(None, "survey", "step", 5, 1)),
    ("SRL-PRC-003", "died", Died(-9, "survey", "step", 5, 1), Died(-6, "render", "render", 0, 1)),
    ("SRL-RND-006", "died", Died(-6, "render", "render", 0, 1), Died(1, "render", "render", 0, 1)),
    ("SRL-PRC-004", "died", Died(None, "survey", "step", 5, 1, 30.0), Died(-11, "survey", "step", 5, 1)),
    ("SRL-PRC-005", "forks", 2, 0),
    ("SRL-PRC-011", "process", Process(threads=4), Process()),
    ("SRL-FIT-001", "fits", Fits({"ppo": "", "dqn": "no"}), Fits({"ppo": "", "dqn": ""})),
    ("SRL-FIT-002", "fits", Fits({"ppo": "no", "dqn": "no"}), Fits({"ppo": "", "dqn": "no"})),
    ("SRL-FIT-003", "saving", Saving("none", "a socket"), Saving("native", "")),
    ("SRL-FIT-004", "saving", Saving("replay", "a world of Box2D"), Saving("native", "")),
]


@pytest.mark.parametrize(("code", "name", "faulty", "sound"), RECORDS, ids=[record[0] for record in RECORDS])
def test_a_rule_reads_its_record(code: str, name: str, faulty: Any, sound: Any) -> None:
    assert code in codes(found_in(name, faulty))
    assert code not in codes(found_in(name, sound))


def grown(rates: list[int], steps: int = 100) -> Resources:
    """Memory that grows by so many bytes a step in each segment."""
    memory = [10**6]
    for rate in rates:
        memory.append(memory[-1] + rate * steps)
    return Resources([steps] * len(memory), memory, [0] * len(memory), {"files": [5] * len(memory)})


@pytest.mark.parametrize(
    ("rates", "leaks"),
    [
        ([4000, 4000, 4000, 4000], True),
        ([500, 400, 450, 500], True),
        ([90_000, 10, 0, 5], False),  # a cache that fills at first
        ([0, 90_000, 0, 0], False),
        ([30, 30, 30, 30], False),  # a number in a list: a third of a gigabyte in ten million steps
    ],
)
def test_memory_leaks_where_it_grows_all_the_time(rates: list[int], leaks: bool) -> None:
    assert ("SRL-RES-001" in codes(found_in("resources", grown(rates)))) is leaks


def test_what_a_few_slow_steps_hold_is_no_leak() -> None:
    assert "SRL-RES-001" not in codes(found_in("resources", grown([980] * 5, steps=5)))
    assert "SRL-RES-001" in codes(found_in("resources", grown([980] * 5, steps=50)))


@pytest.mark.parametrize(
    ("times", "slow"),
    [
        ([2e-5] * 1000, False),
        ([2e-5] * 999 + [0.5], False),  # once: something was built or compiled
        (([2e-5] * 24 + [0.2]) * 40, True),
        ([0.01] * 24 + [0.03], False),
        (([0.01] * 24 + [0.03]) * 40, False),  # three times the usual is no hiccup
        ([1e-5 * n for n in range(1, 2001)], True),  # each step takes longer than the one before
        ([0.2] * 50, True),
    ],
)
def test_slow_steps(times: list[float], slow: bool) -> None:
    assert ("SRL-PRC-010" in codes(found_in("survey", Survey(times=times)))) is slow


def timed(times: list[float], idle: float = 0.0, length: int = 50, resets: float = 1e-5) -> Survey:
    """A survey of episodes of so many steps."""
    survey = Survey(times=times, idle=[idle] * len(times), reset_times=[resets] * 20)
    survey.time_steps = [1 + number % length for number in range(len(times))]
    return survey


@pytest.mark.parametrize(
    ("code", "faulty", "sound"),
    [
        ("SRL-TIM-001", timed([0.02] * 200, idle=0.019), timed([0.02] * 200, idle=0.005)),
        ("SRL-TIM-002", timed([1e-3 * (1 + n % 50) for n in range(400)]), timed([1e-3] * 400)),
        ("SRL-TIM-003", timed([1e-3] * 400, resets=0.5), timed([1e-3] * 400, resets=0.01)),
    ],
)
def test_times(code: str, faulty: Survey, sound: Survey) -> None:
    assert code in codes(found_in("survey", faulty))
    assert code not in codes(found_in("survey", sound))


def test_a_fault_of_the_checker_is_a_note_and_not_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(stage: Any, context: Any) -> Any:
        raise ZeroDivisionError("oh")

    monkeypatch.setitem(EXPERIMENTS, "goals", broken)
    record, findings = perform("goals", stage_of(Walk), Context())
    assert record is None
    assert [(f.code, f.severity) for f in findings] == [("SRL-CHK-001", "note")]
    assert "ZeroDivisionError: oh" in findings[0].message


def finding(code: str, severity: Any = "error") -> Finding:
    return Finding(code, RULES[code].kind, severity, "It is so.", {}, "Change it.", RULES[code].docs)


def test_a_finding_that_another_explains_is_left_out() -> None:
    cause, effect = finding("SRL-SEED-003"), finding("SRL-SEED-005")
    assert settled([effect, cause]) == [cause]
    assert settled([effect]) == [effect]
    assert settled([effect, finding("SRL-SEED-003", "note")])[0] == effect


def test_the_gravest_comes_first() -> None:
    listed = [finding("SRL-FIT-001", "note"), finding("SRL-EPI-003", "warning"), finding("SRL-OBS-005")]
    assert [f.severity for f in settled(listed)] == ["error", "warning", "note"]


def test_calls_and_spaces_come_before_what_may_follow_from_them() -> None:
    codes = ["SRL-API-003", "SRL-SPC-001", "SRL-ACT-005", "SRL-OBS-005"]
    assert [f.code for f in settled([finding(code) for code in reversed(codes)])] == codes


def test_codes_are_unique_and_explanations_are_kinds() -> None:
    kinds = {each.kind for each in RULES.values()}
    for each in RULES.values():
        assert set(each.unless) <= (kinds | {ANY}) - {each.kind}, each.code
        assert each.what[0].islower() or each.what.startswith("SRL"), each.code
    with pytest.raises(ValueError, match="two rules"):
        rule("SRL-OBS-001", "x", "note", "facts", "x", "x")(lambda record: [])
