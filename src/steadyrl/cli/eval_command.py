"""`steadyrl eval RUN`: deterministic policy, fixed seeds, frozen normaliser, raw reward."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

from steadyrl.cli.parser import understood
from steadyrl.cli.runs import find_run
from steadyrl.cli.session import Session, exits_are_errors
from steadyrl.cli.streams import tell
from steadyrl.cli.train_command import score
from steadyrl.configs.validate import at_least_one, not_negative_whole
from steadyrl.errors import RunFailedError


@dataclass(frozen=True, kw_only=True)
class EvalOptions:
    """What `steadyrl eval` takes."""

    episodes: int = 100
    """Episodes to play."""
    checkpoint: str = "final"
    """Which agent of the run: final, best, or a step."""
    eval_seed: int | None = None
    """Seed that the seeds of the episodes come from; left out, the one of the run."""
    stochastic: bool = False
    """Actions are drawn from the policy instead of taking its mode."""
    json: bool = False
    """One JSON document on stdout."""

    def __post_init__(self) -> None:
        at_least_one(self, "episodes")
        if self.eval_seed is not None:
            not_negative_whole(self, "eval_seed")


def run(args: list[str], session: Session) -> int:
    """Plays the episodes and prints the score."""
    line = understood(
        args,
        EvalOptions,
        "steadyrl eval",
        usage="steadyrl eval RUN [flags]",
        description="Evaluates the agent of a run on its raw reward.",
        example="  steadyrl eval latest --episodes 100 --checkpoint best",
        positionals={"RUN": "a run folder, a folder of runs (its newest), or latest"},
    )
    if line is None:
        return 0
    positionals, options = line
    found = find_run(positionals[0] if positionals else None, "eval", lambda run: has_agent(run, options.checkpoint))
    path = found.path
    if found.note:
        tell(found.note, sys.stderr)
    if not session.json:
        print(f"Run folder: {path}", flush=True)

    from steadyrl.training.agents import evaluate
    from steadyrl.training.evaluation import left_out
    from steadyrl.training.run import Run
    from steadyrl.training.signals import signals_raise

    with signals_raise(), exits_are_errors(RunFailedError, "the environment"):
        agent = Run.open(path).load_agent(options.checkpoint)
        result = evaluate(agent, options.episodes, seed=options.eval_seed, deterministic=not options.stochastic)
    document = {
        "run": str(path),
        "checkpoint": options.checkpoint,
        "deterministic": not options.stochastic,
        "eval_seed": agent.require_setup().settings.eval_seed if options.eval_seed is None else options.eval_seed,
        "mean": float(result.mean),
        "std": float(result.std),
        "ci95": [float(bound) for bound in result.ci95],
        "episodes": int(result.episodes),
        "returns": [float(value) for value in result.returns],
        "lengths": [int(value) for value in result.lengths],
        "failed": list(result.failed),
        **({} if result.success_rate is None else {"success_rate": result.success_rate}),
    }
    if session.json:
        session.emit(document)
        return 0
    print(f"Return of the {options.checkpoint} agent: {score(document)}.")
    if result.failed:
        print(left_out(result))
    print(f"Mean length: {result.lengths.mean():.1f} steps.")
    return 0


def has_agent(run_dir: Path, checkpoint: str) -> bool:
    """Whether a run holds this checkpoint, whole."""
    from steadyrl.training.finding import whole_one

    return whole_one(run_dir / "checkpoints", checkpoint) is not None
