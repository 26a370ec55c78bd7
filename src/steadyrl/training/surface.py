"""What is looked for at an agent: its environment's spaces, and what other libraries have there."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from steadyrl.config.habits import ATTRIBUTES


class Surface:
    """Base of the agent."""

    if not TYPE_CHECKING:  # a type checker is to see that an attribute is missing

        def __getattr__(self, name: str) -> Any:
            if name in ATTRIBUTES:
                raise AttributeError(f"{type(self).__name__} has no attribute {name!r}. {ATTRIBUTES[name]}")
            return object.__getattribute__(self, name)  # which says it, or what went wrong in a property
