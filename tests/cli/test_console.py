"""A page whose reader goes away ends as any other command does."""

from __future__ import annotations

import io
import sys

import pytest

from steadyrl.cli.console import console


class Gone(io.StringIO):
    """Nobody reads it any more."""

    def write(self, text: str) -> int:
        raise BrokenPipeError


def test_a_page_without_a_reader_raises_what_the_command_line_knows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", Gone())
    with pytest.raises(BrokenPipeError):
        console().print("a page")


def test_a_page_for_no_terminal_has_120_columns(capsys: pytest.CaptureFixture[str]) -> None:
    console().print("x" * 150)
    assert [len(line) for line in capsys.readouterr().out.splitlines()] == [120, 30]
