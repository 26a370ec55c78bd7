"""From algorithm, environment and what the user said to a complete configuration: explicit > preset > default."""

from __future__ import annotations

import dataclasses
import functools
import typing
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from steadyrl.config.habits import HABITS
from steadyrl.config.presets import Preset, preset_for, presets
from steadyrl.config.values import coerce, encode, is_schedule
from steadyrl.configs import CONFIGS, Config, LinearSchedule
from steadyrl.configs.validate import count
from steadyrl.errors import UserError, nearest

DEFAULT_TOTAL_TIMESTEPS = 1_000_000
"""Steps of a run where neither the user nor a preset names a total."""


@dataclass(frozen=True)
class Resolved:
    """A configuration and where each of its values comes from.

    Attributes:
        algo: The algorithm's name, lower case.
        config: Every hyperparameter.
        total_timesteps: Environment steps of the run.
        preset: Name of the preset taken, or None.
        preset_source: Where its settings come from; empty without a preset.
        sources: For each field and `total_timesteps`: `explicit`, `preset`, `default`, or `fitted`, which is a
            `batch_size` that was lowered to a rollout that the user made smaller.
        notes: Sentences the user should read once.
    """

    algo: str
    config: Config
    total_timesteps: int
    preset: str | None
    preset_source: str
    sources: dict[str, str]
    notes: tuple[str, ...] = ()


def resolve(
    algo: str,
    env_id: str | None,
    *,
    preset: str = "auto",
    overrides: Mapping[str, Any],
    total_timesteps: int | None = None,
) -> Resolved:
    """The configuration for `algo` on `env_id`.

    Args:
        algo: Name of an algorithm, any case.
        env_id: Id of the environment; None where it has none, which means no automatic preset.
        preset: `auto` takes the preset of exactly this environment if there is one, `none` takes none, another name
            is an environment whose preset is taken.
        overrides: Hyperparameters that the user set; `-` and `_` are alike. `<field>_end` makes a linear schedule of a
            schedule field.
        total_timesteps: Environment steps; else the preset's, else `DEFAULT_TOTAL_TIMESTEPS`.

    Raises:
        UserError: Unknown algorithm, preset or hyperparameter (names the nearest), or a value that does not fit.
    """
    algo = check_algo(algo)
    chosen = _choose(algo, env_id, preset)
    from_preset = _checked(algo, chosen.values) if chosen else {}
    explicit = _with_ends(algo, overrides, from_preset)
    sources = {
        name: "explicit" if name in explicit else "preset" if name in from_preset else "default" for name in hints(algo)
    }
    values, notes = _fit_batch(algo, {**from_preset, **explicit}, sources)
    total, sources["total_timesteps"] = _total(total_timesteps, chosen)
    return Resolved(
        algo=algo,
        config=CONFIGS[algo](**values),
        total_timesteps=total,
        preset=chosen.name if chosen else None,
        preset_source=chosen.source if chosen else "",
        sources=sources,
        notes=notes,
    )


def to_json(config: object) -> dict[str, Any]:
    """Every field of a configuration dataclass as JSON has it."""
    return {field.name: encode(getattr(config, field.name)) for field in dataclasses.fields(config)}  # type: ignore[arg-type]


def from_json(algo: str, data: Mapping[str, Any]) -> Config:
    """The configuration that `to_json` wrote; fields that `data` lacks take their defaults.

    Raises:
        UserError: An unknown algorithm or key, or a value of the wrong type.
    """
    algo = check_algo(algo)
    return CONFIGS[algo](**_checked(algo, data))


def check_algo(algo: object) -> str:
    """The algorithm's name in lower case.

    Raises:
        UserError: There is none of that name.
    """
    if not isinstance(algo, str):
        raise UserError(
            f"The algorithm is {algo!r}, but it must be a name.",
            remedy=f"Known: {', '.join(CONFIGS)}.",
            code="unknown-algorithm",
        )
    if algo.lower() not in CONFIGS:
        raise UserError(
            f"There is no algorithm {algo!r}.",
            remedy=f"{nearest(algo, CONFIGS)} Known: {', '.join(CONFIGS)}.".strip(),
            code="unknown-algorithm",
        )
    return algo.lower()


