"""Where the time of a run goes."""

from __future__ import annotations

from time import perf_counter
from types import TracebackType


class Phases:
    """Seconds by phase: `with phases("env"): ...`. Phases do not nest."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._name = ""
        self._start = 0.0

    def __call__(self, name: str) -> Phases:
        """The phase that the next `with` measures."""
        self._name = name
        return self

    def __enter__(self) -> None:
        self._start = perf_counter()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.seconds[self._name] = self.seconds.get(self._name, 0.0) + perf_counter() - self._start
