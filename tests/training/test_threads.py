"""Threads of networks: what they are inside, and as before afterwards."""

from __future__ import annotations

import pytest
import torch

from steadyrl import kernels
from steadyrl.training.threads import computing_threads
from support.kernels import needs_native


@pytest.mark.parametrize("count", [None, 1, 3])
def test_pytorch_alone_has_the_threads_asked_for_or_one(count: int | None) -> None:
    before = torch.get_num_threads()
    with computing_threads(count, native=False):
        assert torch.get_num_threads() == (count or 1)
    assert torch.get_num_threads() == before


@needs_native
@pytest.mark.parametrize("torch_too", [False, True])
def test_beside_kernels_pytorch_has_one_unless_it_runs_a_network(torch_too: bool) -> None:
    kernels.set_threads(1)
    before = torch.get_num_threads()
    with computing_threads(2, native=True, torch_too=torch_too):
        assert kernels.threads() == min(2, kernels.usable_cores())
        assert torch.get_num_threads() == (2 if torch_too else 1)
        with pytest.raises(ZeroDivisionError), computing_threads(1, native=True):
            raise ZeroDivisionError
        assert kernels.threads() == min(2, kernels.usable_cores())
    assert (kernels.threads(), torch.get_num_threads()) == (1, before)


@needs_native
def test_none_is_every_core_for_kernels() -> None:
    with computing_threads(None, native=True):
        assert kernels.threads() == kernels.usable_cores()
        assert torch.get_num_threads() == 1
