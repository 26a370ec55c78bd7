"""Hostile checkpoints by the thousand: each refused by name; nothing is written elsewhere, imported or taken."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

import steadyrl as srl
from steadyrl.errors import RunFailedError, UserError
from steadyrl.training import chunks
from support.checkpoints import SESSION, Work
from support.hostile import Hostile, watched
from support.hostile_checkpoints import STEP, checkpoints

SAMPLE = 40  # each of so many, in CI


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A run with one checkpoint, so that there is none to fall back to."""
    before = chunks.CHUNK_BYTES
    work = Work(tmp_path_factory.mktemp("work"))
    work.saver(work.run, keep_last=None).save(SESSION)
    shutil.rmtree(work.run / "checkpoints" / "step_80")
    yield work.run
    chunks.CHUNK_BYTES = before


def refuse(case: Hostile, run: Path, place: Path) -> None:
    """Puts one into a copy of the run, and insists that the run is not taken up and keeps what it had."""
    copy, said = place / "run", list[str]()
    shutil.copytree(run, copy)
    (place / "beside.txt").write_text("somebody else's")
    case.put(copy)
    size = sum(about.stat().st_size for about in (copy / STEP).iterdir() if about.is_file() and not about.is_symlink())
    records = {name: (copy / name).read_bytes() for name in ("config.json", "manifest.json", "episodes.jsonl")}
    with watched(place, min(size, 1 << 26), copy), pytest.raises((UserError, RunFailedError)) as caught:
        srl.resume(copy, say=lambda notice: said.append(notice.message))
    text = f"{' '.join(said)} {caught.value}"
    assert "step_120" in text, case.name
    assert any(word in text for word in case.told), (case.name, text)
    assert {name: (copy / name).read_bytes() for name in records} == records
    assert {path.name.partition(".")[0] for path in (copy / "checkpoints").iterdir()} <= {"step_120", "chunks"}
    shutil.rmtree(place)


def test_there_are_hundreds_and_each_is_another_one(run: Path) -> None:
    names = [case.name for case in checkpoints(run)]
    assert len({*names}) == len(names) >= 300


@pytest.mark.parametrize("every", [SAMPLE, pytest.param(1, marks=[pytest.mark.soak, pytest.mark.timeout(7200)])])
def test_each_is_refused(every: int, run: Path, tmp_path: Path) -> None:
    warm = tmp_path / "warm"
    shutil.copytree(run, warm)
    (warm / STEP / "state.json").unlink()
    with pytest.raises(UserError):  # what errors and environments import is imported
        srl.resume(warm, say=lambda notice: None)
    shutil.copytree(run, tmp_path / "good")
    srl.resume(tmp_path / "good", 122, say=lambda notice: None)  # else every refusal would prove nothing
    for number, case in enumerate([*checkpoints(run)][::every]):
        refuse(case, run, tmp_path / "cases" / str(number))
