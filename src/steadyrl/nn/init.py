"""Initial weights from a stream: torch's global generator is neither read nor moved, thread counts change no bit."""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from steadyrl.seeding import Stream


class BlankLinear(nn.Linear):
    """A float32 linear layer of zeros: torch's global generator and default type have no part in it."""

    def __init__(self, in_features: int, out_features: int) -> None:
        super().__init__(in_features, out_features, dtype=torch.float32)

    def reset_parameters(self) -> None:
        """Called by torch where it would draw initial weights."""
        with torch.no_grad():
            self.weight.zero_()
            self.bias.zero_()


def linear_layers(module: nn.Module) -> list[nn.Linear]:
    """The linear layers below a module, in order."""
    return [layer for layer in module.modules() if isinstance(layer, nn.Linear)]


def orthogonal(rows: int, columns: int, stream: Stream) -> npt.NDArray[np.float64]:
    """A random matrix [rows, columns] whose rows (columns, if there are more rows) are orthonormal.

    Modified Gram-Schmidt on normal numbers gives the uniform distribution over such matrices, as in Saxe et al. 2014
    (arXiv:1312.6120). It runs in float64 and in NumPy's own loops: the bits of LAPACK's QR may follow the thread count.
    """
    vectors = stream.normal((min(rows, columns), max(rows, columns))).astype(np.float64)
    for i, vector in enumerate(vectors):
        vector /= math.sqrt(np.einsum("j,j->", vector, vector))
        rest = vectors[i + 1 :]
        rest -= np.einsum("ij,j->i", rest, vector)[:, None] * vector
    return vectors if rows <= columns else vectors.T


def init_orthogonal(layers: Iterable[nn.Linear], gain: float, stream: Stream) -> None:
    """Orthogonal weights times `gain`, biases 0 (Huang et al. 2022, "37 implementation details of PPO", detail 2)."""
    for layer in layers:
        weight = gain * orthogonal(layer.out_features, layer.in_features, stream)
        _fill(layer.weight, weight.astype(np.float32))
        _fill(layer.bias, np.zeros(layer.out_features, dtype=np.float32))


def init_default(layers: Iterable[nn.Linear], stream: Stream) -> None:
    """Weights and biases uniform in [-1, 1) / sqrt(in_features), the distribution of torch's `nn.Linear`."""
    for layer in layers:
        bound = np.float32(1.0 / math.sqrt(layer.in_features))
        for parameter in (layer.weight, layer.bias):
            _fill(parameter, (2 * stream.uniform(tuple(parameter.shape)) - 1) * bound)


def _fill(parameter: Tensor, values: npt.NDArray[np.float32]) -> None:
    with torch.no_grad():
        parameter.copy_(torch.from_numpy(np.ascontiguousarray(values)))
