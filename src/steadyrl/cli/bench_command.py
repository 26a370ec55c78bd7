"""`steadyrl bench ENV`: steps per second by backend and number of environments, and the settings that speaks for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from steadyrl.cli.parser import understood
from steadyrl.cli.session import Session, exits_are_errors
from steadyrl.config import check_algo
from steadyrl.configs.validate import at_least_one, positive
from steadyrl.errors import RunFailedError, UserError

if TYPE_CHECKING:
    from steadyrl.cli.watched import Signs

_TURN = 0.1  # of the whole time that one turn of steps takes at most


@dataclass(frozen=True, kw_only=True)
class BenchOptions:
    """What `steadyrl bench` takes."""

    algo: str | None = None
    """Train shortly with this algorithm as well: where the time of a run goes, and which settings make it faster."""
    num_envs: tuple[int, ...] = (1, 2, 4, 8, 16)
    """Numbers of environments to try, in rising order until more does not pay."""
    num_workers: tuple[int, ...] = ()
    """Numbers of processes to try with async; left out, what fits the cores and how much environments wait."""
    seconds: float = 20.0
    """Time for stepping; starting processes comes on top, and as much again with --algo."""
    memory_limit: str | None = None
    """Memory for environments and their processes, such as 8GB or 0.5 of the free memory; None is 0.7 of it."""
    env_kwargs: Mapping[str, Any] = field(default_factory=dict)
    """Arguments of the environment, as K=V."""
    max_episode_steps: int | None = None
    """Truncates episodes after this many steps instead of the environment's own limit."""
    env_timeout: float = 60.0
    """Seconds that an environment may take for a step or reset before it counts as hanging."""
    json: bool = False
    """One JSON document on stdout."""

    def __post_init__(self) -> None:
        for name in ("num_envs", "num_workers"):
            for value in getattr(self, name):
                if value < 1:
                    raise UserError(
                        f"{name} holds {value}.",
                        remedy=f"Each is 1 or more: --{name.replace('_', '-')} 1,4,16.",
                        code="bad-value",
                    )
        if not self.num_envs:
            raise UserError("num_envs is empty.", remedy="For example: --num-envs 1,4,16.", code="bad-value")
        if not 0.5 <= self.seconds <= 3600:
            raise UserError(f"seconds is {self.seconds:g}.", remedy="It has to be from 0.5 to 3600.", code="bad-value")
        if self.max_episode_steps is not None:
            at_least_one(self, "max_episode_steps")
        positive(self, "env_timeout")


def run(args: list[str], session: Session) -> int:
    """Measures and prints the page or the document."""
    line = understood(
        args,
        BenchOptions,
        "steadyrl bench",
        usage="steadyrl bench ENV [flags]",
        description="Measures how fast an environment can be stepped here, and recommends settings.",
        example="  steadyrl bench CartPole-v1\n  steadyrl bench HalfCheetah-v5 --algo sac --json",
        positionals={"ENV": "a Gymnasium id, package.module:Id-v0, file.py:Class, or envpool:Id"},
    )
    if line is None:
        return 0
    positionals, options = line
    if not positionals:
        raise UserError(
            "`steadyrl bench` needs an environment.", remedy="For example: steadyrl bench CartPole-v1.", code="usage"
        )
    env = positionals[0]
    algo = None if options.algo is None else check_algo(options.algo)

    from steadyrl.cli.watched import Signs, can_watch, run_watched

    signs = Signs.here()
    if session.alone and can_watch() and not signs.are_read:
        return run_watched(["bench", *args], env, options.env_timeout, _TURN * options.seconds, session)
    with signs.orderly():
        return _measured(env, algo, options, signs, session)


def _measured(env: str, algo: str | None, options: BenchOptions, signs: Signs, session: Session) -> int:
    from steadyrl.bench.report import Asked, bench

    asked = Asked(
        env,
        algo,
        options.num_envs,
        options.num_workers,
        options.seconds,
        options.memory_limit,
        options.env_kwargs,
        options.max_episode_steps,
        _extra(options),
        options.env_timeout,
    )
    session.say(f"Measuring {env} for about {options.seconds * (1 if algo is None else 2):.0f} s ...")
    with exits_are_errors(RunFailedError, env):
        report = bench(asked, going=signs.going)
    if session.json:
        session.emit(report.to_json())
        return 0
    from steadyrl.bench.page import show
    from steadyrl.cli.console import console

    show(report, console())
    return 0


def _extra(options: BenchOptions) -> list[str]:
    """The flags that the recommended command has to carry on."""
    words = [f"{key}={value}" for key, value in options.env_kwargs.items()]
    limit = options.max_episode_steps
    return [
        *(["--env-kwargs", *words] if words else []),
        *([] if limit is None else ["--max-episode-steps", str(limit)]),
    ]
