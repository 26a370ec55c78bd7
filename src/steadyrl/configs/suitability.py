"""Which actions an algorithm fits: the one place that says so, for training and for the environment checker."""

from __future__ import annotations

from typing import Any, Protocol

from steadyrl.configs import CONFIGS, Config, DQNConfig, OffPolicyConfig, OnPolicyConfig, SACConfig
from steadyrl.errors import UserError


class Actions(Protocol):
    """What is asked of an action space: `spaces.ActionSpec` has it."""

    @property
    def kind(self) -> str:
        """continuous, discrete, multidiscrete, multibinary or tree."""
        ...

    @property
    def size(self) -> int:
        """Entries of one action."""
        ...

    @property
    def low(self) -> tuple[float, ...]:
        """Lower bounds, flat."""
        ...

    @property
    def high(self) -> tuple[float, ...]:
        """Upper bounds, flat."""
        ...

    @property
    def bounded(self) -> Any:
        """Where both bounds are finite, an array [size]."""
        ...


def check_suitable(algo: str, config: Config, action: Actions) -> None:
    """Raises UserError, with the cure, where the configuration does not fit the actions."""
    if isinstance(config, OnPolicyConfig):
        _check_on_policy(config, action)
    else:
        _check_off_policy(algo, config, action)


def fits(config: type[Config], action: Actions) -> bool:
    """Whether an algorithm, with its defaults, is for such actions."""
    if issubclass(config, OnPolicyConfig):
        return True
    if issubclass(config, DQNConfig):
        return action.kind == "discrete"
    if issubclass(config, SACConfig) and action.kind == "discrete":
        return True
    return action.kind == "continuous" and bool(action.bounded.all())


def check_masks(wanted: str, action: Actions) -> None:
    """Raises UserError, with the cure, where masks are asked for and the actions have none."""
    if wanted == "on" and action.kind not in ("discrete", "multidiscrete"):
        raise _unsuitable(
            f"Action masks are for Discrete and MultiDiscrete actions, but {_have(action)}.",
            "Leave action_masks (--action-masks) out.",
        )


def _check_on_policy(config: OnPolicyConfig, action: Actions) -> None:
    if config.use_sde and action.kind != "continuous":
        raise _unsuitable(f"use_sde explores with continuous actions, but {_have(action)}.", "Leave use_sde out.")
    if config.squash_output and (action.kind != "continuous" or not action.bounded.all()):
        raise _unsuitable(
            f"squash_output needs actions with finite bounds in every dimension, but {_have(action)}.",
            "Leave squash_output out, or give the action space finite bounds.",
        )


def _check_off_policy(algo: str, config: OffPolicyConfig, action: Actions) -> None:
    name = algo.upper()
    if isinstance(config, SACConfig) and action.kind == "discrete":
        if config.use_sde or config.action_noise_type != "none":
            raise _unsuitable(
                f"use_sde and action_noise_type are for continuous actions, but {_have(action)}.", "Leave them out."
            )
        return
    if fits(type(config), action):
        return
    if isinstance(config, DQNConfig):
        raise _unsuitable(f"{name} chooses among single discrete actions, but {_have(action)}.", _use(action))
    if action.kind != "continuous":
        also = " (SAC also for a single discrete one)" if isinstance(config, SACConfig) else ""
        raise _unsuitable(f"{name} is for continuous actions{also}, but {_have(action)}.", _use(action))
    raise _unsuitable(
        f"{name} scales actions to their bounds, but {_have(action)}.",
        f"Give the action space finite bounds (a Box with low and high in every dimension). {_use(action, 'Or use')}",
    )


def _use(action: Actions, verb: str = "Use") -> str:
    """The algorithms that fit, as a sentence."""
    *names, last = [algo.upper() for algo, config in CONFIGS.items() if fits(config, action)]
    return f"{verb} {', '.join(names)} or {last}."


def _have(action: Actions) -> str:
    if action.kind == "tree":
        return "the action space is a Dict or Tuple, actions of several parts"
    if action.kind != "continuous":
        return f"the action space is {action.kind}"
    if action.bounded.all():
        return f"the action space is continuous, with {action.size} dimension{'s' * (action.size != 1)}"
    i = int((~action.bounded).argmax())
    return f"dimension {i} of the action space is not bounded (low {action.low[i]:g}, high {action.high[i]:g})"


def _unsuitable(message: str, remedy: str) -> UserError:
    return UserError(message, remedy=remedy, code="unsuitable")
