"""A labelled set of faulty and sound environments from elsewhere: STEADYRL_CORPUS names its folder."""

from __future__ import annotations

import importlib
import json
import os
import sys
from pathlib import Path

import pytest

import steadyrl as srl

CORPUS = os.environ.get("STEADYRL_CORPUS", "")

pytestmark = [
    pytest.mark.soak,
    pytest.mark.skipif(not CORPUS, reason="STEADYRL_CORPUS names no folder of labelled environments"),
]


def labels() -> dict[str, dict[str, object]]:
    path = Path(CORPUS, "labels.json")
    return json.loads(path.read_text()) if path.is_file() else {}


@pytest.fixture(scope="module", autouse=True)
def known() -> None:
    folder = Path(CORPUS).resolve()
    sys.path.insert(0, str(folder.parent))
    importlib.import_module(folder.name).register_all()


@pytest.mark.parametrize("env_id", labels())
def test_the_label_is_found_and_nothing_else(env_id: str) -> None:
    label = labels()[env_id]
    report = srl.check_env(env_id)
    kinds = {(finding.kind, finding.severity) for finding in report.findings if finding.severity != "note"}
    if label["sound"]:
        assert kinds == set()
        return
    also = label["also"]
    assert isinstance(also, list)
    assert (label["expect"], label["severity"]) in kinds
    assert {kind for kind, _ in kinds} <= {label["expect"], *also}
