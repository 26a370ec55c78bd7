"""The same bits for any number of threads and in every run, and a pool that survives fork and spawn."""

from __future__ import annotations

import hashlib
import multiprocessing as mp
import os
import sys
from typing import Any

import pytest
import torch
from torch import Tensor

from support.kernels import flat_net, native_threads, needs_native, normal

pytestmark = needs_native

THREADS = 3  # also on a machine with fewer cores


def digest(threads: int) -> str:
    """One hash over every kernel that threads share."""
    from steadyrl.kernels import _native

    results: list[Tensor] = []
    with native_threads(threads):
        for hidden, members, batch in (((256, 256), 2, 256), ((400, 300), 1, 101), ((64, 1000), 1, 67)):
            net = flat_net(17, hidden, [3, 40], members)
            params = normal("params", net.size, scale=0.1)
            mlp = _native.Mlp(net.inputs, net.members, "tanh", "none")
            out, grads, x2_grad = torch.empty(members, batch, 43), torch.zeros(net.size), torch.empty(batch, 6)
            mlp.forward(params, normal("x", batch, 17), out)
            mlp.backward(params, normal("gradient", members, batch, 43), grads, 0, x2_grad)
            moments = torch.zeros(net.size), torch.zeros(net.size)
            norm = _native.adam(params, grads, *moments, 1, 1e-3, 0.5, 0.9, 0.999, 1e-8)
            target = torch.zeros(net.size)
            _native.polyak(target, params, 0.01)
            index = torch.arange(100_000) % batch
            gathered = torch.empty(100_000, 6)
            _native.gather(index, [x2_grad], [gathered])
            results += [out, grads, x2_grad, params, *moments, torch.tensor(norm), target, gathered]
    return hashlib.sha256(b"".join(result.numpy().tobytes() for result in results)).hexdigest()


def test_the_same_bits_for_any_number_of_threads() -> None:
    expected = digest(1)
    for threads in (2, THREADS, 2, 1, THREADS):
        assert digest(threads) == expected


def test_many_short_regions() -> None:
    from steadyrl.kernels import _native

    found, online = torch.zeros(200_000), torch.ones(200_000)
    with native_threads(THREADS):
        for _ in range(300):
            _native.polyak(found, online, 0.5)
    assert (found > 1 - 1e-6).all()


def child(queue: mp.Queue[str]) -> None:
    torch.set_num_threads(1)  # torch's own pool does not survive a fork
    queue.put(digest(2))


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_a_child_process_has_a_pool_of_its_own(method: str) -> None:
    if method not in mp.get_all_start_methods():
        pytest.skip(f"this system has no {method}")
    with native_threads(2):
        expected = digest(2)  # the pool runs when the child is made
        context: Any = mp.get_context(method)
        queue = context.Queue()
        process = context.Process(target=child, args=(queue,))
        process.start()
        try:
            assert queue.get(timeout=120) == expected
        finally:
            process.join(timeout=30)
        assert process.exitcode == 0
        assert digest(2) == expected


def test_no_more_threads_than_cores_are_asked_for() -> None:
    from steadyrl import kernels
    from steadyrl.kernels import _native

    before = _native.threads()
    try:
        kernels.set_threads(10_000)
        assert _native.threads() == min(os.cpu_count() or 1, _native.threads())
        if sys.platform == "linux":
            assert _native.threads() == min(len(os.sched_getaffinity(0)), 64)
        kernels.set_threads(0)
        assert _native.threads() == 1
    finally:
        _native.set_threads(before)
