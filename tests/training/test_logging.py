from __future__ import annotations

import errno
import json
import math
import os
import signal
import struct
import subprocess
import sys
import textwrap
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from steadyrl.errors import RunFailedError, UserError
from steadyrl.training.events import EpisodeEnded, EvaluationEnded, MetricsLogged, Progress, RunEnded
from steadyrl.training.jsonlines import AppendFile, episode_line, json_line
from steadyrl.training.logging import RunWriter, read_jsonl

EPISODE = EpisodeEnded(12, 1, 9.5, 10, True, False, None)
EVALUATION = EvaluationEnded(20, 2.0, 1.0, (1.0, 3.0), (1.0, 3.0), (4, 8), True, 0.5)


def strict(line: str) -> Any:
    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} is not JSON")

    return json.loads(line, parse_constant=refuse)


def records(path: Path) -> list[Any]:
    """The events of a TensorBoard file, read by TensorFlow's record format and not by the code under test."""
    from tensorboardX.crc32c import crc32c
    from tensorboardX.proto.event_pb2 import Event

    def masked(data: bytes) -> int:
        crc = int(crc32c(data)) & 0xFFFFFFFF
        return (((crc >> 15) | (crc << 17)) + 0xA282EAD8) & 0xFFFFFFFF

    data, events = path.read_bytes(), []
    while data:
        (length,) = struct.unpack("<Q", data[:8])
        assert struct.unpack("<I", data[8:12])[0] == masked(data[:8])
        body = data[12 : 12 + length]
        assert struct.unpack("<I", data[12 + length : 16 + length])[0] == masked(body)
        events.append(Event.FromString(body))
        data = data[16 + length :]
    return events


def scalars(folder: Path) -> list[tuple[str, int, float]]:
    return [
        (value.tag, event.step, value.simple_value)
        for path in sorted(folder.glob("events.out.tfevents.*"))
        for event in records(path)
        for value in event.summary.value
    ]


def test_rows_are_those_of_the_contract(tmp_path: Path) -> None:
    writer = RunWriter(tmp_path, tensorboard=False)
    writer(EPISODE)
    writer(EpisodeEnded(13, 0, -1.0, 3, False, True, True))
    writer(MetricsLogged(16, 2, 0.25, {"rollout/ep_rew_mean": 1.5, "time/fps": 10}))
    writer(EVALUATION)
    writer.close()
    first = {"step": 12, "env_index": 1, "return": 9.5, "length": 10, "terminated": True, "truncated": False}
    second = {"step": 13, "env_index": 0, "return": -1.0, "length": 3, "terminated": False, "truncated": True}
    assert read_jsonl(tmp_path / "episodes.jsonl") == [first, second | {"success": True}]
    assert read_jsonl(tmp_path / "metrics.jsonl") == [
        {"step": 16, "updates": 2, "time_s": 0.25, "rollout/ep_rew_mean": 1.5, "time/fps": 10}
    ]
    assert read_jsonl(tmp_path / "evals.jsonl") == [
        {
            "step": 20,
            "mean": 2.0,
            "std": 1.0,
            "ci95": [1.0, 3.0],
            "returns": [1.0, 3.0],
            "lengths": [4, 8],
            "best": True,
            "time_s": 0.5,
        }
    ]
    assert list(tmp_path.glob("events.*")) == []


def test_tensorboard_holds_metrics_and_evaluations_under_their_tags(tmp_path: Path) -> None:
    writer = RunWriter(tmp_path)
    assert list(tmp_path.glob("events.*")) == [], "made with the first metrics, to not delay the start"
    writer(MetricsLogged(16, 2, 0.25, {"train/loss": 0.5, "train/bad": math.nan}))
    writer(EVALUATION)
    found = scalars(tmp_path)
    assert found[0] == ("train/loss", 16, 0.5)
    assert found[1][:2] == ("train/bad", 16)
    assert math.isnan(found[1][2])
    assert found[2:] == [("eval/mean_reward", 20, 2.0), ("eval/mean_ep_length", 20, 6.0), ("eval/std_reward", 20, 1.0)]
    (path,) = tmp_path.glob("events.*")
    assert records(path)[0].file_version == "brain.Event:2"
    writer.close()


def test_numbers_that_are_not_finite_become_null_and_are_named() -> None:
    row = {"step": 1, "a": math.nan, "b": 2.0, "c": [1.0, math.inf], "d": {"e": -math.inf}, "f": np.float32("nan")}
    assert strict(json_line(row)) == {
        "step": 1,
        "a": None,
        "b": 2.0,
        "c": [1.0, None],
        "d": {"e": None},
        "f": None,
        "nonfinite": ["a", "c", "d", "f"],
    }


def test_numpy_numbers_and_paths_are_written_as_json() -> None:
    row = {"a": np.int64(3), "b": np.float32(0.5), "c": np.arange(2), "d": np.bool_(True), "e": Path("x"), "f": (1, 2)}
    assert strict(json_line(row)) == {"a": 3, "b": 0.5, "c": [0, 1], "d": True, "e": "x", "f": [1, 2]}


@pytest.mark.parametrize("value", [0.1, -3.0, 1e300, 5e-324, math.nan, math.inf, np.float32(0.1), 7])
@pytest.mark.parametrize("success", [None, True, False, np.True_])
def test_an_episodes_line_is_the_strict_json_of_its_row(value: float, success: bool | None) -> None:
    line = episode_line(EpisodeEnded(5, 2, value, 3, False, np.True_, success))  # type: ignore[arg-type]
    row = {"step": 5, "env_index": 2, "return": float(value), "length": 3, "terminated": False, "truncated": True}
    known = {} if success is None else {"success": bool(success)}
    assert strict(line) == strict(json_line(row | known))
    assert line.endswith("}\n")
    assert line.count("\n") == 1


