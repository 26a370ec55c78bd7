"""Gaussian, squashed and state-dependent distributions: hand-computed numbers, integrals, moments of their samples."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from steadyrl.nn.gaussian import DiagGaussian, Squashed, StateDependentGaussian
from steadyrl.seeding import Stream


def test_gaussian_by_hand() -> None:
    params = (torch.tensor([[1.0, -2.0]]), torch.tensor([0.0, math.log(2.0)]))
    actions = DiagGaussian(2).sample(params, torch.tensor([[0.5, -1.0]]))
    torch.testing.assert_close(actions, torch.tensor([[1.5, -4.0]]))
    log_prob = DiagGaussian(2).log_prob(params, actions).item()
    assert log_prob == pytest.approx(-0.5 * 0.25 - 0.5 * 1.0 - math.log(2.0) - math.log(2 * math.pi), rel=1e-6)
    entropy = DiagGaussian(2).entropy(params, torch.zeros(1)).item()
    assert entropy == pytest.approx(math.log(2 * math.pi * math.e) + math.log(2.0), rel=1e-6)


def test_gaussian_entropy_gradient_is_one_for_each_log_std() -> None:
    log_std = torch.tensor([0.3, -1.0], requires_grad=True)
    entropy = DiagGaussian(2).entropy((torch.zeros(4, 2), log_std), torch.zeros(4))
    (gradient,) = torch.autograd.grad(entropy.mean(), log_std)
    torch.testing.assert_close(gradient, torch.ones(2))


def test_tanh_density_integrates_to_one() -> None:
    for mean, log_std in ((0.0, 0.0), (1.5, -1.0), (-0.7, 0.4)):
        u = torch.linspace(-16, 16, 200_001, dtype=torch.float64)[:, None]
        a = torch.tanh(u[:, 0])
        params = (torch.full_like(u, mean), torch.tensor([log_std], dtype=torch.float64))
        density = Squashed(DiagGaussian(1)).log_prob(params, u).exp()
        assert torch.trapezoid(density, a).item() == pytest.approx(1.0, abs=1e-4)


def test_tanh_log_prob_is_finite_and_exact_far_out() -> None:
    u = torch.tensor([[60.0], [-60.0], [1e4]], requires_grad=True)
    log_prob = Squashed(DiagGaussian(1)).log_prob((u, torch.zeros(1)), u)
    # log(1 - tanh(u)^2) -> 2 log 2 - 2 |u|
    expected = -0.5 * math.log(2 * math.pi) - 2 * math.log(2.0) + 2 * torch.tensor([60.0, 60.0, 1e4])
    torch.testing.assert_close(log_prob, expected)
    (gradient,) = torch.autograd.grad(log_prob.sum(), u)
    torch.testing.assert_close(gradient, torch.tensor([[2.0], [-2.0], [2.0]]))


def test_tanh_bounds_log_std() -> None:
    squashed = Squashed(DiagGaussian(1))
    zero, one = torch.zeros(1, 1), torch.ones(1, 1)
    for wild, bound in ((50.0, 2.0), (-50.0, -20.0)):
        wild_params, bound_params = (zero, torch.tensor([wild])), (zero, torch.tensor([bound]))
        action = squashed.sample(wild_params, one)
        assert action.item() == pytest.approx(math.exp(bound))
        torch.testing.assert_close(squashed.log_prob(wild_params, action), squashed.log_prob(bound_params, action))
    assert DiagGaussian(1).sample((zero, torch.tensor([3.0])), one).item() == pytest.approx(math.exp(3.0))


def test_gaussian_samples_have_their_mean_and_std() -> None:
    n, gaussian = 50_000, DiagGaussian(2)
    params = (torch.tensor([[0.5, -3.0]]).expand(n, 2), torch.tensor([-1.0, 0.7]))
    x = gaussian.sample(params, torch.from_numpy(gaussian.draw(Stream(0, "moments"), n))).double()
    std = torch.tensor([-1.0, 0.7], dtype=torch.float64).exp()
    assert ((x.mean(0) - torch.tensor([0.5, -3.0])).abs() < 4 * std / math.sqrt(n)).all()
    assert ((x.std(0) / std - 1).abs() < 4 / math.sqrt(2 * n)).all()


def test_sde_variance_is_that_of_its_samples() -> None:
    n = 40_000
    sde = StateDependentGaussian(2, 3)
    phi = torch.tensor([[0.5, -1.0, 0.2]]).expand(n, 3)
    log_std = torch.tensor([[0.0, -1.0], [-0.5, 0.3], [0.2, 0.1]])
    params = (torch.tensor([[1.0, -1.0]]).expand(n, 2), phi, log_std)
    x = sde.sample(params, torch.from_numpy(sde.draw(Stream(0, "sde"), n))).double()
    variance = (phi[:1] ** 2 @ log_std.exp() ** 2).double()[0]
    assert ((x.var(0) / variance - 1).abs() < 4 * math.sqrt(2 / n)).all()
    entropy = sde.entropy(params, torch.zeros(n))[0].item()
    exact = 0.5 * (torch.log(variance + 1e-6) + math.log(2 * math.pi * math.e)).sum().item()
    assert entropy == pytest.approx(exact, rel=1e-5)


def test_sde_noise_kept_is_a_function_of_the_state() -> None:
    sde = StateDependentGaussian(2, 3)
    theta = torch.from_numpy(sde.draw(Stream(0, "theta"), 1))
    log_std = torch.zeros(3, 2)

    def explore(phi: Tensor) -> Tensor:
        return sde.sample((torch.zeros(1, 2), phi, log_std), theta)

    phi = torch.from_numpy(Stream(0, "phi").normal((1, 3)))
    assert torch.equal(explore(phi), explore(phi))
    torch.testing.assert_close(explore(2 * phi), 2 * explore(phi))
    torch.testing.assert_close(explore(phi), phi @ theta[0])
    assert torch.equal(explore(torch.zeros(1, 3)), torch.zeros(1, 2))


def test_sde_log_prob_is_finite_where_the_features_vanish() -> None:
    log_std = torch.zeros(3, 2, requires_grad=True)
    params = (torch.zeros(1, 2), torch.zeros(1, 3), log_std)
    log_prob = StateDependentGaussian(2, 3).log_prob(params, torch.zeros(1, 2))
    assert log_prob.item() == pytest.approx(-math.log(2 * math.pi) - math.log(1e-6), rel=1e-6)
    (gradient,) = torch.autograd.grad(log_prob.sum(), log_std)
    assert torch.equal(gradient, torch.zeros(3, 2))
