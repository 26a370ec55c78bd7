"""The policy of a setup: made new, or compared with the one that there is."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any, get_args, get_type_hints

import gymnasium as gym
import torch

from steadyrl import kernels
from steadyrl.configs import Config, OnPolicyConfig
from steadyrl.configs.run import RunSettings
from steadyrl.errors import UserError
from steadyrl.nn.normalizer import ObsNormalizer
from steadyrl.nn.policy import Policy
from steadyrl.seeding import Seeds
from steadyrl.spaces import ActionSpec, ActionTree, Leaf, ObsSpec, Reading
from steadyrl.spaces.values import VARIABLE
from steadyrl.training.architectures import architecture_of
from steadyrl.training.setup import Setup

_CHOICES = get_args(get_type_hints(RunSettings)["kernels"])


def new_policy(setup: Setup, seeds: Seeds) -> Policy:
    """The policy of a setup with its initial weights."""
    config = setup.resolved.config
    normalizer = ObsNormalizer(setup.obs_spec) if config.normalize_obs else None
    device = resolve_device(setup.settings.device)
    architecture = architecture_of(config, setup.encoders)
    native = with_kernels(setup.settings.kernels)
    policy = Policy(
        setup.obs_spec,
        setup.action_spec,
        architecture,
        normalizer,
        device,
        native=native,
        encoders=setup.encoders,
    )
    policy.value_scale = 1.0 / setup.settings.reward_scale
    policy.initialise(seeds.stream("algo", "weights"), ortho=isinstance(config, OnPolicyConfig) and config.ortho_init)
    return policy


def with_kernels(choice: str) -> bool:
    """Whether native kernels run the networks.

    Raises:
        UserError: there is no such choice, or they are insisted on and cannot be used.
    """
    if choice not in _CHOICES:
        raise UserError(
            f"kernels is {choice!r}, but it must be one of {', '.join(_CHOICES)}.",
            remedy="For example: kernels='auto'.",
            code="bad-value",
        )
    if choice == "native" and not kernels.available():
        raise UserError(
            kernels.reason(),
            remedy="Use --kernels auto, or install a C++ compiler and install the library again.",
            code="no-kernels",
        )
    return choice != "torch" and kernels.available()


def resolve_device(name: str) -> torch.device:
    """The device of this name; `auto` is the CPU, which is faster for small networks.

    Raises:
        UserError: torch knows no such device, the machine has none, or it computes nothing.
    """
    try:
        device = torch.device("cpu" if name == "auto" else name)
        torch.empty(1, device=device).cpu()  # what is on the meta device cannot be read
    except (RuntimeError, AssertionError, TypeError, ValueError, OverflowError) as error:
        raise UserError(
            f"The device {name!r} cannot be used: {str(error).splitlines()[0]}",
            remedy="Use --device cpu, or install a build of torch for this machine's GPU.",
            code="no-such-device",
        ) from error
    return device


def require_same_spaces(policy: Policy, setup: Setup) -> None:
    """Raises UserError unless the environment's spaces are those that the policy was made for."""
    if policy.obs_spec.to_json() != setup.obs_spec.to_json():
        raise _other_spaces("observation", setup.settings.env, shown_obs(policy.obs_spec), shown_obs(setup.obs_spec))
    _require_same_actions(policy, setup.action_spec, setup.settings.env)


def require_playable(policy: Policy, observation: gym.Space[Any], action: gym.Space[Any], env: str) -> None:
    """Raises UserError unless these spaces are those that the policy was made for.

    How images lie and how much of a sequence is kept is the policy's own affair, and is not compared.
    """
    kept = max((leaf.shape[0] for leaf in policy.obs_spec.leaves if leaf.kind in VARIABLE and leaf.shape), default=1)
    found = ObsSpec.of(observation, Reading("any", kept, policy.encoding.own))
    if (found.tree.to_json(), _comparable(found)) != (policy.obs_spec.tree.to_json(), _comparable(policy.obs_spec)):
        raise _other_spaces("observation", env, shown_obs(policy.obs_spec), shown_obs(found))
    _require_same_actions(policy, ActionSpec.of(action), env)


def _comparable(spec: ObsSpec) -> list[Any]:
    """The leaves without what a reading of the same space may decide otherwise."""
    return [
        (leaf.path, leaf.kind, leaf.shape[leaf.kind in VARIABLE :], leaf.dtype, leaf.nvec, leaf.start, leaf.characters)
        for leaf in spec.leaves
    ]


