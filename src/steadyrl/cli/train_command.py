"""`steadyrl train ALGO ENV`: one run into a run folder."""

from __future__ import annotations

import dataclasses
import importlib.util
import math
import shlex
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from steadyrl.cli.flags import Flag, flags_of, shown, take_apart, values
from steadyrl.cli.parser import Parser, build, check, wants_help
from steadyrl.cli.session import Session, exits_are_errors
from steadyrl.cli.streams import tell
from steadyrl.config import check_algo, preset_for
from steadyrl.configs import CONFIGS
from steadyrl.configs.run import RunSettings
from steadyrl.configs.wrapping import WRAPPER_FIELDS
from steadyrl.errors import RunFailedError, UserError

if TYPE_CHECKING:
    from steadyrl.training.displays import GuardedDisplay
    from steadyrl.training.events import Event, Listener
    from steadyrl.training.plan import Plan
    from steadyrl.training.run import Run
    from steadyrl.training.run_folder import RunFolder
    from steadyrl.training.setup import Setup


@dataclass(frozen=True, kw_only=True)
class TrainOptions:
    """What `steadyrl train` takes beside the settings of the run and the hyperparameters."""

    total_timesteps: int | None = None
    """Environment steps, exactly; left out, the preset's total, or 1000000 without a preset."""
    preset: str = "auto"
    """Tuned settings: auto takes those of this environment if there are any, none takes none, an id that one's."""
    display: Literal["auto", "live", "plain", "json", "none"] = "auto"
    """How progress is shown; auto is live in a terminal and plain elsewhere."""
    quiet: bool = False
    """No progress, only how the run is set up and how it ended."""
    json: bool = False
    """One JSON document on stdout at the end; everything else goes to stderr."""


ALIASES = {"env-id": "env", "exp-name": "name", "n-envs": "num-envs", "wrapper": "wrappers"}
EXIT_STATUS = {"finished": 0, "stopped": 0, "interrupted": 130, "preempted": 143, "failed": 3}
_SIGUSR1 = 138
_GROUPS = {  # in the order of `--help`; what none names is of the first
    "run": (),
    "hyperparameters": (),
    "environment": ("env", "vec", "num_workers", "env_kwargs", "max_episode_steps", "action_masks"),
    "wrappers": WRAPPER_FIELDS,
    "seeds": ("seed", "env_seed", "algo_seed", "eval_seed"),
    "evaluation": ("eval_freq", "eval_episodes", "capture_video"),
    "checkpoints": ("checkpoint_freq", "checkpoint_minutes", "keep_last", "keep_best", "save_state"),
    "failures": (
        "env_timeout", "on_env_error", "env_restart_budget", "on_nonfinite", "nonfinite_limit",
    ),
    "output": ("run_dir", "name", "display", "quiet", "json"),
}  # fmt: skip


def run(args: list[str], session: Session) -> int:
    """Trains, says where everything is, and returns the exit status of how the run ended."""
    if wants_help(args):
        print(_help(args))
        return 0
    algo, env, values_by_field, options = parse(args)
    from steadyrl.training.ending import recorded
    from steadyrl.training.plan import prepare
    from steadyrl.training.signals import signals_raise

    with signals_raise() as signals:
        with exits_are_errors(UserError, env):
            plan = prepare(algo, env, values_by_field, preset=options.preset, total_timesteps=options.total_timesteps)
        session.run_dir = plan.folder.path
        with recorded(plan.folder), exits_are_errors(RunFailedError, env):
            session.say(_announcement(plan))
            finished = _execute(plan, options, session)
            signals.release()
            summary = finished.summary()
            session.say(closing(plan.folder, summary, plan.setup))
            if session.json:
                session.emit(summary)
    finished.close()
    return status_of(summary)


def _execute(plan: Plan, options: TrainOptions, session: Session) -> Run:
    from steadyrl.training.run import execute  # imports torch, which takes seconds

    display = display_for(options.display, options.quiet, session)
    said = set(plan.setup.notices)
    listeners: list[Listener] = [display]
    if options.quiet or options.display == "none":
        listeners.append(warn)
    try:
        return execute(plan, listeners, lambda notice: None if notice in said else session.say(notice.message))
    finally:
        display.close()


def warn(event: Event) -> None:
    """Without a display, warnings are still told."""
    from steadyrl.training.events import Notice

    if isinstance(event, Notice) and event.level == "warning":
        tell(f"warning: {event.message}", sys.stderr)


