"""A block of HTML that is updated in place in a notebook."""

from __future__ import annotations

import math
from collections.abc import Callable
from html import escape
from typing import Any

from steadyrl.training.displays.text import count, duration, number, shares
from steadyrl.training.displays.view import RunView
from steadyrl.training.events import Event, Notice, RunEnded, RunStarted

REFRESH_S = 1.0


class NotebookDisplay:
    """Updates its block at most once a second; notices are shown in full below it.

    Args:
        ipython_display: The module `IPython.display`.
        clock: Seconds that only go forward.
    """

    def __init__(self, ipython_display: Any, clock: Callable[[], float]) -> None:
        self._ipython = ipython_display
        self._clock = clock
        self._view = RunView(clock)
        self._notices: list[Notice] = []
        self._handle: Any = None
        self._next_at = 0.0

    def __call__(self, event: Event) -> None:
        """Take in one event."""
        self._view.observe(event)
        if isinstance(event, Notice):
            self._notices.append(event)
        if isinstance(event, RunStarted):
            self._handle = self._ipython.display(self._html(), display_id=True)
        elif isinstance(event, RunEnded):
            self.close()
        elif self._handle is not None and self._clock() >= self._next_at:
            self._update()

    def close(self) -> None:
        """Show the last state."""
        if self._handle is not None:
            self._update()
            self._handle = None

    def _update(self) -> None:
        self._next_at = self._clock() + REFRESH_S
        self._handle.update(self._html())

    def _html(self) -> Any:
        return self._ipython.HTML(block(self._view, self._notices))


def block(view: RunView, notices: list[Notice]) -> str:
    """The state as HTML that follows the notebook's own colours, light or dark."""
    run, status = view.started, view.ended.status if view.ended else "running"
    title = f"{run.algo} on {run.env}, seed {run.seed}: {status}"
    rows = "".join(
        f'<tr><td style="text-align:left;opacity:.65;padding:0 1.2em 0 0">{escape(name)}</td>'
        f'<td style="text-align:left;padding:0">{escape(value)}</td></tr>'
        for name, value in _facts(view)
    )
    said = "".join(f"<div>{escape(notice.level)}: {escape(notice.message)}</div>" for notice in notices)
    return (
        '<div style="font-family:ui-monospace,monospace;font-size:13px;line-height:1.5;max-width:60em">'
        f"<b>{escape(title)}</b>"
        f'<progress max="1" value="{view.fraction:.4f}" style="display:block;width:100%;margin:.3em 0"></progress>'
        f'<table style="border:0;margin:0">{rows}</table>{_sparkline(view)}{said}</div>'
    )


def _facts(view: RunView) -> list[tuple[str, str]]:
    rate = "-" if math.isnan(view.steps_per_s) else count(view.steps_per_s)
    left = "" if view.ended else f", {duration(view.left_s)} left"
    phases = "  ".join(f"{name} {percent}%" for name, percent in shares(list(view.phases.items())))
    facts = [
        ("steps", f"{count(view.step)} of {count(view.total)}, {rate} per second"),
        ("time", f"{duration(view.elapsed_s)}{left}   {phases}"),
    ]
    if (last := view.last_returns()).n:
        facts.append(("training", f"{number(last.mean)} ± {number(last.std)} (last {last.n} episodes)"))
    if (evaluation := view.evaluation) is not None:
        low, high = evaluation.ci95
        interval = f"[{number(low)}, {number(high)}]"
        about = f"(95% interval, {len(evaluation.returns)} episodes, step {count(evaluation.step)})"
        facts.append(("evaluation", f"{number(evaluation.mean)} {interval} {about}"))
    if view.best is not None:
        facts.append(("best", f"{number(view.best.mean)} (evaluation, step {count(view.best.step)})"))
    if run_dir := view.started.run_dir:
        facts.append(("run folder", str(run_dir)))
    return facts


def _sparkline(view: RunView) -> str:
    """Evaluation returns where there are at least three, else training returns, as a line without axes."""
    evaluated = len(view.evaluations) >= 3
    points = [(x, y) for x, y in (view.evaluations if evaluated else view.training) if math.isfinite(y)]
    if len(points) < 2:
        return ""
    x0, x1 = points[0][0], points[-1][0]
    low, high = min(y for _, y in points), max(y for _, y in points)
    width, height = 600, 60
    path = " ".join(
        f"{(x - x0) / max(x1 - x0, 1) * width:.1f},{height - 2 - (y - low) / ((high - low) or 1) * (height - 4):.1f}"
        for x, y in points
    )
    name = "evaluation" if evaluated else "training"
    return (
        f'<svg viewBox="0 0 {width} {height}" style="width:100%;height:60px" preserveAspectRatio="none" role="img">'
        f"<title>{name} return, {number(low)} to {number(high)}</title>"
        f'<polyline points="{path}" fill="none" stroke="#0072b2" stroke-width="2" vector-effect="non-scaling-stroke"/>'
        f"</svg><div>{name} return, {number(low)} to {number(high)}</div>"
    )