@functools.cache
def hints(algo: str) -> Mapping[str, Any]:
    """Field name -> annotation of an algorithm's hyperparameters, in the order of declaration."""
    known = typing.get_type_hints(CONFIGS[algo])
    return {field.name: known[field.name] for field in dataclasses.fields(CONFIGS[algo])}


def _choose(algo: str, env_id: str | None, preset: Any) -> Preset | None:
    if preset is None or preset == "none":
        return None
    if not isinstance(preset, str):
        raise UserError(
            f"preset is a {type(preset).__name__}, not a name.",
            remedy="For example: preset='none', preset='auto' or preset='CartPole-v1'.",
            code="unknown-preset",
        )
    if preset == "auto":
        return preset_for(algo, env_id)
    if preset not in presets(algo):
        raise UserError(
            f"There is no preset {preset!r} for {algo}.",
            remedy=f"{nearest(preset, presets(algo))} `steadyrl presets {algo}` lists them.".strip(),
            code="unknown-preset",
        )
    return presets(algo)[preset]


def _checked(algo: str, values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: coerce(value, _hint(algo, name), name) for name, value in values.items()}


def _hint(algo: str, name: str) -> Any:
    if name not in hints(algo):
        raise unknown_key(algo, name, hints(algo))
    return hints(algo)[name]


def unknown_key(algo: str, name: str, known: Iterable[str]) -> UserError:
    """The error for a hyperparameter that the algorithm does not have; says where it belongs or what is near."""
    others = [other.upper() for other in CONFIGS if other != algo and name in hints(other)]
    if others:
        cure = f"It belongs to {' and '.join(others)}: leave it out."
    else:
        cure = HABITS.get(name.replace("-", "_")) or nearest(name, known)
    return UserError(
        f"{algo.upper()} has no hyperparameter {name!r}.",
        remedy=f"{cure} `steadyrl train {algo} --help` lists them.".strip(),
        code="unknown-key",
    )


def _with_ends(algo: str, overrides: Mapping[str, Any], below: Mapping[str, Any]) -> dict[str, Any]:
    """Checked overrides, `<field>_end` folded into a schedule; `below` holds the preset's values."""
    given = {name.replace("-", "_"): value for name, value in overrides.items()}
    ends = {name: value for name, value in given.items() if name not in hints(algo) and _is_end(algo, name)}
    explicit = _checked(algo, {name: value for name, value in given.items() if name not in ends})
    defaults = {field.name: field.default for field in dataclasses.fields(CONFIGS[algo])}
    for name, value in ends.items():
        base = name.removesuffix("_end")
        start = {**defaults, **below, **explicit}[base]
        end = coerce(value, float, name)
        if isinstance(start, LinearSchedule):
            explicit[base] = dataclasses.replace(start, end=end)
        else:
            explicit[base] = LinearSchedule(start, end)
    return explicit


def _is_end(algo: str, name: str) -> bool:
    base = name.removesuffix("_end")
    return base != name and base in hints(algo) and is_schedule(hints(algo)[base])


def _fit_batch(algo: str, values: dict[str, Any], sources: dict[str, str]) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Lowers a `batch_size` that the user did not set to a rollout that the user made smaller, and says so.

    Without this `--num-envs 1` alone would be refused wherever a preset's batch is as large as its rollout.
    """
    if not {"batch_size", "n_steps"} <= hints(algo).keys() or sources["batch_size"] == "explicit":
        return values, ()
    defaults = {field.name: field.default for field in dataclasses.fields(CONFIGS[algo])}
    full = {**defaults, **values}
    rollout = full["n_steps"] * full["num_envs"]
    if not 1 <= rollout < full["batch_size"]:
        return values, ()
    usual = f"the {sources['batch_size']}'s {full['batch_size']}"
    note = f"batch_size is {rollout} (n_steps * num_envs) instead of {usual}, which a rollout cannot fill."
    sources["batch_size"] = "fitted"
    return {**values, "batch_size": rollout}, (note,)


def _total(explicit: int | None, chosen: Preset | None) -> tuple[int, str]:
    if explicit is None:
        tuned = chosen.total_timesteps if chosen else None
        return (DEFAULT_TOTAL_TIMESTEPS, "default") if tuned is None else (tuned, "preset")
    return count("total_timesteps", coerce(explicit, int, "total_timesteps"), "environment steps"), "explicit"
