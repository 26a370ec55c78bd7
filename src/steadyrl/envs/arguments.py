"""Arguments of an environment, seen from its signature."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from steadyrl.errors import UserError, nearest


def check_arguments(creator: Callable[..., Any], kwargs: Mapping[str, Any], name: str) -> None:
    """Raise UserError where what makes the environment `name` does not take these; nothing is called."""
    try:
        signature = inspect.signature(creator)
    except (TypeError, ValueError):
        return
    try:
        signature.bind(**kwargs)
    except TypeError as error:
        unexpected = [key for key in kwargs if key not in signature.parameters]
        raise wrong_argument(name, str(error), signature.parameters, unexpected[0] if unexpected else "") from None


def wrong_argument(name: str, text: str, known: Iterable[str], key: str) -> UserError:
    """The error for an argument that the environment does not take.

    Args:
        name: The environment.
        text: What Python said.
        known: The arguments that it takes.
        key: The wrong one; empty where one is missing instead.
    """
    names = [p for p in known if p not in ("self", "kwargs", "args", "render_mode")]
    remedy = nearest(key, names) if key else ""
    return UserError(
        f"The arguments of the environment {name} are wrong: {text}.",
        remedy=remedy or (f"It takes {', '.join(names)} (env_kwargs)." if names else "Correct env_kwargs."),
        code="env-kwargs",
    )


def takes(creator: Callable[..., Any], key: str) -> bool:
    """Whether it takes an argument of this name; no where Python cannot tell."""
    try:
        parameters = inspect.signature(creator).parameters
    except (TypeError, ValueError):
        return False
    return key in parameters or any(p.kind is p.VAR_KEYWORD for p in parameters.values())
