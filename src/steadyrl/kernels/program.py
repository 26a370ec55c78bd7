"""Pure PyTorch functions and losses, run on the native register machine.

    loss = TracedLoss(ppo_loss)
    value, metrics, gradients = loss(outputs, batch, distribution, config, clip_range)

    sample = TracedFunction(lambda params, noise: distribution.sample(params, noise))

The first call with arguments of new shapes records the function (`tracing`), translates it (`lowering`) and keeps the
program for these shapes (5 to 20 ms); every further one costs a few microseconds. Among the arguments, in tuples, named
tuples, lists and dicts of any depth, tensors and floats are inputs, whose numbers may differ from call to call;
everything else is fixed and must be hashable and never change. Tensors may have any strides.

The function must be pure: its result depends on the arguments alone, and it changes nothing. What a trace cannot hold -
an unknown operation, a branch on a number in a tensor, a tensor from elsewhere - raises `CannotTrace`, every time.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import torch
from torch import Tensor

from steadyrl.kernels import formulas, operations, shapes  # noqa: F401 - they enter their operations
from steadyrl.kernels.errors import CannotTrace
from steadyrl.kernels.linking import link
from steadyrl.kernels.lowering import Lowering
from steadyrl.kernels.signature import Leaf, Token, describe, replaced
from steadyrl.kernels.tracing import Node, loss_with_gradient, record

__all__ = ["CannotTrace", "Program", "TracedFunction", "TracedLoss", "trace", "trace_with_gradient"]

R = TypeVar("R")

_MOST_PROGRAMS = 512  # of one function; a remainder minibatch has at most as many sizes as a minibatch


class Program:
    """A recorded function for one signature.

    Args:
        tokens: Of its arguments.
        leaves: The tensors and numbers it was recorded with; numbers as 0-d tensors.
        nodes: What was recorded.
        results: Fresh in every call.
        gradients: Written to the same memory in every call.
        names: Of the metrics of a loss, the results after the first.
        alone: The function gives one tensor, not a tuple.
        fresh: False writes all results but scalars to the same memory in every call.
    """

    def __init__(
        self,
        tokens: list[Token],
        leaves: list[Tensor],
        nodes: list[Node],
        results: list[Tensor],
        gradients: list[Tensor],
        names: tuple[str, ...],
        alone: bool,
        fresh: bool,
    ) -> None:
        # Read late: the extension is optional and the module must be importable without it.
        from steadyrl.kernels import _native

        self.names = names
        self.alone = alone
        self.gradients = tuple(torch.empty(grad.shape, dtype=torch.float32) for grad in gradients)
        # All scalars are one small tensor, so that a loss with ten metrics is not ten allocations.
        self._scalars = [i for i, result in enumerate(results) if result.shape == () and result.dtype == torch.float32]
        self._others = [i for i in range(len(results)) if i not in self._scalars]
        self._shapes = [(tuple(results[i].shape), results[i].dtype) for i in self._others]
        self._room = None if fresh else self._new_others()
        lowering = Lowering(leaves, nodes)
        parts = [(results[i], 0, offset) for offset, i in enumerate(self._scalars)]
        first = int(bool(parts))
        parts += [(results[i], number, 0) for number, i in enumerate(self._others, start=first)]
        first += len(self._others)
        parts += [(grad, number, 0) for number, grad in enumerate(gradients, start=first)]
        lowering.store(parts)
        linked = link(lowering.assembler, len(leaves), {op: code for code, op in enumerate(_native.tape_operations())})
        self.instructions = linked.instructions
        kept = list(self.gradients)
        self._run = _native.Tape(
            tokens, linked.inputs, linked.constants, linked.code, linked.arena_size, first + len(kept), kept, Tensor
        ).run

    def __call__(self, arguments: tuple[Any, ...]) -> list[Tensor] | None:
        """The results, in order, or None where the arguments are not of this program's signature.

        Raises:
            IndexError: A tensor used as an index is out of range.
            ValueError: An integer is 2^24 or more.
        """
        others = self._new_others() if self._room is None else self._room
        if not self._scalars:
            return others if self._run(arguments, tuple(others)) else None
        block = torch.empty(len(self._scalars), dtype=torch.float32)
        if not self._run(arguments, (block, *others)):
            return None
        scalars = block.unbind()
        if not others:
            return list(scalars)
        results = [block] * (len(scalars) + len(others))
        for i, scalar in zip(self._scalars, scalars, strict=True):
            results[i] = scalar
        for i, other in zip(self._others, others, strict=True):
            results[i] = other
        return results

    def _new_others(self) -> list[Tensor]:
        return [torch.empty(shape, dtype=dtype) for shape, dtype in self._shapes]

    def block(self, arguments: tuple[Any, ...]) -> Tensor | None:
        """The results as one fresh tensor, where all of them are scalars; else as a call.

        Raises:
            CannotTrace: They are not.
            IndexError, ValueError: As a call does.
        """
        if self._others:
            raise CannotTrace("a metric is not a scalar.")
        found = torch.empty(len(self._scalars), dtype=torch.float32)
        return found if self._run(arguments, (found,)) else None


class _Traced:
    """Programs of one function by signature, and why there is none for some."""

    def __init__(self, function: Callable[..., Any], *, grad: bool, fresh: bool = True) -> None:
        self.function = function
        self._grad = grad
        self._fresh = fresh
        self._known: dict[tuple[Token, ...], Program | CannotTrace] = {}
        self._last: Program | None = None

    @property
    def programs(self) -> list[Program]:
        """All of them, for tests and reports."""
        return [entry for entry in self._known.values() if isinstance(entry, Program)]

    def _call(
        self, arguments: tuple[Any, ...], run: Callable[[Program, tuple[Any, ...]], R | None]
    ) -> tuple[Program, R]:
        program = self._last  # another thread may change it at any time
        if program is not None:
            results = run(program, arguments)
            if results is not None:
                return program, results
        self._last = program = self._find(arguments)
        results = run(program, arguments)
        if results is None:
            raise CannotTrace("the memory of an argument cannot be read.")
        return program, results

    def __getstate__(self) -> dict[str, Any]:
        """A copy records anew."""
        return self.__dict__ | {"_known": {}, "_last": None}

    def _find(self, arguments: tuple[Any, ...]) -> Program:
        tokens, leaves = describe(arguments)
        key = tuple(tokens)
        entry = self._known.get(key)
        if entry is None:
            try:
                entry = self._trace(arguments, tokens, leaves)
            except CannotTrace as error:
                entry = CannotTrace(error.message)  # without the frames that hold the arguments
            if len(self._known) >= _MOST_PROGRAMS:
                del self._known[next(iter(self._known))]
            self._known[key] = entry
        if isinstance(entry, CannotTrace):
            raise CannotTrace(entry.message)
        return entry

    def _trace(self, arguments: tuple[Any, ...], tokens: list[Token], leaves: list[Leaf]) -> Program:
        inputs = [_detached(leaf) for leaf in leaves]
        if self._grad:
            for leaf in inputs[: len(arguments[0])]:
                leaf.requires_grad_()
        function = _unpacking(loss_with_gradient(self.function) if self._grad else self.function)
        result, nodes = record(function, replaced(arguments, iter(inputs)), self._grad)
        names: tuple[str, ...] = ()
        grads: list[Tensor] = []
        if self._grad:
            value, metrics, grads = result
            names, result = tuple(metrics), (value, *metrics.values())
        results = [result] if isinstance(result, Tensor) else list(result)
        if not all(isinstance(each, Tensor) for each in results):
            raise CannotTrace("the function returns something other than tensors.")
        try:
            return Program(tokens, inputs, nodes, results, grads, names, isinstance(result, Tensor), self._fresh)
        except CannotTrace:
            raise
        except Exception as error:  # another version of PyTorch may record operations in another form
            raise CannotTrace(f"its operations could not be translated ({type(error).__name__}: {error})") from error


def _detached(leaf: Leaf) -> Tensor:
    return leaf.detach() if isinstance(leaf, Tensor) else torch.tensor(leaf, dtype=torch.float32)


def _unpacking(function: Callable[..., Any]) -> Callable[..., Any]:
    def call(*arguments: Any) -> Any:
        *positional, rest, keywords = arguments
        return function(*positional, *rest, **keywords)

    return call


class TracedFunction(_Traced):
    """A pure function of tensors, without gradient.

    Args:
        function: Gives a tensor or a tuple of tensors: float32, int64 or bool.
        fresh: False gives the same memory in every call with arguments of the same shapes.
    """

    def __init__(self, function: Callable[..., Any], *, fresh: bool = True) -> None:
        super().__init__(function, grad=False, fresh=fresh)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """What `function(*args, **kwargs)` gives, in fresh tensors unless `fresh` is off.

        Raises:
            CannotTrace: It cannot run on the machine with arguments like these.
        """
        program, results = self._call((args, kwargs), Program.__call__)
        return results[0] if program.alone else tuple(results)


class TracedLoss(_Traced):
    """A loss and its gradient, as `nn.gradient.with_gradient` evaluates it.

    Args:
        loss: `loss(outputs, *args)` gives a scalar and metrics by name.
    """

    def __init__(self, loss: Callable[..., tuple[Tensor, dict[str, Tensor]]]) -> None:
        super().__init__(loss, grad=True)

    def __call__(
        self, outputs: tuple[Tensor, ...], *args: Any, **kwargs: Any
    ) -> tuple[Tensor, dict[str, Tensor], tuple[Tensor, ...]]:
        """The loss and its metrics, in fresh tensors, and one gradient for each output.

        An output that the loss does not use gets zeros. The memory of the gradients is the program's: it is valid until
        the next call.

        Raises:
            CannotTrace: The loss cannot run on the machine with arguments like these.
        """
        program, results = self._call((outputs, args, kwargs), Program.__call__)
        metrics = dict(zip(program.names, results[1:], strict=True))
        return results[0], metrics, program.gradients

    def block(
        self, outputs: tuple[Tensor, ...], *args: Any, **kwargs: Any
    ) -> tuple[tuple[str, ...], Tensor, tuple[Tensor, ...]]:
        """The same for metrics that are all scalars: their names, the loss before them in one fresh tensor, gradients.

        Raises:
            CannotTrace: The loss cannot run on the machine with arguments like these, or a metric is not a scalar.
        """
        program, found = self._call((outputs, args, kwargs), Program.block)
        return program.names, found, program.gradients


def trace(function: Callable[..., Any], *args: Any) -> TracedFunction:
    """`function`, already recorded for arguments like these.

    Raises:
        CannotTrace: It cannot run on the machine.
    """
    traced = TracedFunction(function)
    traced(*args)
    return traced


def trace_with_gradient(
    loss: Callable[..., tuple[Tensor, dict[str, Tensor]]], outputs: tuple[Tensor, ...], *args: Any
) -> TracedLoss:
    """`loss`, already recorded for outputs and arguments like these.

    Raises:
        CannotTrace: It cannot run on the machine.
    """
    traced = TracedLoss(loss)
    traced(outputs, *args)
    return traced
