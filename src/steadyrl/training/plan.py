"""A run before it starts: everything checked, the run folder made, torch not yet imported."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from steadyrl.training.run_folder import RunFolder
from steadyrl.training.setup import EnvLike, Setup, prepare_training


@dataclass(frozen=True)
class Plan:
    """A run that can be executed."""

    setup: Setup
    folder: RunFolder

    @property
    def run_dir(self) -> Path:
        """The run folder."""
        return self.folder.path


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
    setup = prepare_training(algo, env, options, preset=preset, total_timesteps=total_timesteps)
    return Plan(setup, make_folder(setup, run_dir=setup.settings.run_dir))


def make_folder(setup: Setup, *, run_dir: Path | None) -> RunFolder:
    """The run folder of a setup, with its configuration and manifest."""
    settings = setup.settings
    return RunFolder.create(
        algo=setup.resolved.algo,
        env=settings.env,
        seed=settings.seed,
        run_dir=run_dir,
        name=settings.name,
        config=setup.to_json(),
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
        },
    )
