"""Wrappers of a run as its settings tell them: for whom they are, and how they travel with a policy."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from steadyrl.configs.run import RunSettings
from steadyrl.configs.wrapping import WRAPPER_FIELDS, WrapperSettings
from steadyrl.errors import UserError

_PROGRAMS = ("envpool", "native")  # backends whose environments are one program, which nothing can be put around


def around_singles(settings: RunSettings) -> WrapperSettings:
    """What goes around single environments; with a backend that has none, nothing unless it was asked for by name."""
    only = settings.only
    if settings.vec in _PROGRAMS and only.atari == "auto":
        return dataclasses.replace(only, atari="off")
    return only


def insist_on_bare(settings: WrapperSettings) -> None:
    """Raise UserError where wrappers are asked for around a vector of environments."""
    said = settings.said.keys() - ({"atari"} if settings.sticky_actions else {"atari", "sticky_actions"})
    if said or settings.atari == "on":
        raise UserError(
            f"Wrappers ({', '.join(sorted(said) or ['atari'])}) go around single environments, and a vector of them "
            "was given.",
            remedy="Put them around its environments where the vector is made, or pass an id or a function instead.",
            code="vec",
        )


def wrappers_in(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Those of a run's settings, as its `config.json` has them, that are wrappers."""
    return {name: settings[name] for name in WRAPPER_FIELDS if name in settings}


def wrapper_names(settings: Mapping[str, Any]) -> list[str]:
    """Names of the wrappers in a run's settings, as its `config.json` has them."""
    return [str(entry["name"]) for entry in settings.get("wrappers", ())]
