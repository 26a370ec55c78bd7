"""The wrapper that makes one environment's output canonical, in the process where the environment lives."""

from __future__ import annotations

import traceback
import warnings
from typing import Any, Literal, NoReturn

import gymnasium as gym
import numpy as np

from steadyrl.envs.convert import action_converter, obs_converter
from steadyrl.envs.drawing import drawing_in, with_wrappers
from steadyrl.envs.failure import Failure
from steadyrl.envs.keys import PART
from steadyrl.envs.masks import MaskSource
from steadyrl.envs.named import statistics_notes
from steadyrl.envs.outcome import NOTE, flag_of, info_of, insist_on_five, insist_on_pair, old_gym, reward_of
from steadyrl.envs.snapshots.generators import process_mark
from steadyrl.envs.snapshots.native import obstacle
from steadyrl.envs.snapshots.replay import opaque_parts, outlived, start_of
from steadyrl.envs.snapshots.state import Kind
from steadyrl.envs.trace import MAX_ACTIONS, EpisodeTrace
from steadyrl.errors import Ending, RunFailedError, SteadyRLError, words

_ARRAYS = gym.spaces.Box | gym.spaces.MultiDiscrete | gym.spaces.MultiBinary
_WATCHED_CALLS = 12  # resets and steps in which an environment that draws from the process's generators is found out


