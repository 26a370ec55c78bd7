"""Layer normalisation in multilayer perceptrons, against autograd: values, gradients, extremes, threads, refusals."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from steadyrl.kernels import reference
from support.kernels import FlatNet, flat_net, native_threads, needs_native, normal

pytestmark = needs_native

ACTIVATIONS = ("tanh", "relu", "elu", "silu")
WIDTHS = st.sampled_from([1, 2, 3, 4, 7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 64, 65, 96, 97, 256])


def native(net: FlatNet, activation: str = "tanh", output: str = "none") -> Any:
    from steadyrl.kernels import _native

    return _native.Mlp(net.inputs, net.members, activation, output, net.norms)


def parameters(net: FlatNet, scale: float = 0.4) -> Tensor:
    """Gains about 1, so that no direction of a row is lost."""
    found = normal("parameters", net.size, scale=scale)
    for norms in net.norms:
        for gain, _, width in norms:
            found[gain : gain + width] += 1.0
    return found * net.spots()


def passes(net: FlatNet, params: Tensor, x: Tensor, out_grad: Tensor, activation: str) -> tuple[Tensor, ...]:
    """Outputs, and the gradients by parameters and by inputs; what is no parameter keeps the 7 it had."""
    mlp = native(net, activation)
    out, grads, x_grad = torch.full(out_grad.shape, math.nan), torch.full((net.size,), 7.0), torch.empty_like(x)
    none = torch.empty(len(x), 0)
    mlp.forward(params, none, out, 1, x)
    mlp.backward(params, out_grad, grads, 1, x_grad)
    return out, grads, x_grad


def oracle(
    net: FlatNet, params: Tensor, x: Tensor, out_grad: Tensor, activation: str, dtype: torch.dtype = torch.float64
) -> tuple[Tensor, ...]:
    """The same by autograd, in any float type."""
    leaves = params.to(dtype).requires_grad_(), x.to(dtype).requires_grad_()
    out = reference.mlp(*leaves, net.members, activation, "none", net.norms)
    return out.detach(), *torch.autograd.grad(out, leaves, out_grad.to(dtype))


def last_bits(numbers: Tensor) -> Tensor:
    """The numbers, each one rounding of float32 away, up or down without a pattern; float64."""
    signs = torch.sign(normal("last bits", *numbers.shape)).double()
    return numbers.double() * (1.0 + signs * torch.finfo(torch.float32).eps)


def check(net: FlatNet, batch: int, activation: str) -> None:
    """Both passes against float64, with the rounding of float32's own autograd as the yardstick, or what comes of the
    last bit of every parameter and input where that is more.

    A row of almost equal numbers magnifies rounding by up to 1 / sqrt(eps), so no fixed bound would do for every width.
    """
    params, x = parameters(net), normal("inputs", batch, net.inputs)
    out_grad = normal("gradient", len(net.members), batch, net.outputs)
    spots = net.spots()
    found, exact, rounded, moved = (
        [spots_of(each, spots) for each in results]
        for results in (
            passes(net, params, x, out_grad, activation),
            oracle(net, params, x, out_grad, activation),
            oracle(net, params, x, out_grad, activation, torch.float32),
            oracle(net, last_bits(params), last_bits(x), out_grad, activation),
        )
    )
    for ours, theirs, nudged, wanted in zip(found, rounded, moved, exact, strict=True):
        apart = torch.stack([theirs.double() - wanted, nudged - wanted]).abs()
        usual = apart.max() if wanted.numel() else 0.0
        largest = wanted.abs().max() if wanted.numel() else 0.0
        torch.testing.assert_close(ours.double(), wanted, rtol=0, atol=float(8 * usual + 4e-6 * (1.0 + largest)))


def spots_of(result: Tensor, spots: Tensor) -> Tensor:
    """Of a gradient by the buffer, what belongs to parameters; the rest must be as it was."""
    if result.dim() != 1:
        return result
    assert (result[~spots] == 7.0).all() or (result[~spots] == 0.0).all()
    return result[spots]


@given(
    inputs=WIDTHS,
    hidden=st.lists(WIDTHS, min_size=1, max_size=3),
    heads=st.lists(st.sampled_from([1, 2, 5, 17]), min_size=1, max_size=2),
    members=st.integers(1, 3),
    batch=st.sampled_from([0, 1, 2, 5, 13, 64, 101]),
    activation=st.sampled_from(ACTIVATIONS),
)
@settings(max_examples=60, deadline=None)
def test_values_and_gradients_agree_with_autograd(
    inputs: int, hidden: list[int], heads: list[int], members: int, batch: int, activation: str
) -> None:
    check(flat_net(inputs, hidden, heads, members, norm=True), batch, activation)


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_layers_wider_than_every_block(activation: str) -> None:
    check(flat_net(40, [1024, 330], [3, 40], 2, norm=True), 150, activation)


@pytest.mark.parametrize("second", [1, 5, 20])
def test_the_gradient_of_some_inputs_is_that_of_the_last_ones(second: int) -> None:
    net = flat_net(20, [33, 16], [1], 2, norm=True)
    params, x, out_grad = parameters(net), normal("inputs", 9, 20), normal("gradient", 2, 9, 1)
    every = passes(net, params, x, out_grad, "relu")[2]
    mlp, some = native(net, "relu"), torch.empty(9, second)
    mlp.forward(params, x, torch.empty(2, 9, 1))
    mlp.backward(params, out_grad, None, 0, some)
    torch.testing.assert_close(some, every[:, 20 - second :], rtol=1e-5, atol=1e-6)


def identity(width: int) -> tuple[FlatNet, Tensor]:
    """A network whose normalised layer is its inputs, seen by one head that adds all of it with weights about 1."""
    net = flat_net(width, [width], [1], norm=True)
    params = parameters(net)
    (hidden,), (head,) = net.members[0]
    params[hidden[0] : hidden[0] + width * width] = torch.eye(width).flatten()
    params[hidden[1] : hidden[1] + width] = 0.0
    params[head[0] : head[0] + width] += 1.0
    return net, params


HUGE = 1e18  # what an observation may be
EXTREMES = (0.0, 1.0, -1.0, 1e-20, -3e-6, 1e4, HUGE, -HUGE, 1e25, -1e30, math.nan, math.inf, -math.inf)


@given(
    width=st.sampled_from([1, 2, 3, 17, 64, 65, 256]),
    numbers=st.lists(st.sampled_from(EXTREMES), min_size=1, max_size=3),
    activation=st.sampled_from(ACTIVATIONS),
)
@settings(max_examples=150, deadline=None)
def test_rows_of_extreme_numbers(width: int, numbers: list[float], activation: str) -> None:
    """A row of them between ordinary ones: what PyTorch gives in float32, and the other rows as if it were not there.

    Where the squares have no float32, PyTorch's answer follows the width of its vectors, between 0 and NaN.
    """
    net, params = identity(width)
    x, out_grad = normal("inputs", 5, width), normal("gradient", 1, 5, 1)
    plain = passes(net, params, x, out_grad, activation)
    x[2] = torch.tensor(numbers).repeat(width)[:width]
    out, _, x_grad = passes(net, params, x, out_grad, activation)
    expected, _, by_inputs = oracle(net, params, x, out_grad, activation, torch.float32)
    if not x[2].isfinite().all():
        assert expected[0, 2].isnan()
        assert out[0, 2].isnan()
        assert by_inputs[2].isnan().all()
        assert x_grad[2].isnan().all()
    elif x[2].abs().max() <= HUGE:
        torch.testing.assert_close(out[0, 2], expected[0, 2], rtol=1e-4, atol=1e-4)
        # PyTorch's formula loses digits where the mean is large, also in float64; a row's level changes no gradient.
        level = x.double()[:, :1]
        exact = oracle(net, params, x.double() - level, out_grad, activation)[2][2]
        torch.testing.assert_close(x_grad[2].double(), exact, rtol=0, atol=1e-4 * (1.0 + float(exact.abs().max())))
    else:
        assert out[0, 2].isfinite()
        assert x_grad[2].isfinite().all()
    others = torch.tensor([0, 1, 3, 4])
    assert torch.equal(out[:, others], plain[0][:, others])
    assert torch.equal(x_grad[others], plain[2][others])


@pytest.mark.parametrize("width", [1, 2, 3, 17, 64, 65, 256])
@pytest.mark.parametrize("number", [0.1, -7.3, 1e4 / 3, HUGE / 3, 1e38 / 3])
def test_equal_numbers_become_the_shift_exactly(width: int, number: float) -> None:
    net, params = identity(width)
    (_,), (head,) = net.members[0]
    _, shift, _ = net.norms[0][0]
    out = torch.empty(1, 1)
    native(net, "relu").forward(params, torch.full((1, width), number), out)
    shifts, weights = params[shift : shift + width].double(), params[head[0] : head[0] + width].double()
    expected = shifts.clamp(min=0) @ weights + params[head[1]].double()
    torch.testing.assert_close(out[0, 0].double(), expected, rtol=1e-6, atol=1e-6)


def test_numbers_that_an_earlier_batch_left_do_not_come_back() -> None:
    net = flat_net(3, [5, 17], [2], norm=True)
    mlp, params, x = native(net), parameters(net), normal("inputs", 9, 3)
    clean, out = torch.empty(9, 2), torch.empty(9, 2)
    mlp.forward(params, x, clean)
    mlp.forward(params, torch.full((9, 3), math.nan), out)
    assert out.isnan().all()
    mlp.backward(params, torch.full((9, 2), math.nan), torch.empty(net.size))
    mlp.forward(params, x, out)
    assert torch.equal(out, clean)


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_the_same_bits_for_any_number_of_threads(activation: str) -> None:
    for hidden, members, batch in (((256, 256), 2, 256), ((400, 300), 1, 101), ((65, 1000), 1, 67)):
        net = flat_net(17, hidden, [3, 40], members, norm=True)
        params, x, out_grad = parameters(net, 0.1), normal("x", batch, 17), normal("g", members, batch, 43)
        with native_threads(1):
            expected = passes(net, params, x, out_grad, activation)
        for threads in (2, 3):
            with native_threads(threads):
                found = passes(net, params, x, out_grad, activation)
            assert all(torch.equal(a, b) for a, b in zip(found, expected, strict=True))


LINEAR, HEAD, NORM = (0, 16, 2), (32, 48, 1), (64, 80, 2)


@pytest.mark.parametrize(
    ("members", "norms", "message"),
    [
        ([([LINEAR], [HEAD])], [[NORM], [NORM]], "norms must be given for each member"),
        ([([LINEAR], [HEAD])], [[]], "norms must be as wide as hidden layers are"),
        ([([LINEAR], [HEAD])], [[NORM, NORM]], "norms must be as wide"),
        ([([LINEAR], [HEAD])], [[(64, 80, 3)]], "norms must be as wide"),
        ([([LINEAR], [HEAD])], [[(-16, 80, 2)]], "norms hold a negative offset"),
    ],
)
def test_norms_that_fit_no_network(members: Any, norms: Any, message: str) -> None:
    from steadyrl.kernels import _native

    with pytest.raises(ValueError, match=message):
        _native.Mlp(1, members, "tanh", "none", norms)


def test_a_buffer_must_hold_the_norms_too() -> None:
    from steadyrl.kernels import _native

    mlp = _native.Mlp(1, [([LINEAR], [HEAD])], "tanh", "none", [[NORM]])
    assert mlp.buffer_size == 82
    with pytest.raises(ValueError, match="params must hold at least 82 numbers"):
        mlp.forward(torch.zeros(81), torch.zeros(1, 1), torch.zeros(1, 1))
