"""Every loss and target of the library, traced, against eager autograd: values, metrics, gradients, types."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from steadyrl import kernels
from steadyrl.algorithms.a2c import a2c_loss
from steadyrl.algorithms.dqn import c51_loss, dqn_loss, quantile_loss
from steadyrl.algorithms.ppo import ppo_loss
from steadyrl.algorithms.sac import sample, sample_pullback, soft_actor_loss
from steadyrl.algorithms.sac_discrete import discrete_actor_loss, discrete_critic_loss
from steadyrl.algorithms.td3 import critic_loss, deterministic_actor_loss, smooth
from steadyrl.algorithms.temperature import temperature_loss
from steadyrl.configs import A2CConfig, PPOConfig
from steadyrl.data.rollout import RolloutBatch
from steadyrl.data.targets import explained_variance, project_categorical, q_target
from steadyrl.data.transitions import ReplayBatch
from steadyrl.kernels.program import TracedFunction, TracedLoss
from steadyrl.nn.discrete import Bernoulli, Categorical, MultiCategorical
from steadyrl.nn.distributions import Distribution
from steadyrl.nn.gaussian import DiagGaussian, Squashed, StateDependentGaussian
from steadyrl.nn.gradient import with_gradient

pytestmark = pytest.mark.skipif(not kernels.available(), reason=kernels.reason())

BATCHES = (1, 2, 3, 63, 64, 257)
Case = tuple[Callable[..., Any], tuple[Any, ...]]


def randn(*shape: int) -> Tensor:
    return torch.randn(shape, generator=_GENERATOR)


def randint(high: int, *shape: int) -> Tensor:
    return torch.randint(high, shape, generator=_GENERATOR)


_GENERATOR = torch.Generator()

DISTRIBUTIONS: dict[str, tuple[Distribution, Callable[[int], tuple[Tensor, ...]], Callable[[int], Tensor]]] = {
    "categorical": (Categorical(), lambda b: (randn(b, 4),), lambda b: randint(4, b)),
    "one action": (Categorical(), lambda b: (randn(b, 1),), lambda b: randint(1, b)),
    "wide categorical": (Categorical(), lambda b: (3 * randn(b, 70),), lambda b: randint(70, b)),
    "multicategorical": (MultiCategorical((2, 3, 5)), lambda b: (randn(b, 10),), lambda b: randint(2, b, 3)),
    "bernoulli": (Bernoulli(3), lambda b: (4 * randn(b, 3),), lambda b: randint(2, b, 3)),
    "gaussian": (DiagGaussian(6), lambda b: (randn(b, 6), 0.1 * randn(6)), lambda b: randn(b, 6)),
    "squashed": (
        Squashed(DiagGaussian(2)),
        lambda b: (randn(b, 2), 0.8 * randn(b, 2) + 1.2),
        lambda b: 2 * randn(b, 2),
    ),
    "gSDE": (
        StateDependentGaussian(2, 5),
        lambda b: (randn(b, 2), randn(b, 5).abs(), 0.1 * randn(5, 2)),
        lambda b: randn(b, 2),
    ),
}


def noise(distribution: Distribution, params: tuple[Tensor, ...]) -> Tensor:
    from steadyrl.seeding import Stream

    return torch.from_numpy(distribution.draw(Stream(0, "noise"), len(params[0])))


def rollout(b: int, actions: Tensor, log_probs: Tensor) -> RolloutBatch:
    obs = {"": randn(b, 4), "image": torch.zeros(b, 2, 2, dtype=torch.uint8)}
    return RolloutBatch(obs, actions, log_probs + 0.2 * randn(b), randn(b), 2 * randn(b) + 1, randn(b))


def replay(b: int, n_actions: int) -> ReplayBatch:
    obs = {"": randn(b, 3)}
    terminated = randint(2, b) > 0
    return ReplayBatch(
        obs, randint(n_actions, b), randn(b), obs, terminated, 0.9 + 0 * randn(b), randn(b).abs(), randint(10**9, b)
    )


def policy_case(loss: Callable[..., Any], name: str, b: int, *args: Any) -> Case:
    distribution, params, actions = DISTRIBUTIONS[name]
    outputs = (*params(b), randn(b))
    chosen = actions(b)
    batch = rollout(b, chosen, distribution.log_prob(outputs[:-1], chosen))
    return loss, (outputs, batch, distribution, *args)


CASES: dict[str, Callable[[int], Case]] = {
    "critics": lambda b: (critic_loss, ((randn(2, b),), randn(b), randn(b).abs())),
    "deterministic actor": lambda b: (deterministic_actor_loss, ((randn(2, b),),)),
    "soft actor": lambda b: (soft_actor_loss, ((randn(b), randn(2, b)), torch.tensor(0.2))),
    "temperature": lambda b: (temperature_loss, ((randn(1),), randn(b), -3.0)),
    "mean": lambda b: (dqn_loss, ((randn(b, 3, 1),), replay(b, 3), 3 * randn(b))),
    "c51": lambda b: (c51_loss, ((randn(b, 3, 51),), replay(b, 3), randn(b, 51).softmax(-1))),
    "quantile": lambda b: (quantile_loss, ((randn(b, 3, 21),), replay(b, 3), randn(b, 21))),
    "discrete critics": lambda b: (discrete_critic_loss, ((randn(2, b, 3),), replay(b, 3), randn(b))),
    "discrete actor": lambda b: (discrete_actor_loss, ((randn(b, 3, 1),), randn(b, 3), torch.tensor(0.1))),
}
for _name in DISTRIBUTIONS:
    for _label, _config in {
        "": PPOConfig(ent_coef=0.01),
        " raw": PPOConfig(normalize_advantage=False, clip_range_vf=0.3, ent_coef=0.01),
    }.items():
        CASES[f"ppo {_name}{_label}"] = lambda b, n=_name, c=_config: policy_case(ppo_loss, n, b, c, 0.2)  # type: ignore[misc]
    CASES[f"a2c {_name}"] = lambda b, n=_name: policy_case(a2c_loss, n, b, A2CConfig(ent_coef=0.1))  # type: ignore[misc]
for _name in ("squashed", "gaussian", "gSDE"):

    def _pullback(b: int, name: str = _name) -> Case:
        distribution, params, _ = DISTRIBUTIONS[name]
        outputs = params(b)
        return sample_pullback, (
            outputs,
            noise(distribution, outputs),
            randn(b, outputs[0].shape[1]),
            randn(b),
            distribution,
        )

    CASES[f"pullback {_name}"] = _pullback


def close(found: Tensor, wanted: Tensor) -> None:
    assert found.dtype == wanted.dtype
    assert found.shape == wanted.shape
    if found.dtype != torch.float32:
        assert torch.equal(found, wanted)
        return
    scale = max(1.0, wanted.abs().max().item())
    torch.testing.assert_close(found, wanted, rtol=2e-5, atol=2e-6 * scale, equal_nan=True)


@pytest.mark.parametrize("b", BATCHES)
@pytest.mark.parametrize("name", CASES)
def test_losses(name: str, b: int) -> None:
    _GENERATOR.manual_seed(b)
    loss, (outputs, *args) = CASES[name](b)
    traced = TracedLoss(loss)
    value, metrics, gradients = traced(outputs, *args)
    wanted_value, wanted_metrics, wanted_gradients = with_gradient(loss, outputs, *args)
    close(value, wanted_value)
    assert list(metrics) == list(wanted_metrics)
    for key, metric in metrics.items():
        close(metric, wanted_metrics[key])
    for found, wanted in zip(gradients, wanted_gradients, strict=True):
        close(found, wanted)
    first = [tensor.clone() for tensor in (value, *metrics.values(), *gradients)]
    value, metrics, gradients = traced(outputs, *args)
    again = [value, *metrics.values(), *gradients]
    assert all(torch.equal(x, y) or torch.isnan(x).any() for x, y in zip(first, again, strict=True))
    assert len(traced.programs) == 1


@pytest.mark.parametrize("b", BATCHES)
@pytest.mark.parametrize("name", DISTRIBUTIONS)
def test_distributions(name: str, b: int) -> None:
    _GENERATOR.manual_seed(b)
    distribution, make, _ = DISTRIBUTIONS[name]
    params = make(b)

    def act(params: tuple[Tensor, ...], noise: Tensor) -> tuple[Tensor, ...]:
        actions = distribution.sample(params, noise)
        log_probs = distribution.log_prob(params, actions)
        return actions, log_probs, distribution.mode(params), distribution.entropy(params, log_probs)

    drawn = noise(distribution, params)
    for found, wanted in zip(TracedFunction(act)(params, drawn), act(params, drawn), strict=True):
        close(found, wanted)


@pytest.mark.parametrize("b", BATCHES)
def test_targets(b: int) -> None:
    _GENERATOR.manual_seed(b)
    batch = replay(b, 3)

    def soft(batch: ReplayBatch, values: Tensor, log_probs: Tensor, alpha: Tensor) -> Tensor:
        smallest = values.min(dim=0).values - alpha * log_probs
        return q_target(batch.rewards, batch.discounts, batch.terminated, smallest)

    def greedy(batch: ReplayBatch, outputs: Tensor) -> tuple[Tensor, Tensor]:
        best = outputs.squeeze(-1).argmax(dim=-1)
        chosen = outputs[torch.arange(outputs.shape[0]), best].squeeze(-1)
        return q_target(batch.rewards, batch.discounts, batch.terminated, chosen), best

    def projected(batch: ReplayBatch, logits: Tensor, support: Tensor) -> Tensor:
        parts = batch.rewards[:, None], batch.discounts[:, None], batch.terminated[:, None]
        return project_categorical(logits.softmax(dim=-1), q_target(*parts, support), support)

    functions: list[tuple[Callable[..., Any], tuple[Any, ...]]] = [
        (soft, (batch, randn(2, b), randn(b), torch.tensor(0.2))),
        (greedy, (batch, randn(b, 3, 1))),
        (projected, (batch, randn(b, 11), torch.linspace(-2, 2, 11))),
        (smooth, (randn(b, 6), randn(b, 6), 0.2, 0.5)),
        (explained_variance, (randn(b), randn(b))),
        (sample, ((randn(b, 2), randn(b, 2)), randn(b, 2), Squashed(DiagGaussian(2)))),
    ]
    for function, args in functions:
        found, wanted = TracedFunction(function)(*args), function(*args)
        for x, y in zip(
            found if isinstance(found, tuple) else (found,),
            wanted if isinstance(wanted, tuple) else (wanted,),
            strict=True,
        ):
            close(x, y)


def test_a_large_batch() -> None:
    _GENERATOR.manual_seed(0)
    loss, (outputs, *args) = policy_case(ppo_loss, "gaussian", 20000, PPOConfig(), 0.2)
    value, metrics, gradients = TracedLoss(loss)(outputs, *args)
    wanted_value, wanted_metrics, wanted_gradients = with_gradient(loss, outputs, *args)
    close(value, wanted_value)
    for key, metric in metrics.items():
        close(metric, wanted_metrics[key])
    for found, wanted in zip(gradients, wanted_gradients, strict=True):
        # A ratio that rounds to the other side of the clipping range has another gradient: a few rows of 20000.
        off = ~torch.isclose(found, wanted, rtol=1e-3, atol=1e-8)
        assert off.view(len(off), -1).any(dim=1).sum() <= 3


def test_nan_reaches_the_loss_and_the_gradients() -> None:
    loss, (outputs, *args) = policy_case(ppo_loss, "categorical", 5, PPOConfig(), 0.2)
    outputs[0][2, 1] = torch.nan
    value, metrics, gradients = TracedLoss(loss)(outputs, *args)
    _, wanted_metrics, wanted = with_gradient(loss, outputs, *args)
    assert value.isnan()
    for key, metric in metrics.items():
        assert metric.isnan() == wanted_metrics[key].isnan(), key
    for found, expected in zip(gradients, wanted, strict=True):
        assert torch.equal(found.isnan(), expected.isnan())
