"""The live panel as lines of text, for any size of terminal."""

from __future__ import annotations

import math
from collections.abc import Sequence

from rich.cells import cell_len, set_cell_size
from rich.text import Text

from steadyrl.training.displays.text import (
    Glyphs,
    area_chart,
    bar,
    count,
    duration,
    encodable,
    number,
    one_line,
    shares,
)
from steadyrl.training.displays.view import PHASES, RunView

LABEL_WIDTH = 11
COLUMN_WIDTH = 24
MAX_WIDTH = 110
MAX_CHART_ROWS = 6
MAX_METRIC_ROWS = 3
PHASE_STYLES = {"env": "cyan", "act": "blue", "learn": "magenta", "eval": "green", "other": "bright_black"}
STATUS_STYLES = {"running": "cyan", "finished": "green", "stopped": "green", "failed": "bold red"}

Part = tuple[str, str]  # text, style
Line = Sequence[Part]


def panel_lines(view: RunView, width: int, height: int, glyphs: Glyphs) -> list[Text]:
    """At most `height` lines of at most `width` cells.

    Where not all fits, the lines that matter least go first: the chart and the metrics, then the rest from the bottom
    up, except that a warning stays.
    """
    width = min(width, MAX_WIDTH)
    head: list[Line] = [_title(view, width), _bar(view, width, glyphs), _pace(view), _time(view)]
    results: list[Line] = [_training(view, glyphs), *_evaluation(view)]
    tail: list[Line] = [*_notice(view), *_run_dir(view)]
    if len(head) + len(results) + len(tail) > height:
        said = _notice(view) if view.warnings else []
        kept = [*head[:2], *said, *results[:1], *head[2:], *results[1:], *_run_dir(view)]
        return [_fitted(parts, width, glyphs) for parts in kept[:height]]
    spare = height - len(head) - len(results) - len(tail)
    metrics = _metrics(view, width, min(MAX_METRIC_ROWS, spare), glyphs)
    spare -= len(metrics)
    chart = _chart(view, width, min(MAX_CHART_ROWS, spare), glyphs)
    spare -= len(chart)
    groups: list[list[Line]] = [head, results, metrics, chart, tail]
    lines: list[Line] = []
    for group in groups:
        if lines and group and spare > 0:
            lines.append([])
            spare -= 1
        lines.extend(group)
    return [_fitted(parts, width, glyphs) for parts in lines]


def _fitted(parts: Sequence[Part], width: int, glyphs: Glyphs) -> Text:
    """The parts as one line that is cut with an ellipsis where it is too long."""
    line = Text(no_wrap=True, overflow="crop", end="")
    left = width
    for raw, style in parts:
        text = encodable(raw, glyphs)
        if cell_len(text) > left:
            mark = glyphs.ellipsis if left > 0 else ""
            line.append(set_cell_size(text, max(left - 1, 0)) + mark, style)
            return line
        line.append(text, style)
        left -= cell_len(text)
    return line


def _row(label: str, *parts: Part) -> list[Part]:
    return [(f"{label:<{LABEL_WIDTH}}", "dim"), *parts]


def _column(text: str) -> str:
    """The first column of a row; a longer text still keeps a space before the second."""
    return f"{text:<{COLUMN_WIDTH - 1}} "


def _title(view: RunView, width: int) -> list[Part]:
    run, status = view.started, view.ended.status if view.ended else "running"
    name = f"{one_line(run.algo)} on {one_line(run.env)}, seed {run.seed}"
    gap = width - cell_len(name) - cell_len(status)
    return [(name, "bold"), (" " * max(gap, 1), ""), (one_line(status), STATUS_STYLES.get(status, "yellow"))]


def _bar(view: RunView, width: int, glyphs: Glyphs) -> list[Part]:
    left = "" if view.ended else f", {duration(view.left_s)} left"
    said = f" {100 * view.fraction:.0f}%{left}"
    done, open_ = bar(view.fraction, width - max(len(said), 16), glyphs)
    return [(done, "green" if view.ended else "cyan"), (open_, "bright_black"), (said, "")]


def _pace(view: RunView) -> list[Part]:
    steps = f"{count(view.step)} of {count(view.total)}"
    rate = "-" if math.isnan(view.steps_per_s) else count(view.steps_per_s)
    return _row("steps", (_column(steps), ""), (f"{rate} per second", ""))


