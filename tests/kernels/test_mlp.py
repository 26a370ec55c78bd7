"""Multilayer perceptrons against autograd: values, gradients, what is written and what is left, what is refused."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from torch import Tensor

from steadyrl.kernels import reference
from support.kernels import FlatNet, flat_net, needs_native, normal

pytestmark = needs_native

ACTIVATIONS = ("tanh", "relu", "elu", "silu")
WIDTHS = st.sampled_from([1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 32, 33, 47, 48, 49, 64, 65, 80])


def native(net: FlatNet, activation: str = "tanh", output: str = "none") -> Any:
    from steadyrl.kernels import _native

    return _native.Mlp(net.inputs, net.members, activation, output)


def parameters(net: FlatNet, scale: float = 0.4) -> Tensor:
    return normal("parameters", net.size, scale=scale) * net.spots()


def close(found: Tensor, expected: Tensor, terms: int) -> None:
    """Equal up to the rounding of sums of so many terms of about the size of the largest."""
    scale = float(expected.abs().max()) if expected.numel() else 0.0
    torch.testing.assert_close(found.double(), expected, rtol=0, atol=(1.0 + scale) * 2e-6 * math.sqrt(terms))


def check(net: FlatNet, batch: int, second: int, activation: str, output: str) -> None:
    """Forward and backward of one network against float64 autograd."""
    mlp, params = native(net, activation, output), parameters(net)
    inputs = normal("inputs", batch, net.inputs)
    x, x2 = inputs[:, : net.inputs - second].contiguous(), inputs[:, net.inputs - second :].contiguous()
    out = torch.full((len(net.members), batch, net.outputs), math.nan)
    mlp.forward(params, x, out, 3, x2 if second else None)

    leaves = params.double().requires_grad_(), inputs.double().requires_grad_()
    expected = reference.mlp(*leaves, net.members, activation, output)
    widest = max(net.inputs, *(width for _, _, width in net.members[0][0]), 1)
    close(out, expected.detach(), widest)
    out_grad = normal("gradient", *out.shape)
    by_params, by_inputs = torch.autograd.grad(expected, leaves, out_grad.double())

    grads, x2_grad = torch.full((net.size,), 7.0), torch.full((batch, second), math.nan)
    mlp.backward(params, out_grad, grads, 3, x2_grad if second else None)
    spots = net.spots()
    close(grads[spots], by_params[spots], 64 + batch)
    assert (grads[~spots] == 7.0).all()
    close(x2_grad, by_inputs[:, net.inputs - second :], 64 * len(net.members))
    if second:
        alone = torch.full_like(x2_grad, math.nan)
        mlp.backward(params, out_grad, None, 3, alone)
        assert torch.equal(alone, x2_grad)


@given(
    inputs=WIDTHS,
    hidden=st.lists(WIDTHS, max_size=3),
    heads=st.lists(WIDTHS, min_size=1, max_size=3),
    members=st.integers(1, 3),
    batch=st.sampled_from([0, 1, 2, 5, 6, 11, 12, 13, 64, 100]),
    activation=st.sampled_from(ACTIVATIONS),
    output=st.sampled_from(["none", "tanh"]),
    data=st.data(),
)
@settings(max_examples=80, deadline=None)
def test_forward_and_backward_agree_with_autograd(
    inputs: int,
    hidden: list[int],
    heads: list[int],
    members: int,
    batch: int,
    activation: str,
    output: str,
    data: st.DataObject,
) -> None:
    net = flat_net(inputs, hidden, heads, members, start=16 * data.draw(st.integers(0, 2)))
    check(net, batch, data.draw(st.integers(0, inputs - 1)), activation, output)


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_layers_wider_than_every_block(activation: str) -> None:
    check(flat_net(300, [520, 330], [3, 40]), 300, 7, activation, "none")


@given(x=st.floats(width=32, allow_subnormal=False), w=st.sampled_from([1.0, -1.0, 1e-3, 1e30]))
@example(x=math.nan, w=1.0)
@example(x=math.inf, w=1.0)
@example(x=-math.inf, w=1.0)
@example(x=100.0, w=1.0)
@example(x=-100.0, w=1.0)
@example(x=7.95, w=1.0)
@example(x=8.5e-38, w=1.0)
@settings(deadline=None)
def test_activations_of_any_number(x: float, w: float) -> None:
    net = flat_net(1, [1], [1])
    (hidden,), (head,) = net.members[0]
    params = torch.zeros(net.size)
    params[hidden[0]], params[head[0]] = w, 1.0
    for activation in ACTIVATIONS:
        out, inputs = torch.empty(1, 1), torch.tensor([[x]])
        native(net, activation).forward(params, inputs, out)
        expected = reference.mlp(params, inputs, net.members, activation, "none")[0]
        # Denormal numbers may be taken for zero.
        torch.testing.assert_close(out, expected, rtol=2e-6, atol=2e-38, equal_nan=True)


@pytest.mark.parametrize("inputs", [1, 3, 17])
@pytest.mark.parametrize("hidden", [(), (5,), (20, 20)])
def test_nan_and_infinity_stay_in_their_row(inputs: int, hidden: tuple[int, ...]) -> None:
    net = flat_net(inputs, hidden, [2])
    params, x = parameters(net), normal("inputs", 9, inputs)
    x[3, 0], x[5, 0] = math.nan, math.inf
    out = torch.empty(9, 2)
    mlp = native(net, "tanh")
    mlp.forward(params, x, out)
    expected = reference.mlp(params, x, net.members, "tanh", "none")[0]
    torch.testing.assert_close(out, expected, rtol=1e-4, atol=1e-5, equal_nan=True)
    assert out[3].isnan().all()
    # What the rows of an earlier batch left behind in the padding must not come back either.
    x[3, 0] = x[5, 0] = 1.0
    mlp.forward(params, x, out)
    assert out.isfinite().all()


def test_two_slots_do_not_touch_each_other() -> None:
    net = flat_net(4, [8], [3])
    mlp, params = native(net), parameters(net)
    batches = {0: normal("a", 5, 4), 1: normal("b", 9, 4)}
    for slot, x in batches.items():
        mlp.forward(params, x, torch.empty(len(x), 3), slot)
    for slot, x in batches.items():
        leaf = params.clone().requires_grad_()
        expected = torch.autograd.grad(reference.mlp(leaf, x, net.members, "tanh", "none").sum(), leaf)[0]
        grads = torch.zeros(net.size)
        mlp.backward(params, torch.ones(len(x), 3), grads, slot)
        torch.testing.assert_close(grads, expected, rtol=1e-5, atol=1e-5)


IN, OUT = torch.ones(2, 3), torch.full((2, 2), 5.0)
PARAMS = 64  # numbers in the buffer of the network below

# Keywords that replace good ones of a forward or a backward pass, and what is said to them.
REFUSED: dict[str, tuple[str, dict[str, object], type[Exception], str]] = {
    "double parameters": ("forward", {"params": torch.zeros(PARAMS).double()}, TypeError, "params must be float32"),
    "integer inputs": ("forward", {"x": IN.long()}, TypeError, "x must be float32, but it is int64"),
    "half inputs": ("forward", {"x": IN.half()}, TypeError, "x must be float32, .*, but it is float16"),
    "a list": ("forward", {"x": [[1.0]]}, TypeError, "x must be a tensor, but it is list"),
    "no memory": ("forward", {"x": IN.to("meta")}, TypeError, "x must be on the CPU"),
    "a transposed input": ("forward", {"x": torch.ones(3, 2).T}, ValueError, "x must be contiguous"),
    "a strided output": ("forward", {"out": torch.ones(2, 4)[:, ::2]}, ValueError, "out must be contiguous"),
    "too few columns": ("forward", {"x": IN[:, :2].clone()}, ValueError, "x must have 3 columns"),
    "too many columns": ("forward", {"x2": torch.ones(2, 1)}, ValueError, "x and x2 must have 3 columns"),
    "rows that differ": ("forward", {"x2": torch.ones(1, 1)}, ValueError, "x2 must have 2 rows"),
    "a vector": ("forward", {"x": torch.ones(3)}, ValueError, r"x must have the shape \[any, any\]"),
    "another output": ("forward", {"out": torch.ones(2, 3)}, ValueError, r"out must have the shape \[2, 2\]"),
    "a short buffer": ("forward", {"params": torch.zeros(8)}, ValueError, "params must hold at least"),
    "a slot too far": ("forward", {"slot": 64}, ValueError, "slot must be from 0"),
    "a short gradient": ("backward", {"grads": torch.zeros(8)}, ValueError, "grads must hold at least"),
    "a slot not used": ("backward", {"slot": 5}, ValueError, "slot has no forward"),
    "another batch": ("backward", {"out_grad": torch.ones(3, 2)}, ValueError, "out_grad must have the shape"),
    "a wide input gradient": ("backward", {"x2_grad": torch.ones(2, 4)}, ValueError, "x2_grad has more"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_a_network_cannot_work_on_is_refused(case: str) -> None:
    net = flat_net(3, [4], [2])
    assert net.size == PARAMS
    mlp, params = native(net), parameters(net)
    good = {"forward": {"params": params, "x": IN, "out": OUT}, "backward": {"params": params, "out_grad": OUT}}
    mlp.forward(**good["forward"])
    method, bad, error, message = REFUSED[case]
    with pytest.raises(error, match=message):
        getattr(mlp, method)(**{**good[method], **bad})


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((0, [([], [(0, 16, 1)])], "tanh", "none"), "inputs"),
        ((1, [], "tanh", "none"), "members must not be empty"),
        ((1, [([], [])], "tanh", "none"), "at least one head"),
        ((1, [([], [(0, 16, 0)])], "tanh", "none"), "width below 1"),
        ((1, [([], [(-1, 16, 1)])], "tanh", "none"), "negative offset"),
        ((1, [([], [(0, 16, 1)]), ([], [(32, 48, 2)])], "tanh", "none"), "same widths"),
        ((1, [([], [(0, 16, 1)])], "gelu", "none"), "activation is 'gelu'"),
        ((1, [([], [(0, 16, 1)])], "tanh", "relu"), "output_activation must be"),
    ],
)
def test_descriptions_that_make_no_network(arguments: Any, message: str) -> None:
    from steadyrl.kernels import _native

    with pytest.raises(ValueError, match=message):
        _native.Mlp(*arguments)
