"""Action masks on their way from environments to whoever acts: each belongs to the observation it came with.

An environment gives one as `info["action_mask"]`, from `reset` and from every `step`, or from a method
`action_masks()`, which is asked after them. Where both are there, `info` counts. After a step that terminated there is
nothing to choose, and no mask is looked at.
"""

from __future__ import annotations

from typing import Any, Literal

import gymnasium as gym
import numpy as np
import numpy.typing as npt

from steadyrl.envs.holding import insist_on_free
from steadyrl.envs.shown import shown
from steadyrl.envs.types import BoolArray
from steadyrl.errors import UserError
from steadyrl.spaces import ActionSpec, ObsTree
from steadyrl.spaces.masks import MASK, mask_width, read_mask

Wanted = Literal["auto", "on", "off"]
Given = dict[int, Any]  # the mask of an environment, by its number

KEY, METHOD = "action_mask", "action_masks"
# What masks are called elsewhere: by PettingZoo, Stable-Baselines3, OpenSpiel and SMAC.
NEAR = (
    "action_mask",
    "action_masks",
    "legal_actions_mask",
    "legal_action_mask",
    "valid_action_mask",
    "avail_actions",
)


class MaskSource:
    """The masks of one environment, in the process where it lives.

    Args:
        env: The environment.
        name: How errors call it.
        notes: Gets a remark where there are masks of actions that have none.
        used: Whether masks are looked at; else they are left out of `info`.
        bind: Nothing may be done but what they allow.

    Attributes:
        asks: The environment has a method to ask.
        last: The mask that was given last, [width]; None where there was none.

    Raises:
        UserError: masks are to bind, and a wrapper takes actions when they may be forbidden.
    """

    def __init__(self, env: gym.Env[Any, Any], name: str, notes: list[str], *, used: bool, bind: bool = False) -> None:
        self._name = name
        self._notes = notes
        self._told = False
        self._space = env.action_space
        self.last: BoolArray | None = None
        self._spec: ActionSpec | None = None
        method = None
        if used and isinstance(env.action_space, gym.spaces.Discrete | gym.spaces.MultiDiscrete):
            self._spec = ActionSpec.of(env.action_space)
            method = _method_of(env, name)
        self._method = method if callable(method) else None
        self._attribute = method is not None and self._method is None
        self._used = used
        self.asks = self._method is not None
        self._unheld = None if not bind else env  # until it is known that no wrapper holds actions
        if bind and self.asks:
            insist_on_free(env, name, METHOD)

    def put(self, info: dict[str, Any], step: int, terminated: bool) -> None:
        """Let `info`, which is fresh, hold the mask as truth values where there is one, and else none.

        Args:
            info: As `convert.info_of` made it.
            step: Of the episode; 0 is the reset.
            terminated: Whether the episode is over for good.

        Raises:
            UserError: it is no mask, allows nothing, or would not bind what wrappers do.
        """
        self.last = None
        told = info.pop(KEY, None)
        if terminated or not self._used:
            return
        if self._spec is None:
            if told is not None and not self._told:
                self._told = True
                kind = type(self._space).__name__
                self._notes.append(
                    f"info['{KEY}'] of {self._name} is not used: its actions are a {kind}, and there are masks for "
                    "Discrete and MultiDiscrete ones only."
                )
            return
        mask = self._method() if told is None and self._method is not None else told
        if mask is not None:
            try:
                self.last = info[KEY] = read_mask(mask, self._spec, f"{self._name}, {_when(step)},")
            except UserError as error:
                if error.code != "mask-type":
                    raise
                info[KEY] = mask  # the parent process tells, or that it cannot be sent there
            if self._unheld is not None and step == 0:
                env, self._unheld = self._unheld, None
                insist_on_free(env, self._name, METHOD if told is None else None)

    def look(self, obs_space: gym.Space[Any], info: dict[str, Any]) -> None:
        """Say, after the first reset, where there is something like a mask and none that is used.

        Args:
            obs_space: Where a part of an observation may be one.
            info: As the environment told it.
        """
        if self._used and self._spec is not None and self.last is None and info.get(KEY) is None:
            where = f"The attribute {METHOD}, which is no method," if self._attribute else unused_mask(obs_space, info)
            if where:
                taken = f"Masks are taken from info['{KEY}'] at every reset and step, or from a method {METHOD}()."
                self._notes.append(f"{where} of {self._name} is not used as an action mask. {taken}")


