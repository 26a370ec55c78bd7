"""A state that could not be read again is not written: the writer's limits are the reader's."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import steadyrl as srl
from steadyrl.errors import RunFailedError
from steadyrl.strict_json import strict_object
from steadyrl.training import chunks, resuming, state_limits
from steadyrl.training.checkpoint import DamagedError
from steadyrl.training.resuming import read_state
from steadyrl.training.saving import ARRAYS, STATE
from steadyrl.training.state_limits import MAX_DEPTH, require_readable
from support.checkpoints import SESSION, Work, files, found


def test_limits_are_those_that_the_pages_tell_and_that_were_measured() -> None:
    assert (state_limits.MAX_STATE, MAX_DEPTH) == (256 << 20, 200)
    assert (chunks.CHUNK_BYTES, chunks.CHUNK_BYTES_MOST, chunks.MOST_COPIED) == (4 << 20, 1 << 30, 512 << 20)


def nested(depth: int, kind: type) -> Any:
    """Values of which the innermost, a number, lies so many levels below."""
    value: Any = 1
    for _ in range(depth):
        value = [value] if kind is list else {"a": value}
    return value


@pytest.mark.parametrize("kind", [list, dict])
@pytest.mark.parametrize("depth", [0, 1, MAX_DEPTH - 2, MAX_DEPTH - 1, MAX_DEPTH, MAX_DEPTH + 300])
def test_what_is_too_deep_to_be_read_is_not_written(depth: int, kind: type) -> None:
    value = {"loop": {}, "envs": [1, nested(depth - 1, kind)] if depth else []}
    text = json.dumps(value).encode()
    try:
        strict_object(text, max_bytes=len(text), max_depth=MAX_DEPTH)
    except ValueError:
        with pytest.raises(RunFailedError, match=r"step_5 has values nested deeper than 200 in 'envs'") as caught:
            require_readable(value, text, bytes(8), "x/step_5")
        assert caught.value.code == "state-too-deep"
    else:
        require_readable(value, text, bytes(8), "x/step_5")


def test_what_is_too_large_to_be_read_is_not_written(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(state_limits, "MAX_STATE", 100)
    value = {"loop": {"a": 1}, "session": [[1, 2], {"b": 3}]}
    full, over = (bytes([size, 0, 0, 0, 0, 0, 0, 0]) for size in (100, 101))
    require_readable(value, bytes(100), full, "x")
    for text, arrays in ((bytes(101), full), (b"", over)):
        with pytest.raises(RunFailedError, match=r"would take 101 bytes .* the 100 .* is 'session'") as caught:
            require_readable(value, text, arrays, "x")
        assert caught.value.code == "state-too-large"
        assert "log_interval" in caught.value.remedy


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Work]:
    before = chunks.CHUNK_BYTES
    yield Work(tmp_path_factory.mktemp("work"))
    chunks.CHUNK_BYTES = before


def test_both_sides_draw_the_same_line(work: Work, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = work.copy(tmp_path / "run")
    path = work.saver(run, keep_last=None).save(SESSION)
    index = int.from_bytes((path / ARRAYS).read_bytes()[:8], "little")
    size = max((path / STATE).stat().st_size, index)
    monkeypatch.setattr(resuming, "MAX_STATE", size)
    read_state(path)
    monkeypatch.setattr(resuming, "MAX_STATE", size - 1)
    with pytest.raises(DamagedError, match=f"more than the {size - 1} that it may have|larger than {size - 1} bytes"):
        read_state(path)
    monkeypatch.setattr(state_limits, "MAX_STATE", size - 1)
    other = work.copy(tmp_path / "other")
    before = files(other)
    with pytest.raises(RunFailedError, match="that can be read again"):
        work.saver(other, keep_last=None).save(SESSION)
    assert {name for name in files(other) if "step_" in name} == {name for name in before if "step_" in name}
    assert found(other).step == 80  # type: ignore[union-attr]


def test_a_run_says_it_and_keeps_what_it_had(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    options: dict[str, Any] = {"preset": "none", "eval_freq": 0, "n_steps": 8, "batch_size": 8, "checkpoint_freq": 16}
    srl.train("ppo", "CartPole-v1", total_timesteps=16, run_dir=tmp_path / "good", **options)
    monkeypatch.setattr(state_limits, "MAX_STATE", 2000)
    with pytest.raises(RunFailedError, match="that can be read again"):
        srl.train("ppo", "CartPole-v1", total_timesteps=64, run_dir=tmp_path / "run", **options)
    assert srl.Run.open(tmp_path / "run").status == "failed"
