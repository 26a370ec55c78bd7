"""A panel that is redrawn in place, for people at a terminal."""

from __future__ import annotations

import atexit
import sys
from collections.abc import Callable
from typing import TextIO

from rich.console import Console
from rich.live import Live
from rich.text import Text

from steadyrl.training.displays.panel import panel_lines
from steadyrl.training.displays.text import encodable, glyphs_for, one_line
from steadyrl.training.displays.view import RunView
from steadyrl.training.events import Event, Notice, RunEnded, RunStarted

REFRESH_S = 0.5


class LiveDisplay:
    """Redraws at most twice a second, and only when an event comes: no thread takes time from the training.

    Notices are written in full above the panel, where they stay; the panel repeats the newest warning.

    Args:
        stream: The terminal.
        clock: Seconds that only go forward.
        color: False leaves colours out.
        size: Columns and rows, else those of the terminal.
    """

    def __init__(
        self, stream: TextIO, clock: Callable[[], float], *, color: bool, size: tuple[int, int] | None = None
    ) -> None:
        width, height = size or (None, None)
        self._console = Console(
            file=stream, force_terminal=True, no_color=not color, width=width, height=height, highlight=False
        )
        self._clock = clock
        self._glyphs = glyphs_for(getattr(stream, "encoding", None))
        self._view = RunView(clock)
        self._live: Live | None = None
        self._next_at = 0.0

    def __call__(self, event: Event) -> None:
        """Take in one event."""
        self._view.observe(event)
        if self._live is not None and self._clock() >= self._next_at:
            self._draw()
        if isinstance(event, RunStarted):
            self._start()
        elif isinstance(event, Notice):
            self._console.print(self._notice(event))
        elif isinstance(event, RunEnded):
            self.close()

    def close(self) -> None:
        """Draw the last state, leave it on the screen and give the cursor back."""
        if self._live is not None:
            try:
                self._draw()
            finally:
                live, self._live = self._live, None
                atexit.unregister(self.close)
                live.stop()

    def _start(self) -> None:
        self.close()
        # What the environment prints appears above the panel; a stdout that goes to a file is left alone.
        self._live = Live(
            console=self._console,
            auto_refresh=False,
            redirect_stdout=sys.stdout.isatty(),
            redirect_stderr=sys.stderr.isatty(),
            vertical_overflow="crop",
        )
        # A run that dies without its last event must still give the cursor back.
        atexit.register(self.close)
        self._live.start()
        self._draw()

    def _draw(self) -> None:
        if self._live is None:
            return
        self._next_at = self._clock() + REFRESH_S
        width, height = self._console.size
        lines = panel_lines(self._view, width, max(height - 1, 1), self._glyphs)
        self._live.update(Text("\n", no_wrap=True, overflow="crop", end="").join(lines), refresh=True)

    def _notice(self, event: Notice) -> Text:
        style = "yellow" if event.level == "warning" else "cyan"
        level, message = (encodable(one_line(text), self._glyphs) for text in (event.level, event.message))
        return Text(f"{level}: ", style=style).append(message, style="default")
