"""`--help` and the last check of a command line, on argparse."""

from __future__ import annotations

import argparse
import shutil
from collections.abc import Iterable, Mapping, Sequence
from typing import NoReturn, TypeVar

from steadyrl.cli.flags import SHORT, Flag, Words, flags_of, take_apart, values
from steadyrl.errors import UserError

T = TypeVar("T")


class Parser(argparse.ArgumentParser):
    """An argparse parser whose errors are ours: a sentence, exit status 2, no usage dump."""

    def error(self, message: str) -> NoReturn:
        """Raises what argparse found.

        Raises:
            UserError: Always.
        """
        raise UserError(
            message[:1].upper() + message[1:] + ".", remedy=f"`{self.prog} --help` shows how.", code="usage"
        )


class _Formatter(argparse.RawDescriptionHelpFormatter):
    """Two columns in at most 100 characters, `--[no-]x` for a switch, the example as it is."""

    def __init__(self, prog: str) -> None:
        columns = min(shutil.get_terminal_size().columns, 100)
        super().__init__(prog, max_help_position=26, width=max(columns - 1, 40))

    def _format_action_invocation(self, action: argparse.Action) -> str:
        if action.option_strings and action.nargs == "?":
            name = action.option_strings[0].removeprefix("--")
            return f"--{name}" if name.startswith("no-") else f"--[no-]{name}"
        return super()._format_action_invocation(action)


def build(
    prog: str,
    *,
    usage: str,
    description: str,
    example: str,
    positionals: Mapping[str, str],
    flags: Iterable[Flag],
    notes: Mapping[str, str] | None = None,
) -> Parser:
    """The parser of one command.

    Args:
        prog: The command, such as `steadyrl train`.
        usage: What follows `usage:`.
        description: One sentence.
        example: Command lines to copy.
        positionals: Name -> help; each may be absent, the command says itself what is missing.
        flags: The flags, already in order of their groups.
        notes: Field -> words added to its default, such as `preset 256`.
    """
    parser = Parser(
        prog,
        usage=usage,
        description=description,
        epilog=f"example:\n{example}",
        formatter_class=_Formatter,
        allow_abbrev=False,
        add_help=False,
    )
    arguments = parser.add_argument_group("arguments")
    for name, help_text in positionals.items():
        arguments.add_argument(name, nargs="?", help=_escaped(help_text))
    groups: dict[str, argparse._ArgumentGroup] = {}
    for flag in flags:
        if flag.group not in groups:
            groups[flag.group] = parser.add_argument_group(flag.group)
        said = ", ".join(filter(None, (flag.default and f"default {flag.default}", (notes or {}).get(flag.field))))
        short = [letter for letter, name in SHORT.items() if name == f"--{flag.name}"]
        groups[flag.group].add_argument(
            *short,
            f"--{flag.name}",
            nargs="?" if flag.is_switch else None,
            action="append",
            metavar=flag.metavar,
            help=_escaped(f"{flag.help} ({said})" if said else flag.help),
        )
    return parser


def check(parser: Parser, words: Words) -> list[str]:
    """The positionals, after argparse has seen the whole line in its canonical form.

    Raises:
        UserError: Too many words.
    """
    line = [f"--{name}={text}" for name, texts in words.texts.items() for text in texts]
    namespace = parser.parse_args([*line, *words.positionals])
    return [value for value in vars(namespace).values() if isinstance(value, str)]


def wants_help(argv: Sequence[str]) -> bool:
    """Whether `-h` or `--help` stands anywhere."""
    return any(word in ("-h", "--help") for word in argv)


def understood(
    args: Sequence[str],
    kind: type[T],
    prog: str,
    *,
    usage: str,
    description: str,
    example: str,
    positionals: Mapping[str, str],
) -> tuple[list[str], T] | None:
    """Positionals and options of a command line; None where it asks for help, which is then printed.

    Args:
        args: The words after the command.
        kind: Dataclass of the command's flags.
        prog: The command.
        usage: How it is typed.
        description: What it does.
        example: Lines that can be pasted.
        positionals: What each of them is.

    Raises:
        UserError: an unknown flag, a bad value, too many words.
    """
    flags = flags_of(kind, "flags")
    parser = build(prog, usage=usage, description=description, example=example, positionals=positionals, flags=flags)
    if wants_help(args):
        print(parser.format_help().rstrip())
        return None
    words = take_apart(args, flags, {})
    return check(parser, words), kind(**values(words, flags))


def _escaped(text: str) -> str:
    return text.replace("%", "%%")
