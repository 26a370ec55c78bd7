"""Environments that allow only some of their actions, and insist on it. They import no torch."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import numpy.typing as npt
from gymnasium import spaces

from support.envs import Reset, Stepped

Mask = npt.NDArray[Any]


class Masked(gym.Env[Any, Any]):
    """At step t the action t % n and random others are allowed; every action is checked against the last mask.

    Observation: [t / 10, a number drawn at the reset]. The reward is the action over n. Episodes truncate after
    `horizon` steps, or terminate there, with a last mask that allows nothing.

    Args:
        nvec: Choices; more than one number makes a MultiDiscrete.
        start: Lowest action (Discrete).
        form: Element type of the masks.
        method: Masks come from `action_masks()`, not in `info`.
        terminates: How episodes end.
        fault: `empty`, `size` or `missing`: what is wrong with the mask of step 2; `cut`: there is none where an
            episode truncates; `begun`: none at resets but the first.
        horizon: Steps of an episode.
        parts: Masks are tuples of arrays, as `MultiDiscrete.sample(mask=...)` takes them.
    """

    def __init__(
        self,
        nvec: tuple[int, ...] = (4,),
        *,
        start: int = 0,
        form: Any = np.bool_,
        method: bool = False,
        terminates: bool = False,
        fault: str = "",
        horizon: int = 5,
        parts: bool = False,
    ) -> None:
        self.parts = parts
        self.observation_space = spaces.Box(-10.0, 10.0, (2,), np.float32)
        self.action_space = (
            spaces.Discrete(nvec[0], start=start) if len(nvec) == 1 else spaces.MultiDiscrete(list(nvec))
        )
        self.nvec, self.start, self.form = nvec, start, form
        self.terminates, self.fault, self.horizon = terminates, fault, horizon
        self.t = 0
        self.mask: Mask = np.zeros(0)
        self.masks: list[Mask] = []
        if method:
            self.action_masks = self._method

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Reset:
        super().reset(seed=seed)
        self.t = 0
        self.drawn = float(self.np_random.uniform(-1, 1))
        return self._obs(), self._info()

    def step(self, action: Any) -> Stepped:
        entries = np.atleast_1d(np.asarray(action) - self.start)
        assert all(part[i] for part, i in zip(self._parts(), entries, strict=True)), f"{action} is not allowed"
        self.t += 1
        over = self.t >= self.horizon
        reward = float(entries.sum() / sum(self.nvec))
        return self._obs(), reward, over and self.terminates, over and not self.terminates, self._info()

    def _method(self) -> Any:
        return self._told()

    def _told(self) -> Any:
        return tuple(np.split(self.mask, np.cumsum(self.nvec)[:-1])) if self.parts else self.mask

    def _parts(self) -> list[Mask]:
        return np.split(self.masks[-1], np.cumsum(self.nvec)[:-1])

    def _obs(self) -> Mask:
        return np.array([self.t / 10, self.drawn], dtype=np.float32)

    def _info(self) -> dict[str, Any]:
        parts = []
        for n in self.nvec:
            part = self.np_random.random(n) < 0.3
            part[self.t % n] = True
            parts.append(part)
        self.mask = np.concatenate(parts).astype(self.form)
        if self.t >= self.horizon and self.terminates:
            self.mask[:] = 0
        if self.t == 2 and self.fault == "empty":
            self.mask[: self.nvec[0]] = 0
        self.masks.append(self.mask.copy())
        if self.t == 2 and self.fault == "size":
            self.mask = np.ones(sum(self.nvec) + 1)
        missing = (self.t == 2 and self.fault == "missing") or (self.t >= self.horizon and self.fault == "cut")
        missing = missing or (self.t == 0 and self.fault == "begun" and len(self.masks) > 1)
        return {} if missing or callable(getattr(self, "action_masks", None)) else {"action_mask": self._told()}


class Elsewhere(Masked):
    """Tells its masks where no training takes them from: in `info` under another key, in `obs`, as an attribute."""

    def __init__(self, place: str, beside: bool = False) -> None:
        super().__init__()
        self.place, self.beside = place, beside
        if place == "attribute":
            self.action_masks: Any = np.ones(4)
        if place == "obs":
            self.observation_space = spaces.Dict(state=self.observation_space, action_mask=spaces.MultiBinary(4))

    def _obs(self) -> Any:
        obs = super()._obs()
        return {"state": obs, "action_mask": np.ones(4, dtype=np.int8)} if self.place == "obs" else obs

    def _info(self) -> dict[str, Any]:
        told = super()._info()
        self.masks[-1][:] = 1
        elsewhere = {} if self.place in ("obs", "attribute") else {self.place: np.ones(4)}
        return {**(told if self.beside else {}), **elsewhere}


class Few(gym.Env[Any, Any]):
    """Pays for the action that the observation names among three, over episodes of 6 steps that truncate.

    Args:
        places: Which actions of a larger space stand for these three; None is a space of three.
        size: Of that larger space.
    """

    def __init__(self, places: tuple[int, ...] | None = None, size: int = 9) -> None:
        self.observation_space = spaces.Box(0.0, 1.0, (3,), np.float32)
        self.action_space = spaces.Discrete(3 if places is None else size)
        self.places = places
        self.t = 0
        self.actions: list[int] = []

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Reset:
        super().reset(seed=seed)
        self.t = 0
        return self._next()

    def step(self, action: Any) -> Stepped:
        chosen = int(action) if self.places is None else self.places.index(int(action))
        self.actions.append(chosen)
        self.t += 1
        obs, info = self._next()
        return obs, float(chosen == self.before), False, self.t >= 6, info

    def _next(self) -> Reset:
        self.before = getattr(self, "wanted", 0)
        self.wanted = int(self.np_random.integers(3))
        obs = np.zeros(3, dtype=np.float32)
        obs[self.wanted] = 1.0
        mask = np.zeros(int(self.action_space.n), dtype=np.int8)  # type: ignore[attr-defined]
        mask[list(self.places or ())] = 1
        return obs, {} if self.places is None else {"action_mask": mask}


class Thousands(Masked):
    """1,400 actions with float masks (case 20)."""

    def __init__(self, **options: Any) -> None:
        super().__init__((1400,), form=np.float32, **options)
