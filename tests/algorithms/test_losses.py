"""The losses against independent NumPy oracles in float64: values, and gradients by finite differences."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import torch
from torch import Tensor

from steadyrl.algorithms.a2c import a2c_loss
from steadyrl.algorithms.losses import normalise_advantages
from steadyrl.algorithms.ppo import ppo_loss
from steadyrl.configs import A2CConfig, PPOConfig
from steadyrl.data.rollout import RolloutBatch
from steadyrl.nn.discrete import Categorical
from steadyrl.nn.distributions import Distribution
from steadyrl.nn.gaussian import DiagGaussian
from steadyrl.nn.gradient import with_gradient

Array = npt.NDArray[Any]
B, CHOICES, DIMS = 12, 3, 2
CLIP = 0.2


def categorical_oracle(params: tuple[Array, ...], actions: Array) -> tuple[Array, Array]:
    """Log-probabilities and entropies, [B], by the definition."""
    probabilities = np.exp(params[0]) / np.exp(params[0]).sum(axis=1, keepdims=True)
    return np.log(probabilities[np.arange(B), actions]), -(probabilities * np.log(probabilities)).sum(axis=1)


def gaussian_oracle(params: tuple[Array, ...], actions: Array) -> tuple[Array, Array]:
    mean, log_std = params
    std = np.exp(log_std)
    density = np.exp(-0.5 * ((actions - mean) / std) ** 2) / (std * math.sqrt(2 * math.pi))
    entropy = (np.log(std) + 0.5 * math.log(2 * math.pi * math.e)).sum()
    return np.log(density).sum(axis=1), np.full(B, entropy)


Oracle = Callable[[tuple[Array, ...], Array], tuple[Array, Array]]
CASES: dict[str, tuple[Distribution, Oracle]] = {
    "categorical": (Categorical(), categorical_oracle),
    "gaussian": (DiagGaussian(DIMS), gaussian_oracle),
}


def inputs(kind: str) -> tuple[list[Array], dict[str, Array]]:
    """Outputs of an imagined network in float64 (the last are the values) and the parts of a batch."""
    rng = np.random.default_rng(3)
    outputs: list[Array]
    actions: Array
    if kind == "categorical":
        outputs, actions = [rng.normal(size=(B, CHOICES))], rng.integers(0, CHOICES, B)
    else:
        outputs, actions = [rng.normal(size=(B, DIMS)), np.array([-0.3, 0.2])], rng.normal(size=(B, DIMS))
    values = rng.normal(size=B)
    log_probs, _ = CASES[kind][1](tuple(outputs), actions)
    batch = {
        "actions": actions,
        "values": values + rng.normal(scale=0.3, size=B),
        "advantages": rng.normal(size=B) * 3 + 1,
        "returns": rng.normal(size=B),
        # Old probabilities around the new ones, so that ratios lie on both sides of both bounds.
        "log_probs": log_probs + rng.normal(scale=0.3, size=B),
    }
    return [*outputs, values], batch


def as_batch(parts: dict[str, Array]) -> RolloutBatch:
    return RolloutBatch({}, **{name: torch.from_numpy(array) for name, array in parts.items()})


def as_tensors(outputs: list[Array]) -> tuple[Tensor, ...]:
    return tuple(torch.from_numpy(array.copy()).requires_grad_() for array in outputs)


def ppo_oracle(
    outputs: list[Array], parts: dict[str, Array], oracle: Oracle, config: PPOConfig
) -> tuple[float, dict[str, float]]:
    *params, values = outputs
    log_probs, entropy = oracle(tuple(params), parts["actions"])
    advantages = parts["advantages"]
    if config.normalize_advantage:
        advantages = (advantages - advantages.mean()) / (advantages.std(ddof=1) + 1e-8)
    ratio = np.exp(log_probs - parts["log_probs"])
    surrogates = []
    for a, r in zip(advantages, ratio, strict=True):
        bounded = min(max(r, 1 - CLIP), 1 + CLIP)
        surrogates.append(min(a * r, a * bounded))
    policy = -sum(surrogates) / len(surrogates)
    limit = config.clip_range_vf
    predicted = values
    if limit is not None:
        predicted = parts["values"] + np.minimum(np.maximum(values - parts["values"], -limit), limit)
    value = float(((predicted - parts["returns"]) ** 2).mean())
    loss = policy + config.vf_coef * value - config.ent_coef * entropy.mean()
    return float(loss), {
        "train/policy_gradient_loss": policy,
        "train/value_loss": value,
        "train/entropy_loss": -entropy.mean(),
        "train/approx_kl": (ratio - 1 - np.log(ratio)).mean(),
        "train/clip_fraction": (np.abs(ratio - 1) > CLIP).mean(),
    }


def a2c_oracle(
    outputs: list[Array], parts: dict[str, Array], oracle: Oracle, config: A2CConfig
) -> tuple[float, dict[str, float]]:
    *params, values = outputs
    log_probs, entropy = oracle(tuple(params), parts["actions"])
    advantages = parts["advantages"]
    if config.normalize_advantage:
        advantages = (advantages - advantages.mean()) / (advantages.std(ddof=1) + 1e-8)
    policy = -(advantages * log_probs).mean()
    value = ((values - parts["returns"]) ** 2).mean()
    loss = policy + config.vf_coef * value - config.ent_coef * entropy.mean()
    return float(loss), {
        "train/policy_loss": policy,
        "train/value_loss": value,
        "train/entropy_loss": -entropy.mean(),
    }


def finite_differences(function: Callable[[list[Array]], float], outputs: list[Array]) -> list[Array]:
    """Central differences by every entry of every output."""
    step, gradients = 1e-6, []
    for which, array in enumerate(outputs):
        gradient = np.zeros_like(array)
        for index in np.ndindex(array.shape):
            ends = []
            for sign in (1, -1):
                moved = [part.copy() for part in outputs]
                moved[which][index] += sign * step
                ends.append(function(moved))
            gradient[index] = (ends[0] - ends[1]) / (2 * step)
        gradients.append(gradient)
    return gradients


PPO_OPTIONS: dict[str, dict[str, Any]] = {
    "plain": {},
    "entropy": {"ent_coef": 0.3},
    "value-clip": {"clip_range_vf": 0.1},
    "raw-advantages": {"normalize_advantage": False},
    "all": {"ent_coef": 0.1, "clip_range_vf": 0.2, "vf_coef": 0.25},
    "no-value": {"vf_coef": 0.0, "ent_coef": 1.0},
}


@pytest.mark.parametrize("options", PPO_OPTIONS)
@pytest.mark.parametrize("kind", CASES)
def test_ppo_equals_the_oracle(kind: str, options: str) -> None:
    distribution, oracle = CASES[kind]
    config = PPOConfig(**PPO_OPTIONS[options])
    outputs, parts = inputs(kind)
    loss, metrics, gradients = with_gradient(ppo_loss, as_tensors(outputs), as_batch(parts), distribution, config, CLIP)
    expected, expected_metrics = ppo_oracle(outputs, parts, oracle, config)
    assert 0.2 < expected_metrics["train/clip_fraction"] < 0.8
    assert loss.item() == pytest.approx(expected, rel=1e-9)
    assert {name: metric.item() for name, metric in metrics.items()} == pytest.approx(expected_metrics, rel=1e-6)
    for found, wanted in zip(
        gradients, finite_differences(lambda o: ppo_oracle(o, parts, oracle, config)[0], outputs), strict=True
    ):
        np.testing.assert_allclose(found.numpy(), wanted, rtol=1e-5, atol=1e-8)


@pytest.mark.parametrize("options", [{}, {"ent_coef": 0.3, "vf_coef": 0.25}, {"normalize_advantage": True}], ids=str)
@pytest.mark.parametrize("kind", CASES)
def test_a2c_equals_the_oracle(kind: str, options: dict[str, Any]) -> None:
    distribution, oracle = CASES[kind]
    config = A2CConfig(**options)
    outputs, parts = inputs(kind)
    loss, metrics, gradients = with_gradient(a2c_loss, as_tensors(outputs), as_batch(parts), distribution, config)
    expected, expected_metrics = a2c_oracle(outputs, parts, oracle, config)
    assert loss.item() == pytest.approx(expected, rel=1e-9)
    assert {name: metric.item() for name, metric in metrics.items()} == pytest.approx(expected_metrics, rel=1e-9)
    for found, wanted in zip(
        gradients, finite_differences(lambda o: a2c_oracle(o, parts, oracle, config)[0], outputs), strict=True
    ):
        np.testing.assert_allclose(found.numpy(), wanted, rtol=1e-5, atol=1e-8)


@pytest.mark.parametrize(
    ("advantage", "log_ratio", "flows"),
    [(1.0, 0.5, False), (1.0, -0.5, True), (-1.0, 0.5, True), (-1.0, -0.5, False), (1.0, 0.1, True), (-1.0, 0.1, True)],
)
def test_the_gradient_stops_only_where_the_clip_is_the_smaller(advantage: float, log_ratio: float, flows: bool) -> None:
    """Schulman et al. 2017, figure 1: beyond the bound, moving further along the advantage gains nothing."""
    logits = torch.zeros(1, 2, dtype=torch.float64, requires_grad=True)
    old = torch.tensor([math.log(0.5) - log_ratio], dtype=torch.float64)
    zero = torch.zeros(1, dtype=torch.float64)
    batch = RolloutBatch({}, torch.tensor([0]), old, zero, torch.tensor([advantage]).double(), zero)
    config = PPOConfig(normalize_advantage=False)
    _, metrics, gradients = with_gradient(ppo_loss, (logits, zero), batch, Categorical(), config, CLIP)
    # d(-A ratio) / d logit = -A ratio (1 - p)
    expected = -advantage * math.exp(log_ratio) * 0.5 if flows else 0.0
    assert gradients[0][0, 0].item() == pytest.approx(expected)
    assert metrics["train/clip_fraction"].item() == float(abs(math.exp(log_ratio) - 1) > CLIP)


def test_a_value_beyond_its_clip_range_gets_no_gradient() -> None:
    values = torch.tensor([0.05, 0.5, -0.5]).double().requires_grad_()
    zeros = torch.zeros(3, dtype=torch.float64)
    batch = RolloutBatch({}, torch.zeros(3).long(), zeros, zeros, zeros, zeros + 2)
    config = PPOConfig(clip_range_vf=0.1, vf_coef=0.5)
    _, metrics, (_, gradient) = with_gradient(
        ppo_loss, (torch.zeros(3, 1).double(), values), batch, Categorical(), config, CLIP
    )
    # Clipped values 0.05, 0.1, -0.1; d(0.5 * mean((v - 2)^2)) / dv = (v - 2) / 3.
    assert gradient.tolist() == pytest.approx([(0.05 - 2) / 3, 0, 0])
    assert metrics["train/value_loss"].item() == pytest.approx((1.95**2 + 1.9**2 + 2.1**2) / 3)


def test_advantages_are_normalised_with_the_unbiased_deviation() -> None:
    found = normalise_advantages(torch.tensor([1.0, 2.0, 6.0], dtype=torch.float64))
    deviation = math.sqrt((4 + 1 + 9) / 2)
    assert found.tolist() == pytest.approx([-2 / deviation, -1 / deviation, 3 / deviation])
    assert normalise_advantages(torch.full((4,), 7.0)).tolist() == [0, 0, 0, 0]


def test_a_single_advantage_is_left_alone() -> None:
    assert normalise_advantages(torch.tensor([-3.5])).tolist() == [-3.5]
    assert normalise_advantages(torch.zeros(0)).tolist() == []
