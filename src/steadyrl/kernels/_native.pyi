"""Types of the extension. Arrays are contiguous CPU tensors, or NumPy arrays, of the dtype that each entry names."""

from collections.abc import Sequence
from typing import Any

Array = Any  # a torch.Tensor or numpy.ndarray, checked in the extension
_Linear = tuple[int, int, int]

def isa() -> str: ...
def usable_isas() -> list[str]: ...
def set_threads(threads: int) -> None: ...
def threads() -> int: ...
def forbid_exchange_api(forbid: bool) -> None: ...

class Mlp:
    def __init__(
        self,
        inputs: int,
        members: Sequence[tuple[Sequence[_Linear], Sequence[_Linear]]],
        activation: str,
        output_activation: str,
        norms: Sequence[Sequence[_Linear]] = ...,
    ) -> None: ...
    @property
    def buffer_size(self) -> int: ...
    def forward(self, params: Array, x: Array, out: Array, slot: int = 0, x2: Array | None = None) -> None: ...
    def backward(
        self, params: Array, out_grad: Array, grads: Array | None = None, slot: int = 0, x2_grad: Array | None = None
    ) -> None: ...

class Mlps:
    def __init__(self, networks: Sequence[Mlp]) -> None: ...
    def forward(self, params: Array, x: Array, outs: Sequence[Array], slot: int = 0) -> None: ...
    def backward(self, params: Array, out_grads: Sequence[Array], grads: Array, slot: int = 0) -> None: ...

def adam(
    params: Array,
    grad: Array,
    mean: Array,
    square: Array,
    step: int,
    lr: float,
    max_grad_norm: float,
    beta1: float,
    beta2: float,
    eps: float,
    moments: Array | None = None,  # two of them
) -> float: ...
def rmsprop(
    params: Array, grad: Array, square: Array, lr: float, max_grad_norm: float, alpha: float, eps: float
) -> float: ...
def polyak(target: Array, online: Array, tau: float) -> None: ...
def gather(index: Array, sources: Sequence[Array], outs: Sequence[Array]) -> None: ...
def gae(
    rewards: Array,
    values: Array,
    next_values: Array,
    terminated: Array,
    done: Array,
    valid: Array,
    gamma: float,
    gae_lambda: float,
    advantages: Array,
    returns: Array,
) -> None: ...
def standardise(
    rows: Array, valid: Array | None, mean: Array, m2: Array, count: int, eps: float, clip: float, out: Array
) -> int: ...
def scale_rewards(
    rewards: Array,
    done: Array,
    valid: Array,
    returns: Array,
    gamma: float,
    mean: Array,
    m2: Array,
    count: int,
    eps: float,
    clip: float,
    out: Array,
) -> int: ...
def to_bounds(
    actions: Array, low: Array, high: Array, bounded: Array, least: Array, most: Array, out: Array
) -> None: ...
def tape_operations() -> dict[str, int]: ...

class Tape:
    def __init__(
        self,
        tokens: list[Any],
        inputs: list[Any],
        constants: bytes,
        code: bytes,
        arena_size: int,
        outputs: int,
        kept: list[Any],
        tensor_type: type,
    ) -> None: ...
    @property
    def instructions(self) -> int: ...
    def run(self, arguments: tuple[Any, ...], outputs: tuple[Any, ...]) -> bool: ...