def unused_mask(obs_space: gym.Space[Any], infos: Any) -> str:
    """Where there is something that is called like a mask and that nobody takes for one, in words; empty for nowhere.

    Args:
        obs_space: Of one environment.
        infos: Of one environment, or of a vector of them.
    """
    for key in NEAR:
        if key != KEY and isinstance(infos, dict) and infos.get(key) is not None:
            return f"info['{key}']"
    parts = obs_space.spaces if isinstance(obs_space, gym.spaces.Dict) else {}
    return next((f"The part '{key}' of the observation" for key in NEAR if key in parts), "")


def _method_of(env: gym.Env[Any, Any], name: str) -> Any:
    """What the environment or one of its wrappers has under that name, or None."""
    try:
        return env.get_wrapper_attr(METHOD) if env.has_wrapper_attr(METHOD) else None
    except Exception as error:
        raise UserError(
            f"Asking {name} whether it has {METHOD}() raised {type(error).__name__}: {error}.",
            remedy="Let its __getattr__ raise AttributeError for what is not there, even before __init__ is done.",
            code="env-attribute",
        ) from error


def _when(step: int) -> str:
    """In words, for an error."""
    return "at its reset" if step == 0 else f"in step {step} of its episode"


def missing_mask(name: str, step: int, *, cut: bool = False) -> UserError:
    """The error for an observation that came without a mask; `cut` where that step truncated the episode."""
    which = ", which truncated it" if cut else ""
    why = ": a truncated step is valued by what could have been done after it" if cut else ""
    return UserError(
        f"{name} gave no action mask {_when(step)}{which}, though masks are used{why}.",
        remedy=f"Let info['{KEY}'] hold one at every reset and step, or give the environment {METHOD}(); "
        "--action-masks off trains without.",
        code="mask-missing",
    )


def told_masks(infos: Any, num_envs: int) -> Given:
    """The masks in a vector environment's dictionary of arrays, `infos["action_mask"]` with `infos["_action_mask"]`.

    Raises:
        UserError: they are not one for each environment.
    """
    values = infos.get(KEY) if isinstance(infos, dict) else None
    if values is None:
        return {}
    there = infos.get(f"_{KEY}")
    for rows in (values, there):
        count = len(rows) if isinstance(rows, list | tuple) or (isinstance(rows, np.ndarray) and rows.ndim) else None
        if rows is not None and count != num_envs:
            found = f"is {shown(rows)}" if count is None else f"has {count} rows"
            raise UserError(
                f"infos['{KEY}'] of the vector environment {found} for {num_envs} environments.",
                remedy="Put one mask for each environment there.",
                code="mask-size",
            )
    return {i: values[i] for i in range(num_envs) if (there is None or there[i]) and values[i] is not None}


