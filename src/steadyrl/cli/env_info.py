"""What `steadyrl info ENV` tells: the spaces of an environment, what becomes of them, and which algorithms fit."""

from __future__ import annotations

from typing import Any

from steadyrl.configs import CONFIGS
from steadyrl.configs.on_policy import ImageLayouts
from steadyrl.configs.suitability import check_suitable
from steadyrl.configs.wrapping import WrapperSettings
from steadyrl.envs.make import make_env_factory
from steadyrl.envs.sources import time_limit
from steadyrl.envs.wrapping import stacking_of
from steadyrl.errors import UserError
from steadyrl.spaces import ActionSpec, ObsSpec
from steadyrl.training.architectures import architecture_of
from steadyrl.training.spaces import reading_of, shown_spaces

_ATARI = "Atari preprocessing, which train puts around this id; --atari off leaves it out"


def collect(name: str, image_layout: ImageLayouts = "auto") -> dict[str, Any]:
    """Spaces, what the library makes of them, and what each algorithm says to the actions.

    Args:
        name: The environment.
        image_layout: Of its images; everything else is as the defaults have it.

    Raises:
        UserError: the environment cannot be made.
    """
    factory = make_env_factory(name, wrappers=WrapperSettings())
    env = factory()
    try:
        observation, action, limit = env.observation_space, env.action_space, time_limit(env)
        stacking = stacking_of(env)
    finally:
        env.close()
    found: dict[str, Any] = {
        "env": factory.id,
        "observation_space": str(observation),
        "action_space": str(action),
        "max_episode_steps": limit,
        "atari": factory.wrapping is not None and factory.wrapping.atari,
        "made_of_them": [],
        "algorithms": {},
    }
    config = CONFIGS["ppo"](image_layout=image_layout)
    try:
        obs_spec, action_spec = ObsSpec.of(observation, reading_of(config, {}, stacking)), ActionSpec.of(action)
    except UserError as error:
        return found | {"algorithms": dict.fromkeys(CONFIGS, str(error))}
    found["made_of_them"] = shown_spaces(architecture_of(config).encoding(), obs_spec, action_spec)
    found["algorithms"] = {algo: _unsuitable(algo, action_spec) for algo in CONFIGS}
    return found


def rows(found: dict[str, Any]) -> list[tuple[str, str]]:
    """The same as lines for people: a title and a text each."""
    fit = [algo for algo, why in found["algorithms"].items() if not why]
    reasons = {algo: why for algo, why in found["algorithms"].items() if why}
    alike = len(set(reasons.values())) == 1 and not fit
    misfits = [("", next(iter(reasons.values())))] if alike else [(f"not {algo}", why) for algo, why in reasons.items()]
    limit = found["max_episode_steps"]
    return [
        ("environment", found["env"]),
        *([("wrappers", _ATARI)] if found["atari"] else []),
        ("observations", found["observation_space"]),
        ("actions", found["action_space"]),
        ("time limit", "none" if limit is None else f"{limit} steps"),
        *(("made of them" if i == 0 else "", line) for i, line in enumerate(found["made_of_them"])),
        ("algorithms", ", ".join(fit) or "none"),
        *misfits,
    ]


def _unsuitable(algo: str, action: ActionSpec) -> str:
    """Why an algorithm does not fit the actions; empty where it does."""
    try:
        check_suitable(algo, CONFIGS[algo](), action)
    except UserError as error:
        return error.message
    return ""
