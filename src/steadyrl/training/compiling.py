"""Whether `torch.compile` is worth its time: decided from sizes and from figures measured beforehand.

Never from a clock of the run itself. Compiled losses round differently, so that a decision which followed a timer
would give the same seed, configuration and machine other bits on another day.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from importlib.util import find_spec
from typing import Any, Literal

from steadyrl.configs import Config, OffPolicyConfig, PPOConfig
from steadyrl.errors import UserError
from steadyrl.nn.compiled import Compiler
from steadyrl.nn.policy import Policy
from steadyrl.training.events import Notice

# Seconds that compiled losses save of one gradient step, on one CPU thread; `benchmarks/compiled.py` measures them.
SAVES_S = {"ppo": 190e-6, "a2c": 150e-6, "dqn": 25e-6, "ddpg": 25e-6, "td3": 25e-6, "sac": 160e-6}
# Seconds to compile them with an empty cache: 10 to 35 on a CPU; not measured on a GPU.
CPU_COMPILE_S, GPU_COMPILE_S = 20.0, 40.0
MARGIN = 2.0  # how many times its cost a saving must be
WORTH_SAYING_S = 1.0


@dataclass(frozen=True)
class Choice:
    """Whether losses are compiled.

    Attributes:
        used: They are, until that fails.
        why: asked, off, kernels (they run the losses), saving (large or small), compiler (there is none).
        compile_s: Seconds that compiling is expected to take.
        saves_s: Seconds that it is expected to save.
        missing: The program that compiling needs and that was not found.
        since: The environment step from which on it holds.
    """

    used: bool
    why: Literal["asked", "off", "kernels", "saving", "compiler"]
    compile_s: float = 0.0
    saves_s: float = 0.0
    missing: str = ""
    since: int = 0

    def notice(self) -> Notice | None:
        """What the user should hear of it: nothing where nothing was at stake."""
        cost, gain = f"about {self.compile_s:.0f} s to compile", f"about {self.saves_s:.0f} s"
        if self.why == "compiler":
            text = f"torch.compile would save {gain}, but it needs {self.missing}, which was not found."
        elif self.why != "saving" or self.saves_s < WORTH_SAYING_S:
            return None
        elif self.used:
            text = f"torch.compile is used for the losses: {cost} should save {gain}."
        else:
            text = f"torch.compile is not used: {cost} would save {gain}."
        return Notice("compile", text)


def choose(
    asked: Literal["auto", "on", "off"], algo: str, steps: int, *, native: bool, device: str, missing: str
) -> Choice:
    """Decide for a training of this many gradient steps.

    Args:
        asked: The setting.
        algo: Name of the algorithm.
        steps: Gradient steps that are still to be taken.
        native: Whether native kernels run the losses.
        device: Type of the device, such as `cpu`.
        missing: What compiling needs and this machine lacks, or empty.
    """
    if asked != "auto":
        return Choice(asked == "on", "asked" if asked == "on" else "off")
    if native:
        return Choice(False, "kernels")
    cost, saves = CPU_COMPILE_S if device == "cpu" else GPU_COMPILE_S, round(steps * SAVES_S[algo], 1)
    worth = saves > MARGIN * cost
    if worth and missing:
        return Choice(False, "compiler", cost, saves, missing)
    return Choice(worth, "saving", cost, saves)


def require_compilable(asked: str, policy: Policy) -> None:
    """Raises UserError where compiling is insisted on and there is nothing to compile, or nothing to do it with."""
    if asked != "on":
        return
    if policy.native:
        raise UserError(
            "compile is on, but native kernels run the losses, which leaves torch.compile nothing to do.",
            remedy="Use --kernels torch as well, or leave --compile out.",
            code="no-compile",
        )
    if missing := missing_program(policy.device.type):
        raise UserError(
            f"compile is on, but torch.compile needs {missing}, which was not found.",
            remedy="Install it, name another C++ compiler in the environment variable CXX, or leave --compile out.",
            code="no-compile",
        )


def missing_program(device: str) -> str:
    """What torch.compile needs on a device of this type and does not find; empty where it has all."""
    if device != "cpu":
        return "" if find_spec("triton") else "triton"
    usual = {"darwin": "clang++", "win32": "cl"}.get(sys.platform, "g++")
    name = os.environ.get("CXX") or usual
    return "" if shutil.which(name) else f"the C++ compiler {name}"


def start_compiling(
    asked: Literal["auto", "on", "off"], algo: str, config: Config, policy: Policy, since: int, total: int
) -> Choice:
    """Decide for a policy that learns from environment step `since` to `total`, and begin if so.

    An agent decides once, at its first call of `learn`: its bits do not change in the middle.
    """
    device = policy.device.type
    choice = choose(
        asked,
        algo,
        gradient_steps(config, total - since),
        native=policy.native,
        device=device,
        missing=missing_program(device),
    )
    policy.compiler = Compiler()
    if choice.used:
        policy.compiler.start(full_minibatch(config), strict=asked == "on")
    return replace(choice, since=since)


def take_up(record: Mapping[str, Any] | None, config: Config, policy: Policy) -> Choice | None:
    """The choice that a run's manifest records, for a training that goes on; None where it records none.

    Raises:
        UserError: losses were compiled, and what that needs was not found: the numbers would be others.
    """
    if not isinstance(record, Mapping) or type(record.get("used")) is not bool:
        return None
    policy.compiler = Compiler()
    if not record["used"]:
        return Choice(False, "off")
    if missing := missing_program(policy.device.type):
        raise UserError(
            f"The run's losses were compiled by torch.compile, which needs {missing}, which was not found.",
            remedy="Install it. Without it the numbers would be others than those of the run.",
            code="no-compile",
        )
    policy.compiler.start(full_minibatch(config), strict=False)
    since = record.get("from_step")
    return Choice(True, "asked", since=since if type(since) is int else 0)


def full_minibatch(config: Config) -> int:
    """Transitions of a full minibatch; whatever is smaller is a remainder."""
    return config.batch_size if isinstance(config, OffPolicyConfig | PPOConfig) else config.n_steps * config.num_envs


def gradient_steps(config: Config, steps: int) -> int:
    """How many a training over this many environment steps takes, all minibatches of an update counted."""
    if isinstance(config, OffPolicyConfig):
        training = max(steps - config.learning_starts, 0)
        return training if config.gradient_steps == -1 else training // config.train_freq * config.gradient_steps
    rollout = config.n_steps * config.num_envs
    updates = -(-steps // rollout)
    return updates * config.n_epochs * -(-rollout // config.batch_size) if isinstance(config, PPOConfig) else updates


def record(choice: Choice, policy: Policy) -> dict[str, Any]:
    """What the manifest says: whether, since which step, and what came of it."""
    compiler = policy.compiler
    return {
        "used": choice.used and not compiler.failed,
        "from_step": choice.since if choice.used else None,
        "why": "failed" if compiler.failed else choice.why,
        "expected_compile_s": choice.compile_s,
        "expected_saving_s": choice.saves_s,
        "losses": compiler.losses,
        "compile_s": round(compiler.seconds, 1),
        "eager_us": round(1e6 * compiler.eager),
        "compiled_us": round(1e6 * compiler.compiled),
        "failed": compiler.failed or None,
    }
