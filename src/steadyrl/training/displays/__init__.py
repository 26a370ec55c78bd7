"""Progress displays: four renderers over one event stream. None of them can disturb the training."""

from __future__ import annotations

import importlib
import os
import sys
import time
from collections.abc import Callable, Mapping
from typing import TextIO

from steadyrl.errors import UserError, nearest
from steadyrl.training.displays.guard import GuardedDisplay
from steadyrl.training.displays.jsonstream import JsonDisplay
from steadyrl.training.displays.plain import PlainDisplay
from steadyrl.training.events import Notice

__all__ = ["KINDS", "GuardedDisplay", "make_display"]

KINDS = ("auto", "live", "plain", "notebook", "json", "none")


def make_display(
    kind: str,
    stream: TextIO | None = None,
    *,
    environ: Mapping[str, str] = os.environ,
    clock: Callable[[], float] = time.monotonic,
) -> GuardedDisplay:
    """A listener that shows how a run goes.

    Args:
        kind: `live` redraws a panel on a terminal, `plain` writes a `key=value` line now and then, `notebook` updates
            a block of HTML, `json` writes an object per event, `none` shows nothing. `auto` is `notebook` in a
            notebook, `live` on a terminal, else `plain`.
        stream: Where to write; stderr by default, so that stdout stays free for results.
        environ: `CI` asks for `plain` under `auto`; `TERM=dumb` rules out `live`; `NO_COLOR` leaves colours out.
        clock: Seconds that only go forward.

    Raises:
        UserError: There is no such kind.
    """
    if kind not in KINDS:
        raise UserError(
            f"There is no display {kind!r}.",
            remedy=f"{nearest(str(kind), KINDS)} Choose one of {', '.join(KINDS)}.".strip(),
            code="unknown-display",
        )
    stream = sys.stderr if stream is None else stream
    # A process without a console, such as pythonw's, has no stderr at all.
    if kind == "none" or stream is None:
        return GuardedDisplay(None)
    if kind == "auto":
        kind = _automatic(stream, environ)
    if kind == "live":
        return _live(stream, environ, clock)
    if kind == "notebook":
        return _notebook(stream, clock)
    return GuardedDisplay(JsonDisplay(stream, clock) if kind == "json" else PlainDisplay(stream, clock))


def _live(stream: TextIO, environ: Mapping[str, str], clock: Callable[[], float]) -> GuardedDisplay:
    if not _can_redraw(stream, environ):
        return _plain_instead("The live display needs a terminal that can move its cursor", stream, clock)
    from steadyrl.training.displays.live import LiveDisplay

    return GuardedDisplay(LiveDisplay(stream, clock, color=not environ.get("NO_COLOR")))


def _notebook(stream: TextIO, clock: Callable[[], float]) -> GuardedDisplay:
    try:
        ipython_display = importlib.import_module("IPython.display")
    except ImportError:
        return _plain_instead("The notebook display needs IPython", stream, clock)
    from steadyrl.training.displays.notebook import NotebookDisplay

    return GuardedDisplay(NotebookDisplay(ipython_display, clock))


def _plain_instead(why: str, stream: TextIO, clock: Callable[[], float]) -> GuardedDisplay:
    display = GuardedDisplay(PlainDisplay(stream, clock))
    display(Notice("display", f"{why}; plain lines instead."))
    return display


def _automatic(stream: TextIO, environ: Mapping[str, str]) -> str:
    if _in_notebook():
        return "notebook"
    in_ci = environ.get("CI", "").lower() not in ("", "0", "false")
    return "live" if _can_redraw(stream, environ) and not in_ci else "plain"


def _can_redraw(stream: TextIO, environ: Mapping[str, str]) -> bool:
    return stream.isatty() and environ.get("TERM", "").lower() not in ("dumb", "unknown")


def _in_notebook() -> bool:
    """Whether a kernel runs this: only kernels' shells have `kernel`, and IPython is not imported to find out."""
    get_ipython = getattr(sys.modules.get("IPython"), "get_ipython", None)
    return get_ipython is not None and hasattr(get_ipython(), "kernel")