class Masks:
    """The masks of a vector of environments, as one more leaf of its observations.

    Attributes:
        used: Whether there are any; None until the first reset decides.
        was_open: The first reset decides, or has decided.
        needs_last: The observation of a truncated step is to have its mask; else one may be left out there.

    Args:
        wanted: `auto` uses them where the first reset gives one.
        spec: The actions of one environment.
        name: How errors call the environment.
        num_envs: N.
        checked: Truth values among the masks come from a `MaskSource`, which has looked at them.
    """

    def __init__(self, wanted: Wanted, spec: ActionSpec, name: str, num_envs: int, *, checked: bool) -> None:
        self._spec = spec
        self._checked = checked
        self._name = name
        self._num_envs = num_envs
        self.was_open = wanted == "auto" and mask_width(spec) > 0
        self.used: bool | None = None if self.was_open else wanted == "on"
        self.needs_last = False
        self.current: BoolArray = np.ones((num_envs, mask_width(spec)), dtype=np.bool_)

    def begin(self, obs: ObsTree, given: Given) -> ObsTree:
        """The first observations with their masks; decides whether masks are used where that is open.

        Raises:
            UserError: an environment gives none, and masks are used.
        """
        if self.used is None:
            self.used = bool(given)
        if not self.used:
            return obs
        nothing = np.zeros(self._num_envs, dtype=np.bool_)
        self.current = self._read(given, nothing, np.zeros(self._num_envs, dtype=np.int64))
        return {**obs, MASK: self._leaf(self.current)}

    def take(
        self,
        obs: tuple[ObsTree, ObsTree],
        given: tuple[Given, Given],
        ended: tuple[BoolArray, BoolArray],
        steps: npt.NDArray[np.int64],
        ends: npt.NDArray[np.int64],
        *,
        late: bool,
    ) -> tuple[ObsTree, ObsTree]:
        """What to act on next and the true successors, each with its masks.

        Args:
            obs: Both trees, leaves [N, ...].
            given: Masks of what to act on next, and of the last observations of episodes that are over.
            ended: Where episodes were terminated and truncated, [N].
            steps: Steps of the running episodes, [N]; 0 where one has just begun.
            ends: Steps of the episodes before that, [N], where they ended.
            late: What to act on next is the last observation itself, of whose masks none is asked for.

        Raises:
            UserError: a mask is missing, is of another size, or allows nothing.
        """
        (now, last), (terminated, truncated) = given, ended
        over, cut = terminated | truncated, truncated & ~terminated
        if late:
            now = {i: mask for i, mask in now.items() if not terminated[i]}
        if self.needs_last:
            for i in cut.nonzero()[0].tolist():
                if i not in (now if late else last):
                    raise missing_mask(f"{self._name} (environment {i})", int(ends[i]), cut=True)
        optional, steps = (over, np.where(over, ends, steps)) if late else (np.zeros_like(over), steps)
        self.current = self._read(now, optional, steps)
        final = self.current
        if over.any() and not late:
            final = final.copy()
            final[over] = True
            for i, mask in last.items():
                if cut[i]:
                    final[i] = self._one(i, mask, _when(int(ends[i])))
        leaf = self._leaf(self.current)
        return {**obs[0], MASK: leaf}, {**obs[1], MASK: leaf if final is self.current else self._leaf(final)}

    def refuse_late(self, given: tuple[Given, Given], steps: npt.NDArray[np.int64]) -> None:
        """Raise UserError where a mask comes with a step though none came with the reset: it would not be used."""
        for i in given[0] | given[1]:
            raise UserError(
                f"{self._name} (environment {i}) gave an action mask {_when(int(steps[i]))}, but none at its reset, "
                "which decides whether masks are used.",
                remedy=f"Let info['{KEY}'] hold one at every reset and step; --action-masks off trains without.",
                code="mask-late",
            )

    def start_anew(self, i: int, given: Any, *trees: ObsTree) -> None:
        """Environment `i` begins another episode: its mask in place of the one that is in these trees.

        Raises:
            UserError: there is none, or it allows nothing.
        """
        if self.used:
            self.current[i] = self._one(i, given, "at its reset") if given is not None else self._missing(i, 0)
            for tree in trees:
                tree[MASK][i] = self.current[i]

    def with_current(self, obs: ObsTree) -> ObsTree:
        """The observations to act on with the masks that were read last."""
        return {**obs, MASK: self._leaf(self.current)} if self.used else obs

    def state(self) -> BoolArray | None:
        """What `restore` takes."""
        return self.current.copy() if self.used else None

    def restore(self, state: Any) -> None:
        """Go on where `state` was taken."""
        if self.used is None:
            self.used = state is not None
        if self.used and state is not None:
            self.current = np.array(state).reshape(self.current.shape).astype(np.bool_)

    def _read(self, given: Given, optional: BoolArray, steps: npt.NDArray[np.int64]) -> BoolArray:
        """[N, width]; all is allowed where one may be missing and is."""
        masks = np.ones_like(self.current)
        for i in range(self._num_envs):
            if i in given:
                masks[i] = self._one(i, given[i], _when(int(steps[i])))
            elif not optional[i]:
                self._missing(i, int(steps[i]))
        return masks

    def _one(self, i: int, given: Any, when: str) -> BoolArray:
        if self._checked and type(given) is np.ndarray and given.dtype == np.bool_:
            return given
        return read_mask(given, self._spec, f"{self._name} (environment {i}), {when},")

    def _missing(self, i: int, step: int) -> BoolArray:
        raise missing_mask(f"{self._name} (environment {i})", step)

    @staticmethod
    def _leaf(masks: BoolArray) -> npt.NDArray[np.float32]:
        """As it is stored."""
        return masks.astype(np.float32)
