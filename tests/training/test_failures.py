"""The saved batch: bounded in size, whole or not there, and never in the way of the error itself."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file

from steadyrl.errors import NonFiniteError
from steadyrl.training import failures
from steadyrl.training.failures import save_failure


def error(**arrays: object) -> NonFiniteError:
    return NonFiniteError(
        "It is nan.", remedy="Mend it.", batch=arrays, facts={"source": "loss", "value": float("nan")}
    )


def test_arrays_and_words_are_written(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}")
    rows = np.arange(6, dtype=np.float32).reshape(2, 3).T  # not contiguous
    path = save_failure(tmp_path, 70, error(obs=torch.tensor([1.0, torch.nan]), rows=rows, flags=np.array([True])))
    assert path == tmp_path / "failures" / "nonfinite-step70.safetensors"
    arrays = load_file(path)
    np.testing.assert_array_equal(arrays["obs"], [1.0, np.nan])
    np.testing.assert_array_equal(arrays["rows"], rows)
    assert arrays["flags"].dtype == np.bool_
    words = json.loads(path.with_suffix(".json").read_text())
    assert words == {
        "step": 70,
        "message": "It is nan.",
        "remedy": "Mend it.",
        "code": "non-finite",
        "source": "loss",
        "value": None,
        "arrays": {"obs": [2], "rows": [3, 2], "flags": [1]},
        "cut": {},
        "config_sha256": "44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a",
    }


def test_what_is_too_large_is_cut_to_its_first_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(failures, "LIMIT", 2000)
    big = np.arange(10_000, dtype=np.float32).reshape(1000, 10)
    path = save_failure(tmp_path, 1, error(big=big, small=np.ones(5)))
    assert path is not None
    arrays = load_file(path)
    np.testing.assert_array_equal(arrays["big"], big[:25])
    np.testing.assert_array_equal(arrays["small"], np.ones(5))
    assert json.loads(path.with_suffix(".json").read_text())["cut"] == {"big": 1000}
    assert path.stat().st_size < 3000


def test_a_name_that_is_taken_is_left_alone_up_to_a_number(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(failures, "MOST", 3)
    paths = [save_failure(tmp_path, 9, error(x=np.array([float(i)]))) for i in range(5)]
    assert [path and path.name for path in paths] == [
        "nonfinite-step9.safetensors",
        "nonfinite-step9-2.safetensors",
        "nonfinite-step9-3.safetensors",
        None,
        None,
    ]
    assert [float(load_file(path)["x"][0]) for path in paths if path] == [0.0, 1.0, 2.0]


def test_without_arrays_or_room_nothing_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert save_failure(tmp_path, 1, error()) is None
    assert not list(tmp_path.iterdir())
    (tmp_path / "failures").write_text("a file where the folder should be")
    assert save_failure(tmp_path, 1, error(x=np.ones(1))) is None
