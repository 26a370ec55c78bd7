"""Small environments with known behaviour, for the tests of every part.

They import no torch, and spawned workers can import them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import gymnasium as gym
import numpy as np
import numpy.typing as npt
from gymnasium import spaces

Reset = tuple[Any, dict[str, Any]]
Stepped = tuple[Any, Any, Any, Any, dict[str, Any]]


class Ending(NamedTuple):
    """How one episode of `Scripted` ends: after `length` steps, with these flags."""

    length: int
    terminated: bool
    truncated: bool


class Scripted(gym.Env[Any, Any]):
    """Plays the listed episodes in turn, then from the first again.

    Observation: [episode number, step in the episode, last action (-1 at a reset), a number drawn at the reset]. The
        reward of
    a step is 100 * episode + step + action / 8. `is_success` is told at the end: whether the episode terminated.
    """

    def __init__(self, script: Sequence[Ending], dtype: Any = np.float64) -> None:
        self.script = tuple(Ending(*ending) for ending in script)
        self.observation_space = spaces.Box(-np.inf, np.inf, (4,), dtype)
        self.action_space = spaces.Discrete(3)
        self.episode = -1
        self.t = 0
        self.noise = 0.0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Reset:
        super().reset(seed=seed)
        self.episode += 1
        self.t = 0
        self.noise = round(float(self.np_random.random()), 3)
        return self._obs(-1), {}

    def step(self, action: Any) -> Stepped:
        assert self.action_space.contains(action), f"{action!r} is no action"
        self.t += 1
        ending = self.script[self.episode % len(self.script)]
        over = self.t >= ending.length
        reward = 100.0 * self.episode + self.t + int(action) / 8
        info = {"is_success": ending.terminated} if over else {}
        return self._obs(int(action)), reward, over and ending.terminated, over and ending.truncated, info

    def _obs(self, action: int) -> npt.NDArray[Any]:
        return np.array([self.episode, self.t, action, self.noise], dtype=self.observation_space.dtype)


class ScriptedVector(gym.vector.VectorEnv[Any, Any, Any]):
    """A hand-written vector environment over `Scripted` ones, in any autoreset mode, that reuses all its arrays.

    Args:
        scripts: The script of each environment.
        mode: The autoreset mode; `None` leaves it out of the metadata and behaves as NEXT_STEP.
        dense_final: Tell `final_obs` as a numeric array [N, ...] rather than an object array.
        lossy: When one environment resets, the others do not move and pay 0: the fault of `FunctionalJaxVectorEnv`.
    """

    def __init__(
        self,
        scripts: Sequence[Sequence[Ending]],
        mode: gym.vector.AutoresetMode | None,
        *,
        dense_final: bool = False,
        lossy: bool = False,
    ) -> None:
        self.envs = [Scripted(script) for script in scripts]
        self.num_envs = len(self.envs)
        self.mode = mode or gym.vector.AutoresetMode.NEXT_STEP
        self.metadata = {} if mode is None else {"autoreset_mode": mode}
        self.dense_final = dense_final
        self.lossy = lossy
        self.single_observation_space = self.envs[0].observation_space
        self.single_action_space = self.envs[0].action_space
        self.observation_space = gym.vector.utils.batch_space(self.single_observation_space, self.num_envs)
        self.action_space = gym.vector.utils.batch_space(self.single_action_space, self.num_envs)
        self.obs = np.zeros((self.num_envs, 4))
        self.rewards = np.zeros(self.num_envs, dtype=np.float32)
        self.terminated = np.zeros(self.num_envs, dtype=np.bool_)
        self.truncated = np.zeros(self.num_envs, dtype=np.bool_)
        self.over = np.zeros(self.num_envs, dtype=np.bool_)

    def reset(self, *, seed: Any = None, options: dict[str, Any] | None = None) -> Reset:
        mask = (options or {}).pop("reset_mask", np.ones(self.num_envs, dtype=np.bool_))
        for i in np.flatnonzero(mask):
            self.obs[i] = self.envs[i].reset(seed=None if seed is None else seed + int(i))[0]
        self.obs[~mask] = np.nan  # rows that were not asked for hold nothing
        self.over &= ~mask
        return self.obs, {}

    def step(self, actions: Any) -> Stepped:
        infos: dict[str, Any] = {}
        resets = self.over.any() and self.mode is gym.vector.AutoresetMode.NEXT_STEP
        for i, env in enumerate(self.envs):
            if self.over[i]:
                assert self.mode is gym.vector.AutoresetMode.NEXT_STEP, "stepped a finished environment"
                self._put(i, env.reset()[0], 0.0, False, False)
            elif resets and self.lossy:
                self._put(i, self.obs[i].copy(), 0.0, False, False)
            else:
                self._step_one(i, env, actions[i], infos)
        self.over = self.terminated | self.truncated
        if self.mode is gym.vector.AutoresetMode.SAME_STEP:
            self.over = np.zeros_like(self.over)
        return self.obs, self.rewards, self.terminated, self.truncated, infos

    def _step_one(self, i: int, env: Scripted, action: Any, infos: dict[str, Any]) -> None:
        obs, reward, terminated, truncated, info = env.step(action)
        self._put(i, obs, reward, terminated, truncated)
        if not (terminated or truncated):
            return
        if self.mode is not gym.vector.AutoresetMode.SAME_STEP:
            self._add_info(infos, info, i)
            return
        self._add_info(infos, {"final_info": info}, i)
        if self.dense_final:
            infos.setdefault("final_obs", np.full((self.num_envs, 4), np.nan))[i] = obs
        else:
            self._add_info(infos, {"final_obs": obs}, i)
        self.obs[i] = env.reset()[0]

    def _put(self, i: int, obs: Any, reward: float, terminated: bool, truncated: bool) -> None:
        self.obs[i], self.rewards[i], self.terminated[i], self.truncated[i] = obs, reward, terminated, truncated


class ConstantReward(gym.Env[npt.NDArray[np.float32], np.int64]):
    """Pays 1 every step and only ever truncates, after `horizon` steps: V is 1 / (1 - gamma) everywhere."""

    def __init__(self, horizon: int = 10) -> None:
        self.observation_space = spaces.Box(-1.0, 1.0, (2,), np.float32)
        self.action_space = spaces.Discrete(2)
        self.horizon = horizon
        self.t = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Reset:
        super().reset(seed=seed)
        self.t = 0
        return self._obs(), {}

    def step(self, action: Any) -> Stepped:
        self.t += 1
        return self._obs(), 1.0, False, self.t >= self.horizon, {}

    def _obs(self) -> npt.NDArray[np.float32]:
        return self.np_random.uniform(-1, 1, 2).astype(np.float32)


class SpaceProbe(gym.Env[Any, Any]):
    """Samples observations from any space and insists that each action is of its space, dtype and shape included.

    Both are kept in lists. The reward is 1 and an episode truncates after `horizon` steps.
    """

    def __init__(self, observation_space: gym.Space[Any], action_space: gym.Space[Any], horizon: int = 5) -> None:
        self.observation_space = observation_space
        self.action_space = action_space
        self.horizon = horizon
        self.t = 0
        self.actions: list[Any] = []
        self.observations: list[Any] = []

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Reset:
        super().reset(seed=seed)
        if seed is not None:
            self.observation_space.seed(seed)
        self.t = 0
        return self._sample(), {}

    def step(self, action: Any) -> Stepped:
        space = self.action_space
        assert space.contains(action), f"{action!r} is not in {space}"
        assert np.asarray(action).dtype == space.dtype, f"dtype {np.asarray(action).dtype} instead of {space.dtype}"
        assert np.shape(action) == space.shape, f"shape {np.shape(action)} instead of {space.shape}"
        self.actions.append(np.array(action))
        self.t += 1
        return self._sample(), 1.0, False, self.t >= self.horizon, {}

    def _sample(self) -> Any:
        obs = self.observation_space.sample()
        self.observations.append(obs)
        return obs


class MatchTarget(gym.Env[Any, Any]):
    """One-step episodes with a plain best action: the reward is 1 minus the distance from the constant target.

    Works for every action space; `target` is an action. An agent that learns at all gets close to 1.
    """

    def __init__(self, action_space: gym.Space[Any], target: Any) -> None:
        self.observation_space = spaces.Box(-1.0, 1.0, (1,), np.float32)
        self.action_space = action_space
        self.target = np.asarray(target, dtype=np.float64)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Reset:
        super().reset(seed=seed)
        return np.ones(1, dtype=np.float32), {}

    def step(self, action: Any) -> Stepped:
        assert self.action_space.contains(action), f"{action!r} is not in {self.action_space}"
        distance = float(np.abs(np.asarray(action, dtype=np.float64) - self.target).mean())
        return np.ones(1, dtype=np.float32), 1.0 - distance, True, False, {}


class Reuser(gym.Env[npt.NDArray[np.float32], np.int64]):
    """Changes and returns the same observation array and the same info dictionary every time (case 7).

    The observation is [number of the observation since the environment was made]; success alternates by episode.
    """

    def __init__(self, horizon: int = 3) -> None:
        self.observation_space = spaces.Box(0.0, np.inf, (1,), np.float32)
        self.action_space = spaces.Discrete(2)
        self.horizon = horizon
        self.obs = np.zeros(1, dtype=np.float32)
        self.info: dict[str, Any] = {}
        self.t = 0
        self.count = -1

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Reset:
        super().reset(seed=seed)
        self.t = 0
        self.info["is_success"] = False
        return self._next(), self.info

    def step(self, action: Any) -> Stepped:
        self.t += 1
        self.info["is_success"] = self.t >= self.horizon
        return self._next(), 1.0, self.t >= self.horizon, False, self.info

    def _next(self) -> npt.NDArray[np.float32]:
        self.count += 1
        self.obs[0] = self.count
        return self.obs


REWARD_FORMS: dict[str, Callable[[float], Any]] = {
    "int": int,
    "float": float,
    "np.float64": np.float64,
    "np.float32": np.float32,
    "0-d": lambda x: np.array(x),
    "(1,)": lambda x: np.array([x]),
}


class OddTypes(gym.Env[npt.NDArray[np.float32], np.int64]):
    """Rewards 1, 2, 3 in one of `REWARD_FORMS`, flags as `flag` makes them; terminates at the third step (case 6)."""

    def __init__(self, reward: str = "float", flag: Callable[[bool], Any] = bool) -> None:
        self.observation_space = spaces.Box(0.0, 10.0, (1,), np.float32)
        self.action_space = spaces.Discrete(2)
        self.reward = REWARD_FORMS[reward]
        self.flag = flag
        self.t = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Reset:
        super().reset(seed=seed)
        self.t = 0
        return np.zeros(1, dtype=np.float32), {}

    def step(self, action: Any) -> Stepped:
        self.t += 1
        obs = np.full(1, self.t, dtype=np.float32)
        return obs, self.reward(float(self.t)), self.flag(self.t >= 3), self.flag(False), {}


class LifeLoss(gym.Wrapper[Any, Any, Any, Any]):
    """Ends an episode at every `life`-th step of the inner one; a reset then goes on with the next life (case 11)."""

    def __init__(self, env: gym.Env[Any, Any], life: int) -> None:
        super().__init__(env)
        self.life = life
        self.steps = 0
        self.truly_over = True
        self.last: Any = None

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Reset:
        if not self.truly_over:
            return self.last, {}
        self.steps = 0
        self.last, info = self.env.reset(seed=seed, options=options)
        return self.last, info

    def step(self, action: Any) -> Stepped:
        self.last, reward, terminated, truncated, info = self.env.step(action)
        self.steps += 1
        self.truly_over = bool(terminated or truncated)
        return self.last, reward, terminated or self.steps % self.life == 0, truncated, info
