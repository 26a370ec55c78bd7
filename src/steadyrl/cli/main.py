"""The command `steadyrl`: the first word chooses the command, whose module alone is then imported."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from steadyrl.cli.session import Session

COMMANDS = {
    "train": "train an agent into a run folder",
    "resume": "go on with a run that was stopped",
    "eval": "evaluate the agent of a run",
    "record": "make an mp4 of the agent of a run",
    "verify-resume": "kill a run, resume it, compare it with an untouched one",
    "reproduce": "run a run again and compare the traces",
    "presets": "list tuned settings per algorithm and environment",
    "info": "show versions and hardware, or the spaces of an environment",
    "check": "find what is wrong with an environment",
    "new-env": "write a correct starting environment with its test",
    "replay": "run a recorded failure of an environment again",
    "bench": "measure how fast an environment can be stepped, and recommend settings",
    "completion": "print a completion script for bash, zsh or fish",
}


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one command and returns its exit status; every error ends as one message on stderr.

    Args:
        argv: Words after the command's name; None takes the process's own.
    """
    args = list(sys.argv[1:] if argv is None else argv)
    try:
        from steadyrl.cli.session import Session, guarded

        session = Session(json=wants_json(args), alone=argv is None)
        status = guarded(lambda: _dispatch(args, session), session, for_good=argv is None)
    except KeyboardInterrupt:  # before the command could begin
        status = 130
    if argv is None:
        _leave(status)
    return status


def wants_json(args: Sequence[str]) -> bool:
    """Whether the last of `--json`, `--no-json`, `--json=WORD` and `--json WORD` asks for JSON."""
    wanted = False
    for word, following in zip(args, [*args[1:], ""], strict=False):
        name, has_value, value = word.partition("=")
        if name in ("--json", "--no-json"):
            off = (value if has_value else following).lower() in ("false", "no", "off", "0")
            wanted = name == "--json" and not off
    return wanted


def _leave(status: int) -> None:
    """A signal while Python itself ends, which takes a moment after torch, does not change the exit status.

    It is ignored where one ended the command; else it ends the process at once, until Python takes handlers away.
    """
    import os
    import signal

    handler = signal.SIG_IGN if status > 128 else lambda number, frame: os._exit(status)
    for name in ("SIGINT", "SIGTERM", "SIGUSR1"):
        if hasattr(signal, name):
            signal.signal(getattr(signal, name), handler)


def _dispatch(args: list[str], session: Session) -> int:
    if not args or args[0] in ("-h", "--help", "help"):
        if len(args) > 1 and args[0] == "help":
            return _dispatch([args[1], "--help"], session)
        print(_overview())
        return 0 if args else 2
    if args[0] in ("-V", "--version"):
        from steadyrl._version import __version__

        print(f"steadyrl {__version__}")
        return 0
    if args[0] not in COMMANDS:
        raise _unknown(args[0])
    from importlib import import_module

    # `eval` would shadow the builtin wherever it is imported by name, so every module carries the suffix.
    status: int = import_module(f"steadyrl.cli.{args[0].replace('-', '_')}_command").run(args[1:], session)
    return status


def _overview() -> str:
    commands = "\n".join(f"  {name:<15}{summary}" for name, summary in COMMANDS.items())
    return f"""usage: steadyrl COMMAND ...

Deep reinforcement learning on PyTorch and Gymnasium.

commands:
{commands}

`steadyrl COMMAND --help` explains one; `steadyrl --version` prints the version.

example:
  steadyrl train ppo CartPole-v1 --seed 1"""


def _unknown(word: str) -> Exception:
    from steadyrl.errors import UserError, nearest

    known = f"Known: {', '.join(COMMANDS)}."
    if word.startswith("-"):
        return UserError(
            f"The first word must be a command, not {word}.",
            remedy=f"For example: steadyrl train ppo CartPole-v1. {known}",
            code="unknown-command",
        )
    return UserError(
        f"There is no command {word!r}.", remedy=f"{nearest(word, COMMANDS)} {known}".strip(), code="unknown-command"
    )
