"""The flat buffer is the parameters, before and after everything torch does to them."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils import prune

from steadyrl.errors import UserError
from steadyrl.nn.flat import FlatParameters
from steadyrl.nn.optim import Adam
from steadyrl.seeding import Stream
from support.flat import packed


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(3, 4), nn.Tanh())
        self.log_std = nn.Parameter(torch.full((2,), -0.5))
        self.head = nn.Linear(4, 2)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.head(self.body(x)) * self.log_std.exp()
        return out


X = torch.from_numpy(Stream(0, "x").normal((6, 3)))


def test_values_survive_and_order_is_the_modules() -> None:
    net = Net()
    before = {name: p.detach().clone() for name, p in net.named_parameters()}
    flat = FlatParameters(net)
    assert flat.data.shape == flat.grad.shape == (16 + 16 + 16 + 16 + 16,)
    assert torch.equal(flat.data, packed(before.values()))
    assert flat.grad.eq(0).all()
    assert flat.data.is_contiguous()
    assert flat.intact()
    for name, p in net.named_parameters():
        assert torch.equal(p, before[name])


def test_memory_is_shared_both_ways() -> None:
    net = Net()
    flat = FlatParameters(net)
    flat.data.fill_(0.25)
    assert all(p.eq(0.25).all() for p in net.parameters())
    assert all(p.data_ptr() % 64 == 0 for p in net.parameters())
    with torch.no_grad():
        net.head.bias.fill_(7.0)
    assert flat.data[-16:-14].tolist() == [7.0, 7.0]
    assert flat.data[:-16].eq(0.25).all()


def test_views_survive_backward_and_step() -> None:
    net, plain = Net(), Net()
    plain.load_state_dict(net.state_dict())
    flat = FlatParameters(net)
    adam = Adam(flat)
    gradients = torch.autograd.grad(plain(X).square().sum(), list(plain.parameters()))
    expected = packed(gradients)
    for _ in range(3):
        flat.zero_grad()
        net(X).square().sum().backward()
        assert flat.intact()
        adam.step(0.0, 0.0)
        assert flat.intact()
        torch.testing.assert_close(flat.grad, expected)
    net(X).square().sum().backward()
    torch.testing.assert_close(flat.grad, 2 * expected)


def test_views_survive_saving_and_loading() -> None:
    net, other = Net(), Net()
    flat = FlatParameters(net)
    assert list(net.state_dict()) == list(other.state_dict())
    net.load_state_dict(other.state_dict())
    assert flat.intact()
    assert torch.equal(flat.data, packed(other.parameters()))


def test_intact_sees_lost_views() -> None:
    net = Net()
    flat = FlatParameters(net)
    net.zero_grad()
    assert not flat.intact()
    net = Net()
    flat = FlatParameters(net)
    net.double()
    assert not flat.intact()


def test_shared_parameters_lie_in_the_buffer_once() -> None:
    layer = nn.Linear(3, 3)
    flat = FlatParameters(nn.Sequential(layer, nn.Tanh(), layer))
    assert flat.data.shape == (16 + 16,)
    assert flat.intact()


@pytest.mark.parametrize(
    ("module", "words"),
    [(nn.Tanh(), "found none"), (nn.Linear(2, 2).double(), "float64"), (nn.Linear(2, 2, device="meta"), "meta")],
)
def test_other_parameters_are_refused(module: nn.Module, words: str) -> None:
    if words == "meta":
        module = nn.Sequential(nn.Linear(2, 2), module)
    with pytest.raises(ValueError, match=words):
        FlatParameters(module)


def replace_data(net: Net) -> None:
    for p in net.parameters():
        p.data = p.data * 2.0


def assign(net: Net) -> None:
    net.load_state_dict({name: 2.0 * x for name, x in net.state_dict().items()}, assign=True)


def convert(net: Net) -> None:
    net.double()
    with torch.no_grad():
        for p in net.parameters():
            p.mul_(2.0)


@pytest.mark.parametrize("change", [replace_data, assign, convert, Net.zero_grad])
def test_what_was_put_in_place_of_the_views_is_regained(change: Callable[[Net], None]) -> None:
    net = Net()
    flat = FlatParameters(net)
    wanted = (1.0 if change is Net.zero_grad else 2.0) * flat.data
    change(net)
    assert not flat.intact()
    flat.regain()
    assert flat.intact()
    assert torch.equal(flat.data, wanted)
    assert [id(p) for p in net.parameters()] == [id(p) for p in flat.parameters]
    flat.zero_grad()
    net(X).square().sum().backward()
    assert flat.intact()
    assert torch.equal(flat.grad, packed(torch.autograd.grad(net(X).square().sum(), list(net.parameters()))))


def test_a_parameter_of_another_shape_is_refused() -> None:
    net = Net()
    flat = FlatParameters(net)
    net.log_std.data = torch.zeros(3)
    with pytest.raises(ValueError, match=r"log_std is \[3\] now, but it was made as \[2\]"):
        flat.regain()


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda both: pickle.loads(pickle.dumps(both))])
def test_a_copy_is_flat_too_and_apart(copied: Callable[[Any], Any]) -> None:
    net = Net()
    flat = FlatParameters(net)
    flat.grad.fill_(3.0)
    before = flat.data.clone()
    other_net, other = copied((net, flat))
    assert other.intact()
    assert torch.equal(other.data, before)
    assert torch.equal(other.grad, flat.grad)
    other.data.fill_(0.5)
    assert all(p.eq(0.5).all() for p in other_net.parameters())
    assert torch.equal(flat.data, before)
    assert other.place(other_net.head) == flat.place(net.head)


def test_a_pruned_layer_is_refused_until_the_pruning_is_permanent() -> None:
    layer = nn.Linear(3, 2)
    flat = FlatParameters(layer)
    prune.l1_unstructured(layer, "weight", amount=0.5)  # type: ignore[no-untyped-call]
    with pytest.raises(UserError, match="no longer has its parameter 'weight'"):
        flat.regain()
    prune.remove(layer, "weight")  # type: ignore[no-untyped-call]
    flat.regain()
    assert flat.intact()
    assert int((layer.weight == 0).sum()) == 3
