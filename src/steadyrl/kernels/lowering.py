"""From recorded ATen operations to instructions of the register machine."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

import torch
from torch import Tensor

from steadyrl.kernels.assembler import Assembler
from steadyrl.kernels.errors import CannotTrace
from steadyrl.kernels.layout import View, long_inner, reshaped, row_major
from steadyrl.kernels.tracing import Node

Result = View | tuple[View, ...]
Handler = Callable[..., Any]
H = TypeVar("H", bound=Handler)
_DTYPES = frozenset({torch.float32, torch.int64, torch.bool})
_LARGEST_CONSTANT = 65536
_STORES = {torch.float32: "copy", torch.int64: "to_int64", torch.bool: "to_bool"}
_ADDRESSING = frozenset({"gather", "index", "detach", "new_zeros", "zeros_like"})

HANDLERS: dict[str, Handler] = {}


def operation(*names: str) -> Callable[[H], H]:
    """Enter a function under ATen names; it is called with the lowering, the node and the node's arguments.

    Tensors among the arguments have become views. It returns the view of its result, or one for each result.
    """

    def enter(handler: H) -> H:
        HANDLERS.update(dict.fromkeys(names, handler))
        return handler

    return enter


class Lowering:
    """Which view each recorded tensor is, and the operations that the handlers share.

    Args:
        inputs: The tensors that the function was called with.
        nodes: What it did with them.

    Raises:
        CannotTrace: An operation is not known, or uses a tensor from elsewhere.
    """

    def __init__(self, inputs: Sequence[Tensor], nodes: Sequence[Node]) -> None:
        self.assembler = Assembler()
        self.counted: dict[int, int] = {}  # registers of 0, 1, 2, ... and their length
        self._views: dict[int, View] = {}
        self._alive: list[Tensor] = []  # an address is no other tensor's while it is here
        self._shared: dict[int, set[int]] = {}  # tensors of each storage
        # What only an index is applied to is left as it lies: bringing it into another layout costs more than it saves.
        used = {id(arg) for node in nodes if node.name not in _ADDRESSING for arg in node.args}
        for number, tensor in enumerate(inputs):
            if tensor.dtype in _DTYPES:  # others may be there, as long as nothing is computed with them
                shape = tuple(tensor.shape)
                strides = long_inner(shape) if id(tensor) in used else row_major(shape)
                self._know(tensor, self.assembler.input(number, shape, strides))
        for node in nodes:
            self._lower(node)

    def _know(self, tensor: Tensor, view: View) -> None:
        if tensor.dtype not in _DTYPES:
            raise CannotTrace(f"the function computes in {tensor.dtype}; traced are float32, int64 and bool.")
        if tuple(tensor.shape) != view.shape:
            raise AssertionError(f"lowered to shape {view.shape}, but the tensor has {tuple(tensor.shape)}")
        self._views[id(tensor)] = view
        self._alive.append(tensor)
        if tensor.numel():
            self._shared.setdefault(tensor.untyped_storage().data_ptr(), set()).add(id(tensor))

    def view(self, tensor: Tensor) -> View:
        """What a tensor is."""
        view = self._views.get(id(tensor))
        if view is None:
            raise CannotTrace(
                f"the function uses a tensor of {tensor.dtype} {tuple(tensor.shape)} that is not among its arguments "
                "of float32, int64 and bool; a trace would freeze it."
            )
        return view

    def _lower(self, node: Node) -> None:
        in_place = node.name.endswith("_") and not node.name.startswith("__")
        name = node.name[:-1] if in_place else node.name
        handler = HANDLERS.get(name)
        if handler is None:
            raise CannotTrace(f"the operation aten.{node.name}.{node.overload} is not known to the register machine.")
        if name == "lift_fresh":
            self._lift(node)
            return
        args = [self._resolved(arg) for arg in node.args]
        kwargs = {key: self._resolved(arg) for key, arg in node.kwargs.items()}
        result = handler(self, node, *args, **kwargs)
        if in_place:
            self._replace(node.args[0], result)
            return
        tensors = node.result if isinstance(node.result, tuple | list) else (node.result,)
        views = (result,) if isinstance(result, View) else result
        for tensor, view in zip(tensors, views, strict=True):
            self._know(tensor, view)

    def _resolved(self, arg: Any) -> Any:
        if isinstance(arg, Tensor):
            return self.view(arg)
        if isinstance(arg, tuple | list):
            return [self._resolved(part) for part in arg]
        return arg

    def _replace(self, tensor: Tensor, result: Result) -> None:
        """The tensor has another value from here on; nothing that shares its memory may be known."""
        assert isinstance(result, View)
        sharing = self._shared.get(tensor.untyped_storage().data_ptr(), set())
        if sharing - {id(tensor)}:
            raise CannotTrace("the function changes a tensor in place of which there are views.")
        if result.shape != tuple(tensor.shape):
            result = self.assembler.expand(result, tuple(tensor.shape))
        self._views[id(tensor)] = result

    def _lift(self, node: Node) -> None:
        """A tensor made of Python numbers: `torch.tensor(1.0)`."""
        tensor = node.args[0]
        if id(tensor) not in self._views:
            if tensor.numel() > _LARGEST_CONSTANT:
                raise CannotTrace(f"the function makes a constant of {tensor.numel()} numbers.")
            flat = self.assembler.constants(tensor.detach().flatten().tolist())
            view = reshaped(flat, tuple(tensor.shape))
            assert view is not None
            self._know(tensor, view)
        if id(node.result) not in self._views:
            self._know(node.result, self._views[id(tensor)])

    def as_view(self, value: View | float) -> View:
        """A number as a scalar."""
        return value if isinstance(value, View) else self.assembler.constant(float(value))

    def apply(self, op: str, *args: View | float) -> View:
        """An elementwise operation on views and numbers."""
        return self.assembler.elementwise(op, *(self.as_view(arg) for arg in args))

    def filled(self, number: float, shape: Sequence[int]) -> View:
        """One number everywhere."""
        return self.assembler.expand(self.assembler.constant(number), tuple(shape))

    def reduce(
        self, op: str, view: View, dims: Sequence[int] | int | None, keepdim: bool, *, value: float = 1.0
    ) -> View:
        """Fold dimensions away, all of them where `dims` is None or empty."""
        folded = self.dims(view, dims)
        kept = self.assembler.reduce(op, (view,), folded, value)
        return kept if keepdim else self.without(kept, folded)

    @staticmethod
    def dims(view: View, dims: Sequence[int] | int | None) -> tuple[int, ...]:
        """Dimensions as PyTorch gives them, as numbers from 0 on."""
        rank = len(view.shape)
        if dims is None or dims == [] or dims == ():
            return tuple(range(rank))
        return tuple(d % rank for d in ((dims,) if isinstance(dims, int) else dims)) if rank else ()

    @staticmethod
    def without(view: View, dims: Sequence[int]) -> View:
        """The view with these dimensions, of size 1, left out."""
        kept = [d for d in range(len(view.shape)) if d not in dims]
        return view._replace(shape=tuple(view.shape[d] for d in kept), strides=tuple(view.strides[d] for d in kept))

    def reshape(self, view: View, shape: Sequence[int]) -> View:
        """The numbers in row-major order as another shape; copied where they do not lie so."""
        wanted = tuple(shape)
        found = reshaped(view, wanted)
        if found is None:
            copy = self.assembler.temporary(view.shape, row_major(view.shape))
            self.assembler.emit("copy", copy, [view])
            found = reshaped(copy, wanted)
        assert found is not None
        return found

    def counting(self, length: int) -> View:
        """0, 1, 2, ..."""
        if length > _LARGEST_CONSTANT:
            raise CannotTrace(f"the function counts to {length}.")
        view = self.assembler.constants(range(length))
        self.counted[view.register] = length
        return view

    def is_counting(self, view: View) -> bool:
        """Whether it is 0, 1, 2, ... in its last dimension."""
        return view.register in self.counted and view.shape[-1:] == (self.counted[view.register],)

    def picked(self, data: View, dim: int, index: View) -> View:
        """`torch.gather`."""
        out = self.assembler.temporary(index.shape)
        size = data.shape[dim]
        shape = tuple(size if d == dim else n for d, n in enumerate(index.shape))
        self.assembler.indexed("gather", out, (data._replace(shape=shape), index), dim, size)
        return out

    def placed(self, base: View, dim: int, index: View, source: View, *, add: bool) -> View:
        """`base` with `source` put or added where the index says; the index has size 1 in `dim` and base's others."""
        outside = tuple(1 if d == dim else n for d, n in enumerate(base.shape))
        if index.shape != outside:
            raise CannotTrace("the function scatters to more than one place a row.")
        source = source._replace(shape=outside)
        deep = sum(1 for d, n in enumerate(outside) if n != 1 and index.strides[d] == 0 and source.strides[d]) > 0
        if deep and self.assembler.number(base) == 0.0:  # rows of numbers among zeros: write these rows only
            out = self.assembler.temporary(base.shape, row_major(base.shape))
            self.assembler.emit("copy", out, [base])
            self.assembler.indexed("scatter_add", out, (source, index), dim, base.shape[dim])
            return out
        counted = self.assembler.expand(self.counting(base.shape[dim]), base.shape)
        counted = counted._replace(
            strides=tuple(counted.strides[-1] if d == dim else 0 for d in range(len(base.shape)))
        )
        chosen = self.apply("eq", counted, index)
        return self.apply("where", chosen, self.apply("add", base, source) if add else source, base)

    def store(self, results: Iterable[tuple[Tensor, int, int]]) -> None:
        """Write results, contiguous, into outputs: tensor, number of the output, offset in it."""
        registers: dict[int, int] = {}
        for tensor, number, offset in results:
            if number not in registers:
                registers[number] = self.assembler.output(number)
            view = self.view(tensor)
            out = View(registers[number], offset, view.shape, row_major(view.shape))
            self.assembler.emit(_STORES[tensor.dtype], out, [view])
