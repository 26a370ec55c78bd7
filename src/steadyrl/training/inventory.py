"""What a checkpoint holds, what it leaves out, and what cannot be exact: in words, for the manifest and the index."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from steadyrl.envs.snapshots.state import Ability
from steadyrl.training.off_policy import OffPolicyLoop

if TYPE_CHECKING:
    from steadyrl.training.agent import Agent

_HELD = (
    "weights, target networks, observation and reward normalisers",
    "optimisers and their step counts",
    "step and update counts, from which schedules follow",
    "every random stream of the library, and the generators of Python, NumPy and torch",
    "episodes in progress, the last 100 episodes, rows not yet logged, the best score so far",
    "lengths of the logs",
)
_LEFT_OUT = (
    "generators of spaces, which only `space.sample()` draws on",
    "generators of torch on an accelerator",
    "seconds and speeds",
    "listeners, and what environments keep outside their own objects (files, sockets, other processes)",
)


def inventory(agent: Agent, ability: Ability) -> dict[str, Any]:
    """`holds`, `left_out` and `inexact`, each a list of phrases; nothing inexact means the same bits after a resume."""
    loop = agent.loop
    held = [*_HELD, "the replay" if isinstance(loop, OffPolicyLoop) else "the rollout as far as it went"]
    inexact = []
    if ability.kind == "native":
        held.append("the state of each environment")
    elif ability.kind == "replay":
        held.append(f"start and actions of each episode, which is run again ({ability.reason})")
        inexact.append("environments that do not repeat when run again: resuming then ends with an error")
    else:
        inexact.append(f"episodes in progress, which start anew ({ability.reason})")
    if agent.policy.device.type != "cpu":
        inexact.append("what an accelerator computes in another order each time")
    return {"holds": held, "left_out": list(_LEFT_OUT), "inexact": inexact}
