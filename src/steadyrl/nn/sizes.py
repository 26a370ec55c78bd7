"""How large a network is and how large one that is saved may be; no torch, so it can be asked before any is made."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise

from steadyrl.spaces import ActionSpec, ObsSpec

MAX_LAYERS = 1000  # of a saved network: making layers takes time even where they are narrow
MAX_JSON, MAX_BUNDLE = 2**20, 2**31  # bytes of a bundle's description, and of a bundle


def parameters(
    net_arch: Mapping[str, tuple[int, ...]], obs_spec: ObsSpec, action_spec: ActionSpec, *, use_sde: bool
) -> int:
    """How many weights the network has; `net_arch` has the hidden layers at `pi` and `vf`."""
    pi, vf = net_arch["pi"], net_arch["vf"]
    features, size = sum(leaf.features for leaf in obs_spec.leaves), action_spec.size
    latent = pi[-1] if pi else features
    if action_spec.kind == "continuous":
        head = _linear(latent, size) + (latent * size if use_sde else size)
    else:
        head = _linear(latent, size if action_spec.kind == "multibinary" else sum(action_spec.nvec))
    trunks = sum(_linear(*pair) for widths in (pi, vf) for pair in pairwise((features, *widths)))
    return trunks + head + _linear(vf[-1] if vf else features, 1)


def _linear(width_in: int, width_out: int) -> int:
    return width_in * width_out + width_out
