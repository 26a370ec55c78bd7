"""Initial weights: orthogonal, of the right spread, and the same bits for any thread count."""

from __future__ import annotations

import math
import os
import subprocess
import sys

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from steadyrl.nn.init import BlankLinear, init_default, init_orthogonal, linear_layers, orthogonal
from steadyrl.seeding import Stream


@given(rows=st.integers(1, 40), columns=st.integers(1, 40), seed=st.integers(0, 2**32))
@settings(max_examples=60, deadline=None)
def test_orthogonal(rows: int, columns: int, seed: int) -> None:
    matrix = orthogonal(rows, columns, Stream(seed, "weights"))
    assert matrix.shape == (rows, columns)
    gram = matrix @ matrix.T if rows <= columns else matrix.T @ matrix
    np.testing.assert_allclose(gram, np.eye(min(rows, columns)), atol=1e-10)


def test_orthogonal_is_uniform_over_rotations() -> None:
    """Haar measure in two dimensions: the angle of the first row is uniform, and both orientations are as likely."""
    stream = Stream(0, "rotations")
    samples = np.array([orthogonal(2, 2, stream) for _ in range(4000)])
    angles = np.arctan2(samples[:, 0, 1], samples[:, 0, 0])
    counts, _ = np.histogram(angles, bins=8, range=(-math.pi, math.pi))
    assert (np.square(counts - 500) / 500).sum() < 24.3  # 7 degrees of freedom, p = 0.001
    assert abs(np.linalg.det(samples).mean()) < 4 / math.sqrt(4000)


def test_init_orthogonal_sets_gain_and_biases() -> None:
    tall, wide = nn.Linear(3, 8), nn.Linear(8, 3)
    init_orthogonal([tall, wide], math.sqrt(2.0), Stream(0, "weights"))
    torch.testing.assert_close(tall.weight.T @ tall.weight, 2 * torch.eye(3), atol=1e-6, rtol=0)
    torch.testing.assert_close(wide.weight @ wide.weight.T, 2 * torch.eye(3), atol=1e-6, rtol=0)
    assert tall.bias.eq(0).all()
    assert wide.bias.eq(0).all()


def test_init_default_is_torchs_distribution() -> None:
    layer, reference = BlankLinear(100, 400), nn.Linear(100, 400)
    init_default([layer], Stream(0, "weights"))
    for ours, theirs in ((layer.weight, reference.weight), (layer.bias, reference.bias)):
        n = ours.numel()
        assert ours.abs().max().item() <= 0.1
        assert ours.abs().max().item() > 0.1 * (1 - 20 / n)
        assert ours.std().item() == pytest.approx(0.1 / math.sqrt(3), rel=4 / math.sqrt(n))
        assert theirs.std().item() == pytest.approx(0.1 / math.sqrt(3), rel=4 / math.sqrt(n))
        assert abs(ours.mean().item()) < 4 * 0.1 / math.sqrt(3 * n)


def test_weights_follow_the_stream_and_leave_torchs_generator_alone() -> None:
    state = torch.random.get_rng_state()
    layers = [BlankLinear(4, 4) for _ in range(3)]
    assert all(layer.weight.eq(0).all() and layer.bias.eq(0).all() for layer in layers)
    for layer, seed in zip(layers, (0, 0, 1), strict=True):
        init_orthogonal([layer], 1.0, Stream(seed, "weights"))
    assert torch.equal(layers[0].weight, layers[1].weight)
    assert not torch.equal(layers[0].weight, layers[2].weight)
    assert torch.equal(state, torch.random.get_rng_state())


def test_linear_layers_in_order() -> None:
    net = nn.Sequential(nn.Linear(1, 2), nn.Tanh(), nn.Sequential(nn.Linear(2, 3)))
    assert [layer.out_features for layer in linear_layers(net)] == [2, 3]


HASHES = """
import hashlib
from steadyrl.nn.init import orthogonal
from steadyrl.seeding import Stream
for shape in ((256, 256), (256, 17), (6, 256)):
    print(hashlib.sha256(orthogonal(*shape, Stream(0, "weights")).tobytes()).hexdigest())
"""


def test_same_bits_for_any_thread_count() -> None:
    outputs = []
    for threads in ("1", "2"):
        environment = {k: v for k, v in os.environ.items() if not k.endswith("_NUM_THREADS")}
        environment |= {"OMP_NUM_THREADS": threads, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        command = [sys.executable, "-c", HASHES]
        outputs.append(subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout)
    assert len(set(outputs[0].split())) == 3
    assert outputs[0] == outputs[1]