def _require_same_actions(policy: Policy, found: ActionSpec, env: str) -> None:
    if policy.action_spec != found:
        raise _other_spaces("action", env, shown_action(policy.action_spec), shown_action(found))


def _other_spaces(role: str, env: str, mine: str, theirs: str) -> UserError:
    return UserError(
        f"The {role} space of {env} is not the one the policy was made for.\n"
        f"  policy:      {mine}\n  environment: {theirs}",
        remedy="Pass the environment that the policy was trained on, with the same arguments.",
        code="other-spaces",
    )


def require_same_network(before: Config, setup: Setup) -> None:
    """Raises UserError where a configuration asks for another network than the one a policy was made with.

    Args:
        before: With which the policy was made.
        setup: With which it is to learn on.
    """
    now = setup.resolved.config
    mine, asked = (
        {**asdict(architecture_of(config)), "normalize_obs": config.normalize_obs} for config in (before, now)
    )
    for name in mine:
        if mine[name] != asked[name] and name != "epsilon":  # which only says how a policy explores
            field = {"outputs": "n_atoms or n_quantiles"}.get(name, name)
            raise UserError(
                f"{field} is another one than the policy was made with, whose network stays as it is.",
                remedy="Leave it out, or train a new agent.",
                code="other-network",
            )


def shown_obs(spec: ObsSpec) -> str:
    """An observation space as Gymnasium writes it; bounds, which the policy does not know, are left out."""
    return _shown_node(spec.tree.node, {leaf.path: _shown_leaf(leaf) for leaf in spec.leaves})


def _shown_leaf(leaf: Leaf) -> str:
    shown = _part(leaf.kind, leaf.shape, leaf.dtype, leaf.nvec, leaf.start)
    if leaf.kind == "image":
        return f"{shown[:-1]}, {leaf.layout})"
    if leaf.kind in ("text", "codes"):
        characters = f", {leaf.characters!r}" if leaf.characters else ""
        return f"{shown[:-1]}, {leaf.nvec[0]} codes{characters})"
    return shown


def _shown_node(node: Any, parts: dict[str, str]) -> str:
    if isinstance(node, str):
        return parts[node]
    if isinstance(node, dict):
        return "Dict(" + ", ".join(f"{key!r}: {_shown_node(part, parts)}" for key, part in node.items()) + ")"
    return "Tuple(" + ", ".join(_shown_node(part, parts) for part in node) + ")"


def shown_action(spec: ActionSpec) -> str:
    """An action space as Gymnasium writes it."""
    if isinstance(spec, ActionTree):
        return _shown_node(spec.tree.node, {path: shown_action(part) for path, part in spec.parts})
    if spec.kind == "continuous":
        return f"Box({_bounds(spec.low)}, {_bounds(spec.high)}, {spec.shape}, {spec.dtype})"
    return _part(spec.kind, spec.shape, spec.dtype, spec.nvec, spec.start)


def _part(kind: str, shape: tuple[int, ...], dtype: str, nvec: tuple[int, ...], start: tuple[int, ...]) -> str:
    if kind in ("text", "codes", "sequence", "own"):
        return f"{'Text' if kind == 'text' else 'Sequence'}({shape}, {dtype})"
    if kind in ("box", "image"):
        return f"Box({shape}, {dtype})"
    if kind == "multibinary":
        return f"MultiBinary({shape[0] if len(shape) == 1 else shape}{_unusual(dtype, 'int8')})"
    if kind == "discrete":
        return f"Discrete({nvec[0]}{f', start={start[0]}' if start[0] else ''}{_unusual(dtype, 'int64')})"
    begin = f", start={_shortened(start)}" if any(start) else ""
    size = f", shape={shape}" if len(shape) != 1 else ""
    return f"MultiDiscrete({_shortened(nvec)}{begin}{size}{_unusual(dtype, 'int64')})"


def _unusual(dtype: str, usual: str) -> str:
    return "" if dtype == usual else f", dtype={dtype}"


def _bounds(values: tuple[float, ...]) -> str:
    return str(values[0]) if len(set(values)) == 1 else _shortened(values)


def _shortened(values: tuple[Any, ...]) -> str:
    text = " ".join(map(str, values[:12]))
    return f"[{text}{' ...' if len(values) > 12 else ''}]"
