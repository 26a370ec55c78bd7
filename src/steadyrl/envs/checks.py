"""What environments told, stored and looked through: as many rows as there should be, and no number that is bad."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from steadyrl.envs.episodes import Episodes
from steadyrl.envs.nonfinite import SURE, Place, bad_entries
from steadyrl.envs.types import FloatArray
from steadyrl.errors import NonFiniteError, RunFailedError, UserError
from steadyrl.spaces import ObsSpec, ObsTree

_STEP = ("actions", "rewards", "terminated", "truncated")
_FLOATS = (np.dtype(np.float32), np.dtype(np.float64))


class Checks:
    """Stores observations and finds bad numbers in them and in rewards: NaN, infinity and absurd ones.

    One sum of squares tells that all is well; where it is too large the entries decide.

    Attributes:
        told: The present step's actions, rewards and flags, as `_STEP` names them, for the error to bring along.
        faults: Gets the first bad number of each environment; None raises at once.

    Args:
        obs_spec: What observations are.
        name: How errors call the environment.
        num_envs: N.
        episodes: Tell in which step of which episode a bad number came.
        fresh: Batches of observations belong to whoever gets them.
    """

    def __init__(self, obs_spec: ObsSpec, name: str, num_envs: int, episodes: Episodes, *, fresh: bool) -> None:
        self.told: tuple[npt.NDArray[Any], ...] = ()
        self.faults: dict[int, NonFiniteError] | None = None
        self._spec = obs_spec
        self._name = name
        self._num_envs = num_envs
        self._episodes = episodes
        self._fresh = fresh
        self._checked = [leaf.path for leaf in obs_spec.leaves if leaf.may_be_bad]
        # One Box of floats, the common case, is stored and looked through at once.
        plain = not obs_spec.is_tree and obs_spec.leaves[0].kind == "box"
        self._shape = obs_spec.leaves[0].shape if plain and self._checked else None
        self._whole = None if self._shape is None else (num_envs, *self._shape)
        self._single = self._shape is not None and np.dtype(obs_spec.leaves[0].dtype) == _FLOATS[0]

    def stored(self, obs: Any, rows: npt.NDArray[np.intp] | None = None) -> ObsTree:
        """The batch as a stored tree; `rows` are the environments that it is of, all by default.

        Raises:
            NonFiniteError: a number in it is bad.
            RunFailedError: a sequence in it is longer than those that are kept.
            UserError: it does not fit the space, or has another number of rows.
        """
        if (
            self._shape is not None
            and type(obs) is np.ndarray
            and obs.shape == (self._whole if rows is None else (len(rows), *self._shape))
            and obs.dtype in _FLOATS
            and np.vdot(obs, obs) <= SURE
        ):
            return {"": obs if self._fresh and obs.dtype == _FLOATS[0] else obs.astype(np.float32)}
        stored = self._fitted(obs, rows)
        self.insist_on_rows(stored, self._num_envs if rows is None else len(rows))
        self.leaves(stored, obs, rows)
        return stored

    def one(self, obs: Any, i: int) -> ObsTree:
        """The observation of environment `i` alone as a stored tree, leaves [1, ...]; raises as `stored` does."""
        stored = self._fitted(obs, i)
        self.leaves(stored, obs, np.array([i]))
        return stored

    def _fitted(self, obs: Any, which: int | npt.NDArray[np.intp] | None) -> ObsTree:
        """As the specification stores it, of one environment, of some or of all; what does not fit is told with it."""
        single = isinstance(which, int)
        try:
            return self._spec.store(obs, batch=not single)
        except UserError as error:
            if error.row is None:
                raise
            i = which if isinstance(which, int) else int(error.row if which is None else which[error.row])
            number = "" if self._num_envs == 1 else f" (environment {i})"
            where = f"{self._name}{number}, in step {self._episodes.lengths[i]} of its episode"
            kind = RunFailedError if error.code == "obs-length" else UserError
            raise kind(f"{where}: {error.message}", remedy=error.remedy, code=error.code) from error

    def ended(self, stored: ObsTree, rows: npt.NDArray[np.intp], last: Any) -> ObsTree:
        """The stored batch of a step with these rows replaced by the last observations of their episodes.

        Args:
            stored: Leaves [N, ...].
            rows: Whose episodes ended.
            last: What they observed last: a list of them, or a batch.
        """
        if self._single and self._fresh:
            copy = stored[""].copy()
            for i, obs in zip(rows.tolist(), last, strict=True):
                copy[i] = obs
            if np.vdot(copy, copy) <= SURE:
                return {"": copy}
        if isinstance(last, list):
            last = self._spec.tree.batch(last)
        checked = self.stored(last, rows)
        return {path: replaced(leaf, rows, checked[path]) for path, leaf in stored.items()}

    def insist_on_rows(self, tree: ObsTree, count: int) -> None:
        """Raise UserError unless every leaf has so many rows."""
        for path, leaf in tree.items():
            if len(leaf) != count:
                raise UserError(
                    f"The observations{f' at {path!r}' if path else ''} of the vector environment {self._name} are "
                    f"{len(leaf)}, not {count}.",
                    remedy="Return one observation for each environment, and let num_envs tell their number.",
                    code="vector-shape",
                )

    def leaves(self, tree: ObsTree, told: Any, rows: npt.NDArray[np.intp] | None) -> None:
        """Raise NonFiniteError for a bad number.

        Args:
            tree: As it is stored.
            told: The same as the environment told it, with the numbers that leave float32; None where nobody knows.
            rows: The environments of the tree's rows; None for all.
        """
        for path in self._checked:
            leaf = tree[path]
            if not np.vdot(leaf, leaf) <= SURE:
                what = f"observation at '{path}'" if path else "observation"
                own = None if told is None or self._spec.by_path[path].kind != "box" else self._spec.flat(told)[path]
                self._entries(leaf, what, path, rows, leaf if own is None else own, tree)

    def rewards(self, rewards: FloatArray, obs: ObsTree) -> None:
        """Raise NonFiniteError for a bad one, with the stored observations of its step."""
        if not np.vdot(rewards, rewards) <= SURE:
            self._entries(rewards, "reward", "", None, rewards, obs)

    def _entries(
        self, values: npt.NDArray[Any], what: str, key: str, rows: npt.NDArray[np.intp] | None, told: Any, obs: ObsTree
    ) -> None:
        """Raise for the first bad entry; where it is to be skipped, note each environment that has one."""
        place = Place(self._name, self._episodes.lengths, self._episodes.seeds)
        for i, error in bad_entries(values, told, what, key, rows, place).items():
            error.batch = {f"observation/{path}".rstrip("/"): leaf for path, leaf in obs.items()}
            error.batch |= _named(dict(zip(_STEP, self.told, strict=False)))
            if self.faults is None:
                raise error
            self.faults.setdefault(i, error)


def _named(arrays: dict[str, npt.NDArray[Any]]) -> dict[str, npt.NDArray[Any]]:
    """The same arrays, with one for each field of the actions of a Dict or Tuple."""
    actions = arrays.get("actions")
    if actions is None or actions.dtype.names is None:
        return arrays
    fields = {f"actions/{name}": np.ascontiguousarray(actions[name]) for name in actions.dtype.names}
    return fields | {name: array for name, array in arrays.items() if name != "actions"}


def replaced(leaf: npt.NDArray[Any], rows: npt.NDArray[np.intp], values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """A copy of the leaf with these rows."""
    copy = leaf.copy()
    copy[rows] = values
    return copy
