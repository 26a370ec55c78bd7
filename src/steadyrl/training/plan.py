"""A run before it starts: everything checked, the run folder made, torch not yet imported."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from steadyrl.training.files import from_anywhere, working_folder
from steadyrl.training.opened import EnvLike
from steadyrl.training.run_folder import RunFolder
from steadyrl.training.setup import Setup, prepare_training


@dataclass(frozen=True)
class Plan:
    """A run that can be executed."""

    setup: Setup
    folder: RunFolder

    @property
    def run_dir(self) -> Path:
        """The run folder as the user wrote it."""
        return self.folder.shown


def prepare(
    algo: str,
    env: EnvLike,
    options: Mapping[str, Any],
    *,
    preset: str = "auto",
    total_timesteps: int | None = None,
) -> Plan:
    """Check everything, then make the run folder.

    Raises:
        UserError: as `prepare_training`, or the folder exists, cannot be made, or the disk is full.
    """
    here = working_folder()  # before any code of the environment runs, which may change it
    setup = prepare_training(algo, env, options, preset=preset, total_timesteps=total_timesteps)
    return Plan(setup, make_folder(setup, run_dir=setup.settings.run_dir, here=here))


def make_folder(
    setup: Setup, *, run_dir: Path | None, here: Path | None = None, generators: Literal["run", "script"] = "run"
) -> RunFolder:
    """The run folder of a setup, with its configuration and manifest; relative paths start from `here`.

    `generators` tells whether the run seeds those of the process, or takes them as the script left them.
    """
    settings = setup.settings
    here = working_folder() if here is None else here
    config = setup.to_json()
    config["settings"]["env"] = from_anywhere(settings.env, here)
    for entry in config["settings"]["wrappers"]:
        entry["name"] = from_anywhere(entry["name"], here)
    return RunFolder.create(
        algo=setup.resolved.algo,
        env=settings.env,
        seed=settings.seed,
        run_dir=run_dir,
        name=settings.name,
        config=config,
        here=here,
        manifest={
            "algo": setup.resolved.algo,
            "env": {
                "id": settings.env,
                "kwargs": dict(settings.env_kwargs),
                "max_episode_steps": settings.max_episode_steps,
            },
            "total_timesteps": setup.resolved.total_timesteps,
            "seeds": {
                "seed": settings.seed,
                "env": settings.env_seed,
                "algo": settings.algo_seed,
                "eval": settings.eval_seed,
            },
            "threads": settings.threads,
            "kernels": settings.kernels,
            "compile": settings.compile,
            "settings": config["settings"],
            "generators": generators,
        },
    )


def from_here(env: str) -> str:
    """What `from_anywhere` wrote as errors show it: a file below the working folder by its path from there."""
    path, _, class_name = env.rpartition(":")
    if path.endswith(".py"):
        with suppress(ValueError, OSError):  # elsewhere, or the working folder is gone
            return f"{Path(path).relative_to(Path.cwd())}:{class_name}"
    return env
