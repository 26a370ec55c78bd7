"""Whether Gymnasium's and Stable-Baselines3's checkers say anything to each environment of a labelled set.

    python benchmarks/checker_peers.py FOLDER OUT.json

FOLDER is a package with `register_all` and labels.json. Each environment is checked in a copy of this process. Needs
stable-baselines3. What they say is not read: any error or warning counts as found, which is more than either can claim.
"""

from __future__ import annotations

import importlib
import json
import os
import signal
import sys
import time
import warnings
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import gymnasium as gym
from gymnasium.utils.env_checker import check_env as gymnasium_check
from stable_baselines3.common.env_checker import check_env as sb3_check

LIMIT_S = 60.0
PEERS: dict[str, Callable[[Any], None]] = {
    "gymnasium": lambda env: gymnasium_check(env.unwrapped, skip_render_check=False),
    "sb3": lambda env: sb3_check(env, warn=True, skip_render_check=False),
}


def spoke(env_id: str, check: Callable[[Any], None]) -> bool:
    """Whether a checker raised or warned, or did not come back, in a copy of this process."""
    process = os.fork()
    if not process:
        os._exit(_in_copy(env_id, check))
    start = time.monotonic()
    while time.monotonic() - start < LIMIT_S:
        done, status = os.waitpid(process, os.WNOHANG)
        if done:
            return status != 0
        time.sleep(0.01)
    with suppress(ProcessLookupError):
        os.kill(process, signal.SIGKILL)
    os.waitpid(process, 0)
    return True


def _in_copy(env_id: str, check: Callable[[Any], None]) -> int:
    quiet = os.open(os.devnull, os.O_WRONLY)
    os.dup2(quiet, 1)
    os.dup2(quiet, 2)
    heard: list[str] = []
    warnings.showwarning = lambda message, *rest, **others: heard.append(str(message))
    try:
        env = gym.make(env_id, disable_env_checker=True)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            check(env)
        heard += [str(each.message) for each in caught]
    except BaseException:  # whatever it says, it says something
        return 1
    return int(bool(heard))


def main(folder: Path, out: Path) -> None:
    sys.path.insert(0, str(folder.parent))
    importlib.import_module(folder.name).register_all()
    told = {}
    for env_id in json.loads((folder / "labels.json").read_text()):
        told[env_id] = {peer: spoke(env_id, check) for peer, check in PEERS.items()}
        out.write_text(json.dumps(told, indent=1) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve(), Path(sys.argv[2]))