def _time(view: RunView) -> list[Part]:
    parts: list[Part] = [(_column(duration(view.elapsed_s)), "")]
    known = [(name, view.phases[name]) for name in PHASES if name in view.phases]
    known += [(one_line(name), seconds) for name, seconds in view.phases.items() if name not in PHASES]
    for name, percent in shares(known):
        parts += [(f"{name} ", PHASE_STYLES.get(name, "dim")), (f"{percent}% ", "")]
    return _row("time", *parts)


def _training(view: RunView, glyphs: Glyphs) -> list[Part]:
    last = view.last_returns()
    if last.n == 0:
        return _row("training", ("no episode has ended yet", "dim"))
    value = f"{number(last.mean)} {glyphs.plus_minus} {number(last.std)}"
    about = f"last {last.n} of {count(view.episodes)} episodes, length {number(last.length)}"
    return _row("training", (_column(value), "bold cyan"), (about, "dim"))


def _evaluation(view: RunView) -> list[Line]:
    evaluation, best = view.evaluation, view.best
    if evaluation is None:
        return []
    low, high = evaluation.ci95
    value = f"{number(evaluation.mean)} [{number(low)}, {number(high)}]"
    rate = "" if evaluation.success_rate is None else f"success rate {100 * evaluation.success_rate:.3g}%, "
    about = f"95% interval, {rate}{len(evaluation.returns)} episodes, step {count(evaluation.step)}"
    lines: list[Line] = [_row("evaluation", (_column(value), "bold green"), (about, "dim"))]
    if best is not None:
        about = f"best evaluation, step {count(best.step)}"
        lines.append(_row("best", (_column(number(best.mean)), "green"), (about, "dim")))
    return lines


def _metrics(view: RunView, width: int, rows: int, glyphs: Glyphs) -> list[Line]:
    """The `train/` metrics, in columns as wide as the longest name needs."""
    named = [(one_line(tag)[6:], value) for tag, value in view.metrics.items() if str(tag).startswith("train/")]
    if not named or rows < 1:
        return []
    room = max(width - LABEL_WIDTH, 1)
    widest = min(max(cell_len(name) for name, _ in named), 26)
    column = widest + 12
    columns = max(room // column, 1)
    lines: list[Line] = []
    for row in range(min(rows, -(-len(named) // columns))):
        parts: list[Part] = []
        for name, value in named[row * columns : (row + 1) * columns]:
            short = name if cell_len(name) <= widest else set_cell_size(name, widest - 1) + glyphs.ellipsis
            parts += [(set_cell_size(short, widest) + " ", "dim"), (f"{number(value):<11}", "")]
        lines.append(_row("" if row else "learning", *parts))
    return lines


def _chart(view: RunView, width: int, rows: int, glyphs: Glyphs) -> list[Line]:
    """Evaluation returns over the run where there are at least three, else the training returns."""
    evaluated = len(view.evaluations) >= 3
    values = [value for _, value in (view.evaluations if evaluated else view.training) if math.isfinite(value)]
    room = width - LABEL_WIDTH - 9
    if len(values) < 2 or rows < 1 or room < 10:
        return []
    drawn = area_chart(values, room, rows, glyphs)
    low, high = min(values), max(values)
    lines: list[Line] = []
    for index, row in enumerate(drawn):
        label = ("evaluation" if evaluated else "training") if index == 0 else "return" if index == 1 else ""
        scale = number(high) if index == 0 else number(low) if index == rows - 1 else ""
        lines.append(_row(label, (row, "green" if evaluated else "cyan"), (f" {scale}", "dim")))
    return lines


def _notice(view: RunView) -> list[Line]:
    if view.notice is None:
        return []
    is_warning = view.notice.level == "warning"
    more = f" (newest of {view.warnings})" if is_warning and view.warnings > 1 else ""
    text = one_line(view.notice.message) + more
    return [_row(one_line(view.notice.level), (text, "yellow" if is_warning else ""))]


def _run_dir(view: RunView) -> list[Line]:
    return [] if view.started.run_dir is None else [_row("run folder", (one_line(view.started.run_dir), ""))]
