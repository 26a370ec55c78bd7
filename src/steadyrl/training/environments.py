"""The environments of a training, made as its settings say: what happens where one fails, too."""

from __future__ import annotations

import sys

from steadyrl.configs import OffPolicyConfig
from steadyrl.envs.nonfinite import Skipping
from steadyrl.envs.restart import Restarts
from steadyrl.envs.vector import VectorAdapter, make_vec
from steadyrl.seeding import Seeds
from steadyrl.spaces import ObsSpec
from steadyrl.training.setup import Setup


def make_environments(setup: Setup, seeds: Seeds, obs_spec: ObsSpec) -> VectorAdapter:
    """The training environments, newly made.

    Args:
        setup: Of the training.
        seeds: Those of the run.
        obs_spec: Leaves of the observation, as the policy takes them.

    Raises:
        UserError: they cannot be made.
        RunFailedError: one failed.
    """
    settings, num_envs = setup.settings, setup.resolved.config.num_envs
    restarts, skipping = None, None
    if settings.on_env_error != "stop":
        restarts = Restarts(num_envs, settings.env_restart_budget, seeds.env)
    if settings.on_nonfinite != "stop":
        without_end = Restarts(num_envs, sys.maxsize, seeds.env)
        skipping = Skipping(restarts or without_end, settings.nonfinite_limit, told=True)
    venv = make_vec(
        setup.source,
        num_envs,
        vec=settings.vec,
        skipping=skipping,
        restarts=restarts,
        num_workers=settings.num_workers,
        env_timeout=settings.env_timeout,
        obs_spec=obs_spec,
        masks=settings.action_masks,
    )
    if isinstance(setup.resolved.config, OffPolicyConfig):
        venv.insist_on_last_masks()  # its target is the largest value, or the mean, of what could be done there
    return venv
