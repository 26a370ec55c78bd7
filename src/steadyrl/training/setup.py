"""From what the user said to everything a training needs, checked, before torch is imported or a file is written."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import gymnasium as gym

from steadyrl.config import Resolved, check_algo, encode, preset_for, resolve, to_json
from steadyrl.configs import OffPolicyConfig
from steadyrl.configs.run import RunSettings
from steadyrl.configs.suitability import check_masks, check_suitable
from steadyrl.configs.wrapping import WRAPPER_FIELDS
from steadyrl.data.frames import Frames
from steadyrl.envs.choice import Choice
from steadyrl.envs.goals import goal_functions
from steadyrl.envs.make import EnvFactory
from steadyrl.envs.vector import insist_on_restartable
from steadyrl.errors import UserError
from steadyrl.spaces import ActionSpec, ObsSpec
from steadyrl.spaces.images import is_image
from steadyrl.spaces.masks import MaskedSpec
from steadyrl.training.architectures import class_names
from steadyrl.training.events import Notice
from steadyrl.training.files import from_anywhere, jsonable, working_folder
from steadyrl.training.frames import frames_notice, frames_of
from steadyrl.training.notices import notices_of
from steadyrl.training.opened import EnvLike, VectorEnv, name_of, opened_by, own_number
from steadyrl.training.record_form import VERSION
from steadyrl.training.settings import SETTINGS, fields_of, read_settings, require_known
from steadyrl.training.sizes import check_description, check_replay, check_rollout, check_sizes
from steadyrl.training.spaces import encoders_of, reading_of, space_notices

_SEEDLESS = (
    "seed None leaves the default, 0: every run has a seed, so that it can be made again. "
    "For another run each time give another one, such as seed=random.randrange(2**31)."
)
_PASSING = ("env", "env_kwargs", "max_episode_steps", "run_dir", "name")  # do not go from one environment to the next


@dataclass(frozen=True)
class Setup:
    """A training that can begin.

    Attributes:
        resolved: Algorithm, hyperparameters, total, and whence each value comes.
        settings: Everything that belongs to no algorithm.
        source: Makes the environments, or is a vector of them.
        obs_spec: Leaves of the observation.
        action_spec: The environment's actions.
        notices: What the user should know before it starts.
        instance: The environment that the user made, where it was no recipe for some.
        choice: How `vec='auto'` was decided, once it was.
        encoders: Classes of own encoders, by path.
        frames: How observations are stacked, where a replay keeps each frame once.
        spaces: Those of observations and actions as one wrapped environment has them.
        time_limit: Steps of the policy in an episode, of which `time_in_obs` tells the share; None without that.
        masks_found: What `action_masks='auto'` became, once the environments were looked at; None where it was decided.
    """

    resolved: Resolved
    settings: RunSettings
    source: EnvFactory | VectorEnv
    obs_spec: ObsSpec
    action_spec: ActionSpec
    notices: tuple[Notice, ...]
    instance: gym.Env[Any, Any] | VectorEnv | None = None
    choice: Choice | None = None
    encoders: Mapping[str, Any] = field(default_factory=dict)
    frames: Frames | None = None
    spaces: tuple[gym.Space[Any], gym.Space[Any]] | None = None
    time_limit: int | None = None
    masks_found: bool | None = None

    @property
    def made_of(self) -> str:
        """How the environment was given: by `name`, or as a `function`, `instance` or `vector`, which no file holds."""
        if not isinstance(self.source, EnvFactory):
            return "vector"
        if self.source.is_instance:
            return "instance"
        return "function" if self.source.address is None and self.source.pool_task is None else "name"

    @property
    def can_film(self) -> bool:
        """Whether another environment can be made to be filmed, as far as the environment says."""
        return isinstance(self.source, EnvFactory) and self.source.can_remake and self.source.draws

    def over(self, total_timesteps: int) -> Setup:
        """The same over another number of environment steps."""
        return dataclasses.replace(self, resolved=dataclasses.replace(self.resolved, total_timesteps=total_timesteps))

    @property
    def asked(self) -> RunSettings:
        """The settings with `auto` again where it was decided: for other environments it is decided anew."""
        settings = self.settings
        if self.masks_found is not None:
            settings = dataclasses.replace(settings, action_masks="auto")
        return settings if self.choice is None else dataclasses.replace(settings, vec="auto", num_workers=None)

    def with_masks(self, found: bool) -> Setup:
        """The same once the environments, asked for action masks, had some or none.

        Raises:
            UserError: with masks, what is learnt from does not fit into memory.
        """
        config = self.resolved.config
        if found:
            stored = MaskedSpec(self.obs_spec, self.action_spec)
            if isinstance(config, OffPolicyConfig):
                check_replay(config, stored, self.action_spec, self.frames)
            else:
                check_rollout(config, stored, self.action_spec)
        settings = dataclasses.replace(self.settings, action_masks="on" if found else "off")
        return dataclasses.replace(self, settings=settings, masks_found=found)

    @property
    def about(self) -> dict[str, Any]:
        """What a saved policy tells of the training."""
        settings = self.settings
        return {
            "env": settings.env,
            "env_kwargs": jsonable(dict(settings.env_kwargs)),
            "max_episode_steps": settings.max_episode_steps,
            "seed": settings.seed,
            **({"wrappers": jsonable(settings.said)} if settings.said else {}),
            **({"time_limit": self.time_limit} if self.time_limit else {}),
            **({"action_masks": "off"} if self.asked.action_masks == "off" else {}),
        }

    def to_json(self) -> dict[str, Any]:
        """What `config.json` holds."""
        resolved = self.resolved
        settings = {name: encode(value) for name, value in fields_of(self.settings).items() if name != "env_kwargs"}
        settings["run_dir"] = None if self.settings.run_dir is None else str(self.settings.run_dir)
        settings["env_kwargs"] = dict(self.settings.env_kwargs)
        settings["wrappers"] = [dict(entry) for entry in self.settings.wrappers]
        if self.settings.vec == "auto" and isinstance(self.source, EnvFactory):
            settings["vec"] = "sync"  # until the environments are made, when it is decided
        return {
            "version": VERSION,
            "algo": resolved.algo,
            "total_timesteps": resolved.total_timesteps,
            "preset": resolved.preset,
            "preset_source": resolved.preset_source,
            "hyperparameters": to_json(resolved.config),
            "sources": resolved.sources,
            "settings": settings,
            "environment": self.made_of,
            "backend": {"asked": self.settings.vec} if self.choice is None else self.choice.to_json(),
            "observation": self.obs_spec.to_json(),
            "action": self.action_spec.to_json(),
            **({"encoders": class_names(self.encoders)} if self.encoders else {}),
        }


def prepare_training(
    algo: str,
    env: EnvLike,
    options: Mapping[str, Any],
    *,
    preset: str = "auto",
    total_timesteps: int | None = None,
) -> Setup:
    """Check everything the user said.

    Args:
        algo: Name of the algorithm.
        env: As `steadyrl.PPO` takes it.
        options: Fields of `RunSettings` (without `env`) and hyperparameters, mixed; None leaves the default.
            `encoders` are classes of own encoders, by path.
        preset: `auto`, `none` or a preset's name.
        total_timesteps: Environment steps; else the preset's.

    Raises:
        UserError: an unknown name, a value of the wrong type or size, an environment or space that cannot be used.
    """
    algo = check_algo(algo)
    encoders = encoders_of(options.get("encoders"))
    options = {name: value for name, value in options.items() if name != "encoders"}
    own = {name: value for name, value in options.items() if name in SETTINGS}
    overrides = {name: value for name, value in options.items() if name not in SETTINGS}
    require_known(algo, overrides)
    settings = _found_again(read_settings({**own, "env": name_of(env)}))
    opened = opened_by(env, settings)
    source = opened.source
    if isinstance(source, EnvFactory):
        settings = dataclasses.replace(settings, env=source.id)
    if opened.number is not None:
        overrides["num_envs"] = own_number(overrides, *opened.number)
        preset = "none" if preset == "auto" else preset
    preset = _fitting(algo, settings.env, preset, opened.observation)
    resolved = resolve(algo, settings.env, preset=preset, overrides=overrides, total_timesteps=total_timesteps)
    pictures = opened.stacking if len(opened.observation.shape or ()) == 3 else None
    obs_spec = ObsSpec.of(opened.observation, reading_of(resolved.config, encoders, pictures))
    action_spec = ActionSpec.of(opened.action)
    check_suitable(resolved.algo, resolved.config, action_spec)
    check_masks(settings.action_masks, action_spec)
    frames = None
    if isinstance(resolved.config, OffPolicyConfig):
        frames = frames_of(resolved.config, obs_spec, opened.stacking)
    instance = env if isinstance(env, gym.Env | gym.vector.VectorEnv) else None
    spaces = opened.observation, opened.action
    setup = Setup(
        resolved,
        settings,
        source,
        obs_spec,
        action_spec,
        (),
        instance,
        encoders=encoders,
        frames=frames,
        spaces=spaces,
        time_limit=opened.limit if settings.time_in_obs else None,
    )
    _check(setup)
    return dataclasses.replace(setup, notices=_notices(setup, seedless=options.get("seed", 0) is None))


def _found_again(settings: RunSettings) -> RunSettings:
    """Settings whose wrappers from files are found wherever a saved policy is loaded."""
    if not settings.wrappers:
        return settings
    here = working_folder()
    wrappers = tuple({**entry, "name": from_anywhere(str(entry["name"]), here)} for entry in settings.wrappers)
    return dataclasses.replace(settings, wrappers=wrappers)


def _fitting(algo: str, env: str, preset: str, observation: gym.Space[Any]) -> str:
    """The preset, but none where the automatic one is for pictures, and arguments make something else of them."""
    tuned = preset_for(algo, env) if preset == "auto" else None
    picture = isinstance(observation, gym.spaces.Box) and is_image(observation)
    return "none" if tuned is not None and tuned.values.get("net_arch", True) == [] and not picture else preset


def _check(setup: Setup) -> None:
    """Raises UserError where the parts do not fit together, or this machine has no room for them."""
    config, settings, source = setup.resolved.config, setup.settings, setup.source
    obs_spec, action_spec = setup.obs_spec, setup.action_spec
    if isinstance(config, OffPolicyConfig):
        if config.hindsight != "none":
            goal_functions(source).env.close()  # which says where the environment has no goals
        stored = MaskedSpec(obs_spec, action_spec) if settings.action_masks == "on" else obs_spec
        check_replay(config, stored, action_spec, setup.frames)
    check_sizes(config, obs_spec, action_spec, vec=settings.vec, encoders=setup.encoders)
    check_description(settings, config, obs_spec, action_spec)
    if settings.on_env_error == "restart":
        insist_on_restartable(source, settings.vec)
    if settings.capture_video and not (isinstance(source, EnvFactory) and source.can_remake):
        raise UserError(
            "capture_video needs an environment that can be made a second time.",
            remedy="Pass an id or a function instead of an instance.",
            code="no-env",
        )


def _notices(setup: Setup, *, seedless: bool) -> tuple[Notice, ...]:
    config, obs_spec, action_spec = setup.resolved.config, setup.obs_spec, setup.action_spec
    notices = notices_of(setup.resolved, setup.settings)
    if seedless:
        notices.append(Notice("seedless", _SEEDLESS))
    notices += space_notices(config, obs_spec, action_spec, setup.encoders)
    if setup.frames is not None:
        notices.append(frames_notice(config, obs_spec, action_spec, setup.frames))
    return tuple(notices)


def prepare_again(
    algo: str, env: EnvLike, trained: Mapping[str, Any], options: Mapping[str, Any], before: RunSettings | None = None
) -> Setup:
    """The setup for a policy that was trained before, as it was configured then unless `options` say otherwise.

    An environment instance brings its own number, whatever the policy was trained in.

    Args:
        algo: Name of the algorithm.
        env: Where it goes on.
        trained: Hyperparameters, and the seed.
        options: Fields of `RunSettings` and hyperparameters that should differ.
        before: Settings that stay, but for those that belong to the environment or the run folder.

    Raises:
        UserError: as `prepare_training`.
    """
    kept = {} if before is None else {name: value for name, value in fields_of(before).items() if name not in _PASSING}
    chosen = {**kept, **trained}
    if isinstance(env, gym.Env | gym.vector.VectorEnv):
        for name in ("num_envs", "vec", "num_workers"):
            chosen.pop(name, None)
    if isinstance(env, gym.vector.VectorEnv):
        chosen = {name: value for name, value in chosen.items() if name not in WRAPPER_FIELDS}
    return prepare_training(algo, env, chosen | dict(options), preset="none")
