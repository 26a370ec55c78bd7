"""Flags from dataclass fields: the field's name, type, default and docstring are the flag."""

from __future__ import annotations

import collections.abc
import dataclasses
import typing
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path
from typing import Any, NamedTuple, get_args, get_origin

from steadyrl.config import choices, coerce, field_docs, is_schedule, literal, parse_value
from steadyrl.configs import LinearSchedule
from steadyrl.errors import UserError, nearest

SHORT = {"-o": "--output"}  # letter -> flag
_BOOL_WORDS = ("true", "false", "yes", "no")
_LIST = "[N,N]"


@dataclass(frozen=True)
class Flag:
    """One flag.

    Attributes:
        field: The field it sets; `learning_rate_end` sets the end of a schedule.
        annotation: Type of the value.
        help: What it means.
        default: Text of the default; empty where there is nothing to say.
        group: Heading under which `--help` shows it.
    """

    field: str
    annotation: Any
    help: str
    default: str
    group: str

    @property
    def name(self) -> str:
        """The flag's name without dashes in front."""
        return self.field.replace("_", "-")

    @property
    def is_switch(self) -> bool:
        """Whether it is on or off and needs no value."""
        return self.annotation is bool

    @property
    def is_table(self) -> bool:
        """Whether it takes K=V words."""
        return get_origin(self.annotation) is collections.abc.Mapping

    @property
    def is_many(self) -> bool:
        """Whether it may be given several times, each time with one more value."""
        return bool(self.annotation == tuple[Any, ...])

    @property
    def is_repeatable(self) -> bool:
        """Whether it may be given again; of any other flag two values leave open which one is meant."""
        return self.is_many or self.is_table

    @property
    def metavar(self) -> str:
        """The placeholder of its value in `--help`."""
        if self.is_table:
            return "K=V ..."
        if self.is_many:
            return "NAME"
        if get_origin(self.annotation) is tuple:
            return _LIST
        words = choices(self.annotation)
        if words:
            return "{" + ",".join(words) + "}"
        members = get_args(self.annotation) or (self.annotation,)
        for kind, word in ((Path, "PATH"), (str, "NAME"), (int, "N"), (float, "X")):
            if kind in members:
                return word
        return _LIST


class Words(NamedTuple):
    """A command line taken apart."""

    positionals: list[str]
    texts: dict[str, list[str]]  # flag name -> its values as typed, in order


def flags_of(cls: type, group: str, groups: Mapping[str, str] | None = None) -> list[Flag]:
    """The flags of a dataclass, in the order of its fields.

    Args:
        cls: The dataclass.
        group: Heading of every field that `groups` does not name.
        groups: Field -> heading.
    """
    docs, annotations = field_docs(cls), typing.get_type_hints(cls)
    flags: list[Flag] = []
    for field in dataclasses.fields(cls):
        heading = (groups or {}).get(field.name, group)
        annotation, doc = annotations[field.name], docs.get(field.name, "")
        flags.append(Flag(field.name, annotation, doc, shown_default(field), heading))
        if is_schedule(annotation):
            name = f"--{field.name.replace('_', '-')}"
            doc = f"Value at the end of the run, which {name} goes to in a straight line."
            flags.append(Flag(f"{field.name}_end", float, doc, "", heading))
    return flags


def shown_default(field: dataclasses.Field[Any]) -> str:
    """The default of a field as `--help` shows it; empty where there is none, or it is one that the docs explain."""
    if field.default in (dataclasses.MISSING, None, ()):
        return ""
    if isinstance(field.default, bool):
        return "on" if field.default else "off"
    return shown(field.default)


def shown(value: Any) -> str:
    """A value as one would type it."""
    if isinstance(value, LinearSchedule):
        return f"{value.start:g} to {value.end:g}"
    if isinstance(value, tuple):
        return "[" + ",".join(str(item) for item in value) + "]"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key}: {shown(item)}" for key, item in value.items()) + "}"
    return "none" if value is None else f"{value:g}" if isinstance(value, float) else str(value)


