"""The distribution that an action space gets, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest
from gymnasium import spaces as gs

from steadyrl.errors import UserError
from steadyrl.nn.discrete import Bernoulli, Categorical, MultiCategorical
from steadyrl.nn.distribution_for import make_distribution
from steadyrl.nn.distributions import Distribution
from steadyrl.nn.gaussian import DiagGaussian, Squashed, StateDependentGaussian
from steadyrl.spaces import ActionSpec

BOX = ActionSpec.of(gs.Box(-1.0, 1.0, (3,)))
OPEN = ActionSpec.of(gs.Box(np.array([-1.0, 0.0], np.float32), np.array([1.0, np.inf], np.float32)))


@pytest.mark.parametrize(
    ("spec", "squash", "use_sde", "expected"),
    [
        (ActionSpec.of(gs.Discrete(4, start=2)), False, False, Categorical()),
        (ActionSpec.of(gs.MultiDiscrete([2, 5])), False, False, MultiCategorical((2, 5))),
        (ActionSpec.of(gs.MultiBinary((2, 2))), False, False, Bernoulli(4)),
        (BOX, False, False, DiagGaussian(3)),
        (OPEN, False, False, DiagGaussian(2)),
        (BOX, True, False, Squashed(DiagGaussian(3))),
        (BOX, False, True, StateDependentGaussian(3, 64)),
        (BOX, True, True, Squashed(StateDependentGaussian(3, 64))),
    ],
)
def test_make_distribution(spec: ActionSpec, squash: bool, use_sde: bool, expected: Distribution) -> None:
    assert make_distribution(spec, squash=squash, use_sde=use_sde, latent_dim=64) == expected


@pytest.mark.parametrize(
    ("spec", "squash", "use_sde", "words"),
    [
        (ActionSpec.of(gs.Discrete(4)), True, False, "squash_output is set, but the actions are discrete"),
        (ActionSpec.of(gs.MultiBinary(4)), False, True, "use_sde is set, but the actions are multibinary"),
        (OPEN, True, False, r"dimension 1 of the action space is not bounded \(low 0, high inf\)"),
    ],
)
def test_options_that_do_not_fit_are_refused(spec: ActionSpec, squash: bool, use_sde: bool, words: str) -> None:
    with pytest.raises(UserError, match=words) as caught:
        make_distribution(spec, squash=squash, use_sde=use_sde)
    assert caught.value.remedy


def test_sde_needs_the_latent_width() -> None:
    with pytest.raises(ValueError, match="latent_dim"):
        make_distribution(BOX, squash=False, use_sde=True)
