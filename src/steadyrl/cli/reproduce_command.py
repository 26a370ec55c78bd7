"""`steadyrl reproduce RUN`: runs it again from its configuration and compares the traces."""

from __future__ import annotations

import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from steadyrl.cli.parser import understood
from steadyrl.cli.runs import find_run, runs_below
from steadyrl.cli.session import Session, exits_are_errors
from steadyrl.cli.streams import tell
from steadyrl.errors import RunFailedError, UserError

if TYPE_CHECKING:
    from steadyrl.training.events import Notice


@dataclass(frozen=True, kw_only=True)
class ReproduceOptions:
    """What `steadyrl reproduce` takes."""

    run_dir: Path | None = None
    """Where the second run goes, or the second runs; left out, they are removed."""
    statistical: bool = False
    """Not bit for bit, but whether the final scores over the seeds of a folder of runs are equivalent."""
    against: Path | None = None
    """With --statistical, a second folder of runs to compare with; left out, each run is made again."""
    margin: float | None = None
    """With --statistical, differences of scores below this count as none; left out, a tenth of the first score."""
    json: bool = False
    """One JSON document on stdout."""


def run(args: list[str], session: Session) -> int:
    """Trains again and says whether it came out the same; exit status 1 where it did not."""
    line = understood(
        args,
        ReproduceOptions,
        "steadyrl reproduce",
        usage="steadyrl reproduce RUN [flags]",
        description="Runs it again from its config.json and compares every row and checkpoint, bit for bit.",
        example="  steadyrl reproduce latest\n  steadyrl reproduce runs/a --statistical --against runs/b",
        positionals={"RUN": "a run folder, a folder of runs (its newest; with --statistical all), or latest"},
    )
    if line is None:
        return 0
    positionals, options = line
    if options.statistical:
        return _statistical(positionals[0] if positionals else None, options, session)
    for name in ("against", "margin"):
        if getattr(options, name) is not None:
            raise UserError(
                f"--{name} has no effect without --statistical.", remedy="Add --statistical.", code="bad-value"
            )
    found = find_run(positionals[0] if positionals else None, "reproduce")
    if found.note:
        tell(found.note, sys.stderr)
    session.say(f"Run folder: {found.path}")

    with tempfile.TemporaryDirectory() as temporary, exits_are_errors(RunFailedError, "the environment"):
        document = _compared(found.path, options.run_dir or Path(temporary) / "again", session)
    if session.json:
        session.emit(document)
    return 0 if document["identical"] else 1


def _compared(run: Path, target: Path, session: Session) -> dict[str, Any]:
    """Makes the run again and says whether it is the same; as `--json` prints it."""
    from steadyrl.training.chain import chain, shared_steps
    from steadyrl.training.comparing import compared, first_difference
    from steadyrl.training.going_on import edited
    from steadyrl.training.reproducing import not_compared, reproduce

    changed = edited(run)
    for text in changed:
        session.say(f"Not as it was: {text}.")

    def hear(notice: Notice) -> None:
        if notice.code == "not-the-same":
            changed.append(notice.message.removeprefix("Not as it was: ").removesuffix("."))
        session.say(notice.message)

    again = reproduce(run, target, hear)
    if without := not_compared(run):
        session.say(f"Not compared: {', '.join(without)} of the process, which were as the script had left them.")
    difference, counts = first_difference(run, again.path, without), compared(run, again.path)
    links = chain(run, shared_steps(run, again.path), without)
    said = ", ".join(f"{count} {name}" for name, count in counts.items())
    if difference is None:
        session.say(f"Identical ({said}, a chain of {len(links)} intervals that ends in {links[-1].sha256}).")
    else:
        known = (
            f"What is not as it was: {'; '.join(changed)}." if changed else "Nothing is known that is not as it was."
        )
        session.say(f"They differ first at {difference}. {known}")
    return {
        "run": str(run),
        "identical": difference is None,
        "first_difference": None if difference is None else difference.to_json(),
        "compared": counts,
        "not_as_it_was": changed,
        "chain": {"intervals": len(links), "sha256": links[-1].sha256},
    }


def _statistical(word: str | None, options: ReproduceOptions, session: Session) -> int:
    """Whether the scores of two sets of runs are equivalent; exit status 1 where that is not shown."""
    from steadyrl.training.equivalence import LEAST, equivalence, final_score, what_of

    runs = [run for run in runs_below(word, "reproduce --statistical") if final_score(run) is not None]
    if len(runs) < LEAST:
        raise UserError(
            f"{word} holds {len(runs)} finished runs with a final evaluation, and {LEAST} are needed.",
            remedy="Train more seeds, with evaluation.",
            code="too-few-runs",
        )
    with tempfile.TemporaryDirectory() as temporary, exits_are_errors(RunFailedError, "the environment"):
        if options.against is None:
            others = _again(runs, options.run_dir or Path(temporary), session)
        else:
            others = [run for run in runs_below(str(options.against), "reproduce") if final_score(run) is not None]
        kinds = {what_of(run) for run in [*runs, *others]}
        if len(kinds) > 1:
            said = ", ".join(sorted(f"{algo} on {env}" for algo, env in kinds))
            raise UserError(
                f"The runs are of several kinds: {said}.", remedy="Compare like with like.", code="bad-value"
            )
        scores = [[score for run in part if (score := final_score(run)) is not None] for part in (runs, others)]
    result = equivalence(scores[0], scores[1], options.margin)
    if session.json:
        session.emit(result.to_json() | {"scores": scores})
    session.say(str(result))
    return 0 if result.equivalent else 1


def _again(runs: list[Path], target: Path, session: Session) -> list[Path]:
    from steadyrl.training.reproducing import reproduce

    said: set[str] = set()

    def say(text: str) -> None:
        if text not in said:
            said.add(text)
            session.say(text)

    made = []
    for number, run in enumerate(runs):
        session.say(f"Again: {run}")
        made.append(reproduce(run, target / f"again-{number}", lambda notice: say(notice.message)).path)
    return made
