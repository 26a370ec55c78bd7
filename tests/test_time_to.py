"""The race to a score: when it evaluates, what its clock counts, and how its table is made."""

from __future__ import annotations

import importlib
import json
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]


@pytest.fixture
def works(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    return importlib.import_module("time_to_works")


@pytest.fixture
def time_to(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    return importlib.import_module("time_to")


def test_the_clock_counts_only_while_it_runs(works: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    now = {"wall": 0.0, "cpu": 0.0}
    monkeypatch.setattr(works, "perf_counter", lambda: now["wall"])
    monkeypatch.setattr(works, "process_time", lambda: now["cpu"])
    clock = works.Clock()
    for running in (True, False, True):
        if running:
            clock.go()
        now["wall"] += 2.0
        now["cpu"] += 3.0
        clock.stand()
        clock.stand()
    assert (clock.wall, clock.cpu) == (4.0, 6.0)


def test_a_judge_looks_once_in_each_period_with_the_clock_standing(works: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    race = works.Race("ppo", "CartPole-v1", 1, 10.0, every=100, limit=1000)
    judge = works.Judge(race, None)
    now, means = [0.0], iter([1.0, 5.0, 10.0])
    monkeypatch.setattr(works, "perf_counter", lambda: now[0])
    monkeypatch.setattr(works, "process_time", lambda: 10 * now[0])

    def evaluate() -> float:
        now[0] += 50.0
        return next(means)

    monkeypatch.setattr(judge, "evaluate", evaluate)
    judge.clock.go()
    going = []
    for step in (40, 99, 104, 160, 200, 296, 304):
        now[0] += 1.0
        going.append(judge(step))
    assert going == [True, True, True, True, True, True, False]
    assert [row["step"] for row in judge.rows] == [104, 200, 304]
    assert [(row["wall_s"], row["cpu_s"]) for row in judge.rows] == [(3.0, 30.0), (5.0, 50.0), (7.0, 70.0)]
    assert works.result(judge.rows, 10.0) == {"reached": True, **judge.rows[2]}
    assert works.result(judge.rows, 5.0) == {"reached": True, **judge.rows[1]}
    assert works.result(judge.rows, 11.0) == {"reached": False, **judge.rows[2]}


def test_an_evaluation_is_deterministic_and_of_whole_episodes(works: Any) -> None:
    race = works.Race("ppo", "CartPole-v1", 1, 475.0, every=100, limit=1000)
    asked = []

    def predict(obs: Any, deterministic: bool) -> tuple[int, None]:
        asked.append(deterministic)
        return int(obs[2] + obs[3] > 0), None  # balances by angle and speed

    mean = works.Judge(race, predict).evaluate()
    assert len(asked) == mean * works.EPISODES
    assert all(asked)
    assert works.Judge(race, predict).evaluate() == mean > 100.0


def row(wall: float, reached: bool = True) -> dict[str, Any]:
    return {"reached": reached, "step": int(1000 * wall), "wall_s": wall, "cpu_s": 2 * wall, "threads": 2}


def test_a_run_that_never_arrives_counts_as_longest(time_to: Any) -> None:
    two = [row(3.0), row(1.0, reached=False), row(2.0)]
    assert time_to.summary(two) == {
        "seeds": 3,
        "reached": 2,
        "threads": 2,
        "median_step": 3000,
        "median_wall_s": 3.0,
        "median_cpu_s": 6.0,
    }
    one = [row(3.0), row(1.0, reached=False), row(2.0, reached=False)]
    assert time_to.summary(one)["median_wall_s"] is None
    found = time_to.ratios({"ours": [row(1.5)], "sb3": two, "sbx": one})
    assert found == {"sb3": {"wall_s": 2.0, "cpu_s": 2.0}, "sbx": {"wall_s": None, "cpu_s": None}}


def test_libraries_take_turns(time_to: Any) -> None:
    assert [time_to.turned("abc", i) for i in range(4)] == [
        ["a", "b", "c"],
        ["b", "c", "a"],
        ["c", "a", "b"],
        ["a", "b", "c"],
    ]


def test_the_table_says_who_arrived(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    tables = importlib.import_module("tables")
    monkeypatch.setattr(tables, "RESULTS", tmp_path)
    assert tables.time_to() == tables.PENDING + "\n"
    known = {"seeds": 3, "reached": 3, "threads": 2, "median_step": 26_000, "median_wall_s": 2.04, "median_cpu_s": 4.0}
    never = {**known, "reached": 1, "median_step": None, "median_wall_s": None, "median_cpu_s": None}
    race = {
        "score": 475.0,
        "limit": 100_000,
        "libraries": {"ours": known, "sb3": known | {"median_wall_s": 20.4}, "sbx": never},
        "ratio": {"sb3": {"wall_s": 10.0, "cpu_s": 1.0}, "sbx": {"wall_s": None, "cpu_s": None}},
        "machine": {"cores": 2, "platform": "Linux-6"},
        "versions": {
            "ours": {"steadyrl": "0.1.0", "torch": "2.13.0", "gymnasium": "1.4.0"},
            "sb3": {"stable_baselines3": "2.9.2"},
            "sbx": {"sbx": "0.28.0"},
        },
    }
    (tmp_path / "time-to.json").write_text(json.dumps({"races": {"ppo-cartpole": race}}))
    lines = tables.time_to().splitlines()
    assert lines[2] == "| ppo-cartpole to 475 | SteadyRL | 3 of 3 | 26,000 | 2.0 | 4.0 |  |"
    assert lines[3] == "| ppo-cartpole to 475 | Stable-Baselines3 | 3 of 3 | 26,000 | 20.4 | 4.0 | 10; 1 |"
    assert lines[4] == "| ppo-cartpole to 475 | SBX | 1 of 3 | over 100,000 | none | none | none |"
    assert "ppo-cartpole: 2 cores (Linux-6)" in lines[-1]
