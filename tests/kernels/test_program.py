"""Programs keep to their signature (shapes, structure, types, fixed objects); what they hand out stays as it was."""

from __future__ import annotations

import sys
import threading
from dataclasses import dataclass
from typing import Any, NamedTuple

import pytest
import torch
from torch import Tensor

from steadyrl import kernels
from steadyrl.algorithms.losses import normalise_advantages
from steadyrl.kernels.program import CannotTrace, TracedFunction, TracedLoss, trace, trace_with_gradient
from steadyrl.nn.gradient import with_gradient

pytestmark = pytest.mark.skipif(not kernels.available(), reason=kernels.reason())

Outputs = tuple[Tensor, ...]


def clipped(outputs: Outputs, target: Tensor, clip: float) -> tuple[Tensor, dict[str, Tensor]]:
    error = (outputs[0] - target).clamp(-clip, 1.0 + clip)
    return error.square().mean(), {"error": error.abs().mean(), "td": error.abs(), "large": (error.abs() > clip).sum()}


def test_a_float_may_change_from_call_to_call() -> None:
    traced = TracedLoss(clipped)
    outputs, target = (torch.randn(64),), torch.randn(64)
    for clip in (0.2, 0.15, 0.0, 1.5):
        value, metrics, (gradient,) = traced(outputs, target, clip)
        wanted, wanted_metrics, (wanted_gradient,) = with_gradient(clipped, outputs, target, clip)
        torch.testing.assert_close(value, wanted)
        torch.testing.assert_close(gradient, wanted_gradient)
        torch.testing.assert_close(metrics, wanted_metrics)
        assert torch.equal(traced(outputs, target, clip=clip)[2][0], gradient)
    assert len(traced.programs) == 2  # by position and by keyword


def test_a_branch_on_a_shape_is_taken_anew_for_each_shape() -> None:
    traced = TracedFunction(normalise_advantages)
    for size in (1, 2, 3, 1, 64, 2):
        x = torch.randn(size)
        torch.testing.assert_close(traced(x), normalise_advantages(x))
    assert len(traced.programs) == 4


def test_results_stay_when_the_program_runs_again() -> None:
    traced = TracedLoss(clipped)
    value, metrics, gradients = traced((torch.zeros(8),), torch.full((8,), 0.5), 1.0)
    later_value, later_metrics, later_gradients = traced((torch.zeros(8),), torch.full((8,), 0.25), 1.0)
    assert (value.item(), metrics["error"].item(), metrics["td"].tolist()) == (0.25, 0.5, [0.5] * 8)
    assert (later_value.item(), later_metrics["error"].item()) == (0.0625, 0.25)
    assert gradients[0] is later_gradients[0]  # documented: valid until the next call
    assert not value.requires_grad


class Pair(NamedTuple):
    first: Tensor
    rest: dict[str, Any]


@dataclass(frozen=True)
class Options:
    scale: int


def scaled(pair: Pair, options: Options | None, *more: Tensor, doubled: bool = False) -> Tensor:
    total = pair.first * (1 if options is None else options.scale) + sum(more)
    for name, part in pair.rest.items():
        total = total + (part if name == "plus" else -part)
    return total * 2 if doubled else total


def test_everything_but_numbers_belongs_to_the_signature() -> None:
    traced = TracedFunction(scaled)
    a, b = torch.randn(5), torch.randn(5)
    calls: list[tuple[tuple[Any, ...], dict[str, Any]]] = [
        ((Pair(a, {"plus": b}), Options(2)), {}),
        ((Pair(a, {"minus": b}), Options(2)), {}),
        ((Pair(a, {"plus": b, "minus": a}), Options(2)), {}),
        ((Pair(a, {"minus": a, "plus": b}), Options(2)), {}),
        ((Pair(a, {"plus": b}), Options(3)), {}),
        ((Pair(a, {"plus": b}), None), {}),
        ((Pair(a, {"plus": 2.0}), None), {}),
        ((Pair(a, {"plus": 1}), None), {}),
        ((Pair(a, {"plus": True}), None), {}),
        ((Pair(a, {"plus": b}), Options(2), b), {}),
        ((Pair(a, {"plus": b}), Options(2), b, b), {}),
        ((Pair(a, {"plus": b}), Options(2)), {"doubled": True}),
        ((Pair(a, {"plus": torch.ones(5, dtype=torch.int64)}), Options(2)), {}),
        ((Pair(a[:1], {"plus": b}), Options(2)), {}),
        ((Pair(a[:1].expand(5), {"plus": b}), Options(2)), {}),
    ]
    for _ in range(2):
        for args, kwargs in calls:
            torch.testing.assert_close(traced(*args, **kwargs), scaled(*args, **kwargs))
    # The last one is the first one again, with other strides; equal options are the same options.
    assert len(traced.programs) == len(calls) - 1
    traced(Pair(a, {"plus": b}), Options(2))
    assert len(traced.programs) == len(calls) - 1


def test_views_of_any_strides() -> None:
    traced = TracedFunction(lambda mean, log_std, x: ((x - mean) * torch.exp(-log_std)).sum(dim=-1))
    both, x = torch.randn(64, 12), torch.randn(6, 64)
    layouts = [
        (both[:, :6], both[:, 6:]),
        (both[:, ::2], both.flip(0)[:, 1::2]),
        (both[:1, :6].expand(64, 6), both[:, :6]),
    ]
    layouts.append((torch.randn(6, 64).t(), torch.randn(2, 64, 6)[1]))
    for mean, log_std in layouts:
        torch.testing.assert_close(
            traced(mean, log_std, x.t()), traced.function(mean, log_std, x.t()), rtol=1e-5, atol=1e-5
        )
    assert len(traced.programs) == 1