def parse(args: list[str]) -> tuple[str, str, dict[str, Any], TrainOptions]:
    """Algorithm, environment, the settings and hyperparameters that were typed, options of the command.

    Raises:
        UserError: A word, flag or value that does not fit.
    """
    shared = _shared_flags()
    hyper = {algo: _hyper_flags(algo) for algo in CONFIGS}
    named = [algo for algo in CONFIGS if algo in (arg.lower() for arg in args)] or list(CONFIGS)
    # Other algorithms' flags come last: they are known, so that the error can say whose they are.
    ordered = named + [algo for algo in CONFIGS if algo not in named]
    table = {flag.name: flag for algo in reversed(ordered) for flag in [*hyper[algo], *shared]}
    near = [flag.name for algo in named for flag in hyper[algo]] + [flag.name for flag in shared]
    words = take_apart(args, table.values(), ALIASES, near)
    positionals = check(_parser(None, None), words._replace(texts={}))
    if not positionals:
        raise UserError(
            "`steadyrl train` needs an algorithm and an environment.",
            remedy="For example: steadyrl train ppo CartPole-v1.",
            code="usage",
        )
    algo = _first_word(positionals)
    _refuse_foreign(algo, words.texts, {flag.name for flag in [*hyper[algo], *shared]}, hyper)
    given = values(words, [*hyper[algo], *shared])
    options = {name: given.pop(name) for name in TrainOptions.__dataclass_fields__ if name in given}
    named = [*positionals[1:2], *filter(None, [given.pop("env", None)])]
    env = next(iter(named), None)
    if len(named) > 1:
        raise UserError(
            f"The environment is given twice, as {named[0]} and with --env as {named[1]}.",
            remedy="Give it once.",
            code="repeated-flag",
        )
    if env is None:
        raise UserError(
            f"`steadyrl train {algo}` needs an environment.",
            remedy=f"For example: steadyrl train {algo} CartPole-v1.",
            code="usage",
        )
    return algo, env, given, TrainOptions(**options)


def _first_word(positionals: list[str]) -> str:
    """The algorithm; where it stands second, behind the environment, the error says the order."""
    first, second = [*positionals, ""][:2]
    if first.lower() not in CONFIGS and second.lower() in CONFIGS:
        raise UserError(
            f"The algorithm is the first word and the environment the second, not {first} {second}.",
            remedy=f"Type steadyrl train {second.lower()} {shlex.quote(first)}.",
            code="usage",
        )
    return check_algo(first)


def closing(folder: RunFolder, summary: dict[str, Any], setup: Setup | None) -> str:
    """The last lines for people: how it ended, the score, where everything is, what to type next."""
    steps, seconds, fps = summary["total_timesteps"], summary["wall_s"], summary["fps"]
    lines = [
        f"{str(summary['status']).capitalize()}: {steps:,} steps in {seconds:.1f} s ({fps:,.0f} steps per second)."
    ]
    if summary["eval"]:
        lines.append(f"Evaluation of the final agent: {score(summary['eval'])}.")
    run = folder.shown
    typed = shlex.quote(str(run))
    places = {"Run folder": str(run), **_agents(folder)}
    places["Curve"] = f"{run / 'curve.svg'} (numbers: metrics.jsonl, evals.jsonl)"
    there = importlib.util.find_spec("tensorboard") is not None
    places["TensorBoard"] = f"tensorboard --logdir {typed}{'' if there else '  (after pip install tensorboard)'}"
    if summary["status"] not in ("finished", "failed"):
        places["Resume"] = f"steadyrl resume {typed}"
    places["Go on with"] = f"steadyrl eval {typed}"
    lines += [f"{title:<12} {text}" for title, text in places.items()]
    if setup is not None and setup.can_film:
        lines.append(f"{'':<12} steadyrl record {typed}")
    return "\n".join(lines)


def _agents(folder: RunFolder) -> dict[str, str]:
    """Where the saved agents are; a run that ended early may have none."""
    from steadyrl.training.finding import whole_one

    found = {}
    for title, which in (("Saved agent", "final"), ("Best agent", "best")):
        if path := whole_one(folder.checkpoints, which):
            found[title] = str(folder.shown / path.relative_to(folder.path))
    return found


def score(result: Any) -> str:
    """`mean +- std (std; 95% interval low..high, n episodes)`, with more decimals where returns are small.

    Where episodes tell whether they succeeded, `, success rate p%` follows.
    """
    low, high = result["ci95"]
    size = max(abs(result["mean"]), result["std"])
    places = 1 if not 0 < size < 10 else min(2 - math.floor(math.log10(size)), 9)
    interval = "" if low is None or high is None else f"95% interval {low:.{places}f}..{high:.{places}f}, "
    episodes = "1 episode" if result["episodes"] == 1 else f"{result['episodes']} episodes"
    rate = f", success rate {100 * result['success_rate']:.3g}%" if "success_rate" in result else ""
    return f"{result['mean']:.{places}f} +- {result['std']:.{places}f} (std; {interval}{episodes}){rate}"


