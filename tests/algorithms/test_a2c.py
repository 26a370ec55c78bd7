"""The update of A2C: one step from the whole rollout, by the formula of its optimiser."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from gymnasium import spaces as gs
from torch import Tensor

from steadyrl.algorithms import A2C, make_on_policy
from steadyrl.algorithms.a2c import a2c_loss
from steadyrl.configs import A2CConfig, LinearSchedule
from steadyrl.nn.policy import Policy
from support.policies import ACTIONS, VECTOR, make_batch, make_policy, seeds, weights


def gradients(policy: Policy, settings: A2CConfig, n: int) -> tuple[dict[str, Tensor], float]:
    """Gradient of each weight by plain autograd, scaled to the largest norm, and the norm before."""
    batch = make_batch(policy, VECTOR, n)
    params, values = policy.net(batch.obs)
    loss, _ = a2c_loss((*params, values), batch, policy.distribution, settings)
    loss.backward()  # type: ignore[no-untyped-call]
    norm = torch.nn.utils.clip_grad_norm_(policy.net.parameters(), settings.max_grad_norm)
    return {name: p.grad.clone() for name, p in policy.net.named_parameters() if p.grad is not None}, float(norm)


def updated(settings: A2CConfig, n: int, *, progress: float = 0.0, **options: Any) -> tuple[Policy, dict[str, Any]]:
    policy = make_policy(**options)
    batch = make_batch(policy, VECTOR, n)
    return policy, A2C(settings, policy, seeds()).learn(batch, progress)


@pytest.mark.parametrize("name", ACTIONS)
def test_one_step_of_rmsprop(name: str) -> None:
    """TensorFlow's form: the running square begins at 1, epsilon stands under the root."""
    space, options = ACTIONS[name]
    settings = A2CConfig(learning_rate=0.1, ent_coef=0.01, max_grad_norm=0.5)
    policy, metrics = updated(settings, 6, action=space, **options)
    reference = make_policy(action=space, **options)
    grads, norm = gradients(reference, settings, 6)
    assert float(metrics["train/grad_norm"]) == pytest.approx(norm, rel=1e-5)
    for key, grad in grads.items():
        square = 0.99 * 1.0 + 0.01 * grad**2
        expected = weights(reference)[key] - 0.1 * grad / torch.sqrt(square + 1e-5)
        torch.testing.assert_close(weights(policy)[key], expected, rtol=1e-5, atol=1e-6)


def test_one_step_of_adam() -> None:
    settings = A2CConfig(learning_rate=0.1, use_rms_prop=False, max_grad_norm=0.5)
    policy, _ = updated(settings, 6)
    reference = make_policy()
    grads, _ = gradients(reference, settings, 6)
    for key, grad in grads.items():
        # In the first step both moments are the gradient's own: g / (|g| + eps).
        expected = weights(reference)[key] - 0.1 * grad / (grad.abs() + 1e-5)
        torch.testing.assert_close(weights(policy)[key], expected, rtol=1e-4, atol=1e-5)


def test_each_rollout_is_looked_at_once_and_whole() -> None:
    policy = make_policy()
    batch = make_batch(policy, VECTOR, 7)
    seen: list[Tensor] = []
    policy.net.register_forward_pre_hook(lambda module, inputs: seen.append(inputs[0][""].clone()))
    A2C(A2CConfig(), policy, seeds()).learn(batch, 0.0)
    assert len(seen) == 1
    assert torch.equal(seen[0], batch.obs[""])


def test_learning_rate_follows_its_schedule() -> None:
    scheduled, metrics = updated(A2CConfig(learning_rate=LinearSchedule(0.4, 0.0)), 6, progress=0.75)
    assert metrics["train/learning_rate"] == pytest.approx(0.1)
    fixed, _ = updated(A2CConfig(learning_rate=0.1), 6)
    assert all(torch.equal(a, b) for a, b in zip(weights(scheduled).values(), weights(fixed).values(), strict=True))


def test_a_rollout_of_one_transition_stays_finite() -> None:
    for normalise in (False, True):
        policy, metrics = updated(A2CConfig(normalize_advantage=normalise), 1)
        assert all(bool(torch.isfinite(tensor).all()) for tensor in weights(policy).values())
        assert metrics["train/policy_loss"].isfinite()


@pytest.mark.parametrize("rms", [True, False])
def test_the_state_brings_the_next_update_back(rms: bool) -> None:
    settings = A2CConfig(use_rms_prop=rms, learning_rate=0.01)
    policy = make_policy()
    algorithm = A2C(settings, policy, seeds())
    batch = make_batch(policy, VECTOR, 6)
    algorithm.learn(batch, 0.0)
    state, saved = algorithm.state_dict(), policy.state_dict()
    algorithm.learn(batch, 0.0)

    def after(state: dict[str, Any]) -> list[Tensor]:
        again = make_policy(seed=5)
        resumed = A2C(settings, again, seeds(77))
        again.load_state_dict(saved)
        resumed.load_state_dict(state)
        resumed.learn(batch, 0.0)
        return list(weights(again).values())

    expected = list(weights(policy).values())
    assert all(torch.equal(a, b) for a, b in zip(after(state), expected, strict=True))
    fresh = A2C(settings, make_policy(), seeds()).state_dict()
    assert not all(
        torch.equal(a, b) for a, b in zip(after(state | {"optimizer": fresh["optimizer"]}), expected, strict=True)
    )


def test_the_configuration_makes_its_algorithm() -> None:
    assert isinstance(make_on_policy(A2CConfig(), make_policy(action=gs.Discrete(2)), seeds()), A2C)
