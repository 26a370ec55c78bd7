"""Running statistics of observations and returns, in float64; frozen use is simply not updating them.

With `native` on, kernels do the same arithmetic in the same order, one call for each leaf of a vector step.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from steadyrl.errors import UserError
from steadyrl.spaces import ObsSpec, ObsTree

Float64 = npt.NDArray[np.float64]
State = dict[str, Float64]


class RunningMeanStd:
    """Mean and population variance of all rows seen, merged batch by batch (Chan, Golub, LeVeque 1979).

    Two rows are needed for a variance: with fewer, `var` is 1, so that dividing by its root changes nothing.

    Args:
        shape: Shape of one row.
    """

    def __init__(self, shape: tuple[int, ...] = ()) -> None:
        self.shape = shape
        self.count = 0
        self.mean: Float64 = np.zeros(shape)
        self._m2: Float64 = np.zeros(shape)  # sum of squared distances from the mean
        self._kept: tuple[Float64, Float64] = (np.zeros(shape), np.zeros(shape))
        self._kept_count: int | None = None

    @property
    def squares(self) -> Float64:
        """Sum of squared distances from the mean, [*shape]."""
        return self._m2

    @property
    def var(self) -> Float64:
        """Population variance, [*shape]; 1 before two rows have been seen."""
        return self._m2 / self.count if self.count >= 2 else np.ones(self.shape)

    def update(self, batch: npt.NDArray[Any]) -> None:
        """Take in rows, [n, *shape]; n may be 0."""
        n = batch.shape[0]
        if n == 0:
            return
        rows = batch.astype(np.float64)
        batch_mean = np.add.reduce(rows) / n  # what `mean` computes, without its own cost on few rows
        delta = batch_mean - self.mean
        total = self.count + n
        # In place: what kernels write to must stay an array, also one of no dimension.
        self._m2[...] = (
            self._m2 + np.add.reduce(np.square(rows - batch_mean)) + np.square(delta) * (self.count * n / total)
        )
        self.mean[...] = self.mean + delta * (n / total)
        self.count = total

    def keep(self) -> None:
        """Remember what is known now, for `restore`."""
        mean, m2 = self._kept
        mean[...], m2[...] = self.mean, self._m2
        self._kept_count = self.count

    def restore(self) -> None:
        """Go back to what `keep` remembered, once."""
        if self._kept_count is not None:
            self.mean[...], self._m2[...] = self._kept
            self.count, self._kept_count = self._kept_count, None

    def state_dict(self) -> State:
        """Everything needed to go on exactly; copies."""
        return {"mean": self.mean.copy(), "m2": self._m2.copy(), "count": np.array(self.count, dtype=np.float64)}

    def load_state_dict(self, state: State) -> None:
        """Go on from what `state_dict` gave.

        Raises:
            UserError: an entry is missing or of another shape.
        """
        mean, m2 = _entry(state, "mean", self.shape), _entry(state, "m2", self.shape)
        self.count = int(_entry(state, "count", ()))
        self.mean, self._m2 = mean, m2


def _entry(state: State, key: str, shape: tuple[int, ...]) -> Float64:
    found = state.get(key)
    if found is None or found.shape != shape:
        what = "missing" if found is None else f"of shape {found.shape}"
        raise UserError(
            f"The normaliser's saved '{key}' is {what}, but shape {shape} is needed.",
            remedy="Load a file that was saved for the same observation space and number of environments.",
            code="bad-state",
        )
    return np.array(found, dtype=np.float64)


class ObsNormalizer:
    """(obs - mean) / sqrt(var + eps), clipped, for each entry of each Box leaf; one statistic for all environments.

    Other leaves, and images, which have a fixed scale of their own, pass through untouched.

    Args:
        obs_spec: The observation space.
        clip: Bound of the result's magnitude.
        eps: Added to the variance.

    Attributes:
        native: Whether kernels compute, which have to be there.
    """

    def __init__(self, obs_spec: ObsSpec, clip: float = 10.0, eps: float = 1e-8) -> None:
        self.clip = clip
        self.eps = eps
        self.native = False
        self._taken: ObsTree = {}  # the rows of the last `update`, normalised
        self.statistics = {
            leaf.path: RunningMeanStd(leaf.stored_shape)
            for leaf in obs_spec.leaves
            if leaf.kind == "box" and leaf.scale == 1.0
        }

    def update(self, obs: ObsTree, mask: npt.NDArray[np.bool_]) -> None:
        """Take in the rows of leaves [N, ...] where `mask` [N] is True."""
        for statistic in self.statistics.values():
            statistic.keep()
        if self.native:
            self._taken = {path: self._leaf(path, array, mask) for path, array in obs.items()}
            return
        for path, statistic in self.statistics.items():
            statistic.update(obs[path][mask])

    def undo(self) -> None:
        """Take the newest update back."""
        for statistic in self.statistics.values():
            statistic.restore()

    def is_sane(self) -> bool:
        """Whether every number in the statistics is finite."""
        return all(bool(np.isfinite(s.mean).all() and np.isfinite(s.squares).all()) for s in self.statistics.values())

    def take_in(self, obs: ObsTree, mask: npt.NDArray[np.bool_]) -> ObsTree:
        """`update`, then the same observations normalised, which kernels do in one go."""
        self.update(obs, mask)
        if not self.native:
            return self(obs)
        taken, self._taken = self._taken, {}
        return taken

    def __call__(self, obs: ObsTree) -> ObsTree:
        """A new tree; normalised leaves are fresh float32 arrays, the others are the arrays passed in."""
        return {path: self._leaf(path, array, None) for path, array in obs.items()}

    def _leaf(self, path: str, array: npt.NDArray[Any], mask: npt.NDArray[np.bool_] | None) -> npt.NDArray[Any]:
        """One leaf normalised; kernels take the rows of `mask` in before that."""
        statistic = self.statistics.get(path)
        if statistic is None:
            return array
        if self.native:
            from steadyrl.kernels import _native

            rows = np.ascontiguousarray(array, dtype=np.float32)
            out = np.empty(rows.shape, dtype=np.float32)
            statistic.count = _native.standardise(
                rows, mask, statistic.mean, statistic.squares, statistic.count, self.eps, self.clip, out
            )
            return out
        scaled = (array - statistic.mean) / np.sqrt(statistic.var + self.eps)
        return scaled.clip(-self.clip, self.clip).astype(np.float32)

    def state_dict(self) -> State:
        """Float64 arrays named `mean/PATH`, `m2/PATH`, `count/PATH`."""
        return {
            f"{name}/{path}": array
            for path, statistic in self.statistics.items()
            for name, array in statistic.state_dict().items()
        }

    def load_state_dict(self, state: State) -> None:
        """Go on from what `state_dict` gave.

        Raises:
            UserError: an entry is missing or of another shape.
        """
        for path, statistic in self.statistics.items():
            suffix = f"/{path}"
            names = ("mean", "m2", "count")
            statistic.load_state_dict({name: state[name + suffix] for name in names if name + suffix in state})


class RewardNormalizer:
    """Rewards over the running standard deviation of the discounted return, clipped; training only.

    Args:
        num_envs: Environments, N.
        gamma: Discount of the returns.
        clip: Bound of the result's magnitude.
        eps: Added to the variance.
        native: Kernels compute.
    """

    def __init__(
        self, num_envs: int, gamma: float, clip: float = 10.0, eps: float = 1e-8, *, native: bool = False
    ) -> None:
        self.gamma = gamma
        self._native = native
        self.clip = clip
        self.eps = eps
        self._statistic = RunningMeanStd(())
        self._returns: Float64 = np.zeros(num_envs)  # discounted return of the running episode

    @property
    def std(self) -> float:
        """What rewards are divided by; about 1 before two returns have been seen."""
        return float(np.sqrt(self._statistic.var + self.eps))

    def __call__(
        self, rewards: Float64, done: npt.NDArray[np.bool_], valid: npt.NDArray[np.bool_]
    ) -> npt.NDArray[np.float32]:
        """Take in one step, [N] each, and return its normalised rewards [N]; 0 where not valid."""
        if self._native:
            return self._by_kernels(rewards, done, valid)
        self._returns = np.where(valid, self._returns * self.gamma + rewards, self._returns)
        self._statistic.update(self._returns[valid])
        scaled = (rewards / self.std).clip(-self.clip, self.clip)
        self._returns[done] = 0.0
        return np.where(valid, scaled, 0.0).astype(np.float32)

    def start_anew(self) -> None:
        """All episodes begin anew."""
        self._returns[:] = 0.0

    def _by_kernels(
        self, rewards: Float64, done: npt.NDArray[np.bool_], valid: npt.NDArray[np.bool_]
    ) -> npt.NDArray[np.float32]:
        from steadyrl.kernels import _native

        out, known = np.empty(len(rewards), dtype=np.float32), self._statistic
        known.count = _native.scale_rewards(
            rewards,
            done,
            valid,
            self._returns,
            self.gamma,
            known.mean,
            known.squares,
            known.count,
            self.eps,
            self.clip,
            out,
        )
        return out

    def state_dict(self) -> State:
        """The statistic and the running episodes' returns; copies."""
        return {**self._statistic.state_dict(), "returns": self._returns.copy()}

    def load_state_dict(self, state: State) -> None:
        """Go on from what `state_dict` gave.

        Raises:
            UserError: an entry is missing or of another shape.
        """
        returns = _entry(state, "returns", self._returns.shape)
        self._statistic.load_state_dict(state)
        self._returns = returns
