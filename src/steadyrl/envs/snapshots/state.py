"""What a saved environment is: its kind, what it holds, and a checksum over it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import PurePath
from typing import Literal, NamedTuple, get_args

import numpy as np
from gymnasium.spaces import GraphInstance

from steadyrl.envs.snapshots.values import Value, digest
from steadyrl.errors import UserError

Kind = Literal["native", "replay", "none"]

_FORMAT = 1


class Ability(NamedTuple):
    """How the state of an environment can be saved.

    Attributes:
        kind: `native`: its attributes are read and set. `replay`: its episode is run again from its recorded start.
            `none`: neither is exact.
        reason: Why not natively, or not at all; empty for native.
    """

    kind: Kind
    reason: str = ""


@dataclass(frozen=True)
class State:
    """The state of one environment at one moment.

    Attributes:
        kind: How it is restored, `native` or `replay`.
        env_id: Of the environment.
        content: A plain value (`values.py`).
        checksum: Of kind, id and content.
    """

    kind: Kind
    env_id: str
    content: Value
    checksum: str

    @classmethod
    def made(cls, kind: Kind, env_id: str, content: Value) -> State:
        """A state with its checksum, which holds in every process: pickling makes arrays writeable, so all are here."""
        content = _writeable(content)
        env_id = plain_id(env_id)
        return cls(kind, env_id, content, digest([kind, env_id, content]))

    @property
    def holds(self) -> list[str]:
        """What is in it, in a word each."""
        return sorted(self.content)

    def value(self) -> dict[str, Value]:
        """The state as a plain value, for `flatten`."""
        return {
            "format": _FORMAT,
            "kind": self.kind,
            "env_id": self.env_id,
            "content": self.content,
            "checksum": self.checksum,
        }

    @classmethod
    def of(cls, value: Value) -> State:
        """The state from what `value` gave.

        Raises:
            UserError: it is something else, of another version, or its checksum is wrong.
        """
        fields = {"format", "kind", "env_id", "content", "checksum"}
        if type(value) is not dict or value.keys() != fields:
            raise _wrong("it lacks fields, or has unknown ones")
        if value["format"] != _FORMAT:
            raise _wrong(f"its format is {value['format']!r}, not {_FORMAT}")
        kind, env_id, content = value["kind"], value["env_id"], value["content"]
        if kind not in get_args(Kind)[:2] or type(env_id) is not str or type(content) is not dict:
            raise _wrong("a field is of another type")
        if digest([kind, env_id, content]) != value["checksum"]:
            raise _wrong("its checksum does not fit its content")
        return cls(kind, env_id, content, value["checksum"])


def _writeable(value: Value) -> Value:
    if isinstance(value, np.ndarray):
        return value if value.flags.writeable else value.copy(order="K")
    if type(value) is dict:
        return {name: _writeable(entry) for name, entry in value.items()}
    if type(value) is GraphInstance:
        return GraphInstance(*map(_writeable, value))
    return type(value)(map(_writeable, value)) if type(value) in (list, tuple) else value


def plain_id(env_id: str) -> str:
    """An environment's id as every process writes it: of a file, the name without the folder, which may be relative."""
    path, _, name = env_id.rpartition(":")
    return f"{PurePath(path).name}:{name}" if path.endswith(".py") else env_id


def _wrong(why: str) -> UserError:
    return UserError(
        f"This is no state of an environment: {why}.",
        remedy="It was damaged or written by another version: use another checkpoint.",
        code="state-damaged",
    )
