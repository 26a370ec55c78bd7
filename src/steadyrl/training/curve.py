"""The learning curve of a run as `curve.svg`: drawn from the run folder's own files, without a plotting library."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any, TypeVar

from steadyrl.envs.snapshots.state import plain_id
from steadyrl.errors import UserError
from steadyrl.training.files import read_json, write_atomic
from steadyrl.training.jsonlines import read_jsonl

WIDTH, HEIGHT = 900, 500
LEFT, RIGHT, TOP, BOTTOM = 78, 24, 104, 58
WINDOW = 100
_LARGEST = 1e100  # differences of such numbers are finite, and no run comes to them
MAX_LINE_POINTS = 600
_FEW = 150  # points of episodes up to which each is shown as plainly as in the key; more make a cloud
_PLAIN = 'style="stroke-opacity:.6" stroke-width="5"'
# Okabe and Ito's colours, which colour-blind readers can tell apart, lightened for a dark page.
STYLE = """
svg { font-family: system-ui, -apple-system, "Segoe UI", "DejaVu Sans", sans-serif; }
.page { fill: #ffffff; } .title { fill: #16181d; font-size: 20px; font-weight: 600; }
.note, .label, .tick, .key { fill: #575d69; font-size: 13px; } .key { fill: #30353f; }
.grid { stroke: #e6e8ec; } .axis { stroke: #9aa1ad; }
.episodes { stroke: #0072b2; stroke-opacity: .22; } .training { stroke: #0072b2; }
.evaluation { stroke: #c74a00; fill: none; } .dot { fill: #c74a00; stroke: #ffffff; }
@media (prefers-color-scheme: dark) {
.page { fill: #14171c; } .title { fill: #f2f4f8; } .note, .label, .tick { fill: #a3abb8; } .key { fill: #d4d9e2; }
.grid { stroke: #272c35; } .axis { stroke: #5b6371; }
.episodes { stroke: #56b4e9; stroke-opacity: .25; } .training { stroke: #56b4e9; }
.evaluation { stroke: #f59a4c; } .dot { fill: #f59a4c; stroke: #14171c; }
}
"""


_Made = TypeVar("_Made")


@dataclass(frozen=True)
class Evaluated:
    """One evaluation: mean, 95% interval and number of episodes at a step."""

    step: float
    mean: float
    low: float
    high: float
    n: int


@dataclass(frozen=True)
class Axis:
    """A linear scale from data to pixels."""

    low: float
    high: float
    start: float
    stop: float

    def __call__(self, value: float) -> float:
        """The pixel of a value."""
        return self.start + (value - self.low) / (self.high - self.low) * (self.stop - self.start)

    def ticks(self, about: int) -> list[float]:
        """Round values inside the scale, about this many."""
        rough = (self.high - self.low) / about
        power = 10.0 ** math.floor(math.log10(rough))
        step = power * min((1, 2, 2.5, 5, 10), key=lambda factor: abs(math.log(factor * power / rough)))
        first = math.ceil(self.low / step - 1e-9)
        return [index * step for index in range(first, math.floor(self.high / step + 1e-9) + 1)]


def write_curve(run_dir: Path | str) -> Path:
    """Draw the run's training and evaluation returns to `curve.svg` in the run folder, and return its path.

    Each training episode is a faint point, the line is the mean of the last 100 of them, and an evaluation is a dot
    with its 95% interval. The same folder gives the same bytes.

    Raises:
        RunFailedError: The picture cannot be written.
        UserError: A file of the run folder is damaged.
    """
    folder = Path(run_dir)
    path = folder / "curve.svg"
    svg = curve_svg(_title(folder), _episodes(folder), _evaluations(folder), _steps(folder))
    write_atomic(path, svg.encode())
    return path


def curve_svg(
    title: str, episodes: Sequence[tuple[float, float]], evaluations: Sequence[Evaluated], steps: float = 0.0
) -> str:
    """The picture as SVG text.

    Args:
        title: What was trained.
        episodes: Step at the end and raw return of each training episode, in order; NaN is left out and counted.
        evaluations: In order.
        steps: How far the picture goes where there is nothing to show.
    """
    finite = [(step, value) for step, value in episodes if math.isfinite(value)]
    mean = list(_rolling_mean(finite))
    x, y = _axes(finite, mean, evaluations, steps)
    outside = sum(not y.low <= value <= y.high for _, value in finite)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}" '
        f'role="img" aria-label="{escape(title)}">',
        f"<title>{escape(title)}</title><style>{STYLE}</style>",
        f'<rect class="page" width="{WIDTH}" height="{HEIGHT}" rx="8"/>',
        f'<text class="title" x="{LEFT}" y="36">{escape(_cut(title, 70))}</text>',
        f'<text class="note" x="{LEFT}" y="59">{escape(_summary(episodes, evaluations, outside))}</text>',
        *_frame(x, y),
        *_legend(bool(finite), evaluations),
        *_training(finite, mean, x, y),
        *_evaluation(evaluations, x, y),
    ]
    if not finite and not evaluations:
        middle = f'x="{(LEFT + WIDTH - RIGHT) / 2}" y="{(TOP + HEIGHT - BOTTOM) / 2}"'
        parts.append(f'<text class="label" text-anchor="middle" {middle}>no episode has ended</text>')
    return "\n".join([*parts, "</svg>", ""])


def _steps(folder: Path) -> float:
    """How far the run came, as its manifest tells."""
    path = folder / "manifest.json"
    return float(read_json(path).get("timesteps") or 0.0) if path.is_file() else 0.0


def _title(folder: Path) -> str:
    """Algorithm, environment and seed from the configuration, else from the folder's own name.

    Of an environment's file, whose absolute path `config.json` has, only the name is shown.
    """
    parts = folder.resolve().parts[-3:]
    try:
        config = read_json(folder / "config.json")
        algo, env, seed = config["algo"], config["settings"]["env"], config["settings"]["seed"]
    except (ValueError, KeyError, TypeError):
        algo, env, seed = parts[-2] if len(parts) > 2 else "run", parts[0], ""
    return f"{str(algo).upper()} on {plain_id(str(env))}" + (f", seed {seed}" if seed != "" else "")


def _episodes(folder: Path) -> list[tuple[float, float]]:
    return _each(folder / "episodes.jsonl", lambda row: (_number(row["step"]), _float(row["return"])))


def _evaluations(folder: Path) -> list[Evaluated]:
    found = _each(folder / "evals.jsonl", lambda row: None if row["mean"] is None else _evaluated(row))
    return [evaluated for evaluated in found if evaluated is not None]


def _evaluated(row: dict[str, Any]) -> Evaluated:
    low, high = map(_float, row["ci95"])
    return Evaluated(_number(row["step"]), _number(row["mean"]), low, high, len(row["returns"]))


def _each(path: Path, make: Callable[[dict[str, Any]], _Made]) -> list[_Made]:
    """What is made of each row. Raises UserError for one that no run writes."""
    made = []
    for number, row in enumerate(read_jsonl(path) if path.exists() else [], start=1):
        try:
            made.append(make(row))
        except (KeyError, TypeError, ValueError) as error:
            raise UserError(
                f"Line {number} of {path} is not what a run writes ({type(error).__name__}: {error}).",
                remedy="Restore the file from a copy.",
                code="damaged-file",
            ) from error
    return made


def _number(value: Any) -> float:
    if type(value) not in (int, float) or not abs(value) <= _LARGEST:
        raise ValueError(f"{value!r:.40} is no number that can be drawn")
    return float(value)


def _float(value: Any) -> float:
    """JSON holds null for a number that was not finite."""
    return math.nan if value is None else _number(value)


def _rolling_mean(episodes: Iterable[tuple[float, float]]) -> Iterator[tuple[float, float]]:
    """Mean of the last 100 returns (fewer at the start), as `rollout/ep_rew_mean`."""
    window: deque[float] = deque(maxlen=WINDOW)
    for step, value in episodes:
        window.append(value)
        yield step, math.fsum(window) / len(window)


def _axes(
    episodes: Sequence[tuple[float, float]],
    mean: Sequence[tuple[float, float]],
    evaluations: Sequence[Evaluated],
    steps: float,
) -> tuple[Axis, Axis]:
    last = max([step for step, _ in episodes] + [evaluated.step for evaluated in evaluations], default=steps)
    must = [value for _, value in mean]
    must += [value for e in evaluations for value in (e.mean, e.low, e.high) if math.isfinite(value)]
    low, high = _range([value for _, value in episodes], must)
    margin = 0.04 * (high - low)
    return Axis(0.0, float(last or 1), LEFT, WIDTH - RIGHT), Axis(low - margin, high + margin, HEIGHT - BOTTOM, TOP)


def _range(returns: Sequence[float], must: Sequence[float]) -> tuple[float, float]:
    """Everything, unless a few far episodes would press the rest flat; what `must` be seen always is."""
    low, high = min([*returns, *must], default=0.0), max([*returns, *must], default=1.0)
    if len(returns) >= 100:
        ordered = sorted(returns)
        first, last = ordered[len(ordered) // 100], ordered[-1 - len(ordered) // 100]
        if high - low > 3 * (last - first) > 0:
            low, high = min([first, *must]), max([last, *must])
    if high - low <= 1e-9 * max(abs(low), abs(high), 1e-9):
        low, high = low - max(abs(low), 1.0) / 2, high + max(abs(high), 1.0) / 2
    return low, high


def _summary(episodes: Sequence[tuple[float, float]], evaluations: Sequence[Evaluated], outside: int) -> str:
    """The result in one line: evaluation and training return, each named, with n."""
    said = []
    if evaluations:
        last = evaluations[-1]
        interval = f"[{_short(last.low)}, {_short(last.high)}]"
        said.append(f"last evaluation {_short(last.mean)}, 95% interval {interval}, n = {last.n} episodes")
    said.append(f"{len(episodes):,} training episodes")
    if nonfinite := sum(not math.isfinite(value) for _, value in episodes):
        said.append(f"{nonfinite:,} not finite")
    if outside:
        said.append(f"{outside:,} outside the picture")
    return "; ".join(said)


def _frame(x: Axis, y: Axis) -> Iterator[str]:
    """Grid, ticks and names of the axes."""
    bottom, right = HEIGHT - BOTTOM, WIDTH - RIGHT
    for tick in y.ticks(5):
        at = f"{y(tick):.1f}"
        yield f'<line class="grid" x1="{LEFT}" x2="{right}" y1="{at}" y2="{at}"/>'
        yield f'<text class="tick" x="{LEFT - 9}" y="{y(tick) + 4.5:.1f}" text-anchor="end">{_short(tick)}</text>'
    yield f'<line class="axis" x1="{LEFT}" x2="{right}" y1="{bottom}" y2="{bottom}"/>'
    kilo = 1e3 if x.high >= 1e4 else 1e4
    for tick in x.ticks(6):
        at = f"{x(tick):.1f}"
        yield f'<line class="axis" x1="{at}" x2="{at}" y1="{bottom}" y2="{bottom + 5}"/>'
        yield f'<text class="tick" x="{at}" y="{bottom + 21}" text-anchor="middle">{_short(tick, kilo)}</text>'
    across, middle = (LEFT + right) / 2, (TOP + bottom) / 2
    yield f'<text class="label" x="{across}" y="{HEIGHT - 14}" text-anchor="middle">environment steps</text>'
    turned = f'transform="rotate(-90 20 {middle})"'
    yield f'<text class="label" x="20" y="{middle}" text-anchor="middle" {turned}>return per episode</text>'


def _legend(has_training: bool, evaluations: Sequence[Evaluated]) -> Iterator[str]:
    at, y = LEFT, TOP - 20
    if has_training:
        yield f'<path class="episodes" {_PLAIN} stroke-linecap="round" d="M{at + 3} {y}h0"/>'
        yield f'<text class="key" x="{at + 14}" y="{y + 4.5}">training episode</text>'
        yield f'<line class="training" stroke-width="2.5" x1="{at + 146}" x2="{at + 170}" y1="{y}" y2="{y}"/>'
        yield f'<text class="key" x="{at + 178}" y="{y + 4.5}">mean of the last 100 training episodes</text>'
        at += 448
    if evaluations:
        yield f'<path class="evaluation" stroke-width="2" d="M{at} {y}h24M{at + 12} {y - 8}v16"/>'
        yield f'<circle class="dot" cx="{at + 12}" cy="{y}" r="4"/>'
        yield f'<text class="key" x="{at + 32}" y="{y + 4.5}">evaluation, mean and 95% interval</text>'


def _training(
    episodes: Sequence[tuple[float, float]], mean: Sequence[tuple[float, float]], x: Axis, y: Axis
) -> Iterator[str]:
    # Episodes that fall on the same half pixel are one point, so the file stays small however long the run.
    pixels = {(round(2 * x(step)), round(2 * y(value))) for step, value in episodes if y.low <= value <= y.high}
    if pixels:
        dots = "".join(f"M{_half(px)} {_half(py)}h0" for px, py in sorted(pixels))
        look = _PLAIN if len(pixels) <= _FEW else 'stroke-width="3.2"'
        yield f'<path class="episodes" {look} stroke-linecap="round" fill="none" d="{dots}"/>'
        every = -(-len(mean) // MAX_LINE_POINTS)
        shown = [*mean[:-1:every], mean[-1]]
        line = "L".join(f"{x(step):.1f} {y(value):.1f}" for step, value in shown)
        yield f'<path class="training" stroke-width="2.5" stroke-linejoin="round" fill="none" d="M{line}"/>'


def _evaluation(evaluations: Sequence[Evaluated], x: Axis, y: Axis) -> Iterator[str]:
    if not evaluations:
        return
    line = "L".join(f"{x(e.step):.1f} {y(e.mean):.1f}" for e in evaluations)
    yield f'<path class="evaluation" stroke-width="1.6" stroke-dasharray="5 4" d="M{line}"/>'
    for e in evaluations:
        if math.isfinite(e.low) and math.isfinite(e.high):
            yield f'<path class="evaluation" stroke-width="2" d="M{x(e.step):.1f} {y(e.low):.1f}V{y(e.high):.1f}"/>'
    for e in evaluations:
        said = f"evaluation at step {e.step:,.0f}: {_short(e.mean)} [{_short(e.low)}, {_short(e.high)}], n = {e.n}"
        yield f'<circle class="dot" cx="{x(e.step):.1f}" cy="{y(e.mean):.1f}" r="4"><title>{said}</title></circle>'


def _half(doubled: int) -> str:
    return f"{doubled / 2:g}"


def _short(value: float, kilo: float = 1e4) -> str:
    """`0`, `-12.5`, `475.2`, `20k`, `1.5M`, `nan`; thousands are written with `k` from `kilo` on."""
    for size, letter in ((1e9, "G"), (1e6, "M"), (kilo, "k")):
        if math.isfinite(value) and abs(value) >= size:
            return f"{value / (1e3 if letter == 'k' else size):.4g}{letter}"
    return f"{value:.4g}"


def _cut(text: str, length: int) -> str:
    return text if len(text) <= length else text[: length - 1] + "…"
