"""What a vector environment tells of a step, read from Gymnasium's masked dictionaries or from our own lists."""

from __future__ import annotations

from typing import Any, NamedTuple, NoReturn

import numpy as np
import numpy.typing as npt
from gymnasium.vector import AutoresetMode, VectorEnv

from steadyrl.envs.advance import AdvancingVectorEnv
from steadyrl.envs.autoreset import final_observations, success_of
from steadyrl.envs.keys import GAME, PART
from steadyrl.envs.masks import KEY, Given, told_masks
from steadyrl.envs.outcome import NOTE
from steadyrl.envs.outputs import flags_of, parts_of, rewards_of
from steadyrl.envs.restart import RESTARTED
from steadyrl.envs.types import BoolArray, EnvSpec, FloatArray
from steadyrl.errors import Ending, RunFailedError, SteadyRLError, words
from steadyrl.spaces.action_tree import env_actions

_STEP = ("obs", "rewards", "terminated", "truncated", "infos")


# Observations, rewards, flags, and infos in the form of the class that read them, empty for nothing.
Told = tuple[Any, FloatArray, BoolArray, BoolArray, Any]


class Game(NamedTuple):
    """Whether a game is over where an episode ended, and its raw score where it is not the sum of the rewards told."""

    over: bool
    score: float | None


_WHOLE = Game(True, None)  # of an environment whose episodes are its games


class GymnasiumVector:
    """Any vector environment of Gymnasium: everything that it tells is looked at and copied, observations aside.

    Attributes:
        own: It is one of ours: observations belong to whoever gets them, and an episode does not end without an info.
        reset_masks: Action masks that the last reset gave.
    """

    own = False

    def __init__(self, env: VectorEnv[Any, Any, Any], spec: EnvSpec, mode: AutoresetMode) -> None:
        self.env = env
        self._spec = spec
        self._mode = mode
        self._num_envs = int(env.num_envs)
        self.reset_masks: Given = {}

    def reset(self, **arguments: Any) -> tuple[Any, str]:
        """Observations, and a remark for the user, empty where there is none."""
        try:
            result = self.env.reset(**arguments)
        except BaseException as error:
            self._raise(error, "reset()")
        obs, infos = parts_of(result, ("obs", "infos"), "reset", self._spec.id)
        self.reset_masks = told_masks(infos, self._num_envs)
        return obs, _note_in(infos)

    def step(self, actions: npt.NDArray[Any]) -> Told:
        """Step all environments; rewards and flags are fresh."""
        try:
            result = self.env.step(env_actions(self._spec.action_space, actions))
        except BaseException as error:
            self._raise(error, "step()")
        obs, rewards, ended, cut, infos = parts_of(result, _STEP, "step", self._spec.id)
        return (
            obs,
            rewards_of(rewards, self._num_envs, self._spec.id),
            flags_of(ended, "terminated", self._num_envs, self._spec.id),
            flags_of(cut, "truncated", self._num_envs, self._spec.id),
            infos,
        )

    def broken(self, infos: Any) -> BoolArray | None:
        """The environments that failed and were started anew, [N]; None where there are none."""
        found: BoolArray | None = infos.get(RESTARTED)
        return found

    def note(self, infos: Any) -> str:
        """A remark for the user; empty where there is none."""
        return _note_in(infos)

    def masks(self, infos: Any) -> tuple[Given, Given]:
        """Action masks of what to act on next, and of the last observations of episodes that are over (SAME_STEP)."""
        last = infos.get("final_info") if self._mode is AutoresetMode.SAME_STEP else None
        return told_masks(infos, self._num_envs), told_masks(last, self._num_envs)

    def final_obs(self, infos: Any, rows: npt.NDArray[np.intp]) -> Any:
        """The true last observations of these rows, whose episodes ended in this step of SAME_STEP mode: a batch."""
        return final_observations(infos, rows, self._num_envs, self._spec.obs_space)

    def successes(self, infos: Any, rows: npt.NDArray[np.intp]) -> list[bool | None]:
        """`is_success` of the episodes that these rows ended; None where it is not told."""
        return [success_of(infos, int(i), self._mode, self._num_envs) for i in rows]

    def games(self, infos: Any, rows: npt.NDArray[np.intp]) -> list[Game]:
        """What the wrappers of this library tell of the games in which these rows ended episodes."""
        return [_WHOLE] * len(rows)

    def _raise(self, error: BaseException, where: str) -> NoReturn:
        if isinstance(error, SteadyRLError | KeyboardInterrupt | Ending):
            raise error
        raise RunFailedError(
            f"The vector environment {self._spec.id} raised {type(error).__name__} in {where}: {words(error)}",
            remedy="The fault is in the environment's own code: its traceback says where.",
            code="env-error",
        ) from error


class OwnVector(GymnasiumVector):
    """One of ours, read by its `advance`: infos are the list that this gives, and all is as it should be."""

    own = True
    env: AdvancingVectorEnv

    def step(self, actions: npt.NDArray[Any]) -> Told:
        """Step all environments."""
        try:
            return self.env.advance(actions)
        except BaseException as error:
            self._raise(error, "step()")

    def broken(self, infos: Any) -> BoolArray | None:
        """The environments that failed and were started anew, [N]; None where there are none."""
        rows = [i for i, info in infos if RESTARTED in info]
        if not rows:
            return None
        broken = np.zeros(self._num_envs, dtype=np.bool_)
        broken[rows] = True
        return broken

    def note(self, infos: Any) -> str:
        """A remark for the user; empty where there is none."""
        for _, info in infos:
            if NOTE in info:
                note: str = info[NOTE]
                return note
        return ""

    def masks(self, infos: Any) -> tuple[Given, Given]:
        """Action masks of what to act on next, and of the last observations of episodes that are over."""
        last = {i: info["final_info"].get(KEY) for i, info in infos if "final_info" in info}
        return (
            {i: info[KEY] for i, info in infos if KEY in info},
            {i: mask for i, mask in last.items() if mask is not None},
        )

    def final_obs(self, infos: Any, rows: npt.NDArray[np.intp]) -> Any:
        """The true last observations of these rows, whose episodes ended in this step, as a list."""
        return [info["final_obs"] for _, info in infos if "final_obs" in info]

    def successes(self, infos: Any, rows: npt.NDArray[np.intp]) -> list[bool | None]:
        """`is_success` of the episodes that these rows ended; None where it is not told."""
        return [info["final_info"].get("is_success") for _, info in infos if "final_info" in info]

    def games(self, infos: Any, rows: npt.NDArray[np.intp]) -> list[Game]:
        """What the wrappers of this library tell of the games in which these rows ended episodes."""
        for _, info in infos:
            last = info.get("final_info")
            if GAME in info or (last and (GAME in last or PART in last)):
                break
        else:
            return [_WHOLE] * len(rows)
        ended = {i: info["final_info"] for i, info in infos if "final_info" in info}
        begun = {i: info[GAME] for i, info in infos if GAME in info}  # ended on the way to the next life
        games = []
        for i in rows.tolist():
            told = ended.get(i, {})
            games.append(Game(i in begun or PART not in told, begun.get(i, told.get(GAME))))
        return games


def _note_in(infos: dict[str, Any]) -> str:
    return next((note for note in infos.get(NOTE, ()) if note), "")


def inner_of(env: VectorEnv[Any, Any, Any], spec: EnvSpec, mode: AutoresetMode) -> GymnasiumVector:
    """The vector environment to be read as it tells most cheaply; a wrapper around one of ours is read as any other."""
    kind = OwnVector if isinstance(env, AdvancingVectorEnv) else GymnasiumVector
    return kind(env, spec, mode)
