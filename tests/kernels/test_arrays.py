"""Three ways to a tensor's memory, which must agree in what they read and in what they refuse."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
import torch
from torch import nn

from support.kernels import needs_native

pytestmark = needs_native


@pytest.fixture(params=["exchange", "attributes"])
def way(request: pytest.FixtureRequest) -> Iterator[str]:
    """Tensors are read through the DLPack exchange API, or as with a torch that has none."""
    from steadyrl.kernels import _native

    _native.forbid_exchange_api(request.param == "attributes")
    yield request.param
    _native.forbid_exchange_api(False)


def norm(value: object) -> float:
    """Of the numbers that a kernel reads there."""
    from steadyrl.kernels import _native

    read = torch.empty(value.numel() if isinstance(value, torch.Tensor) else int(np.size(value)))  # type: ignore[arg-type]
    _native.polyak(read, value, 1.0)
    return float(read.norm())


@pytest.mark.usefixtures("way")
def test_what_is_read() -> None:
    base = torch.arange(12, dtype=torch.float32)
    assert norm(base) == pytest.approx(float(base.norm()))
    assert norm(base[4:7]) == pytest.approx(float(base[4:7].norm()))
    assert norm(base.view(3, 4)) == pytest.approx(float(base.norm()))
    assert norm(torch.tensor(3.0)) == 3.0
    assert norm(nn.Parameter(torch.tensor([3.0, 4.0]))) == 5.0
    assert norm(base.view(3, 4)[1:2, ::1]) == pytest.approx(float(base[4:8].norm()))
    assert norm(base.view(12, 1)[:1].T) == 0.0
    assert norm(base.view(3, 4)[:, :0]) == 0.0


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize(
    "dtype", [torch.float64, torch.float16, torch.bfloat16, torch.int32, torch.complex64, torch.int8]
)
def test_types_that_no_kernel_knows(dtype: torch.dtype) -> None:
    with pytest.raises(TypeError, match="online must be float32, int64, uint8 or bool, but it is"):
        norm(torch.ones(3).to(dtype))


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("dtype", [torch.int64, torch.uint8, torch.bool])
def test_types_that_this_kernel_does_not_take(dtype: torch.dtype) -> None:
    name = str(dtype).removeprefix("torch.")
    with pytest.raises(TypeError, match=f"online must be float32, but it is {name}"):
        norm(torch.ones(3).to(dtype))


@pytest.mark.usefixtures("way")
def test_memory_elsewhere_or_in_pieces() -> None:
    with pytest.raises(ValueError, match="online must be contiguous"):
        norm(torch.ones(4, 4).T)
    with pytest.raises(ValueError, match="online must be contiguous"):
        norm(torch.ones(1).expand(4))
    with pytest.raises(ValueError, match="online has too many dimensions"):
        norm(torch.ones([1] * 9))
    with pytest.raises(TypeError, match="CPU"):
        norm(torch.ones(3, device="meta"))
    with pytest.raises(TypeError, match="online must be dense"):
        norm(torch.ones(3).to_sparse())


@pytest.mark.parametrize("value", [None, 1.0, [1.0, 2.0], "text", object()])
def test_what_is_no_array(value: object) -> None:
    with pytest.raises(TypeError, match=r"online must be a tensor, but it is|incompatible function arguments"):
        norm(value)


def test_numpy_arrays() -> None:
    base = np.arange(12, dtype=np.float32)
    assert norm(base) == pytest.approx(float(np.linalg.norm(base)))
    assert norm(base.reshape(3, 4)[1]) == pytest.approx(float(np.linalg.norm(base[4:8])))
    with pytest.raises(ValueError, match="online must be contiguous"):
        norm(base[::2])
    with pytest.raises(TypeError, match="online must be float32, int64, uint8 or bool, but it is"):
        norm(base.astype(np.float64))
    with pytest.raises(TypeError, match="online must be float32, but it is int64"):
        norm(base.astype(np.int64))
    with pytest.raises(TypeError, match="of the buffer format '>f'"):
        norm(base.astype(">f4"))