def test_a_slice_with_an_offset() -> None:
    traced = TracedFunction(lambda x: x * 2)
    x = torch.arange(10.0)
    assert traced(x[2:5]).tolist() == [4.0, 6.0, 8.0]
    assert traced(x[5:8]).tolist() == [10.0, 12.0, 14.0]
    assert traced(x[1:7:2]).tolist() == [2.0, 6.0, 10.0]


def test_the_inputs_are_left_alone() -> None:
    traced = TracedLoss(clipped)
    outputs, target = (torch.randn(9, requires_grad=True),), torch.randn(9)
    before = outputs[0].detach().clone(), target.clone()
    for _ in range(2):
        _, _, (gradient,) = traced(outputs, target, 0.5)
    assert torch.equal(outputs[0], before[0])
    assert torch.equal(target, before[1])
    assert outputs[0].grad is None
    assert outputs[0].requires_grad
    assert not gradient.requires_grad


def test_an_output_that_the_loss_does_not_use_has_zeros() -> None:
    traced = TracedLoss(lambda outputs: (outputs[0].sum(), {}))
    _, metrics, gradients = traced((torch.randn(3), torch.randn(2, 2)))
    assert metrics == {}
    assert [gradient.tolist() for gradient in gradients] == [[1.0] * 3, [[0.0, 0.0], [0.0, 0.0]]]


def test_one_tensor_or_a_tuple() -> None:
    x = torch.randn(3)
    assert isinstance(TracedFunction(lambda x: x + 1)(x), Tensor)
    found = TracedFunction(lambda x: (x, x.sum(), x[0], x > 0, x.unsqueeze(0)))(x)
    assert isinstance(found, tuple)
    for one, wanted in zip(found, (x, x.sum(), x[0], x > 0, x[None]), strict=True):
        torch.testing.assert_close(one, wanted)
    assert found[0].data_ptr() != x.data_ptr()


def test_other_threads_of_programs_do_not_mix() -> None:
    double, triple = TracedFunction(lambda x: x * 2), TracedFunction(lambda x: (x * 3).sum(0))
    x = torch.randn(40, 3)
    wanted = double(x).clone()
    for _ in range(3):
        triple(x)
        assert torch.equal(double(x), wanted)


def test_images_may_be_among_the_arguments_but_not_used() -> None:
    image = torch.zeros(3, 2, 2, dtype=torch.uint8)
    assert TracedFunction(lambda tree: tree["x"] * 2)({"image": image, "x": torch.ones(3)}).tolist() == [2.0] * 3
    with pytest.raises(CannotTrace, match=r"uint8"):
        TracedFunction(lambda image: image * 2.0)(image)


def test_parameters_and_tensors_in_a_graph_are_read() -> None:
    traced = TracedFunction(lambda x, y: x * y)
    weight = torch.nn.Parameter(torch.tensor([2.0, 3.0]))
    grown = weight * 2
    for x, y in ((weight, grown), (grown, weight), (weight.detach(), grown)):
        assert traced(x, y).tolist() == [8.0, 18.0]
    assert len(traced.programs) == 1


def test_without_the_exchange_of_memory_of_newer_releases_of_torch() -> None:
    from steadyrl.kernels import _native

    traced = TracedFunction(scaled)
    x, n = torch.randn(4, 6)[:, ::2], torch.arange(3)
    _native.forbid_exchange_api(True)
    try:
        for _ in range(2):
            pair = Pair(x, {"plus": n, "plus2": x.long()})
            torch.testing.assert_close(traced(pair, Options(2)), scaled(pair, Options(2)))
        with pytest.raises(CannotTrace, match="float64"):
            traced(Pair(x.double(), {}), None)
    finally:
        _native.forbid_exchange_api(False)
    assert len(traced.programs) == 1


def test_trace_reports_at_once() -> None:
    x = torch.randn(4)
    assert trace(lambda x: x * 2, x)(x).tolist() == (x * 2).tolist()
    assert len(trace_with_gradient(clipped, (x,), x, 0.2).programs) == 1
    with pytest.raises(CannotTrace, match=r"aten\.sort"):
        trace(lambda x: x.sort().values, x)


def test_old_programs_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("steadyrl.kernels.program._MOST_PROGRAMS", 3)
    traced = TracedFunction(lambda x: x + x.shape[0])
    for size in (1, 2, 3, 4, 5, 1):
        assert traced(torch.zeros(size)).tolist() == [float(size)] * size
    assert len(traced.programs) == 3


def test_threads_with_shapes_of_their_own_may_share_a_loss() -> None:
    traced = TracedLoss(clipped)
    failures: list[Exception] = []

    def call(n: int) -> None:
        outputs, target = (torch.linspace(0.0, 1.0, n),), torch.zeros(n)
        _, _, (wanted,) = with_gradient(clipped, outputs, target, 0.5)
        try:
            for _ in range(500):
                torch.testing.assert_close(traced(outputs, target, 0.5)[2][0], wanted)
        except Exception as error:
            failures.append(error)

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        threads = [threading.Thread(target=call, args=(n,)) for n in (3, 5, 7)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)
    assert failures == []
