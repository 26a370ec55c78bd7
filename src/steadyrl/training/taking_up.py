"""What a run was made of, as its own record tells it, for whoever goes on with it or makes it again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any

from steadyrl.configs import Config, DQNConfig, LinearSchedule
from steadyrl.envs.choice import Choice
from steadyrl.errors import UserError
from steadyrl.training.record_form import require
from steadyrl.training.run_folder import CHOSEN_LATER, RunFolder
from steadyrl.training.setup import Setup, prepare_training
from steadyrl.training.spaces import encoders_of, migrated

_MADE_OF = {
    "function": "a function or class of the script that started it",
    "instance": "an object that the script made",
    "vector": "a vector of environments that the script made",
}


def setup_of(folder: RunFolder, total_timesteps: int | None = None, encoders: Mapping[str, Any] | None = None) -> Setup:
    """The setup of a run as its `config.json` and `manifest.json` tell it.

    Raises:
        UserError: it cannot be made again, as with an environment that was an object or a function of a script, or
            without the classes of own encoders.
    """
    config, manifest = folder.config, folder.manifest
    place = folder.shown / "config.json"
    require(place, config, ("algo", "total_timesteps", "hyperparameters", "settings"))
    require(place, config["settings"], ("env",), "settings.")
    require(folder.shown / "manifest.json", manifest, ("status", "working_directory"))
    settings, hyperparameters = dict(config["settings"]), migrated(config["hyperparameters"])
    env, algo, declared = settings.pop("env"), config["algo"], config["total_timesteps"]
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
    own = own_encoders(config.get("encoders", {}), encoders)
    options = settings | hyperparameters | {"encoders": own}
    setup = prepare_training(algo, env, options, preset="none", total_timesteps=total)
    taken = setup.settings.vec, setup.settings.num_workers
    began, masks = manifest.get("settings"), setup.settings.action_masks
    decided = isinstance(began, dict) and began.get("action_masks") == "auto" and masks != "auto"
    found = masks == "on" if decided else None
    return replace(setup, choice=Choice.of_json(config.get("backend", {}), *taken), masks_found=found)


def own_encoders(names: Any, given: Mapping[str, Any] | None) -> dict[str, Any]:
    """The classes of own encoders that a run was trained with, by path; `names` are those in its `config.json`.

    Raises:
        UserError: one is missing.
    """
    found = encoders_of(given)
    for path, name in dict(names).items():
        if path not in found:
            raise UserError(
                f"The run was trained with an encoder of its own for {path!r}, the class {name}, which no file holds.",
                remedy=f"From Python: steadyrl.resume(run, encoders={{{path!r}: {str(name).rpartition('.')[2]}}}).",
                code="no-encoder",
            )
    return found


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
        schedules["exploration_rate"] = LinearSchedule(*ends, min(config.exploration_fraction, 1.0))
    return schedules


def changed_settings(folder: RunFolder) -> list[str]:
    """Settings of `config.json` that are not those which the run began with, and another total, in words."""
    manifest, config = folder.manifest, folder.config
    began, now = manifest.get("settings"), config.get("settings")
    total, declared = config.get("total_timesteps"), declared_total(folder)
    said = [f"total_timesteps is {total!r} in config.json, and the run was to take {declared!r}"]
    said = said if total != declared else []
    if not isinstance(began, dict) or not isinstance(now, dict):
        return said
    return said + [
        f"{name} is {now.get(name)!r} in config.json, and the run began with {value!r}"
        for name, value in began.items()
        if name not in CHOSEN_LATER and now.get(name) != value
    ]


def declared_total(folder: RunFolder) -> int | None:
    """The total that schedules ran over until now: the manifest's; where it tells none, that of `config.json`."""
    told = folder.manifest.get("total_timesteps")
    return folder.config.get("total_timesteps") if told is None else told


def changed_hyperparameters(config: dict[str, Any], saved: dict[str, Any]) -> list[str]:
    """Hyperparameters of `config.json` that are not those which the saved agent was trained with, in words."""
    return [
        f"{name} is {config.get(name)!r} in config.json, and the saved agent was trained with {value!r}"
        for name, value in saved.items()
        if config.get(name) != value
    ]
