"""`steadyrl reproduce RUN`: runs it again from its configuration and compares the traces."""

from __future__ import annotations

import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from steadyrl.cli.parser import understood
from steadyrl.cli.runs import find_run
from steadyrl.cli.session import Session, exits_are_errors
from steadyrl.cli.streams import tell
from steadyrl.errors import RunFailedError


@dataclass(frozen=True, kw_only=True)
class ReproduceOptions:
    """What `steadyrl reproduce` takes."""

    run_dir: Path | None = None
    """Where the second run goes; left out, it is removed."""
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
        example="  steadyrl reproduce latest",
        positionals={"RUN": "a run folder, a folder of runs (its newest), or latest"},
    )
    if line is None:
        return 0
    positionals, options = line
    found = find_run(positionals[0] if positionals else None, "reproduce")
    if found.note:
        tell(found.note, sys.stderr)
    session.say(f"Run folder: {found.path}")

    from steadyrl.training.comparing import compared, first_difference
    from steadyrl.training.reproducing import reproduce

    with tempfile.TemporaryDirectory() as temporary, exits_are_errors(RunFailedError, "the environment"):
        target = options.run_dir or Path(temporary) / "again"
        again = reproduce(found.path, target, lambda notice: session.say(notice.message))
        difference, counts = first_difference(found.path, again.path), compared(found.path, again.path)
    document = {
        "run": str(found.path),
        "identical": difference is None,
        "first_difference": None if difference is None else difference.to_json(),
        "compared": counts,
    }
    if session.json:
        session.emit(document)
    said = ", ".join(f"{count} {name}" for name, count in counts.items())
    session.say(f"Identical ({said})." if difference is None else f"They differ first at {difference}.")
    return 0 if difference is None else 1