def _shared_flags() -> list[Flag]:
    groups = {name: group for group, names in _GROUPS.items() for name in names}
    return flags_of(TrainOptions, "run", groups) + flags_of(RunSettings, "run", groups)


def _hyper_flags(algo: str) -> list[Flag]:
    return flags_of(CONFIGS[algo], "hyperparameters")


def _refuse_foreign(algo: str, used: dict[str, list[str]], own: set[str], hyper: dict[str, list[Flag]]) -> None:
    for name in used:
        if name not in own:
            owners = " and ".join(other for other, flags in hyper.items() if name in {flag.name for flag in flags})
            raise UserError(
                f"--{name} is a flag of {owners}, not of {algo}.",
                remedy=f"Leave it out; `steadyrl train {algo} --help` lists the flags of {algo}.",
                code="unknown-flag",
            )


def _help(args: list[str]) -> str:
    words = [arg for arg in args if not arg.startswith("-")]
    algo = next((word.lower() for word in words if word.lower() in CONFIGS), None)
    env = next((word for word in words if algo and preset_for(algo, word)), None)
    return _parser(algo, env).format_help().rstrip()


def _parser(algo: str | None, env: str | None) -> Parser:
    preset = preset_for(algo, env) if algo else None
    notes = {name: f"preset {_shown_preset(value)}" for name, value in preset.values.items()} if preset else {}
    if preset and preset.total_timesteps:
        notes["total_timesteps"] = f"preset {preset.total_timesteps}"
    flags = _shared_flags() + (_hyper_flags(algo) if algo else [])
    hint = f"Algorithms: {', '.join(CONFIGS)}; `steadyrl train {next(iter(CONFIGS))} --help` lists its flags."
    return build(
        "steadyrl train",
        usage=f"steadyrl train {algo or 'ALGO'} {env or 'ENV'} [flags]",
        description="Trains one agent into a run folder." + ("" if algo else "\n" + hint),
        example=f"  steadyrl train {algo or 'ppo'} {env or 'CartPole-v1'} --seed 1 --total-timesteps 100000",
        positionals=({} if algo else {"ALGO": ", ".join(CONFIGS)})
        | {"ENV": "a Gymnasium id, package.module:Id-v0 or file.py:Class"},
        flags=sorted(flags, key=lambda flag: list(_GROUPS).index(flag.group)),
        notes=notes,
    )


def _shown_preset(value: Any) -> str:
    if isinstance(value, dict) and {"start", "end"} <= set(value):
        return f"{value['start']:g} to {value['end']:g}"
    return shown(tuple(value) if isinstance(value, list) else value)


def _announcement(plan: Plan) -> str:
    resolved, settings = plan.setup.resolved, plan.setup.settings
    changed = [name for name, source in resolved.sources.items() if source == "explicit" and name != "total_timesteps"]
    changed += changed_settings(settings)
    origin = f"preset {resolved.preset}" if resolved.preset else "no preset, the defaults"
    lines = [
        f"Run folder: {plan.run_dir}",
        f"{resolved.algo} on {settings.env}, {resolved.total_timesteps:,} steps, seed {settings.seed}.",
        f"Settings: {origin}" + (f"; set by you: {', '.join(changed)}." if changed else "."),
    ]
    if resolved.preset:
        lines.append(f"  source: {resolved.preset_source}")
    # The preset has its line already.
    lines += [notice.message for notice in plan.setup.notices if notice.code != "preset"]
    return "\n".join(lines)


def changed_settings(settings: RunSettings) -> list[str]:
    """Names of those that are not as they are by default, but for what is told elsewhere."""
    bare = RunSettings(env=settings.env)
    names = [field.name for field in dataclasses.fields(settings) if field.name not in ("seed", "run_dir", "name")]
    return [name for name in names if getattr(settings, name) != getattr(bare, name)]


def display_for(display: str, quiet: bool, session: Session) -> GuardedDisplay:
    """The display: on stderr, as stdout is for results; events as JSON lines are a result unless `--json` is."""
    from steadyrl.training.displays import make_display

    kind = "none" if quiet else display
    return make_display(kind, sys.stdout if kind == "json" and not session.json else sys.stderr)


def status_of(summary: dict[str, Any]) -> int:
    """The exit status of how a run ended."""
    if summary["status"] == "preempted" and summary.get("signal") == "SIGUSR1":
        return _SIGUSR1
    return EXIT_STATUS[summary["status"]]