def take_apart(
    argv: Sequence[str], flags: Iterable[Flag], aliases: Mapping[str, str], near: Iterable[str] | None = None
) -> Words:
    """Positionals and flags of a command line, `-` and `_` alike.

    A switch may be `--x`, `--no-x`, `--x=True` or `--x True`; a table takes every K=V word that follows; a value may
    be a negative number.

    Args:
        argv: The words.
        flags: Those that are known.
        aliases: Other names of some.
        near: Names that may be suggested in the place of an unknown one; all by default.

    Raises:
        UserError: An unknown flag (names the nearest), a flag without its value, or one that is given twice.
    """
    known = {flag.name: flag for flag in flags}
    words = Words([], {})
    rest = list(argv)
    while rest:
        word = SHORT.get(rest[0], rest[0])
        del rest[0]
        if not word.startswith("-") or is_number(word):
            words.positionals.append(word)
            continue
        name, has_value, value = word.removeprefix("--").partition("=")
        name = name.replace("_", "-")
        name = aliases.get(name, name)
        flag = known.get(name)
        if flag is None and name.startswith("no-") and not has_value:
            name = aliases.get(name[3:], name[3:])
            if name in known and known[name].is_switch:
                _add(words, known[name], ["False"])
                continue
        if flag is None or not word.startswith("--"):
            raise unknown_flag(word.partition("=")[0], known if near is None else near)
        _add(words, flag, [value] if has_value else _take_values(flag, rest))
    return words


def _add(words: Words, flag: Flag, texts: list[str]) -> None:
    given = words.texts.setdefault(flag.name, [])
    given.extend(texts)
    if len(given) > 1 and not flag.is_repeatable:
        raise UserError(
            f"--{flag.name} is given twice, as {given[0]} and {given[1]}.", remedy="Give it once.", code="repeated-flag"
        )


def is_number(word: str) -> bool:
    """Whether a word that begins with a dash is a value and no flag."""
    try:
        float(word)
    except ValueError:
        return False
    return True


def unknown_flag(word: str, known: Iterable[str]) -> UserError:
    """The error for a flag that nobody has, with the nearest ones."""
    name = word.lstrip("-").replace("_", "-")
    elsewhere = _ELSEWHERE.get(name, "")
    guess = nearest(f"--{name}", [f"--{flag}" for flag in known])
    return UserError(
        f"There is no flag {word}.", remedy=f"{elsewhere or guess} --help lists them.".strip(), code="unknown-flag"
    )


def values(words: Words, flags: Iterable[Flag]) -> dict[str, Any]:
    """Field -> value of every flag that was typed.

    Raises:
        UserError: A value that does not fit its field.
    """
    by_name = {flag.name: flag for flag in flags}
    found: dict[str, Any] = {}
    for name, texts in words.texts.items():
        flag = by_name[name]
        if flag.is_many:
            found[flag.field] = tuple(texts)
            continue
        parse = _table(flag, texts) if flag.is_table else parse_value(texts[0], flag.annotation, flag.field)
        found[flag.field] = parse
    return found


def _take_values(flag: Flag, rest: list[str]) -> list[str]:
    if flag.is_switch:
        return [rest.pop(0)] if rest and rest[0].lower() in _BOOL_WORDS else ["True"]
    taken: list[str] = []
    while rest and (not rest[0].startswith("-") or is_number(rest[0])) and (not taken or flag.is_table):
        if flag.is_table and taken and "=" not in rest[0]:
            break
        taken.append(rest.pop(0))
    if flag.metavar == _LIST and taken and rest and is_number(rest[0]):
        sizes = list(takewhile(is_number, [*taken, *rest]))
        raise UserError(
            f"--{flag.name} takes one word, but {' '.join(sizes)} are {len(sizes)}.",
            remedy=f"Write --{flag.name} {','.join(sizes)}.",
            code="bad-value",
        )
    if not taken:
        raise UserError(
            f"--{flag.name} needs a value.", remedy=f"For example: --{flag.name} {_sample(flag)}.", code="missing-value"
        )
    return taken


