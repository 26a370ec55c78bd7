"""Where the pages of `check` and `bench` are printed."""

from __future__ import annotations

import sys
from typing import NoReturn

from rich.console import Console

_WIDTH = 120  # columns of a page that goes to no terminal


class _Stdout(Console):
    def on_broken_pipe(self) -> NoReturn:
        """The reader went away (`| head`): rich would end the process, which is the caller's to do."""
        raise BrokenPipeError


def console() -> Console:
    """stdout, in the terminal's width."""
    return _Stdout(file=sys.stdout, highlight=False, width=None if sys.stdout.isatty() else _WIDTH)
