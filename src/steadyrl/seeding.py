"""One root seed into named random streams whose state is JSON.

A stream is found by its name and index alone, so a new stream moves no other one (NumPy SeedSequence spawn keys;
Philox is counter-based: Salmon et al. 2011, "Parallel random numbers: as easy as 1, 2, 3").
"""

from __future__ import annotations

import zlib
from typing import Any, Literal

import numpy as np
import numpy.typing as npt


class Stream:
    """A random generator with an owner.

    Args:
        root: The root seed, any integer >= 0.
        name: What the stream is for, such as `actions`.
        index: Which one of several of that name, such as the environment's number.
    """

    def __init__(self, root: int, name: str, index: int = 0) -> None:
        self.name = name
        sequence = np.random.SeedSequence(root, spawn_key=(zlib.crc32(name.encode()), index))
        self._bits = np.random.Philox(sequence)
        self._generator = np.random.Generator(self._bits)

    def normal(self, shape: tuple[int, ...]) -> npt.NDArray[np.float32]:
        """Standard normal numbers, float32, of this shape."""
        return self._generator.standard_normal(shape, dtype=np.float32)

    def uniform(self, shape: tuple[int, ...]) -> npt.NDArray[np.float32]:
        """Uniform numbers in [0, 1), float32, of this shape."""
        return self._generator.random(shape, dtype=np.float32)

    def permutation(self, n: int) -> npt.NDArray[np.int64]:
        """A random order of 0 .. n - 1."""
        return self._generator.permutation(n)

    def integers(self, low: int, high: int, shape: tuple[int, ...] = ()) -> npt.NDArray[np.int64]:
        """Uniform integers in [low, high), int64, of this shape."""
        return np.asarray(self._generator.integers(low, high, size=shape, dtype=np.int64))

    def seed(self) -> int:
        """A seed for something that keeps its own generator, in [0, 2**31)."""
        return int(self.integers(0, 2**31))

    def state_dict(self) -> dict[str, Any]:
        """Everything needed to go on exactly, as JSON values."""
        state = self._bits.state
        return {
            "name": self.name,
            "counter": [int(x) for x in state["state"]["counter"]],
            "key": [int(x) for x in state["state"]["key"]],
            "buffer": [int(x) for x in state["buffer"]],
            "buffer_pos": int(state["buffer_pos"]),
            "has_uint32": int(state["has_uint32"]),
            "uinteger": int(state["uinteger"]),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from a state that `state_dict` gave."""
        self._bits.state = {
            "bit_generator": "Philox",
            "state": {
                "counter": np.array(state["counter"], dtype=np.uint64),
                "key": np.array(state["key"], dtype=np.uint64),
            },
            "buffer": np.array(state["buffer"], dtype=np.uint64),
            "buffer_pos": state["buffer_pos"],
            "has_uint32": state["has_uint32"],
            "uinteger": state["uinteger"],
        }


Level = Literal["env", "algo", "eval"]


class Seeds:
    """The root seeds of a run, one a level, each the run's seed unless it is fixed apart.

    Args:
        seed: The run's root seed.
        env_seed: Fixes what the training environments draw (`--env-seed`).
        algo_seed: Fixes initial weights, action noise and minibatches (`--algo-seed`).
        eval_seed: Fixes the evaluation episodes; the same for every training seed unless set (`--eval-seed`).
    """

    def __init__(
        self, seed: int, *, env_seed: int | None = None, algo_seed: int | None = None, eval_seed: int = 0
    ) -> None:
        self.seed = seed
        self.env = seed if env_seed is None else env_seed
        self.algo = seed if algo_seed is None else algo_seed
        self.eval = eval_seed

    def stream(self, level: Level, name: str, index: int = 0) -> Stream:
        """The stream of this name, from the root seed of this level."""
        return Stream(getattr(self, level), f"{level}/{name}", index)

    def env_seeds(self, num_envs: int) -> list[int]:
        """Seed of each training environment, [N]; the seed of environment i depends on i alone."""
        return [self.stream("env", "reset", i).seed() for i in range(num_envs)]

    def eval_episode_seeds(self, episodes: int) -> list[int]:
        """Seed of each evaluation episode; the seed of episode i depends on i alone."""
        return [self.stream("eval", "episode", i).seed() for i in range(episodes)]
