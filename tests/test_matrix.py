"""The command that runs the tests on several versions of Gymnasium, without running them."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parent.parent


@pytest.fixture(scope="module")
def matrix() -> ModuleType:
    spec = importlib.util.spec_from_file_location("matrix", ROOT / "requirements" / "matrix.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_supported_version_is_pinned_with_a_hash(matrix: ModuleType) -> None:
    pins = matrix.pins(matrix.VERSIONS.read_text())
    assert list(pins) == ["1.1.1", "1.2.3", "1.3.0", "1.4.0"]
    for version, line in pins.items():
        assert re.fullmatch(rf"gymnasium=={re.escape(version)} --hash=sha256:[0-9a-f]{{64}}", line)


@pytest.mark.parametrize(
    ("output", "expected"),
    [
        ("...\n3 passed in 1.2s", (3, 0)),
        ("...\n2 failed, 521 passed, 12 deselected in 269.75s (0:04:29)", (521, 2)),
        ("1 passed, 1 error in 2s", (1, 1)),
        ("3 passed, 2 errors in 2s", (3, 2)),
        ("no tests ran in 0.1s", (0, 1)),
        ("", (0, 1)),
    ],
)
def test_the_counts_of_pytest_are_read(matrix: ModuleType, output: str, expected: tuple[int, int]) -> None:
    assert matrix.counts(output) == expected


def test_a_version_is_good_where_tests_ran_and_none_failed(matrix: ModuleType) -> None:
    assert matrix.Result("1.1.1", 5, 0, 1.0, "").good
    assert not matrix.Result("1.1.1", 5, 1, 1.0, "").good
    assert not matrix.Result("1.1.1", 0, 0, 1.0, "").good


def test_the_tests_that_it_runs_exist(matrix: ModuleType) -> None:
    assert all((ROOT / name).exists() for name in (*matrix.QUICK, *matrix.WHOLE))