def test_episodes_are_on_disk_after_the_next_progress_or_a_second(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    path, writer = tmp_path / "episodes.jsonl", RunWriter(tmp_path, tensorboard=False)
    writer(EPISODE)
    assert read_jsonl(path) == [], "batched, because each write costs"
    writer(Progress(16, 100, 0, 1.0, {}))
    assert len(read_jsonl(path)) == 1
    now[0] += 0.9
    writer(EPISODE)
    assert len(read_jsonl(path)) == 1
    now[0] += 0.2
    writer(EPISODE)
    assert len(read_jsonl(path)) == 3
    writer(EPISODE)
    writer(RunEnded(17, "finished", 2.0, tmp_path))
    assert len(read_jsonl(path)) == 4
    writer.close()


def test_close_twice_and_go_on(tmp_path: Path) -> None:
    writer = RunWriter(tmp_path)
    writer(MetricsLogged(1, 1, 0.1, {"a": 1.0}))
    writer(EPISODE)
    writer.close()
    writer.close()
    writer(MetricsLogged(2, 2, 0.2, {"a": 2.0}))
    writer(EPISODE)
    writer.close()
    assert [row["step"] for row in read_jsonl(tmp_path / "metrics.jsonl")] == [1, 2]
    assert len(read_jsonl(tmp_path / "episodes.jsonl")) == 2
    assert scalars(tmp_path) == [("a", 1, 1.0), ("a", 2, 2.0)]


def test_event_files_sort_in_the_order_they_were_made(tmp_path: Path) -> None:
    """TensorBoard reads them by name: in one second the tenth must not come before the ninth."""
    for step in range(12):
        writer = RunWriter(tmp_path)
        writer(MetricsLogged(step, step, 0.1, {"a": float(step)}))
        writer.close()
    assert [step for _, step, _ in scalars(tmp_path)] == list(range(12))


def test_a_killed_run_keeps_what_was_told_before_the_last_progress(tmp_path: Path) -> None:
    script = f"""
        import os, signal
        from pathlib import Path
        from steadyrl.training.events import EpisodeEnded, MetricsLogged, Progress
        from steadyrl.training.logging import RunWriter
        writer = RunWriter(Path({str(tmp_path)!r}), tensorboard=False)
        for step in range(1000):
            writer(EpisodeEnded(step, 0, 1.0, 1, True, False, None))
        writer(Progress(1000, 2000, 0, 1.0, {{}}))
        writer(MetricsLogged(1000, 1, 1.0, {{"a": 1.0}}))
        os.kill(os.getpid(), signal.SIGKILL)
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(script)], check=False)
    assert done.returncode == -signal.SIGKILL
    assert [row["step"] for row in read_jsonl(tmp_path / "episodes.jsonl")] == list(range(1000))
    assert len(read_jsonl(tmp_path / "metrics.jsonl")) == 1


def test_a_torn_last_line_is_left_out_and_anything_else_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    path.write_text('{"a": 1}\n{"a": 2}\n{"a": ')
    assert read_jsonl(path) == [{"a": 1}, {"a": 2}]
    path.write_text("")
    assert read_jsonl(path) == []
    for damaged in ('{"a": 1}\n{"a"\n{"a": 3}\n', '{"a": 1}\n[2]\n', '{"a": 1}\n\n{"a": 2}\n'):
        path.write_text(damaged)
        with pytest.raises(UserError, match="Line 2 of"):
            read_jsonl(path)


@pytest.mark.parametrize("size", [0, 5, 70_000, 200_000])
def test_appending_to_a_torn_file_goes_on_after_its_last_whole_line(tmp_path: Path, size: int) -> None:
    path = tmp_path / "x.jsonl"
    path.write_text('{"a": 1}\n' + "x" * size)
    file = AppendFile(path)
    file.write(b'{"a": 2}\n')
    file.close()
    assert read_jsonl(path) == [{"a": 1}, {"a": 2}]


def test_a_file_of_one_torn_line_becomes_empty(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    path.write_text('{"a": 1')
    AppendFile(path).close()
    assert path.read_bytes() == b""


def test_a_full_disk_fails_the_run_and_names_the_file(tmp_path: Path) -> None:
    if not os.path.exists("/dev/full"):
        pytest.skip("needs /dev/full")
    (tmp_path / "metrics.jsonl").symlink_to("/dev/full")
    writer = RunWriter(tmp_path, tensorboard=False)
    with pytest.raises(RunFailedError) as raised:
        writer(MetricsLogged(1, 1, 0.1, {"a": 1.0}))
    assert str(tmp_path / "metrics.jsonl") in raised.value.message
    assert os.strerror(errno.ENOSPC) in raised.value.message
    assert raised.value.exit_status == 3
    writer.close()


def test_a_run_folder_that_cannot_be_written_fails_at_once(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(RunFailedError, match=r"Cannot write .*metrics"):
        RunWriter(tmp_path / "file")
    (tmp_path / "run" / "evals.jsonl").mkdir(parents=True)
    with pytest.raises(RunFailedError, match=r"Cannot write .*evals\.jsonl: Is a directory"):
        RunWriter(tmp_path / "run")