def _table(flag: Flag, texts: Iterable[str]) -> dict[str, Any]:
    table: dict[str, Any] = {}
    for text in texts:
        key, equals, value = text.partition("=")
        whole = literal(text)
        if isinstance(whole, dict):
            _put(flag, table, coerce(whole, flag.annotation, flag.field))
        elif not equals or not key.isidentifier():
            raise UserError(
                f"--{flag.name} has {text!r}, which is not K=V.",
                remedy=f"For example: --{flag.name} continuous=True.",
                code="bad-value",
            )
        else:
            _put(flag, table, {key: {"true": True, "false": False, "none": None}.get(value.lower(), literal(value))})
    return table


def _put(flag: Flag, table: dict[str, Any], more: Mapping[str, Any]) -> None:
    twice = next((key for key in more if key in table), None)
    if twice is not None:
        raise UserError(
            f"--{flag.name} has {twice} twice, as {table[twice]!r} and {more[twice]!r}.",
            remedy="Give it once.",
            code="repeated-flag",
        )
    table.update(more)


def _sample(flag: Flag) -> str:
    """A value that makes sense: the default, where there is one that can be typed."""
    if flag.default and " " not in flag.default:
        return flag.default
    words = choices(flag.annotation)
    number = "100000" if flag.field.endswith(("timesteps", "freq")) else "8"
    samples = {"N": number, "X": "0.001", "NAME": "name", "PATH": "some/folder", "[N,N]": "[64,64]"}
    return words[0] if words else samples.get(flag.metavar, "continuous=True")


_ELSEWHERE = {
    "num-steps": "Here it is --n-steps.",
    "update-epochs": "Here it is --n-epochs.",
    "clip-coef": "Here it is --clip-range.",
    "norm-adv": "Here it is --normalize-advantage.",
    "anneal-lr": "Here it is --learning-rate-end 0.",
    "num-minibatches": "Here it is --batch-size, in transitions.",
    "clip-vloss": "Here it is --clip-range-vf X.",
    "cuda": "Here it is --device cuda, cpu or auto.",
    "start-e": "Here it is --exploration-initial-eps.",
    "end-e": "Here it is --exploration-final-eps.",
    "target-network-frequency": "Here it is --target-update-interval, in environment steps.",
    "train-frequency": "Here it is --train-freq.",
    "policy-frequency": "Here it is --policy-delay.",
    "exploration-noise": "Here it is --action-noise-std, beside --action-noise-type normal.",
    "policy-noise": "Here it is --target-policy-noise.",
    "noise-clip": "Here it is --target-noise-clip.",
    "alpha": "Here it is --ent-coef.",
    "autotune": "Here it is --ent-coef auto.",
    "q-lr": "Here it is --learning-rate, of all networks.",
    "policy-lr": "Here it is --learning-rate, of all networks.",
    "torch-deterministic": "Here it is --deterministic.",
    "verbose": "Here progress is shown without being asked for; --quiet hides it.",
    "algo": "Here the algorithm is the first word, the environment the second: steadyrl train ppo CartPole-v1.",
    "lr": "Here it is --learning-rate.",
    "n-timesteps": "Here it is --total-timesteps.",
    "n": "Here it is --total-timesteps.",
    "timesteps": "Here it is --total-timesteps.",
    "steps": "Here it is --total-timesteps.",
    "track": "This version writes local files and TensorBoard only.",
    "policy-kwargs": "Here its keys are flags: --net-arch, --activation-fn, --log-std-init, --ortho-init.",
}
"""What users of CleanRL, Stable-Baselines3 and rl-zoo3 type, where the name here is far from theirs."""
