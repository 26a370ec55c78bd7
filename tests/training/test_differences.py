"""What is called a difference between two runs, at the edges: bits of leaves, parts elsewhere, what cannot be read."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from safetensors.numpy import load as load_arrays
from safetensors.numpy import save as save_arrays

from steadyrl.errors import UserError
from steadyrl.training.checkpoint import (
    INDEX,
)
from steadyrl.training.comparing import compared, first_difference
from steadyrl.training.saving import ARRAYS, STATE
from support.stored_run import resealed, stored_run


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return stored_run(tmp_path)


def rewrite(run: Path, change: Callable[[dict[str, Any], dict[str, Any]], object]) -> Path:
    folder = run / "checkpoints" / "step_40"
    state, arrays = json.loads((folder / STATE).read_text()), load_arrays((folder / ARRAYS).read_bytes())
    change(state, arrays)
    (folder / STATE).write_text(json.dumps(state))
    (folder / ARRAYS).write_bytes(save_arrays(arrays))
    return folder


def test_two_copies_are_alike_and_a_row_without_a_step_is_damage(run: Path, tmp_path: Path) -> None:
    other = Path(shutil.copytree(run, tmp_path / "other"))
    assert first_difference(run, other) is None
    assert compared(run, other)["checkpoints"] == 1
    (other / "metrics.jsonl").write_text('{"step": 1}\n{"loss": 1}\n')
    with pytest.raises(UserError, match=r"Line 2 of .*metrics.jsonl does not tell its step") as caught:
        first_difference(run, other)
    assert caught.value.code == "damaged-file"


@pytest.mark.parametrize("longer", [0, 1])
def test_a_row_more_is_a_difference(longer: int, run: Path, tmp_path: Path) -> None:
    runs = run, Path(shutil.copytree(run, tmp_path / "other"))
    rows = len((run / "episodes.jsonl").read_text().splitlines())
    with (runs[longer] / "episodes.jsonl").open("a") as file:
        file.write('{"step": 77}\n')
    difference = first_difference(*runs)
    assert difference is not None
    counts = (str(rows + 1), str(rows))
    assert (difference.first, difference.second) == (counts if longer == 0 else counts[::-1])
    assert (difference.step, difference.where, difference.name) == (77, "episodes.jsonl", "rows")


def test_a_checkpoint_that_cannot_be_read_is_a_difference(run: Path, tmp_path: Path) -> None:
    other = Path(shutil.copytree(run, tmp_path / "other"))
    resealed(other, lambda index: index["about"]["parts"].update(policy="0" * 32))
    (other / "checkpoints" / "step_40" / STATE).write_text("{}")
    difference = first_difference(run, other)
    assert difference is not None
    assert (difference.step, difference.where, difference.name) == (40, "checkpoint step_40", "index")
    assert "state.safetensors" in difference.first or "state.json" in difference.first
    (other / "checkpoints" / "step_40" / INDEX).write_text("{}")
    assert "checkpoint.json" in first_difference(run, other).first  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        (0.0, -0.0, False),
        ({"$float": "000000000000f87f"}, {"$float": "000000000000f87f"}, True),
        ({"$tuple": [1, 2]}, {"$tuple": [1, 2]}, True),
        ({"$tuple": [1, 2]}, {"$tuple": [1, 3]}, False),
        ({"$tuple": [1]}, [1], False),
        ([1], [1, 2], False),
        (1, True, False),
    ],
)
def test_leaves_are_compared_to_the_bit(one: Any, other: Any, same: bool, run: Path, tmp_path: Path) -> None:
    second = Path(shutil.copytree(run, tmp_path / "other"))
    for place, value in ((run, one), (second, other)):
        rewrite(place, lambda state, arrays, value=value: state.update(extra=value))  # type: ignore[misc]
        resealed(place, lambda index, value=value: index["about"]["parts"].update(extra=repr(value)))  # type: ignore[misc]
    resealed(second, lambda index: index["about"]["parts"].update(extra="another hash"))
    difference = first_difference(run, second)
    assert (difference is None) == same
    if difference is not None:
        assert difference.name.startswith("extra")
        assert str(difference).startswith("step 40, checkpoint step_40, extra")


def test_a_part_that_lies_elsewhere_is_named_by_its_hash(run: Path, tmp_path: Path) -> None:
    second = Path(shutil.copytree(run, tmp_path / "other"))
    resealed(second, lambda index: index["about"]["parts"].update(rings="0" * 32))
    difference = first_difference(run, second)
    assert difference is not None
    assert (difference.name, difference.second) == ("rings", "0" * 32)
    resealed(second, lambda index: index["about"].pop("parts"))
    found = first_difference(run, second)
    assert found is not None
    assert (found.name, found.second) == ("rings", "None")  # all the parts themselves are alike
