"""Numbers that nothing may be computed from: NaN, infinity, and those whose square leaves float32."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from steadyrl.envs.nonfinite import ABSURD, SURE
from steadyrl.errors import NonFiniteError, UserError
from steadyrl.nn.policy import Policy
from steadyrl.spaces import ObsTree


def is_sane(number: float) -> bool:
    """Whether it is finite and of a magnitude that float32 can square."""
    return -ABSURD <= number <= ABSURD


def first_absurd(tree: ObsTree) -> tuple[str, tuple[int, ...], Any] | None:
    """Path, index [row, ...] and value of the first such number in stored observations; None where all are good.

    The sum of squares bounds every entry and costs a fraction of looking at each; where it is too large, they decide.
    """
    for path, leaf in tree.items():
        if leaf.dtype.kind != "f" or np.vdot(leaf, leaf) <= ABSURD**2:
            continue
        bad = ~(np.abs(leaf) <= ABSURD)
        if bad.any():
            index = tuple(int(i) for i in np.argwhere(bad)[0])
            return path, index, leaf[index]
    return None


def entry(path: str, index: tuple[int, ...]) -> str:
    """How an entry of an observation is called, such as `entry (0, 3) at 'camera'`."""
    place = f" {index[0] if len(index) == 1 else index}" if index else ""
    return f"entry{place}" + (f" at '{path}'" if path else "")


def require_sane(tree: ObsTree, single: bool) -> None:
    """Raises UserError for such a number in observations that the user gave: one, or a batch."""
    found = first_absurd(tree)
    if found is not None:
        path, index, value = found
        raise UserError(
            f"The observation holds {value} as {entry(path, index[1:] if single else index)}.",
            remedy="Pass finite numbers of a magnitude of at most 1e18.",
            code="obs-nonfinite",
        )


def require_sane_actions(actions: npt.NDArray[Any], step: int) -> None:
    """Raises NonFiniteError for such a number among the policy's actions [N, ...], before environments see them."""
    if actions.dtype.kind != "f" or np.vdot(actions, actions) <= SURE:
        return
    flat = actions.reshape(len(actions), -1)
    bad = np.argwhere(~(np.abs(flat) <= ABSURD))
    if len(bad):
        i, dimension = (int(x) for x in bad[0])
        value = flat[i, dimension]
        raise NonFiniteError(
            f"The policy's action for environment {i} has {value} in dimension {dimension}, at environment step "
            f"{step}: no environment was sent it.",
            remedy=_LESS,
            code="non-finite-action",
            batch={"actions": actions},
            facts={"source": "action", "environment": i, "dimension": dimension, "value": str(value), "step": step},
        )


def require_sane_outputs(outputs: dict[str, npt.NDArray[Any]], step: int) -> None:
    """Raises NonFiniteError for such a number among what the policy said in a rollout, arrays [T, N] by name."""
    for name, array in outputs.items():
        if np.vdot(array, array) <= SURE:
            continue
        bad = np.argwhere(~(np.abs(array) <= ABSURD))
        if len(bad):
            t, i = (int(x) for x in bad[0])
            raise NonFiniteError(
                f"The policy's {name} for environment {i} in step {t} of the rollout that ended at environment step "
                f"{step} is {array[t, i]}: it was not trained on.",
                remedy=_LESS,
                code="non-finite-output",
                batch=outputs,
                facts={"source": name, "environment": i, "rollout_step": t, "value": str(array[t, i]), "step": step},
            )


def require_sane_policy(policy: Policy, step: int) -> None:
    """Raises NonFiniteError for such a number among the weights, or in the statistics of the observations."""
    for part in policy.parts.values():
        data = part.flat.data
        if not torch.dot(data, data).item() <= SURE:
            for name, weights in part.module.named_parameters():
                bad = (~(weights.abs() <= ABSURD)).flatten().nonzero()
                if len(bad):
                    value = weights.flatten()[bad[0]].item()
                    raise _insane(
                        f"Weight {int(bad[0])} of {name} is {value}", step, {"key": name, "value": str(value)}
                    )
    if policy.normalizer is not None and not policy.normalizer.is_sane():
        raise _insane("The statistics of the observations are not finite", step, {"key": "normalizer"})
    policy.touched = False


_LESS = "Look at what changed the weights; if nothing but training did, lower learning_rate or set normalize_obs."


def _insane(what: str, step: int, facts: dict[str, Any]) -> NonFiniteError:
    return NonFiniteError(
        f"{what} at environment step {step}: it was not trained on.",
        remedy=_LESS,
        code="non-finite-weights",
        facts={"source": "parameters", "step": step, **facts},
    )
