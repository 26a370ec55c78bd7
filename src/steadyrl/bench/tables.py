"""Tables without lines, for terminals of any kind."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.table import Table

if TYPE_CHECKING:
    from steadyrl.bench.learning import Trained

_COLUMNS = ("environment", "network", "learning", "other")


def plain_table(*titles: str, left: Sequence[str] = ()) -> Table:
    """A table of these columns, the ones in `left` from the left, numbers from the right."""
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    for title in titles:
        table.add_column(title, justify="left" if title in left else "right", no_wrap=True)
    return table


def training_table(trained: Sequence[Trained]) -> Table:
    """Steps per second of each training, and the share of each phase in its time."""
    table = plain_table("training with", "steps per\nsecond", *_COLUMNS, left=("training with",))
    for each in trained:
        if each.steps_per_second is None:
            table.add_row(each.settings.name, "-")
            continue
        total = sum(seconds for _, seconds in each.phases)
        shares = dict(each.phases)
        parts = [f"{100 * shares.get(name, 0.0) / total:.0f}%" for name in _COLUMNS]
        table.add_row(each.settings.name, f"{each.steps_per_second:,.0f}", *parts)
    return table
