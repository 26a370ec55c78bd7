"""The benchmark that runs every environment with every algorithm, without running it."""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parent.parent

pytestmark = pytest.mark.skipif(not (ROOT / "benchmarks").is_dir(), reason="this copy of the tests has no benchmarks")


@pytest.fixture
def module(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    monkeypatch.delitem(sys.modules, "tables", raising=False)
    return importlib.import_module("compatibility")


def row(env: str, algo: str, vec: str = "sync", **more: Any) -> dict[str, Any]:
    return {"family": "actions", "env": env, "algo": algo, "vec": vec, "steps": 2000, "result": "yes", **more}


def test_a_part_takes_the_place_of_what_it_ran_and_of_nothing_else(module: Any) -> None:
    before = [row("Dict", "sac", result="failed"), row("Text", "ppo")]
    now = [row("Dict", "sac", result="no"), row("Dict", "ppo", "async"), row("Dict", "ppo")]
    found = [(c["env"], c["algo"], c["vec"], c["result"]) for c in module.merged(before, now)]
    assert found == [
        ("Dict", "ppo", "sync", "yes"),
        ("Dict", "ppo", "async", "yes"),
        ("Dict", "sac", "sync", "no"),
        ("Text", "ppo", "sync", "yes"),
    ]


def test_what_is_refused_and_what_breaks_are_told_apart(module: Any) -> None:
    cases = {case.name: case for case in module.cases_of("observations")}
    graph = module.cell(cases["Graph"], "ppo", "sync", 250)
    assert (graph["result"], graph["stage"]) == ("no", "make")
    assert "Graph" in graph["message"]
    good = module.cell(cases["Tuple"], "a2c", "sync", 100)
    assert (good["result"], good["snapshot"]) == ("yes", "native")
    assert good["updates"] == 2
    broken = module.Case("observations", "broken", {"no": 1}, cases["Tuple"].observation)
    assert module.cell(broken, "a2c", "sync", 100)["result"] == "no"


def test_a_package_that_is_missing_is_told(module: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(module, "installed", lambda family: "ale-py")
    output = tmp_path / "out.json"
    assert module.main(["--family", "actions", "--algo", "ppo", "--vec", "sync", "--output", str(output)]) == 0
    cells = json.loads(output.read_text())["cells"]
    assert len(cells) == len(module.cases_of("actions"))
    assert {cell["result"] for cell in cells} == {"not installed"}


def test_the_table_numbers_each_reason_once(module: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    tables = importlib.import_module("tables")
    monkeypatch.setattr(tables, "RESULTS", tmp_path)
    assert tables.compatibility() == tables.PENDING + "\n"
    cells = [
        row("Dict", "ppo", snapshot="native"),
        row("Dict", "ppo", "async", snapshot="native"),
        row("Dict", "sac", result="no", message="SAC is for\nothers."),
        row("Dict", "sac", "async", result="no", message="SAC is for others."),
        row("Dict", "dqn"),
        row("Text", "ppo", result="no", message="Text is not."),
        row("Text", "ppo", "async", steps=500, snapshot="none: its state: unread"),
    ]
    cells.append({**row("highway_env:parking-v0", "ppo"), "family": "highway-env"})
    packages = {"MuJoCo": {"mujoco": "3"}, "actions": {}}
    document = {"episode_limit": 5, "versions": {"torch": "2"}, "packages": packages, "cells": cells}
    (tmp_path / "compatibility.json").write_text(json.dumps(document))
    text = tables.compatibility()
    assert "| actions | Dict | yes | not run | yes sync | not run | not run | no (1) | native |" in text
    assert (
        "| actions | Text | no (2) sync, yes async | not run | not run | not run | not run | not run | none (3) |"
        in text
    )
    assert "| highway-env | intersection-v1 | not run |" in text
    assert text.count("parking-v0") == 1
    assert (
        "\n2,000 steps of training each (500 for actions async), episodes cut at 5; torch 2.\nMuJoCo: mujoco 3.\n"
        in text
    )
    assert text.endswith("1. SAC is for others.\n2. Text is not.\n3. its state: unread\n")
