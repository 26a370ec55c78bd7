"""A loss and its gradient as one function of a network's outputs: by autograd, or on the kernels' register machine."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any, Concatenate, ParamSpec, Protocol

import torch
from torch import Tensor

from steadyrl import kernels
from steadyrl.nn.compiled import CompiledLoss, Compiler

Outputs = tuple[Tensor, ...]
Metrics = dict[str, Tensor]
P = ParamSpec("P")


def with_gradient(
    loss: Callable[Concatenate[Outputs, P], tuple[Tensor, Metrics]],
    outputs: Outputs,
    *args: P.args,
    **kwargs: P.kwargs,
) -> tuple[Tensor, Metrics, Outputs]:
    """Evaluate `loss(outputs, *args)`, which gives a scalar and metrics, and differentiate it by the outputs.

    The loss sees the outputs cut off from the network, so nothing else can receive a gradient.

    Returns:
        The loss, its metrics, both detached, and one gradient for each output: zeros where the loss does not use it.
    """
    with torch.enable_grad():
        leaves = tuple(output.detach().requires_grad_() for output in outputs)
        value, metrics = loss(leaves, *args, **kwargs)
        gradients = torch.autograd.grad(value, leaves, allow_unused=True, materialize_grads=True)
    return value.detach(), {name: metric.detach() for name, metric in metrics.items()}, gradients


class Runner(Protocol):
    """Who a loss belongs to: a policy."""

    native: bool  # whether kernels may run things
    notes: dict[str, bool]  # what PyTorch runs although they may, and whether that has been said
    compiler: Compiler  # whether PyTorch compiles what it runs


class Loss:
    """A loss whose call is `with_gradient`: traced onto the kernels where they can run it, elsewhere by autograd, or
    compiled where the owner's compiler has been started.

    Args:
        loss: Pure: `loss(outputs, *args)`; what never changes is bound to it (`functools.partial`).
        owner: Says whether kernels may run it.
    """

    def __init__(self, loss: Callable[..., tuple[Tensor, Metrics]], owner: Runner) -> None:
        self._loss = loss
        self.owner = owner
        self.traced = _traced(loss, owner, gradient=True)
        self._compiled = CompiledLoss(loss)

    def __call__(self, outputs: Outputs, *args: Any, **kwargs: Any) -> tuple[Tensor, Metrics, Outputs]:
        """As `with_gradient`; the gradients are valid until the next call, and no argument of it."""
        if self.traced is not None:
            try:
                found: tuple[Tensor, Metrics, Outputs] = self.traced(outputs, *args, **kwargs)
                return found
            except _CANNOT as reason:
                self.owner.notes.setdefault(f"a loss, because {_said(reason)}", False)
        return self.by_torch(outputs, *args, **kwargs)

    def by_torch(self, outputs: Outputs, *args: Any, **kwargs: Any) -> tuple[Tensor, Metrics, Outputs]:
        """As `with_gradient`, compiled where the owner's compiler has been started."""
        eager = partial(with_gradient, self._loss, outputs, *args, **kwargs)
        compiler = self.owner.compiler
        return self._compiled(compiler, eager, outputs, args, kwargs) if compiler.fits(outputs) else eager()


class Scalars(Mapping[str, Tensor]):
    """Numbers by name in one tensor, so that a loss with ten metrics is not ten tensors.

    Args:
        names: Of the entries.
        block: [len(names)].
    """

    __slots__ = ("_names", "block")

    def __init__(self, names: tuple[str, ...], block: Tensor) -> None:
        self._names, self.block = names, block

    def __getitem__(self, name: str) -> Tensor:
        """One of them, a scalar on the device."""
        if name not in self._names:
            raise KeyError(name)
        return self.block[self._names.index(name)]

    def __iter__(self) -> Iterator[str]:
        """Their names, in order."""
        return iter(self._names)

    def __len__(self) -> int:
        """How many there are."""
        return len(self._names)


class ScalarLoss:
    """As `Loss`, for a loss whose metrics are all scalars.

    Args:
        loss: Pure, as for `Loss`.
        name: Under which the loss itself is found among the metrics, the first of them.
        owner: Says whether kernels may run it.
    """

    def __init__(self, loss: Callable[..., tuple[Tensor, Metrics]], name: str, owner: Runner) -> None:
        self._loss = Loss(loss, owner)
        self._name = name
        self._all: dict[tuple[str, ...], tuple[str, ...]] = {}

    def __call__(self, outputs: Outputs, *args: Any, **kwargs: Any) -> tuple[Scalars, Outputs]:
        """The loss with its metrics, and gradients, which are valid until the next call and no argument of it."""
        loss = self._loss
        if loss.traced is not None:
            try:
                names, block, gradients = loss.traced.block(outputs, *args, **kwargs)
                return Scalars(self._with_loss(names), block), gradients
            except _CANNOT as reason:
                loss.owner.notes.setdefault(f"a loss, because {_said(reason)}", False)
        value, metrics, gradients = loss.by_torch(outputs, *args, **kwargs)
        return Scalars(self._with_loss(tuple(metrics)), torch.stack([value, *metrics.values()])), gradients

    def _with_loss(self, names: tuple[str, ...]) -> tuple[str, ...]:
        found = self._all.get(names)
        if found is None:
            found = self._all[names] = (self._name, *names)
        return found


class Function:
    """A pure function of tensors without gradient, on the kernels where they can run it.

    Args:
        function: Gives a tensor or a tuple of them; what never changes is bound to it.
        owner: Says whether kernels may run it.
        fresh: False lets kernels give the same memory in every call.
    """

    def __init__(self, function: Callable[..., Any], owner: Runner, *, fresh: bool = True) -> None:
        self._function = function
        self._owner = owner
        self._traced = _traced(function, owner, gradient=False, fresh=fresh)

    def __call__(self, *args: Any) -> Any:
        """What the function gives."""
        if self._traced is not None:
            try:
                return self._traced(*args)
            except _CANNOT as reason:
                self._owner.notes.setdefault(f"a function, because {_said(reason)}", False)
        with torch.no_grad():
            return self._function(*args)


# Besides what cannot be traced, numbers that eager code takes and the register machine does not: a negative index.
_CANNOT = (kernels.CannotTrace, IndexError, ValueError)


def _said(reason: Exception) -> str:
    return str(reason).rstrip(".")


def _traced(function: Callable[..., Any], owner: Runner, *, gradient: bool, fresh: bool = True) -> Any:
    if not owner.native:
        return None
    from steadyrl.kernels.program import TracedFunction, TracedLoss

    return TracedLoss(function) if gradient else TracedFunction(function, fresh=fresh)
