"""Writes down which PyTorch operations a function and its gradient consist of.

The function runs once, eagerly, on its real arguments under a `TorchDispatchMode`, which sees every ATen operation of
the forward pass and of autograd's backward pass. Nothing is symbolic: a Python branch on a shape is taken as in eager
mode, and a trace holds for exactly the shapes it was made with. Against `make_fx` this needs no import beyond `import
torch` (make_fx: seconds), no decomposition table, and a tenth of the time a loss.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from steadyrl.kernels.errors import CannotTrace

# What hands numbers to Python: a trace would freeze them.
_READING_OPS = frozenset({"_local_scalar_dense", "is_nonzero", "equal", "nonzero", "allclose", "unique_dim", "item"})
_READING_METHODS = frozenset({"numpy", "tolist", "__array__", "data_ptr", "untyped_storage", "storage"})


@dataclass(slots=True)
class Node:
    """One operation: its ATen name and overload, and what went in and came out, tensors being the real ones."""

    name: str
    overload: str
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    result: Any


class _Recorder(TorchDispatchMode):  # type: ignore[no-untyped-call]
    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.nodes: list[Node] = []


def _record(
    recorder: _Recorder, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
) -> Any:
    _, name, overload = str(func).split(".")
    if name in _READING_OPS:
        raise CannotTrace(f"the function looks at the numbers in a tensor ({name}), which a trace would freeze.")
    result = func(*args, **(kwargs or {}))
    recorder.nodes.append(Node(name, overload, args, kwargs or {}, result))
    return result


# Set from outside: torch wraps a method of the class body so that its first call imports torch._dynamo (two seconds).
_Recorder.__torch_dispatch__ = _record  # type: ignore[method-assign, assignment]


class _NoReading(TorchFunctionMode):
    """Refuses the methods that read numbers without an ATen operation."""

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        name = getattr(func, "__name__", "")
        if name in _READING_METHODS:
            raise CannotTrace(f"the function looks at the numbers in a tensor ({name}), which a trace would freeze.")
        return func(*args, **(kwargs or {}))


def record(function: Callable[..., Any], args: Sequence[Any], grad: bool) -> tuple[Any, list[Node]]:
    """Run `function(*args)` and return its result and the operations it took.

    Raises:
        CannotTrace: The function looks at the numbers in a tensor.
    """
    recorder = _Recorder()
    with torch.set_grad_enabled(grad), recorder, _NoReading():
        result = function(*args)
    return result, recorder.nodes


def loss_with_gradient(loss: Callable[..., Any]) -> Callable[..., tuple[Tensor, dict[str, Tensor], list[Tensor]]]:
    """`loss(outputs, *args)` as a function that also gives its gradient by each output, zeros where it is not used."""

    def both(outputs: tuple[Tensor, ...], *args: Any, **kwargs: Any) -> tuple[Tensor, dict[str, Tensor], list[Tensor]]:
        value, metrics = loss(outputs, *args, **kwargs)
        if value.shape != () or not value.requires_grad:
            raise CannotTrace("the loss is not a scalar that depends on the outputs.")
        grads = torch.autograd.grad(value, outputs, allow_unused=True, materialize_grads=True)
        return value, metrics, list(grads)

    return both
