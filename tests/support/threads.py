"""Weights after short trainings with 1 to 4 threads, in fresh processes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from typing import Any

COUNTS = (1, 2, 3, 4)


@dataclass(frozen=True)
class Network:
    """A size of network with the trainings that have it."""

    env: str
    steps: int
    options: dict[str, dict[str, Any]]

    @property
    def algos(self) -> list[str]:
        """Which algorithms."""
        return list(self.options)


_SMALL_OFF = {"num_envs": 2, "learning_starts": 64, "batch_size": 64, "buffer_size": 512, "train_freq": 8}
_LARGE_OFF = {"num_envs": 2, "learning_starts": 256, "batch_size": 256, "buffer_size": 512, "train_freq": 32}
NETWORKS: dict[str, Network] = {
    "4-64-64": Network(
        "CartPole-v1",
        384,
        {
            "ppo": {"num_envs": 4, "n_steps": 32, "batch_size": 64, "n_epochs": 2, "net_arch": (64, 64)},
            "a2c": {"num_envs": 4, "n_steps": 16, "net_arch": (64, 64)},
            "dqn": _SMALL_OFF | {"net_arch": (64, 64)},
            "sac": _SMALL_OFF | {"net_arch": (64, 64)},
        },
    ),
    "17-256-256-6, batch 256": Network(
        "Legs",
        768,
        {
            "ppo": {"num_envs": 2, "n_steps": 128, "batch_size": 256, "n_epochs": 2, "net_arch": (256, 256)},
            "a2c": {"num_envs": 2, "n_steps": 128, "net_arch": (256, 256)},
            "ddpg": _LARGE_OFF | {"net_arch": (256, 256)},
            "td3": _LARGE_OFF | {"net_arch": (256, 256)},
            "sac": _LARGE_OFF | {"net_arch": (256, 256)},
        },
    ),
}
PROGRAM = """
import json, sys
import steadyrl as srl
from support.training_envs import Legs

if __name__ == "__main__":
    network, kernels, algos, counts = json.loads(sys.argv[1])
    from support.threads import NETWORKS
    kind, found = NETWORKS[network], {}
    for algo in algos:
        found[algo] = {}
        for threads in counts:
            env = Legs if kind.env == "Legs" else kind.env
            options = kind.options[algo]
            agent = getattr(srl, algo.upper())(
                env, preset="none", vec="sync", seed=3, kernels=kernels, threads=threads, **options
            )
            agent.learn(kind.steps)
            agent.close()
            assert agent.loop.counters.updates >= 3
            found[algo][str(threads)] = agent.policy.sha256()
    print(json.dumps(found))
"""


def matrix(network: str, kernels: str, algos: list[str], counts: tuple[int, ...] = COUNTS) -> dict[str, dict[str, str]]:
    """Hash of the final weights, by algorithm and by number of threads.

    Args:
        network: One of `NETWORKS`.
        kernels: `native` or `torch`, and after a comma variables of the environment as `NAME=VALUE`.
        algos: Which trainings.
        counts: Numbers of threads.
    """
    mode, _, variables = kernels.partition(", ")
    name, _, value = variables.partition("=")
    environment = {key: found for key, found in os.environ.items() if key != "OMP_NUM_THREADS"}
    environment |= {"PYTHONPATH": os.pathsep.join(sys.path)} | ({name: value} if name else {})
    # More threads than cores would spin for one another for minutes; this changes when they wait, and no bit.
    environment |= {"OMP_WAIT_POLICY": "PASSIVE", "GOMP_SPINCOUNT": "0", "KMP_BLOCKTIME": "0"}
    command = [sys.executable, "-c", PROGRAM, json.dumps([network, mode, algos, counts])]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=3600)
    if done.returncode != 0:
        raise RuntimeError(done.stderr)
    return dict(json.loads(done.stdout))
