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


class BlankConv(nn.Conv2d):
    """A float32 convolution of zeros."""

    def __init__(self, channels: int, outputs: int, kernel: int, stride: int, padding: int) -> None:
        super().__init__(channels, outputs, kernel, stride, padding, dtype=torch.float32)

    def reset_parameters(self) -> None:
        """Called by torch where it would draw initial weights."""
        with torch.no_grad():
            self.weight.zero_()
            if self.bias is not None:
                self.bias.zero_()


class BlankEmbedding(nn.Embedding):
    """Float32 vectors of zeros, one for each of `count` values."""

    def __init__(self, count: int, width: int) -> None:
        super().__init__(count, width, dtype=torch.float32)

    def reset_parameters(self) -> None:
        """Called by torch where it would draw initial weights."""
        with torch.no_grad():
            self.weight.zero_()


def layers_of(module: nn.Module) -> list[nn.Linear | nn.Conv2d]:
    """The linear layers and convolutions below a module, in order."""
    return [layer for layer in module.modules() if isinstance(layer, nn.Linear | nn.Conv2d)]


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


def init_orthogonal(layers: Iterable[nn.Linear | nn.Conv2d], gain: float, stream: Stream) -> None:
    """Orthogonal weights times `gain`, biases 0 (Huang et al. 2022, "37 implementation details of PPO", detail 2)."""
    for layer in layers:
        outputs, shape = layer.weight.shape[0], tuple(layer.weight.shape)
        weight = gain * orthogonal(outputs, math.prod(shape[1:]), stream)
        _fill(layer.weight, weight.astype(np.float32).reshape(shape))
        _fill_bias(layer, np.zeros(outputs, dtype=np.float32))


def init_default(layers: Iterable[nn.Linear | nn.Conv2d], stream: Stream) -> None:
    """Weights and biases uniform in [-1, 1) / sqrt(inputs of a neuron), the distribution of torch's own layers."""
    for layer in layers:
        bound = np.float32(1.0 / math.sqrt(math.prod(layer.weight.shape[1:])))
        for parameter in (layer.weight, layer.bias):
            if parameter is not None:
                _fill(parameter, (2 * stream.uniform(tuple(parameter.shape)) - 1) * bound)


def init_embeddings(module: nn.Module, stream: Stream) -> None:
    """Vectors of standard normal numbers, as in torch's `nn.Embedding`, in the library's own embeddings."""
    for layer in module.modules():
        if isinstance(layer, BlankEmbedding):
            _fill(layer.weight, stream.normal(tuple(layer.weight.shape)))


def _fill_bias(layer: nn.Linear | nn.Conv2d, values: npt.NDArray[np.float32]) -> None:
    if layer.bias is not None:
        _fill(layer.bias, values)


def _fill(parameter: Tensor, values: npt.NDArray[np.float32]) -> None:
    with torch.no_grad():
        parameter.copy_(torch.from_numpy(np.ascontiguousarray(values)))