class Canonical(gym.Wrapper[Any, Any, Any, Any]):
    """Own copies of everything, rewards as floats, flags as bools, and errors in words.

    Observations are fresh arrays of the space's dtype, so that an environment may reuse its arrays. `info` keeps
    `is_success` and, as truth values, `action_mask`. Actions arrive in the environment's own dtype. What the
    environment raises, a `sys.exit` included, becomes a RunFailedError that names it, except for KeyboardInterrupt;
    what breaks the Gymnasium interface is a UserError. A `close()` that fails is a warning.

    Args:
        env: The environment, with all its other wrappers.
        name: How errors call it; its id or class.
        index: Its number in a vector of environments.
        role: How errors begin that tell what it raised.
        masks: Whether `info` is to hold an action mask where the environment gives one.
        bind: Whether nothing may be done but what the masks allow.

    Raises:
        UserError: a wrapper takes actions that masks which are to bind may forbid.
    """

    def __init__(
        self,
        env: gym.Env[Any, Any],
        name: str = "",
        index: int | None = None,
        role: str = "Environment",
        *,
        masks: bool = True,
        bind: bool = False,
    ) -> None:
        super().__init__(env)
        self.metadata = dict(env.metadata)  # Gymnasium 1.1 writes into the class's own
        self.name = name or (env.spec.id if env.spec is not None else type(env.unwrapped).__name__)
        self.index = index
        self.role = role
        self.elapsed = 0  # steps since the last reset
        self.trace = EpisodeTrace()
        self.last: Any = None  # the last observation; it is the caller's, who is not to write into it
        self.kind: Kind | None = None  # how its state can be saved, known after the first reset
        self.outlived = ""  # what cannot be read and is left in place by a reset, found out in the first two
        self.draws = False  # whether it draws from the generators that NumPy and Python keep for the process
        self._innermost: gym.Env[Any, Any] = env.unwrapped
        self._drawing = drawing_in(env)
        self._watched = _WATCHED_CALLS
        self._resets = 0
        self._label = self.name if index is None else f"{self.name} (environment {index})"
        self._notes = [] if index else statistics_notes(env, self.name)
        self._obs = obs_converter(env.observation_space, self._label, notes=self._notes)
        self._action = action_converter(env.action_space)
        self.masks = MaskSource(env, self._label, self._notes, used=masks, bind=bind)
        # The common cases, which need no call: an action that is the space's number, an observation that fits.
        actions, obs = env.action_space, env.observation_space
        self._number = np.dtype(actions.dtype).type if isinstance(actions, gym.spaces.Discrete) else None
        self._array = np.dtype(actions.dtype) if isinstance(actions, _ARRAYS) else None
        self._dtype = np.dtype(obs.dtype) if isinstance(obs, gym.spaces.Box | gym.spaces.MultiBinary) else None
        self._shape = obs.shape

    @property
    def spec(self) -> Any:  # type: ignore[override]
        """The inner environment's specification: this wrapper is no part of how to make it."""
        return self.env.spec

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Start an episode.

        Raises:
            UserError: the environment breaks the Gymnasium interface.
            RunFailedError: the environment raised an error.
        """
        self.elapsed = 0
        self.trace = EpisodeTrace.beginning(self._innermost, seed, options)
        if self._drawing and seed is None:
            self.trace.random_state = with_wrappers(self.trace.random_state, self._drawing)
        if self.kind != "native":
            self.trace.start = start_of(self.env, self.draws or self._watched > 0)
        mark = process_mark() if self._watched else None
        before = opaque_parts(self.env) if self.kind != "native" and self._resets < 2 else {}
        try:
            result: Any = self.env.reset(seed=seed, options=options)
        except BaseException as error:
            self._raise(error, "in reset()", "reset")
        if mark is not None:
            self._watch(mark)
        insist_on_pair(result, self._label)
        obs = result[0]
        plain = type(obs) is np.ndarray and obs.dtype == self._dtype and obs.shape == self._shape
        self.last = obs = obs.copy() if plain else self._obs(obs)
        self._resets += 1
        if before:
            self.outlived = self.outlived or outlived(self.env, before)
        if self.kind is None:
            self.kind = "replay" if obstacle(self.env) else "native"
        if self.kind == "replay":
            self.trace.start_hash(obs)
        if PART in result[1]:
            self.trace.whole = False  # the game began before
        info = info_of(result[1], self._label) if result[1] else {}
        if info or self.masks.asks:
            self._put_mask(info, terminated=False, phase="reset")
        if self._resets == 1:
            self.masks.look(self.env.observation_space, result[1])
        return obs, self._noted(info) if self._notes else info

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Take a step.

        Raises:
            UserError: the environment breaks the Gymnasium interface.
            RunFailedError: the environment raised an error.
        """
        self.elapsed += 1
        # The trace gets its own: the environment may write into what it is given.
        if type(action) is self._number:
            own = kept = action
        elif type(action) is np.ndarray and action.dtype is self._array:
            own, kept = action.copy(), action.copy()
        else:
            own = self._action(action)
            kept = own.copy() if type(own) is np.ndarray else self._action(own)
        trace = self.trace
        if len(trace.actions) < MAX_ACTIONS:
            trace.actions.append(kept)
        else:
            trace.whole = False
        mark = process_mark() if self._watched else None
        try:
            result: Any = self.env.step(own)
        except BaseException as error:
            self._raise(error, f"in step {self.elapsed} of its episode", "step")
        if mark is not None:
            self._watch(mark)
        insist_on_five(result, self._label)
        obs, reward, terminated, truncated, info = result
        plain = type(obs) is np.ndarray and obs.dtype == self._dtype and obs.shape == self._shape
        self.last = obs = obs.copy() if plain else self._obs(obs)
        if type(reward) is not float:
            reward = float(reward) if isinstance(reward, float) else reward_of(reward, self._label)
        if self.kind == "replay":
            self.trace.see(obs, reward)
        if type(terminated) is not bool:
            terminated = flag_of(terminated, "terminated", self._label)
        if type(truncated) is not bool:
            truncated = flag_of(truncated, "truncated", self._label)
        info = info_of(info, self._label, self.elapsed) if info or type(info) is not dict else {}
        if info or self.masks.asks:
            self._put_mask(info, terminated, "step")
        return obs, reward, terminated, truncated, self._noted(info) if self._notes else info

    def render(self) -> Any:
        """The picture that the environment draws.

        Raises:
            RunFailedError: the environment raised an error; one that says that it cannot render is left as it is.
        """
        try:
            return self.env.render()
        except (gym.error.Error, NotImplementedError, ImportError):
            raise
        except BaseException as error:
            self._raise(error, "while rendering")

    def close(self) -> None:
        """Close the environment; an error on the way is told as a warning, for nothing depends on it any more."""
        try:
            self.env.close()
        except (KeyboardInterrupt, Ending):
            raise
        except BaseException as error:
            warnings.warn(f"close() of {self.name} raised {type(error).__name__}: {words(error)}", stacklevel=2)

    def _put_mask(self, info: dict[str, Any], terminated: bool, phase: Literal["reset", "step"]) -> None:
        """Let `info` hold the mask of what was just observed."""
        try:
            self.masks.put(info, self.elapsed, terminated)
        except BaseException as error:
            self._raise(error, f"in action_masks() after step {self.elapsed} of its episode", phase)

    def _watch(self, mark: tuple[Any, ...]) -> None:
        """Find out whether the call since `mark` drew from the process's generators."""
        self._watched -= 1
        self.draws = self.draws or process_mark() != mark

    def _noted(self, info: dict[str, Any]) -> dict[str, Any]:
        """`info` with what the converter of observations has to say, once, under `NOTE`."""
        if self._notes:
            info[NOTE] = self._notes.pop()
        return info

    def _raise(self, error: BaseException, when: str, phase: Literal["reset", "step"] | None = None) -> NoReturn:
        if isinstance(error, SteadyRLError | KeyboardInterrupt | Ending):
            raise error
        text = words(error)
        if isinstance(error, TypeError) and "reset() got an unexpected keyword argument" in text:
            raise old_gym(f"reset() of {self._label} does not take seed= and options= ({text}).") from error
        if isinstance(error, ValueError) and "expected 5, got 4" in text:  # a wrapper such as TimeLimit met them first
            raise old_gym(f"step() of {self._label} returned 4 values instead of five.") from error
        number = "" if self.index is None else f" {self.index}"
        unlike = " In a training, eval_freq 0 does without evaluations."
        failed = RunFailedError(
            f"{self.role}{number} ({self.name}) raised {type(error).__name__} {when}: {words(error)}",
            remedy="The fault is in the environment's own code: its traceback says where."
            f"{unlike if 'evaluation' in self.role else ''}",
            code="env-error",
        )
        if phase is not None:
            failed.failure = failure_of(self, phase, error)
        raise failed from error


def failure_of(env: Canonical, phase: Literal["make", "reset", "step", "close"], error: BaseException) -> Failure:
    """The record of what `env` just raised in this process."""
    trace = env.trace
    return Failure(
        env_index=env.index or 0,
        worker=None,
        phase=phase,
        step=env.elapsed,
        seed=trace.seed,
        options=trace.options,
        random_state=trace.random_state,
        actions=trace.actions,
        whole=trace.whole,
        error=f"{type(error).__name__}: {words(error)}",
        traceback=traceback_of(error),
    )


def failure_in_making(index: int, error: BaseException) -> Failure:
    """The record of what the constructor of environment `index` raised."""
    told = f"{type(error).__name__}: {words(error)}"
    return Failure(index, None, "make", 0, None, None, None, [], True, told, traceback_of(error))


def traceback_of(error: BaseException) -> str:
    """The traceback of what an environment raised, from its own first frame on."""
    frames = error.__traceback__
    inner = frames.tb_next if frames is not None else None  # the first frame is this wrapper's
    return "".join(traceback.format_exception(type(error), error, inner or frames))
