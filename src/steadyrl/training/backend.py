"""How a training's environments are stepped: what `vec='auto'` became, and what should be said of a backend."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

from steadyrl import kernels
from steadyrl.configs.run import RunSettings
from steadyrl.data.memory import FREE_SHARE, free_memory
from steadyrl.envs.choice import Choice, choose
from steadyrl.envs.make import EnvFactory
from steadyrl.envs.vector import VectorAdapter
from steadyrl.errors import RunFailedError
from steadyrl.seeding import Seeds
from steadyrl.spaces import ObsSpec
from steadyrl.spaces.masks import mask_width
from steadyrl.training.environments import make_environments
from steadyrl.training.events import Notice
from steadyrl.training.generators import global_generators_kept
from steadyrl.training.setup import Setup

_UNWATCHED = (
    "nothing but Ctrl-C ends an environment of this process that hangs. vec async has processes that are ended."
)
_OTHER = {
    "envpool": "EnvPool's environments are another implementation, in C++",
    "native": "The environment's native vector has one generator for all environments",
}


def settled(setup: Setup, say: Callable[[Notice], None]) -> Setup:
    """The setup with `vec='auto'` replaced by sync or async, whichever is faster here; any other setup as it is.

    The choice is in the setup's document, `config.json`, so that a run that goes on or is reproduced takes it again.
    """
    setup = _chosen(setup, say)
    if setup.settings.vec != "async" and setup.settings.env_timeout != RunSettings(env="").env_timeout:
        say(Notice("no-effect", f"env_timeout has no effect with vec {setup.settings.vec}: {_UNWATCHED}"))
    return setup


def _chosen(setup: Setup, say: Callable[[Notice], None]) -> Setup:
    settings, source = setup.settings, setup.source
    if settings.vec in _OTHER and isinstance(source, EnvFactory):
        say(Notice("vec", f"{_OTHER[settings.vec]}: the same seed gives other episodes than sync and async."))
    if settings.vec != "auto" or not isinstance(source, EnvFactory):
        return setup
    num_envs = setup.resolved.config.num_envs
    free = int(free_memory() * FREE_SHARE)
    with global_generators_kept():
        choice = _choice(setup, source, num_envs, free)
    if num_envs > 1 and not source.is_instance:
        say(Notice("vec", f"vec=auto takes {named(choice)}: {choice.reason}."))
    workers = None if choice.vec == "sync" else settings.num_workers or choice.num_workers
    settings = dataclasses.replace(settings, vec=choice.vec, num_workers=workers)
    return dataclasses.replace(setup, settings=settings, choice=choice)


def _choice(setup: Setup, source: EnvFactory, num_envs: int, free: int) -> Choice:
    settings = setup.settings
    try:
        return choose(source, num_envs, cores=kernels.usable_cores(), free_bytes=free, timeout=settings.env_timeout)
    except RunFailedError as error:
        if settings.on_env_error != "restart":
            raise
        return Choice("async", f"only a process of its own survives this: {error.message.rstrip('.')}")


def with_masks_found(setup: Setup, seeds: Seeds, obs_spec: ObsSpec) -> tuple[Setup, VectorAdapter | None]:
    """The setup with `action_masks='auto'` replaced by on or off, and the environments where they were made for that.

    They were reset as the training's first step is to: the next reset with the same seeds gives what was observed.

    Args:
        setup: Of the training.
        seeds: Those of the run.
        obs_spec: Leaves of the observation, as the policy takes them.

    Raises:
        UserError: an environment cannot be made, or with masks too little memory is free.
        RunFailedError: an environment failed.
    """
    if not mask_width(setup.action_spec):
        return setup.with_masks(False), None
    venv = make_environments(setup, seeds, obs_spec)
    try:
        return setup.with_masks(venv.look_for_masks(seeds.env_seeds(venv.num_envs))), venv
    except BaseException:
        venv.close()
        raise


def named(choice: Choice) -> str:
    """A choice as one would type it."""
    return choice.vec if choice.num_workers is None else f"{choice.vec} with {choice.num_workers} processes"
