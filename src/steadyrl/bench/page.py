"""The results of `steadyrl bench` as a page for people."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from steadyrl.bench.report import Report
from steadyrl.bench.rows import OTHER_RESULTS, Row, per_core
from steadyrl.bench.split import Beside
from steadyrl.bench.tables import plain_table, training_table
from steadyrl.data.memory import shown
from steadyrl.kernels import usable_cores

_TITLES = ("number\nof envs", "stepped by", "steps per\nsecond", "us per\nstep", "cores\nbusy", "memory\nper env", "")


def show(report: Report, console: Console) -> None:
    """Print the page."""
    for part in _parts(report):
        console.print(part, soft_wrap=isinstance(part, Text))  # a command that is to be pasted stays in one line


def _parts(report: Report) -> Iterator[RenderableType]:
    yield Text(_about(report) + "\n")
    yield _rows(report)
    for line in _refused(report):
        yield Text(line)
    if report.beside:
        yield Text()
        yield _beside(report.beside)
    if report.trained:
        yield Text()
        yield training_table(report.trained)
    yield Text("\n" + "\n".join(_recommendation(report)))


def _about(report: Report) -> str:
    cost, cores = report.cost, usable_cores()
    lines = [
        f"{report.asked.env} on {cores} core{'s' * (cores > 1)}: "
        f"one environment takes {_time(cost.step_s)} for a step and {_time(cost.make_s)} to be made."
    ]
    if cost.busy < 0.8:
        lines.append(
            f"It works for {100 * cost.busy:.0f}% of that and waits for the rest: one core keeps about "
            f"{per_core(cost.busy):.0f} of them going."
        )
    else:
        lines.append("It works all of that time: one core keeps one of them going.")
    return "\n".join(lines)


def _rows(report: Report) -> Table:
    table = plain_table(*_TITLES, left=("stepped by", ""))
    for row in report.rows:
        if row.steps_per_second is None:
            continue
        mark = "recommended" if row is report.chosen else "default" if row.cell == report.default else ""
        table.add_row(*_cells(row), mark, style="green" if row is report.chosen else "")
    return table


def _cells(row: Row) -> list[str]:
    assert row.steps_per_second is not None
    each = None if row.memory_bytes is None else row.memory_bytes / row.cell.num_envs
    return [
        str(row.cell.num_envs),
        row.cell.name,
        f"{row.steps_per_second:,.0f}",
        f"{1e6 / row.steps_per_second:,.1f}",
        "" if row.cores_busy is None else f"{row.cores_busy:.1f}",
        "" if each is None else shown(each) if each >= 1e5 else "< 0.1 MB",
    ]


def _refused(report: Report) -> Iterator[str]:
    """Why backends have no row; each reason once."""
    said: dict[tuple[str, str], list[int]] = {}
    for row in report.rows:
        if row.reason:
            said.setdefault((row.cell.backend, row.reason), []).append(row.cell.num_envs)
    for (backend, reason), numbers in said.items():
        yield f"{backend} ({', '.join(map(str, sorted(set(numbers))))}): {reason}"


def _beside(found: list[Beside]) -> Table:
    titles = (
        "us per step\nof one env",
        "environment\nalone",
        "steadyrl\nadds",
        "Gymnasium\nadds",
        "steadyrl's time\nover Gymnasium's",
    )
    table = plain_table(*titles, left=titles[:1])
    for each in found:
        table.add_row(
            f"{each.num_envs} x {each.backend}",
            f"{each.env_us:.1f}",
            f"{each.ours_us - each.env_us:+.1f}",
            f"{each.gymnasium_us - each.env_us:+.1f}",
            f"{100 * each.overhead:+.0f}%",
        )
    return table


def _recommendation(report: Report) -> Iterator[str]:
    row = report.chosen
    if row is None:
        yield "Nothing could be measured, so there is no recommendation."
        return
    what = "training" if report.trained else "stepping"
    base = f"the default ({report.default.num_envs} x sync)"
    gain = "" if report.gain is None else f", {what} {report.gain:.1f} times as fast as {base}"
    yield f"Recommended: {row.cell.num_envs} x {row.cell.name}{gain}."
    if row.cell.backend in OTHER_RESULTS and report.same is not None:
        same = report.same
        yield (
            f"{row.cell.backend} draws other random numbers than Gymnasium's environments; with the same ones: "
            f"{same.cell.num_envs} x {same.cell.name}, {same.steps_per_second:,.0f} steps/s without learning."
        )
    if row.cell.num_envs != report.default.num_envs:
        yield "Another number of environments is another training, with other batches and updates: look at the score."
    yield f"Memory: {report.memory[1]}{_fit(report)}."
    if report.disturbed:
        yield "Other programs kept the cores busy meanwhile: the figures are low and may mislead, so measure again."
    yield f"Measured in {report.wall_s:.0f} s. To train with these settings:"
    yield f"  {report.command}"


def _fit(report: Report) -> str:
    return "" if report.fits is None else f"; about {report.fits:,} such environments fit"


def _time(seconds: float) -> str:
    for unit, scale in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if seconds >= scale:
            return f"{seconds / scale:.3g} {unit}"
    return f"{seconds / 1e-6:.2g} us"
