"""A loss with its gradient through `torch.compile`, for what PyTorch runs."""

from __future__ import annotations

import types
from collections.abc import Callable
from time import perf_counter
from typing import Any

import torch
from torch import Tensor

from steadyrl.errors import RunFailedError, words

Outputs = tuple[Tensor, ...]
Found = tuple[Tensor, dict[str, Tensor], Outputs]

BACKEND = "inductor"
_OPTIONS = {"compile_threads": 1}  # the losses are few and small: a pool of compiling processes would only stay behind
_TRIES = 10  # of each way, once, to tell which is faster


class Compiler:
    """Whether a policy's losses are compiled; they are not until it is told to start.

    Attributes:
        rows: Transitions of a full minibatch. A loss over another number of them, such as a remainder, runs eagerly:
            each size would be compiled anew. 0 compiles nothing.
        losses: How many were compiled.
        seconds: What that took.
        eager: Seconds that they take eagerly, one call of each.
        compiled: Seconds that they take compiled.
        failed: Why nothing is compiled any more; empty while it works.
        notes: What the user should hear, and whether it is a warning; whoever says it takes it away.
    """

    def __init__(self) -> None:
        self.rows = 0
        self.losses = 0
        self.seconds = self.eager = self.compiled = 0.0
        self.failed = ""
        self.notes: list[tuple[str, bool]] = []
        self._strict = False

    def start(self, rows: int, *, strict: bool) -> None:
        """Compile losses over this many rows from now on; where `strict`, one that cannot be is an error."""
        self.rows, self._strict = rows, strict

    def fits(self, outputs: Outputs) -> bool:
        """Whether a loss of these outputs is to be compiled: those of critics are [n, B, ...], others [B, ...]."""
        return self.rows > 0 and self.rows in outputs[0].shape

    def took(self, seconds: float, eager: float, compiled: float) -> None:
        """Count a loss that was compiled; `eager` and `compiled` are seconds of one call."""
        self.losses += 1
        self.seconds += seconds
        self.eager += eager
        self.compiled += compiled
        if compiled > eager:
            text = (
                f"A compiled loss takes {1e6 * compiled:.0f} us and an eager one {1e6 * eager:.0f} us: "
                "--compile off would be faster. This run stays with it, since its numbers must not follow a clock."
            )
            self.notes.append((text, True))

    def give_up(self, error: Exception) -> None:
        """Compile nothing any more.

        Raises:
            RunFailedError: compiling was insisted on.
        """
        self.failed, self.rows = words(error).strip().splitlines()[0], 0
        if self._strict:
            raise RunFailedError(
                f"torch.compile failed: {self.failed}",
                remedy="Use --compile auto, which goes on without it, or --compile off.",
                code="compile-failed",
            ) from error
        self.notes.append((f"torch.compile failed, so that PyTorch runs the losses eagerly: {self.failed}", True))


class CompiledLoss:
    """A loss and its gradient as one compiled graph, made at the first call that fits.

    Args:
        loss: Pure, without a look at the numbers in a tensor: `loss(outputs, *args)` gives a scalar and metrics.
    """

    def __init__(self, loss: Callable[..., tuple[Tensor, dict[str, Tensor]]]) -> None:
        self._loss = loss
        self._run: Callable[..., Found] | None = None

    def __getstate__(self) -> dict[str, Any]:
        """A copy compiles anew."""
        return self.__dict__ | {"_run": None}

    def __call__(
        self,
        compiler: Compiler,
        eager: Callable[[], Found],
        outputs: Outputs,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> Found:
        """As `with_gradient(loss, outputs, *args, **kwargs)`; `eager` is that call, and what runs after a failure.

        Raises:
            RunFailedError: it cannot be compiled, and `compiler` insists.
        """
        leaves = tuple(output.detach() for output in outputs)
        args = tuple(map(_tensor, args))
        kwargs = {name: _tensor(value) for name, value in kwargs.items()}
        first, start = self._run is None, perf_counter()
        try:
            run = self._run = self._run or _compiled(self._loss)
            with torch.no_grad():
                found = run(leaves, args, kwargs)
                if first:
                    seconds = perf_counter() - start
                    compiled = _seconds(lambda: run(leaves, args, kwargs))
        except Exception as error:  # of Dynamo, of Inductor, of a compiler: none of them may end a run
            compiler.give_up(error)
            return eager()
        if first:
            compiler.took(seconds, _seconds(eager), compiled)
        return found


def _tensor(value: Any) -> Any:
    """A number, such as a clip range that follows a schedule, as a tensor: as a number it would be compiled in."""
    return torch.tensor(value, dtype=torch.float32) if isinstance(value, float) else value


def _compiled(loss: Callable[..., tuple[Tensor, dict[str, Tensor]]]) -> Callable[..., Found]:
    def with_gradient(leaves: Outputs, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Found:
        def of(leaves: Outputs) -> tuple[Tensor, dict[str, Tensor]]:
            return loss(leaves, *args, **kwargs)

        gradients, (value, metrics) = torch.func.grad_and_value(of, has_aux=True)(leaves)
        return value, metrics, gradients

    # Dynamo compiles a code object no more than eight times and then refuses: losses must not share one.
    code, closure = with_gradient.__code__.replace(), with_gradient.__closure__
    own = types.FunctionType(code, with_gradient.__globals__, closure=closure)
    options: Any = _OPTIONS if BACKEND == "inductor" else None
    how: dict[str, Any] = {"fullgraph": True, "dynamic": False, "backend": BACKEND, "options": options}
    made: Callable[..., Found] = torch.compile(own, **how)
    return made


def _seconds(call: Callable[[], Found]) -> float:
    """Of the fastest of a few calls; reading the loss waits for a device."""
    taken = []
    for _ in range(_TRIES):
        start = perf_counter()
        call()[0].item()
        taken.append(perf_counter() - start)
    return min(taken)
