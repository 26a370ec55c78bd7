"""What is offered where a word means no whole checkpoint: nothing that is damaged, and what is damaged is said."""

from __future__ import annotations

from pathlib import Path

import pytest

from steadyrl.errors import UserError
from steadyrl.training.checkpoint import INDEX, POLICY, Contents, save_checkpoint
from steadyrl.training.durable import set_aside
from steadyrl.training.finding import find_checkpoint

STATE = Contents({"state.json": b"{}"})
GO_ON = " Or let the run go on to its end: steadyrl resume {}."


@pytest.fixture
def checkpoints(tmp_path: Path) -> Path:
    """Of a killed run, whole."""
    for step in (600, 900, 1200, 1500):
        save_checkpoint(tmp_path / "run" / "checkpoints", step, b"policy", STATE)
    return tmp_path / "run" / "checkpoints"


def refused(checkpoints: Path, which: str) -> tuple[str, list[str]]:
    """The remedy, and what was said before."""
    said: list[str] = []
    with pytest.raises(UserError, match=f"holds no whole checkpoint '{which}'") as caught:
        find_checkpoint(checkpoints, which, said.append)
    return caught.value.remedy, said


def test_damaged_ones_are_not_offered_and_each_is_said_once_with_what_is_wrong(checkpoints: Path) -> None:
    (checkpoints / "step_1500" / POLICY).write_bytes(b"")
    (checkpoints / "step_900" / "more").touch()
    remedy, said = refused(checkpoints, "1500")
    assert remedy == "Choose one of: 600, 1200." + GO_ON.format(checkpoints.parent)
    last, middle = checkpoints / "step_1500", checkpoints / "step_900"
    why = f"{last / POLICY} does not have the size and checksum that {INDEX} names"
    assert said == [
        f"The checkpoint {last} is damaged, so it is passed over: {why}.",
        f"The checkpoint {middle} is damaged, so it is passed over: {middle / 'more'} does not belong to it.",
    ]
    assert refused(checkpoints, "final") == (remedy, said)


def test_a_damaged_agent_of_the_end_is_not_offered(checkpoints: Path) -> None:
    for end in ("final", "best"):
        save_checkpoint(checkpoints / end, 1500, b"policy")
    assert refused(checkpoints, "7")[0] == "Choose one of: final, best, 600, 900, 1200, 1500."
    (checkpoints / "final" / "step_1500" / INDEX).write_text("[]")
    remedy, said = refused(checkpoints, "final")
    assert remedy == "Choose one of: best, 600, 900, 1200, 1500."
    assert len(said) == 1


def test_where_all_are_damaged_nothing_is_offered(checkpoints: Path) -> None:
    for folder in [*checkpoints.iterdir()]:
        (folder / INDEX).write_text("")
    remedy, said = refused(checkpoints, "1500")
    assert (remedy, len(said)) == ("All that it saved is damaged: train again.", 4)
    for folder in [*checkpoints.iterdir()]:
        set_aside(folder, "damaged")
    assert refused(checkpoints, "1500") == (remedy, [])


def test_only_the_newest_of_many_are_looked_at(checkpoints: Path) -> None:
    for step in range(1, 20):
        save_checkpoint(checkpoints, step, b"policy")
    (checkpoints / "step_1200" / POLICY).write_bytes(b"")
    (checkpoints / "step_2" / POLICY).write_bytes(b"")
    remedy, said = refused(checkpoints, "final")
    assert remedy.startswith("Choose one of: ..., 18, 19, 600, 900, 1500.")
    assert len(said) == 1


def test_one_of_a_later_version_is_not_called_damaged(checkpoints: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("steadyrl.training.checkpoint.VERSION", 3)
    save_checkpoint(checkpoints, 1800, b"policy", STATE)
    monkeypatch.undo()
    remedy, said = refused(checkpoints, "1800")
    assert remedy.startswith("Choose one of: 600, 900, 1200, 1500.")
    (text,) = said
    assert "step_1800 cannot be used, so it is passed over: " in text
    assert text.endswith("is of version 3, which a later steadyrl reads.")
