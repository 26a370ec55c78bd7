"""Vector environments of our own: a step as Gymnasium tells it, made from one that is cheaper to tell and to read."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import numpy.typing as npt
from gymnasium.vector import VectorEnv

from steadyrl.envs.types import BoolArray, FloatArray

Stepped = tuple[Any, FloatArray, BoolArray, BoolArray, dict[str, Any]]
ToldInfos = list[tuple[int, dict[str, Any]]]
Advanced = tuple[Any, FloatArray, BoolArray, BoolArray, ToldInfos]


class AdvancingVectorEnv(VectorEnv[Any, Any, Any]):
    """One with SAME_STEP autoreset that also steps without Gymnasium's dictionaries of masked arrays."""

    @abstractmethod
    def advance(self, actions: npt.NDArray[Any]) -> Advanced:
        """`step`, with infos as they came, in order: each with the number of its environment, empty ones left out.

        That of an episode's end holds `final_obs` and `final_info`; after it comes that of the next episode. Every
        array is a fresh one: observations of the space's dtype, rewards float64, flags bool.
        """

    def step(self, actions: npt.NDArray[Any]) -> Stepped:
        """Step every environment with its own action, [N, ...], and start those anew whose episode ended."""
        obs, rewards, terminated, truncated, told = self.advance(actions)
        return obs, rewards, terminated, truncated, self._infos(told)

    def _infos(self, told: ToldInfos) -> dict[str, Any]:
        """Infos as Gymnasium has them, arrays [N] with a mask each."""
        infos: dict[str, Any] = {}
        for i, info in told:
            infos = self._add_info(infos, info, i)
        return infos
