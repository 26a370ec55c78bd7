"""Keeps minibatches whose numbers are not finite, or absurd, from being applied.

    guard.begin(step, updates)
    with guard.minibatch(batch):
        loss, metrics, gradients = ...
        guard.look("train/loss", loss)  # before anything is changed
        net.backward(gradients)
        guard.applied(optimizer.step(lr, max_grad_norm, guard.permit))

On the CPU a bad number raises before anything is changed; where it is to be skipped, the block ends early. On a GPU the
host is not asked: a flag on the device, `permit`, decides whether the minibatch changes anything, and `read` brings the
number of those that did not to the host when a row of metrics is written.
"""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType
from typing import Any

import torch
from torch import Tensor

from steadyrl.errors import NonFiniteError
from steadyrl.nn.optim import Adam

ABSURD = 1e18  # the square of a larger magnitude leaves float32

_REMEDY = "Look for rewards or observations of huge magnitude, set normalize_obs, or lower learning_rate."


class Guard:
    """What an algorithm asks about each of its minibatches.

    Args:
        skip: A bad minibatch is left out and counted; else it ends the run.
        limit: With `skip`, bad minibatches in a row that end the run all the same.
        deferred: The host does not look: a flag stays on the device.

    Attributes:
        count: Minibatches left out so far, as far as the host knows.
        listener: Told of each bad minibatch that is left out, with what it was.
        permit: On the device, whether the present minibatch has been good so far; None where the host looks.
    """

    def __init__(self, *, skip: bool = False, limit: int = 10, deferred: bool = False) -> None:
        self.skip = skip
        self.limit = limit
        self.count = 0
        self.listener: Callable[[NonFiniteError], None] | None = None
        self.permit: Tensor | None = None
        self._deferred = deferred
        self._in_a_row = 0
        self._flags: list[Tensor] = []
        self._begun = (0, 0)
        self._number = 0
        self._name = ""
        self._batch: Any = None
        self._index: Any = None
        self._provisional: Adam | None = None

    def begin(self, step: int, updates: int) -> None:
        """An update begins, after this many environment steps and updates."""
        self._begun, self._number = (step, updates), 0

    def state_dict(self) -> dict[str, int]:
        """What the counts go on from; on a GPU after `read`."""
        return {"count": self.count, "in_a_row": self._in_a_row}

    def load_state_dict(self, state: dict[str, int]) -> None:
        """Go on from what `state_dict` gave."""
        self.count, self._in_a_row = state["count"], state["in_a_row"]

    def minibatch(self, batch: Any, index: Any = None) -> Guard:
        """The block in which a minibatch is looked at and applied.

        Args:
            batch: A named tuple of its tensors.
            index: Where its rows come from, [B]; an array or a tensor.
        """
        self._batch, self._index = batch, index
        self._number += 1
        self.permit = None
        return self

    def __enter__(self) -> None:
        """See `minibatch`."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        """Leave a bad minibatch out, or say which one it was and let the error go on."""
        optimizer, self._provisional = self._provisional, None
        if self.permit is not None:
            self._flags.append(self.permit)
            if optimizer is not None:
                optimizer.restore(unless=self.permit)
        elif error is None:
            self._in_a_row = 0
        if not isinstance(error, NonFiniteError):
            return False
        if optimizer is not None:
            optimizer.restore()
        self._tell(error)
        if not self.skip:
            return False
        self.count += 1
        self._in_a_row += 1
        if self.listener is not None:
            self.listener(error)
        if self._in_a_row >= self.limit:
            raise self._too_many(error)
        return True

    def look(self, name: str, value: Tensor) -> None:
        """Look at a loss; the gradient that comes next is the one of this loss.

        Args:
            name: Of the loss.
            value: A scalar, or a row of numbers whose first is the loss.

        Raises:
            NonFiniteError: it is not finite or absurd.
        """
        self._name = name
        if self._deferred:
            good = (value if value.dim() == 0 else value[0]).detach().abs() <= ABSURD
            self.permit = good if self.permit is None else self.permit & good
        elif not -ABSURD <= (number := value.item() if value.dim() == 0 else value.tolist()[0]) <= ABSURD:
            facts = {"source": "loss", "value": str(number)}
            raise NonFiniteError(f"{name} is {number}.", remedy=_REMEDY, code="non-finite-loss", facts=facts)

    def applied(self, norm: Tensor) -> Tensor:
        """An optimiser met a gradient of this norm, and took its step if that was finite; returns the norm."""
        if self.permit is not None:
            self.permit = self.permit & norm.isfinite()
        return norm

    def good(self) -> bool:
        """Whether the present minibatch has been good so far; asks the device where that alone knows."""
        return self.permit is None or bool(self.permit)

    def provisional(self, optimizer: Adam) -> None:
        """The next step of this optimiser is taken back should the minibatch prove bad after it."""
        optimizer.keep()
        self._provisional = optimizer

    def read(self) -> None:
        """Bring what the device found since the last call to the host.

        Raises:
            NonFiniteError: a minibatch was bad and is not to be skipped, or too many in a row were.
        """
        if not self._flags:
            return
        flags, self._flags = torch.stack(self._flags).tolist(), []
        for good in flags:
            self._in_a_row = 0 if good else self._in_a_row + 1
            if good:
                continue
            self.count += 1
            error = NonFiniteError(
                f"A loss or gradient was not finite in an update before environment step {self._begun[0]}: "
                "it was not applied.",
                remedy=_REMEDY,
                code="non-finite-loss",
                facts={"source": "loss or gradient", "step": self._begun[0]},
            )
            if not self.skip:
                raise error
            if self.listener is not None:
                self.listener(error)
            if self._in_a_row >= self.limit:
                raise self._too_many(error)

    def _tell(self, error: NonFiniteError) -> None:
        """Complete an error of the present minibatch: which one it is, and what was in it."""
        (step, updates), facts = self._begun, error.facts
        value = facts.get("value", "not finite")
        what = f"The loss {self._name} is {value}"
        if facts.get("source") == "gradient":
            what = f"The gradient of {self._name} is not finite (its norm is {value})"
        where = f"in minibatch {self._number} of the update at environment step {step}, after {updates} updates"
        error.message = f"{what} {where}: it was not applied."
        error.args = (error.message,)
        facts |= {"name": self._name, "step": step, "updates": updates, "minibatch": self._number}
        error.batch = arrays_of(self._batch._asdict())
        if self._index is not None:
            error.batch["index"] = self._index

    def _too_many(self, error: NonFiniteError) -> NonFiniteError:
        return NonFiniteError(
            f"{self._in_a_row} minibatches in a row were left out; of the last one: {error.message}",
            remedy=error.remedy,
            code=error.code,
            batch=error.batch,
            facts=error.facts | {"in_a_row": self._in_a_row},
        )


def arrays_of(parts: Any, prefix: str = "") -> dict[str, Any]:
    """The tensors and arrays in nested dictionaries and named tuples, by names such as `obs/camera`."""
    found: dict[str, Any] = {}
    for name, part in parts.items():
        if isinstance(part, dict) or hasattr(part, "_asdict"):
            found |= arrays_of(part if isinstance(part, dict) else part._asdict(), f"{prefix}{name}/")
        elif part is not None:
            found[f"{prefix}{name}".rstrip("/")] = part
    return found
