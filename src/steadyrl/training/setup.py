"""From what the user said to everything a training needs, checked, before torch is imported or a file is written."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, get_type_hints

import gymnasium as gym

from steadyrl.config import (
    Resolved,
    check_algo,
    coerce,
    encode,
    hints,
    resolve,
    storable_kwargs,
    storable_wrappers,
    to_json,
    unknown_key,
)
from steadyrl.configs import DQNConfig, OffPolicyConfig, OnPolicyConfig, PPOConfig
from steadyrl.configs.run import RunSettings
from steadyrl.configs.suitability import check_masks, check_suitable
from steadyrl.configs.wrapping import WRAPPER_FIELDS
from steadyrl.data.frames import Frames
from steadyrl.data.layouts import replay_bytes
from steadyrl.data.memory import require_memory
from steadyrl.envs.around import Stacking
from steadyrl.envs.choice import Choice
from steadyrl.envs.goals import goal_functions
from steadyrl.envs.make import EnvFactory, make_env_factory
from steadyrl.envs.nonfinite import Skipping
from steadyrl.envs.restart import Restarts
from steadyrl.envs.vector import insist_on_restartable
from steadyrl.envs.wrapping import stacking_of
from steadyrl.errors import UserError
from steadyrl.seeding import Seeds
from steadyrl.spaces import ActionSpec, ObsSpec
from steadyrl.spaces.masks import MaskedSpec
from steadyrl.training.architectures import class_names
from steadyrl.training.events import Notice
from steadyrl.training.frames import frames_notice, frames_of
from steadyrl.training.sizes import check_description, check_rollout, check_sizes
from steadyrl.training.spaces import encoders_of, reading_of, space_notices
from steadyrl.training.wrapped import around_singles, insist_on_bare

VectorEnv = gym.vector.VectorEnv[Any, Any, Any]
EnvLike = str | gym.Env[Any, Any] | Callable[..., gym.Env[Any, Any]] | VectorEnv
SETTINGS = {field.name for field in dataclasses.fields(RunSettings)}
_DETERMINISTIC = (
    "Deterministic: on a GPU PyTorch takes only operations that repeat, which are slower, and cuBLAS about 24 MiB more "
    "of its memory; on a CPU nothing changes."
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
    masks_found: bool | None = None

    @property
    def made_of(self) -> str:
        """How the environment was given: by `name`, or as a `function`, `instance` or `vector`, which no file holds."""
        if not isinstance(self.source, EnvFactory):
            return "vector"
        if self.source.is_instance:
            return "instance"
        return "function" if self.source.address is None and self.source.pool_task is None else "name"

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
                _check_replay(config, self.source, stored, self.action_spec, self.frames)
            else:
                check_rollout(config, stored, self.action_spec)
        settings = dataclasses.replace(self.settings, action_masks="on" if found else "off")
        return dataclasses.replace(self, settings=settings, masks_found=found)

    def to_json(self) -> dict[str, Any]:
        """What `config.json` holds."""
        resolved = self.resolved
        settings = {name: encode(value) for name, value in _fields(self.settings).items() if name != "env_kwargs"}
        settings["run_dir"] = None if self.settings.run_dir is None else str(self.settings.run_dir)
        settings["env_kwargs"] = dict(self.settings.env_kwargs)
        settings["wrappers"] = [dict(entry) for entry in self.settings.wrappers]
        if self.settings.vec == "auto" and isinstance(self.source, EnvFactory):
            settings["vec"] = "sync"  # until the environments are made, when it is decided
        return {
            "version": 1,
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
    _require_known(algo, overrides)
    settings = _settings({**own, "env": _name(env)})
    source: EnvFactory | VectorEnv
    if isinstance(env, gym.vector.VectorEnv):
        insist_on_bare(settings)
        source = env
        spaces, stacking = (env.single_observation_space, env.single_action_space), None
        overrides["num_envs"] = _own_number(overrides, env.num_envs, "a vector environment")
    else:
        source = make_env_factory(
            env,
            env_kwargs=dict(settings.env_kwargs),
            max_episode_steps=settings.max_episode_steps,
            wrappers=around_singles(settings),
        )
        settings = dataclasses.replace(settings, env=source.id)
        spaces, stacking = _spaces(env, source)
        if isinstance(env, gym.Env):
            overrides["num_envs"] = _own_number(overrides, 1, "an environment instance")
    if preset == "auto" and isinstance(env, gym.Env | gym.vector.VectorEnv):
        preset = "none"
    resolved = resolve(algo, settings.env, preset=preset, overrides=overrides, total_timesteps=total_timesteps)
    pictures = stacking if len(spaces[0].shape or ()) == 3 else None
    obs_spec = ObsSpec.of(spaces[0], reading_of(resolved.config, encoders, pictures))
    action_spec = ActionSpec.of(spaces[1])
    check_suitable(resolved.algo, resolved.config, action_spec)
    check_masks(settings.action_masks, action_spec)
    if isinstance(source, EnvFactory):
        source.action_masks = settings.action_masks != "off"
    frames = None
    if isinstance(resolved.config, OffPolicyConfig):
        frames = frames_of(resolved.config, obs_spec, stacking)
        stored = MaskedSpec(obs_spec, action_spec) if settings.action_masks == "on" else obs_spec
        _check_replay(resolved.config, source, stored, action_spec, frames)
    check_sizes(resolved.config, obs_spec, action_spec, vec=settings.vec, encoders=encoders)
    check_description(settings, resolved.config, obs_spec, action_spec)
    if settings.on_env_error == "restart":
        insist_on_restartable(source, settings.vec)
    if settings.capture_video and not (isinstance(source, EnvFactory) and source.can_remake):
        raise UserError(
            "capture_video needs an environment that can be made a second time.",
            remedy="Pass an id or a function instead of an instance.",
            code="no-env",
        )
    instance = env if isinstance(env, gym.Env | gym.vector.VectorEnv) else None
    notices = (*_notices(resolved, settings), *space_notices(resolved.config, obs_spec, action_spec, encoders))
    if frames is not None:
        notices += (frames_notice(resolved.config, obs_spec, action_spec, frames),)
    return Setup(resolved, settings, source, obs_spec, action_spec, notices, instance, encoders=encoders, frames=frames)


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
    kept = {} if before is None else {name: value for name, value in _fields(before).items() if name not in _PASSING}
    chosen = {**kept, **trained}
    if isinstance(env, gym.Env | gym.vector.VectorEnv):
        for name in ("num_envs", "vec", "num_workers"):
            chosen.pop(name, None)
    if isinstance(env, gym.vector.VectorEnv):
        chosen = {name: value for name, value in chosen.items() if name not in WRAPPER_FIELDS}
    return prepare_training(algo, env, chosen | dict(options), preset="none")


def restarts_of(setup: Setup, seeds: Seeds) -> Restarts | None:
    """How failing environments are started anew; None where the run stops instead."""
    settings, num_envs = setup.settings, setup.resolved.config.num_envs
    if settings.on_env_error == "stop":
        return None
    return Restarts(num_envs, settings.env_restart_budget, seeds.env)


def skipping_of(setup: Setup, seeds: Seeds, restarts: Restarts | None) -> Skipping | None:
    """How an environment that tells a bad number is started anew; None where the run stops instead."""
    settings, num_envs = setup.settings, setup.resolved.config.num_envs
    if settings.on_nonfinite == "stop":
        return None
    return Skipping(restarts or Restarts(num_envs, sys.maxsize, seeds.env), settings.nonfinite_limit, told=True)


def _check_replay(
    config: OffPolicyConfig,
    source: EnvFactory | VectorEnv,
    obs_spec: ObsSpec,
    action_spec: ActionSpec,
    frames: Frames | None,
) -> None:
    """Raises UserError where the replay does not fit into memory, or hindsight finds no goals."""
    if config.hindsight != "none":
        goal_functions(source).env.close()
    if config.replay_dir is None:
        size = partial(
            replay_bytes,
            num_envs=config.num_envs,
            obs_spec=obs_spec,
            action_spec=action_spec,
            prioritized=isinstance(config, DQNConfig) and config.prioritized,
            hindsight=config.hindsight != "none",
            frames=frames,
        )
        limit = config.memory_limit
        require_memory(size, config.buffer_size, num_envs=config.num_envs, limit=limit)


def _notices(resolved: Resolved, settings: RunSettings) -> list[Notice]:
    notices = [Notice("config", note) for note in resolved.notes]
    if settings.deterministic:
        notices.append(Notice("deterministic", _DETERMINISTIC))
    if resolved.preset:
        text = f"Preset {resolved.preset} for {resolved.algo.upper()} (source: {resolved.preset_source})."
        notices.append(Notice("preset", text))
    if isinstance(resolved.config, OnPolicyConfig):
        notices += _rollout_notices(resolved, resolved.config)
    return notices


def _rollout_notices(resolved: Resolved, config: OnPolicyConfig) -> list[Notice]:
    """What does not go into whole minibatches or rollouts."""
    notices, rollout, total = [], config.n_steps * config.num_envs, resolved.total_timesteps
    if isinstance(config, PPOConfig) and config.recurrent != "none":
        notices += _sequence_notices(config)
    elif isinstance(config, PPOConfig) and rollout % config.batch_size:
        rest = rollout % config.batch_size
        alone = ", whose single advantage is not normalised" if rest == 1 and config.normalize_advantage else ""
        notices.append(
            Notice(
                "remainder",
                f"A rollout of {rollout} makes {rollout // config.batch_size} minibatches of {config.batch_size} "
                f"and a smaller one of {rest}{alone}.",
            )
        )
    if resolved.sources["total_timesteps"] == "explicit" and total < 2 * rollout:
        updates = -(-total // rollout)
        notices.append(
            Notice(
                "config",
                f"{total} steps make {updates} update{'s' if updates > 1 else ''} of the networks, "
                f"one for each {rollout} (n_steps * num_envs): lower n_steps for more.",
            )
        )
    return notices


def _sequence_notices(config: PPOConfig) -> list[Notice]:
    """What minibatches of whole sequences come to, where that is not what was asked for."""
    each, steps = max(1, config.batch_size // config.n_steps), config.n_steps
    rest = config.num_envs % each
    if each * steps == config.batch_size and not rest:
        return []
    text = f"A recurrent policy learns from whole sequences: a minibatch has {each} of {steps} steps"
    last = f", and the last one of each epoch {rest}" if rest else ""
    return [Notice("sequences", f"{text}{last} (batch_size is {config.batch_size}).")]


def _settings(given: Mapping[str, Any]) -> RunSettings:
    known = get_type_hints(RunSettings)
    values: dict[str, Any] = {}
    for name, value in given.items():
        if value is None and name != "env":
            continue
        if name == "run_dir":
            values[name] = coerce(value, Path, name)
        else:
            reads = {"env_kwargs": storable_kwargs, "wrappers": storable_wrappers}.get(name)
            values[name] = coerce(value, known[name], name) if reads is None else reads(value)
    return RunSettings(**values)


def _require_known(algo: str, overrides: Mapping[str, Any]) -> None:
    """Raises UserError for a name that is neither a hyperparameter nor a setting; it suggests one of either."""
    known = hints(algo)
    for name in overrides:
        plain = name.replace("-", "_")
        if plain not in known and plain.removesuffix("_end") not in known:
            raise unknown_key(algo, name, {*known, *SETTINGS})


def _spaces(env: EnvLike, source: EnvFactory) -> tuple[tuple[gym.Space[Any], gym.Space[Any]], Stacking | None]:
    """Observation and action space, and how frames are stacked; the factory makes one environment for this, unless
    there is one already.
    """
    if isinstance(env, gym.Env):
        probe: gym.Env[Any, Any] = env if source.wrapping is None else source.wrapped(env)
    else:
        probe = source()
        probe.close()
    return (probe.observation_space, probe.action_space), stacking_of(probe)


def _own_number(overrides: Mapping[str, Any], number: int, what: str) -> int:
    wanted = overrides.get("num_envs")
    if wanted not in (None, number):
        raise UserError(
            f"num_envs is {wanted}, but {what} was given, which is {number}.",
            remedy="Leave num_envs out, or pass an id or a function that makes an environment.",
            code="bad-value",
        )
    return number


def _name(env: EnvLike) -> str:
    if isinstance(env, str):
        return env
    spec = None if isinstance(env, type) else getattr(env, "spec", None)  # a wrapper's class has a property there
    if spec is not None:
        return str(spec.id)
    return getattr(env, "__name__", type(env).__name__)


def _fields(settings: RunSettings) -> dict[str, Any]:
    return {field.name: getattr(settings, field.name) for field in dataclasses.fields(settings)}
