"""What a run was made of, as its own record tells it, for whoever goes on with it or makes it again."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

from steadyrl.configs import Config, DQNConfig, LinearSchedule
from steadyrl.envs.choice import Choice
from steadyrl.errors import UserError
from steadyrl.training.run_folder import RunFolder
from steadyrl.training.setup import Setup, prepare_training

_MADE_OF = {
    "function": "a function or class of the script that started it",
    "instance": "an object that the script made",
    "vector": "a vector of environments that the script made",
}


def setup_of(folder: RunFolder, total_timesteps: int | None = None) -> Setup:
    """The setup of a run as its `config.json` and `manifest.json` tell it.

    Raises:
        UserError: it cannot be made again, as with an environment that was an object or a function of a script.
    """
    config, manifest = folder.config, folder.manifest
    try:
        settings, hyperparameters = dict(config["settings"]), dict(config["hyperparameters"])
        env, algo, declared = settings.pop("env"), config["algo"], config["total_timesteps"]
    except (KeyError, TypeError, ValueError) as error:
        raise UserError(
            f"{folder.shown / 'config.json'} lacks {error}.",
            remedy="Restore the file, or train again.",
            code="unreadable",
        ) from error
    made_of = _MADE_OF.get(config.get("environment", ""))
    if made_of:
        raise UserError(
            f"The environment of the run {folder.shown} was {made_of}, which no file can hold.",
            remedy="Register it, or name it as path/to/file.py:Class, in runs that should be resumed or reproduced; "
            "from this one, steadyrl.load(path, env=...).learn(...) learns on with a fresh optimiser.",
            code="env-not-named",
        )
    for name in ("run_dir", "name"):
        settings.pop(name, None)
    settings.setdefault("action_masks", "off")  # of a run from before there were any
    if settings.get("kernels") == "auto" and "native_kernels" in manifest and manifest["native_kernels"] is None:
        settings["kernels"] = "torch"  # there were none then: with them the numbers would be others
    total = declared if total_timesteps is None else total_timesteps
    setup = prepare_training(algo, env, settings | hyperparameters, preset="none", total_timesteps=total)
    taken = setup.settings.vec, setup.settings.num_workers
    return replace(setup, choice=Choice.of_json(config.get("backend", {}), *taken))


def stretched(config: Config, step: int, before: int, now: int) -> list[str]:
    """What schedules give at a step, over the total that was declared before and over that of now, in words."""
    said = []
    for name, schedule in _schedules(config).items():
        old, new = (schedule(step / total) for total in (before, now))
        said.append(f"{name} at step {step} was {old:.4g} and is {new:.4g}")
    return said


def _schedules(config: Config) -> dict[str, LinearSchedule]:
    found = {field.name: getattr(config, field.name) for field in fields(config)}
    schedules = {name: value for name, value in found.items() if isinstance(value, LinearSchedule)}
    if isinstance(config, DQNConfig):
        ends = config.exploration_initial_eps, config.exploration_final_eps
        if config.exploration_fraction > 0:
            schedules["exploration_rate"] = LinearSchedule(*ends, min(config.exploration_fraction, 1.0))
    return schedules


def changed_hyperparameters(config: dict[str, Any], saved: dict[str, Any]) -> list[str]:
    """Hyperparameters of `config.json` that are not those which the saved agent was trained with, in words."""
    return [
        f"{name} is {config.get(name)!r} in config.json, and the saved agent was trained with {value!r}"
        for name, value in saved.items()
        if config.get(name) != value
    ]
