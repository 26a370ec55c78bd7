"""`steadyrl eval RUN`: deterministic policy, fixed seeds, frozen normaliser, raw reward."""

from __future__ import annotations

from dataclasses import dataclass

from steadyrl.cli.flags import flags_of, take_apart, values
from steadyrl.cli.parser import build, check, wants_help
from steadyrl.cli.runs import find_run
from steadyrl.cli.session import Session, print_json
from steadyrl.cli.train_command import score
from steadyrl.configs.validate import at_least_one, not_negative


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
            not_negative(self, "eval_seed")


def run(args: list[str], session: Session) -> int:
    """Plays the episodes and prints the score."""
    flags = flags_of(EvalOptions, "flags")
    parser = build(
        "steadyrl eval",
        usage="steadyrl eval RUN [flags]",
        description="Evaluates the agent of a run on its raw reward.",
        example="  steadyrl eval latest --episodes 100 --checkpoint best",
        positionals={"RUN": "a run folder, a folder of runs (its newest), or latest"},
        flags=flags,
    )
    if wants_help(args):
        print(parser.format_help().rstrip())
        return 0
    words = take_apart(args, flags, {})
    positionals = check(parser, words)
    options = EvalOptions(**values(words, flags))
    path = find_run(positionals[0] if positionals else None, "eval")
    if not session.json:
        session.say(f"Run folder: {path}")

    from steadyrl.training.agents import evaluate
    from steadyrl.training.run import Run

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
    }
    if session.json:
        print_json(document)
        return 0
    session.say(f"Return of the {options.checkpoint} agent: {score(document)}.")
    session.say(f"Mean length: {result.lengths.mean():.1f} steps.")
    return 0
