"""The command `steadyrl`: the first word chooses the command, whose module alone is then imported."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from steadyrl.cli.session import Session, guarded

COMMANDS = {
    "train": "train an agent into a run folder",
    "eval": "evaluate the agent of a run",
    "record": "make an mp4 of the agent of a run",
    "presets": "list tuned settings per algorithm and environment",
    "info": "show versions and hardware",
    "completion": "print a completion script for bash, zsh or fish",
}


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one command and returns its exit status; every error ends as one message on stderr.

    Args:
        argv: Words after the command's name; None takes the process's own.
    """
    args = list(sys.argv[1:] if argv is None else argv)
    session = Session(json=any(arg in ("--json", "--json=True", "--json=true") for arg in args))
    return guarded(lambda: _dispatch(args, session), session)


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
    status: int = import_module(f"steadyrl.cli.{args[0]}_command").run(args[1:], session)
    return status


def _overview() -> str:
    commands = "\n".join(f"  {name:<12}{summary}" for name, summary in COMMANDS.items())
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
