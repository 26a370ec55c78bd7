"""Settings of a run that belong to no algorithm."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from steadyrl.configs.validate import at_least_one, at_most, not_negative_whole, positive
from steadyrl.configs.wrapping import WrapperSettings
from steadyrl.errors import UserError

MAX_THREADS = 1024  # torch aborts the process where the system refuses it a thread
MAX_EPISODES = 1_000_000  # of one evaluation: their seeds are made beforehand


@dataclass(frozen=True, kw_only=True)
class RunSettings(WrapperSettings):
    """What `steadyrl train` and `srl.train` take besides the algorithm's hyperparameters."""

    env: str
    """Environment: a Gymnasium id, package.module:Id-v0, or path/to/file.py:ClassName."""
    seed: int = 0
    """Root seed of the run."""
    env_seed: int | None = None
    """Fixes what the training environments draw, apart from the root seed."""
    algo_seed: int | None = None
    """Fixes initial weights, action noise and minibatches, apart from the root seed."""
    eval_seed: int = 0
    """Seed of the evaluation episodes; the same for every training seed."""
    vec: Literal["auto", "sync", "async", "envpool", "native"] = "auto"
    """How environments are stepped; auto takes the faster of sync and async, which give the same results."""
    device: str = "auto"
    """Where networks run: auto, cpu, cuda or cuda:1; auto is the CPU for small networks."""
    threads: int | None = None
    """Threads of the networks; None is 1 for PyTorch, whose bits depend on it, and every core for native kernels."""
    kernels: Literal["auto", "native", "torch"] = "auto"
    """What runs networks and losses on the CPU: native kernels, or PyTorch; auto is native where they are built."""
    deterministic: bool = False
    """On a GPU only operations that repeat to the bit: slower, and an error where PyTorch has none; a CPU repeats."""
    compile: Literal["auto", "on", "off"] = "auto"
    """Whether torch.compile runs the losses that PyTorch runs; auto where that saves twice the time it takes."""
    eval_freq: int | None = None
    """Environment steps between two evaluations; None is a tenth of the run, 0 is never."""
    eval_episodes: int = 10
    """Episodes of an evaluation."""
    checkpoint_freq: int | None = None
    """Environment steps between two checkpoints; None is a tenth of the run, 0 is only where a signal ends it."""
    checkpoint_minutes: float | None = None
    """Minutes of wall clock between two checkpoints, besides those of checkpoint_freq; None is never."""
    keep_last: int | None = None
    """How many of the newest checkpoints stay, not counting final and best ones; None keeps all."""
    keep_best: int | None = None
    """How many of the newest best agents stay; None keeps all."""
    save_state: bool = True
    """Checkpoints hold all that a resumed run goes on from, replay included; without, the policy alone."""
    capture_video: bool = False
    """An mp4 of one episode is made at each evaluation."""
    env_kwargs: Mapping[str, Any] = field(default_factory=dict)
    """Arguments of the environment, as K=V."""
    num_workers: int | None = None
    """Processes that async environments share; None is one for each usable core."""
    env_timeout: float = 60.0
    """Seconds that an environment in a process of its own may take for a step or reset before it counts as hanging."""
    on_env_error: Literal["stop", "restart"] = "stop"
    """What a failing environment does: stop the run, or start that environment anew and drop its unfinished episode."""
    env_restart_budget: int = 100
    """Restarts of failing environments in the whole training; the next failure stops the run."""
    on_nonfinite: Literal["stop", "skip"] = "stop"
    """What NaN, infinity or absurd numbers do: stop the run, or leave out that episode or batch and count it."""
    nonfinite_limit: int = 10
    """With on_nonfinite skip: minibatches, or broken episodes of one environment, in a row that stop the run."""
    action_masks: Literal["auto", "on", "off"] = "auto"
    """Whether the policy does only what the environment's action masks allow; auto if its first reset gives one."""
    max_episode_steps: int | None = None
    """Truncates episodes after this many steps instead of the environment's own limit."""
    run_dir: Path | None = None
    """The run folder; None makes one below runs/."""
    name: str | None = None
    """A tag at the end of the run folder's name."""

    def __post_init__(self) -> None:
        super().__post_init__()
        not_negative_whole(self, "seed", "eval_seed", "env_restart_budget")
        at_least_one(self, "eval_episodes", "nonfinite_limit")
        for least_one in ("keep_last", "keep_best"):
            if getattr(self, least_one) is not None:
                at_least_one(self, least_one)
        if self.checkpoint_minutes is not None and not 0 < self.checkpoint_minutes < float("inf"):
            raise UserError(
                f"checkpoint_minutes is {self.checkpoint_minutes}, but it must be above 0.",
                remedy="Leave it out for no checkpoints by the clock.",
                code="bad-value",
            )
        if self.threads is not None:
            at_least_one(self, "threads")
            at_most(self, MAX_THREADS, "threads")
        for optional in ("env_seed", "algo_seed", "eval_freq", "checkpoint_freq"):
            if getattr(self, optional) is not None:
                not_negative_whole(self, optional)
        if self.max_episode_steps is not None:
            at_least_one(self, "max_episode_steps")
        positive(self, "env_timeout")
        if self.num_workers is not None:
            at_least_one(self, "num_workers")
        at_most(self, MAX_EPISODES, "eval_episodes")
        if self.device.partition(":")[0] == "meta":
            raise UserError(
                "device is 'meta', where torch computes nothing.",
                remedy="Use --device cpu, cuda or cuda:1.",
                code="no-such-device",
            )
