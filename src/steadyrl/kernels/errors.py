"""What the register machine cannot run."""

from __future__ import annotations

from steadyrl.errors import SteadyRLError


class CannotTrace(SteadyRLError):  # noqa: N818 - it names what happened, the caller runs eagerly
    """A function cannot run on the register machine; the message says why."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason, code="cannot-trace")
