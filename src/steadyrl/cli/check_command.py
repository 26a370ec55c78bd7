"""`steadyrl check ENV`: what is wrong with an environment, with evidence and remedy."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from steadyrl.cli.parser import understood
from steadyrl.cli.session import Session
from steadyrl.errors import UserError

_DESCRIPTION = """Plays an environment in a process of its own and tells what is wrong, with evidence and remedy.
Exit status: 0 where no error was found, 1 where one was (or, with --strict, a warning)."""


@dataclass(frozen=True, kw_only=True)
class CheckOptions:
    """What `steadyrl check` takes."""

    quick: bool = False
    """Fewer steps and seeds, for a look in between: seconds instead of some ten."""
    no_side_effects: bool = False
    """For real hardware: make one instance only, and reset it only where an episode has ended."""
    strict: bool = False
    """Warnings count as errors."""
    ignore: str | None = None
    """Codes or kinds of rules to leave out, separated by commas."""
    only: str | None = None
    """Codes or kinds of the only rules to hold it to, separated by commas."""
    list: bool = False
    """Lists all rules instead: code, kind, severity, what is wrong."""
    timeout: float = 30.0
    """Seconds that one call of the environment may take before it counts as hanging."""
    env_kwargs: Mapping[str, Any] = field(default_factory=dict)
    """Arguments of the environment, as K=V."""
    json: bool = False
    """One JSON document on stdout."""


def run(args: list[str], session: Session) -> int:
    """Checks, and prints the page or the document."""
    line = understood(
        args,
        CheckOptions,
        "steadyrl check",
        usage="steadyrl check ENV [flags]",
        description=_DESCRIPTION,
        example="  steadyrl check CartPole-v1\n  steadyrl check file.py:ClassName --strict --ignore SRL-OBS-008",
        positionals={"ENV": "a Gymnasium id, package.module:Id-v0, or file.py:Class"},
    )
    if line is None:
        return 0
    positionals, options = line
    if options.list:
        _list(session)
        return 0
    if not positionals:
        raise UserError(
            "`steadyrl check` needs an environment.",
            remedy="For example: steadyrl check CartPole-v1, or steadyrl check path/to/file.py:ClassName.",
            code="usage",
        )
    from steadyrl.checker.run import check_env
    from steadyrl.training.signals import signals_raise

    with signals_raise():  # the environment's process ends with this one
        report = check_env(
            positionals[0],
            env_kwargs=dict(options.env_kwargs),
            quick=options.quick,
            no_side_effects=options.no_side_effects,
            strict=options.strict,
            ignore=_words("ignore", options.ignore),
            only=_words("only", options.only),
            timeout=options.timeout,
        )
    if session.json:
        session.emit(report.to_json())
    else:
        from steadyrl.cli.check_page import show
        from steadyrl.cli.console import console

        show(report, console())
    return 0 if report.ok else 1


def _words(flag: str, text: str | None) -> list[str]:
    words = [word.strip() for word in (text or "").split(",") if word.strip()]
    if text is not None and not words:
        raise UserError(
            f"{flag} names no rule.",
            remedy=f"Leave --{flag} out, or name codes or kinds; --list shows them.",
            code="bad-value",
        )
    return words


def _list(session: Session) -> None:
    from steadyrl.checker.rules import SUBJECTS, rules_of

    if session.json:
        told = [
            {name: getattr(rule, name) for name in ("code", "kind", "severity", "what", "remedy", "docs")}
            for module in SUBJECTS.values()
            for rule in rules_of(module)
        ]
        session.emit({"rules": told})
        return
    for subject, module in SUBJECTS.items():
        print(f"{subject}:")
        for rule in rules_of(module):
            print(f"  {rule.code:<13}{rule.kind:<25}{rule.severity:<9}{rule.what}")
