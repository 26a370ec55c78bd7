"""`steadyrl record RUN`: an mp4 of the policy."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from steadyrl.cli.eval_command import has_agent
from steadyrl.cli.parser import understood
from steadyrl.cli.runs import find_run
from steadyrl.cli.session import Session, exits_are_errors
from steadyrl.cli.streams import tell
from steadyrl.configs.validate import at_least_one, not_negative_whole
from steadyrl.errors import RunFailedError, UserError, install

if TYPE_CHECKING:
    from steadyrl.training.agent import Agent


@dataclass(frozen=True, kw_only=True)
class RecordOptions:
    """What `steadyrl record` takes."""

    checkpoint: str = "final"
    """Which agent of the run: final, best, or a step."""
    seed: int = 0
    """Seed of the first episode; each further one has the next."""
    episodes: int = 1
    """Episodes, one file each."""
    max_steps: int | None = None
    """Ends an episode after this many steps."""
    output: Path | None = None
    """The file; left out, one in the run's folder videos."""
    json: bool = False
    """One JSON document on stdout."""

    def __post_init__(self) -> None:
        at_least_one(self, "episodes")
        not_negative_whole(self, "seed")
        if self.max_steps is not None:
            at_least_one(self, "max_steps")
        if self.output is not None and self.output.suffix.lower() != ".mp4":
            raise UserError(
                f"The output {self.output} is no mp4 file.", remedy="Let its name end in .mp4.", code="bad-value"
            )


def run(args: list[str], session: Session) -> int:
    """Records the episodes and says where they are."""
    line = understood(
        args,
        RecordOptions,
        "steadyrl record",
        usage="steadyrl record RUN [flags]",
        description="Records the deterministic policy of a run as mp4.",
        example="  steadyrl record latest --checkpoint best -o best.mp4",
        positionals={"RUN": "a run folder, a folder of runs (its newest), or latest"},
    )
    if line is None:
        return 0
    positionals, options = line
    found = find_run(positionals[0] if positionals else None, "record", lambda run: has_agent(run, options.checkpoint))
    path = found.path
    if found.note:
        tell(found.note, sys.stderr)
    _require_video()
    from steadyrl.training.signals import signals_raise

    with signals_raise(), exits_are_errors(RunFailedError, "the environment"):
        agent = _agent(path, options.checkpoint)
        recordings = [_record(agent, options, seed, _target(path, options, seed)) for seed in _seeds(options)]
    if session.json:
        session.emit({"run": str(path), "checkpoint": options.checkpoint, "recordings": recordings})
        return 0
    from steadyrl.training.displays.text import number

    for row in recordings:
        print(f"{row['path']}  (return {number(row['return'])}, {row['length']} steps, seed {row['seed']})")
    return 0


def _agent(run_dir: Path, checkpoint: str) -> Agent:
    from steadyrl.training.run import Run

    return Run.open(run_dir).load_agent(checkpoint)


def _record(agent: Agent, options: RecordOptions, seed: int, path: Path) -> dict[str, Any]:
    """One episode into `path`; what the JSON document says of it."""
    from steadyrl.training.playing import Filmed
    from steadyrl.training.video import record_episode

    factory = agent.env_factory
    if factory is None:
        raise UserError(
            "The environment of this run cannot be made again, so it cannot be filmed.",
            remedy="Train with an environment id or file.py:ClassName.",
            code="no-env",
        )
    film = Filmed(agent, lambda: factory(render_mode="rgb_array"))
    recording = record_episode(
        film,
        film.make,
        path,
        seed=seed,
        max_steps=options.max_steps,
    )
    return {"path": str(path), "return": recording.return_, "length": recording.length, "seed": seed}


def _seeds(options: RecordOptions) -> range:
    return range(options.seed, options.seed + options.episodes)


def _target(run_dir: Path, options: RecordOptions, seed: int) -> Path:
    if options.output is None:
        return run_dir / "videos" / f"{options.checkpoint}-seed{seed}.mp4"
    return options.output.with_stem(f"{options.output.stem}-seed{seed}") if options.episodes > 1 else options.output


def _require_video() -> None:
    """Before seconds go into torch: is the extra there?

    Raises:
        UserError: It is not; names the exact command.
    """
    from importlib.util import find_spec

    if find_spec("av") is None:
        raise UserError(
            "Recording needs PyAV, which is not installed.",
            remedy=f"Install it: {install('video')}.",
            code="missing-extra",
        )
