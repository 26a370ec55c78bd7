"""All distributions against torch.distributions in float64."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor
from torch import distributions as td

from steadyrl.nn.discrete import Bernoulli, Categorical, MultiCategorical
from steadyrl.nn.distributions import Distribution, Params
from steadyrl.nn.gaussian import DiagGaussian, Squashed, StateDependentGaussian
from steadyrl.seeding import Stream

B = 7
Case = tuple[Distribution, Callable[[torch.dtype], Params]]


def normal(*shape: int, name: str = "params", dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.from_numpy(Stream(0, name).normal(shape)).to(dtype)


CASES: dict[str, Case] = {
    "categorical": (Categorical(), lambda dtype: (normal(B, 4, dtype=dtype),)),
    "multicategorical": (MultiCategorical((2, 5, 3)), lambda dtype: (normal(B, 10, dtype=dtype),)),
    "bernoulli": (Bernoulli(3), lambda dtype: (normal(B, 3, dtype=dtype),)),
    "gaussian": (DiagGaussian(3), lambda dtype: (normal(B, 3, dtype=dtype), normal(3, name="std", dtype=dtype))),
    "gaussian_rows": (
        DiagGaussian(3),
        lambda dtype: (normal(B, 3, dtype=dtype), normal(B, 3, name="std", dtype=dtype)),
    ),
    "tanh": (
        Squashed(DiagGaussian(3)),
        lambda dtype: (normal(B, 3, dtype=dtype), 0.5 * normal(3, name="std", dtype=dtype)),
    ),
    "sde": (
        StateDependentGaussian(3, 5),
        lambda dtype: (
            normal(B, 3, dtype=dtype),
            normal(B, 5, name="phi", dtype=dtype),
            0.5 * normal(5, 3, name="std", dtype=dtype),
        ),
    ),
    "tanh_sde": (
        Squashed(StateDependentGaussian(3, 5)),
        lambda dtype: (
            normal(B, 3, dtype=dtype),
            normal(B, 5, name="phi", dtype=dtype),
            0.5 * normal(5, 3, name="std", dtype=dtype),
        ),
    ),
}


def oracle(name: str, params: Params) -> td.Distribution:
    if name == "categorical":
        return td.Categorical(logits=params[0])
    if name == "bernoulli":
        return td.Independent(td.Bernoulli(logits=params[0]), 1)
    mean = params[0]
    if name.endswith("sde"):
        _, phi, log_std = params
        std = torch.sqrt((phi**2) @ (log_std.exp() ** 2) + 1e-6)
    else:
        std = params[1].exp().expand_as(mean)
    base = td.Normal(mean, std)
    if name.startswith("tanh"):
        return td.Independent(td.TransformedDistribution(base, td.TanhTransform()), 1)
    return td.Independent(base, 1)


def sampled(name: str, dtype: torch.dtype) -> tuple[Distribution, Params, Tensor]:
    distribution, make = CASES[name]
    params = make(dtype)
    noise = torch.from_numpy(distribution.draw(Stream(1, "noise"), B)).to(dtype)
    return distribution, params, distribution.sample(params, noise)


@pytest.mark.parametrize("name", [n for n in CASES if n != "multicategorical"])
def test_log_prob_and_entropy_equal_torch_distributions(name: str) -> None:
    distribution, params, actions = sampled(name, torch.float64)
    reference = oracle(name, params)
    log_probs = distribution.log_prob(params, actions)
    seen = torch.tanh(actions) if name.startswith("tanh") else actions
    expected = reference.log_prob(seen.double() if name == "bernoulli" else seen)
    torch.testing.assert_close(log_probs, expected, rtol=1e-9, atol=1e-9)
    entropy = distribution.entropy(params, log_probs)
    torch.testing.assert_close(entropy, -expected if name.startswith("tanh") else reference.entropy())


def test_multicategorical_is_a_product_of_categoricals() -> None:
    distribution, params, actions = sampled("multicategorical", torch.float64)
    parts = [params[0][:, :2], params[0][:, 2:7], params[0][:, 7:]]
    each = [(Categorical().log_prob((part,), actions[:, k]), part) for k, part in enumerate(parts)]
    log_probs = distribution.log_prob(params, actions)
    torch.testing.assert_close(log_probs, each[0][0] + each[1][0] + each[2][0])
    entropies = torch.stack([Categorical().entropy((part,), log_prob) for log_prob, part in each])
    torch.testing.assert_close(distribution.entropy(params, log_probs), entropies.sum(dim=0))
    assert distribution.mode(params).tolist() == torch.stack([part.argmax(-1) for part in parts], dim=1).tolist()


@pytest.mark.parametrize("name", CASES)
def test_stored_form(name: str) -> None:
    distribution, params, actions = sampled(name, torch.float32)
    expected = {"categorical": (B,)}.get(name, (B, 3))
    for stored in (actions, distribution.mode(params)):
        assert stored.shape == expected
        assert stored.dtype == (
            torch.int64 if name in ("categorical", "multicategorical", "bernoulli") else torch.float32
        )
    assert distribution.log_prob(params, actions).shape == (B,)
    assert distribution.entropy(params, distribution.log_prob(params, actions)).shape == (B,)
    unit = distribution.to_unit(actions)
    assert torch.equal(unit, torch.tanh(actions) if name.startswith("tanh") else actions)
    assert distribution.state_dependent == name.endswith("sde")


@pytest.mark.parametrize("name", CASES)
def test_mode_maximises_the_density_of_the_stored_form(name: str) -> None:
    distribution, params, actions = sampled(name, torch.float64)
    at_mode = distribution.log_prob(params, distribution.mode(params))
    if name.startswith("tanh"):  # the density there is that of tanh(u); its mode is not tanh(mean)
        torch.testing.assert_close(distribution.mode(params), params[0])
        return
    assert (at_mode >= distribution.log_prob(params, actions)).all()


@pytest.mark.parametrize("name", CASES)
def test_gradients_agree_with_finite_differences(name: str) -> None:
    distribution, params, actions = sampled(name, torch.float64)
    leaves = tuple(p.clone().requires_grad_() for p in params)

    def log_prob(*p: Tensor) -> Tensor:
        return distribution.log_prob(p, actions)

    def entropy(*p: Tensor) -> Tensor:
        return distribution.entropy(p, distribution.log_prob(p, actions))

    assert torch.autograd.gradcheck(log_prob, leaves)
    assert torch.autograd.gradcheck(entropy, leaves)


@pytest.mark.parametrize("name", CASES)
def test_noise_comes_from_the_stream_alone(name: str) -> None:
    distribution, _ = CASES[name]
    torch_state = torch.random.get_rng_state()
    first = distribution.draw(Stream(3, "a"), B)
    assert np.array_equal(first, distribution.draw(Stream(3, "a"), B))
    assert not np.array_equal(first, distribution.draw(Stream(4, "a"), B))
    assert first.dtype == np.float32
    assert first.shape[0] == B
    sampled(name, torch.float32)
    assert torch.equal(torch_state, torch.random.get_rng_state())
