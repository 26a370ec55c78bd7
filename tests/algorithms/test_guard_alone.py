"""What the guard says, counts and takes back, without an algorithm around it."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from steadyrl.algorithms.guard import Guard, arrays_of
from steadyrl.data.rollout import RolloutBatch
from steadyrl.errors import NonFiniteError


def caught(guard: Guard, value: Tensor, *, gradient: bool = False) -> NonFiniteError:
    """The error of a minibatch with this loss, or of a gradient that is not finite after it."""
    batch = RolloutBatch({"": torch.zeros(2, 3)}, *[torch.ones(2)] * 5)
    with pytest.raises(NonFiniteError) as found, guard.minibatch(batch, torch.arange(2)):  # noqa: PT012
        guard.look("train/loss", value)
        if gradient:
            facts = {"source": "gradient", "value": "inf"}
            raise NonFiniteError("of the optimiser", remedy="Mend it.", code="non-finite-gradient", facts=facts)
    return found.value


@pytest.mark.parametrize("gradient", [False, True])
def test_the_error_says_which_minibatch_of_which_update_it_was(gradient: bool) -> None:
    guard = Guard()
    for step, updates, minibatches in ((700, 60, 1), (800, 70, 3)):
        guard.begin(step, updates)
        for _ in range(minibatches - 1):
            with guard.minibatch(()):
                guard.look("train/loss", torch.tensor([1.0, torch.nan]))  # the first number is the loss
        value = torch.tensor(1.0 if gradient else torch.nan)
        error = caught(guard, value, gradient=gradient)
        what = (
            "The gradient of train/loss is not finite (its norm is inf)" if gradient else "The loss train/loss is nan"
        )
        place = f"in minibatch {minibatches} of the update at environment step {step}, after {updates} updates"
        assert error.message == f"{what} {place}: it was not applied."
        assert error.args == (error.message,)
        assert error.code == ("non-finite-gradient" if gradient else "non-finite-loss")
        assert error.facts == {
            "source": "gradient" if gradient else "loss",
            "value": "inf" if gradient else "nan",
            "name": "train/loss",
            "step": step,
            "updates": updates,
            "minibatch": minibatches,
        }
        assert error.batch["index"].tolist() == [0, 1]
        assert (guard.count, error.remedy != "") == (0, True)


def test_a_row_of_numbers_is_judged_by_its_first() -> None:
    for deferred in (False, True):
        guard = Guard(skip=True, deferred=deferred)
        for first, second in ((1.0, torch.nan), (torch.nan, 1.0)):
            with guard.minibatch(RolloutBatch({}, *[torch.zeros(1)] * 5)):
                guard.look("loss", torch.tensor([first, second]))
        guard.read()
        assert guard.count == 1


def test_without_an_index_the_batch_has_none() -> None:
    guard = Guard()
    with pytest.raises(NonFiniteError) as found, guard.minibatch(RolloutBatch({}, *[torch.zeros(1)] * 5)):
        guard.look("loss", torch.tensor(torch.inf))
    assert "index" not in found.value.batch
    assert found.value.batch


def test_too_many_in_a_row_keep_what_is_known_of_the_last() -> None:
    guard = Guard(skip=True, limit=2)
    told: list[NonFiniteError] = []
    guard.listener = told.append
    batch = RolloutBatch({}, *[torch.zeros(1)] * 5)
    guard.begin(40, 4)
    with guard.minibatch(batch):
        guard.look("loss", torch.tensor(torch.inf))
    with pytest.raises(NonFiniteError) as found, guard.minibatch(batch):
        guard.look("loss", torch.tensor(-torch.inf))
    error = found.value
    assert [each.facts["minibatch"] for each in told] == [1, 2]
    assert error.message == f"2 minibatches in a row were left out; of the last one: {told[1].message}"
    assert error.facts == told[1].facts | {"in_a_row": 2}
    assert (error.code, error.remedy, error.batch) == (told[1].code, told[1].remedy, told[1].batch)
    assert guard.count == 2


def test_the_count_in_a_row_goes_on_after_a_resume() -> None:
    batch = RolloutBatch({}, *[torch.zeros(1)] * 5)
    for deferred in (False, True):
        first, second = Guard(skip=True, limit=2, deferred=deferred), Guard(skip=True, limit=2, deferred=deferred)
        with first.minibatch(batch):
            first.look("loss", torch.tensor(torch.nan))
        first.read()
        assert first.state_dict() == {"count": 1, "in_a_row": 1}
        second.load_state_dict(first.state_dict())
        with pytest.raises(NonFiniteError, match="2 minibatches in a row"):  # noqa: PT012
            with second.minibatch(batch):
                second.look("loss", torch.tensor(torch.nan))
            second.read()
        assert second.count == 2


def test_what_the_device_found_is_told_with_step_and_source() -> None:
    guard = Guard(deferred=True)
    guard.begin(700, 60)
    with guard.minibatch(()):
        guard.look("loss", torch.tensor(1.0))
        assert guard.good()
        assert guard.applied(torch.tensor(2.0)).item() == 2.0
        assert guard.good()
        guard.look("second", torch.tensor(torch.nan))
        assert not guard.good()
        guard.look("third", torch.tensor(1.0))
        assert not guard.good()
    with pytest.raises(NonFiniteError) as found:
        guard.read()
    error = found.value
    assert error.message == (
        "A loss or gradient was not finite in an update before environment step 700: it was not applied."
    )
    assert (error.code, error.facts) == ("non-finite-loss", {"source": "loss or gradient", "step": 700})
    assert error.remedy
    assert guard.count == 1


def test_the_host_needs_no_flag() -> None:
    guard = Guard()
    with guard.minibatch(()):
        guard.look("loss", torch.tensor(1.0))
        assert guard.permit is None
        assert guard.good()
        assert guard.applied(torch.tensor(torch.inf)).item() == torch.inf
        assert guard.permit is None
    guard.read()
    assert guard.count == 0


class Spy:
    """An optimiser that says when its last step is kept and taken back."""

    def __init__(self) -> None:
        self.log: list[Any] = []

    def keep(self) -> None:
        self.log.append("keep")

    def restore(self, unless: Any = None) -> None:
        self.log.append("restore" if unless is None else f"restore unless {bool(unless)}")


@pytest.mark.parametrize(
    ("deferred", "values", "expected"),
    [
        (False, [1.0], ["keep"]),
        (False, [torch.nan], ["keep", "restore"]),
        (True, [1.0], ["keep", "restore unless True"]),
        (True, [torch.nan], ["keep", "restore unless False"]),
        (False, [1.0, torch.nan], ["keep"]),  # the second minibatch has no step to take back
    ],
)
def test_a_step_is_taken_back_where_its_own_minibatch_proves_bad(
    deferred: bool, values: list[float], expected: list[str]
) -> None:
    guard, spy = Guard(skip=True, deferred=deferred), Spy()
    for number, value in enumerate(values):
        with guard.minibatch(RolloutBatch({}, *[torch.zeros(1)] * 5)):
            if not number:
                guard.provisional(spy)  # type: ignore[arg-type]
            guard.look("loss", torch.tensor(value))
    assert spy.log == expected


def test_another_error_takes_nothing_back_and_is_not_told() -> None:
    guard, spy = Guard(skip=True), Spy()
    told: list[NonFiniteError] = []
    guard.listener = told.append
    with pytest.raises(ZeroDivisionError), guard.minibatch(()):  # noqa: PT012
        guard.provisional(spy)  # type: ignore[arg-type]
        raise ZeroDivisionError
    assert (spy.log, told, guard.state_dict()) == (["keep"], [], {"count": 0, "in_a_row": 0})


def test_nested_parts_are_named_by_their_path() -> None:
    inner: dict[str, Any] = {"camera": torch.zeros(1), "": torch.ones(1), "none": None}
    batch = RolloutBatch(inner, *[torch.full((1,), float(i)) for i in range(5)])
    found = arrays_of({"a": batch, "b": None, "c": inner, "d": 3})
    assert {"a/obs/camera", "a/obs", "c/camera", "c", "d"} <= found.keys()
    assert not any("none" in name or name == "b" for name in found)
    assert found["a/obs"] is inner[""]
    assert found["d"] == 3


def test_before_anything_has_begun_it_counts_from_the_first() -> None:
    message = caught(Guard(), torch.tensor(torch.nan)).message
    assert "in minibatch 1 of the update at environment step 0, after 0 updates" in message
    guard = Guard()
    assert (guard.skip, guard.limit, guard.count, guard.permit) == (False, 10, 0, None)


@pytest.mark.parametrize("deferred", [False, True])
def test_a_good_minibatch_begins_the_count_anew(deferred: bool) -> None:
    guard = Guard(skip=True, limit=2, deferred=deferred)
    for value in (1.0, torch.nan, 1.0, torch.nan, 1.0):
        with guard.minibatch(RolloutBatch({}, *[torch.zeros(1)] * 5)):
            guard.look("loss", torch.tensor(value))
        guard.read()
    assert guard.state_dict() == {"count": 2, "in_a_row": 0}


@pytest.mark.parametrize("deferred", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_the_largest_loss_that_is_no_absurd_one(deferred: bool, dtype: torch.dtype, sign: float) -> None:
    guard = Guard(skip=True, deferred=deferred)
    for value in (1e18, 1.01e18):
        with guard.minibatch(RolloutBatch({}, *[torch.zeros(1)] * 5)):
            guard.look("loss", torch.tensor(sign * value, dtype=dtype))
        guard.read()
    assert guard.state_dict() == {"count": 1, "in_a_row": 1}
