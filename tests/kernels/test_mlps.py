"""Several networks run as one have the bits that each has alone, for any number of threads."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from support.kernels import FlatNet, flat_net, native_threads, needs_native, normal

pytestmark = needs_native


def nets(inputs: int, hidden: list[list[int]], widths: list[int]) -> list[FlatNet]:
    """One after the other in one buffer."""
    found: list[FlatNet] = []
    for layers, width in zip(hidden, widths, strict=True):
        found.append(flat_net(inputs, layers, [width], start=found[-1].size if found else 0))
    return found


def mlp(net: FlatNet) -> Any:
    from steadyrl.kernels import _native

    return _native.Mlp(net.inputs, net.members, "tanh", "none")


@given(
    inputs=st.sampled_from([1, 4, 17]),
    hidden=st.lists(st.lists(st.sampled_from([1, 5, 16, 64]), max_size=3), min_size=1, max_size=3),
    batch=st.sampled_from([0, 1, 2, 7, 64, 257]),
    threads=st.sampled_from([1, 2, 3]),
)
@settings(max_examples=60, deadline=None)
def test_together_as_alone(inputs: int, hidden: list[list[int]], batch: int, threads: int) -> None:
    from steadyrl.kernels import _native

    widths = [2, 1, 6][: len(hidden)]
    found = nets(inputs, hidden, widths)
    params, x = normal("params", found[-1].size, scale=0.3), normal("x", batch, inputs)
    outs, alone = ([torch.full((batch, width), 7.0) for width in widths] for _ in range(2))
    outer = [normal(f"outer {width}", batch, width) for width in widths]
    together, separate = torch.full_like(params, 9.0), torch.full_like(params, 9.0)
    group = _native.Mlps([mlp(net) for net in found])
    with native_threads(threads):
        group.forward(params, x, outs, 1)
        if batch > 0:
            group.backward(params, outer, together, 1)
    with native_threads(1):
        for net, out, grad in zip(found, alone, outer, strict=True):
            single = mlp(net)
            single.forward(params, x, out)
            if batch > 0:
                single.backward(params, grad, separate)
    assert all(torch.equal(a, b) for a, b in zip(outs, alone, strict=True))
    assert torch.equal(together, separate)


def test_one_output_may_be_flat_and_x_of_numpy() -> None:
    from steadyrl.kernels import _native

    found = nets(3, [[8], [8]], [2, 1])
    params, x = normal("params", found[-1].size), normal("x", 5, 3)
    group = _native.Mlps([mlp(net) for net in found])
    flat, column = [torch.empty(5, 2), torch.empty(5)], [torch.empty(5, 2), torch.empty(5, 1)]
    group.forward(params, x.numpy(), flat)
    group.forward(params, x, column)
    assert torch.equal(flat[1], column[1][:, 0])


def test_what_is_refused() -> None:
    from steadyrl.kernels import _native

    two, other = nets(3, [[8], [8]], [2, 1]), flat_net(4, [8], [1])
    params, x = torch.zeros(two[-1].size), torch.zeros(5, 3)
    outs: list[Tensor] = [torch.empty(5, 2), torch.empty(5)]
    with pytest.raises(ValueError, match="networks must not be empty"):
        _native.Mlps([])
    with pytest.raises(ValueError, match="the same number of inputs"):
        _native.Mlps([mlp(two[0]), mlp(other)])
    with pytest.raises(ValueError, match="one member each"):
        _native.Mlps([mlp(flat_net(3, [8], [2], members=2))])
    group = _native.Mlps([mlp(net) for net in two])
    with pytest.raises(ValueError, match="slot has no forward pass"):
        group.backward(params, outs, params.clone())
    for bad, error, message in (
        ((params[:10], x, outs), ValueError, "params must hold at least"),
        ((params, torch.zeros(5, 4), outs), ValueError, "x must have 3 columns, but there are 4"),
        ((params, x.T, outs), ValueError, "x must be contiguous"),
        ((params, x.double(), outs), TypeError, "x must be float32"),
        ((params, x, outs[:1]), ValueError, "outs must be one for each network"),
        ((params, x, [outs[1], outs[0]]), ValueError, "outs must have the shape"),
        ((params, x, 3), TypeError, "must be a sequence"),
    ):
        with pytest.raises(error, match=message):
            group.forward(*bad)
    group.forward(params, x, outs)
    with pytest.raises(ValueError, match="out_grads must have the shape"):
        group.backward(params, [outs[0], torch.empty(4)], params.clone())
