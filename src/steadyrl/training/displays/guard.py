"""Keeps a display's faults away from the training."""

from __future__ import annotations

import contextlib
import sys
from typing import Protocol

from steadyrl.errors import words
from steadyrl.training.events import Event


class Display(Protocol):
    """A renderer of the event stream."""

    def __call__(self, event: Event) -> None:
        """Take in one event."""

    def close(self) -> None:
        """Leave the terminal as it was."""


class GuardedDisplay:
    """Passes events to a display until it raises; then drops it, says so once on stderr, and the run goes on."""

    def __init__(self, display: Display | None) -> None:
        self._display = display

    def __call__(self, event: Event) -> None:
        """Take in one event."""
        if self._display is not None:
            try:
                self._display(event)
            except Exception as error:
                self._drop(error)

    def close(self) -> None:
        """Leave the terminal as it was; again does nothing harmful."""
        if self._display is not None:
            try:
                self._display.close()
            except Exception as error:
                self._drop(error)

    def _drop(self, error: Exception) -> None:
        display, self._display = self._display, None
        with contextlib.suppress(Exception):
            if display is not None:
                display.close()
        with contextlib.suppress(Exception):
            cause = " ".join(f"{type(error).__name__}: {words(error)}".split())
            print(f"steadyrl: the progress display stopped ({cause}); the run goes on without it.", file=sys.stderr)
