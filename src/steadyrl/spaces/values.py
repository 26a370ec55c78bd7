"""Values without a fixed shape as arrays of one: texts, sequences, and what an own encoder makes arrays of.

| leaf | stored |
|---|---|
| text | [L] int64: 1 + the place of each character among the leaf's, 0 beyond the end |
| codes | [L] int64: 1 + each integer counted from 0, 0 beyond the end |
| sequence | [L, F + 1] float32: the entries, flat, and in the last column a 1 for each that is there |
| own | the array that the encoder's class makes, float32 |
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from steadyrl.errors import UserError, words

if TYPE_CHECKING:
    from steadyrl.spaces.leaf import Leaf

Converter = Callable[[Any], Any]

VARIABLE = ("text", "codes", "sequence", "own")
PRINTABLE = "".join(map(chr, range(32, 127)))  # the characters of a text whose space does not say which it has


def store_variable(leaf: Leaf, value: Any, batch: bool, convert: Converter | None) -> npt.NDArray[Any]:
    """One value, or a batch as a list, tuple or array of objects, as the stored array [N, ...].

    Raises:
        UserError: it is of another type, too long, or outside the space; its `row` tells which of the batch.
    """
    rows = list(_rows(leaf, value)) if batch else [value]
    stored = np.zeros((len(rows), *leaf.stored_shape), dtype=leaf.stored_dtype)
    for number, (row, own) in enumerate(zip(stored, rows, strict=True)):
        try:
            if leaf.kind == "text":
                _write_text(leaf, own, row)
            elif leaf.kind == "own":
                _write_own(leaf, own, row, convert)
            else:
                _write_entries(leaf, own, row)
        except UserError as error:
            error.row = number
            raise
    return stored


def is_single_variable(leaf: Leaf, value: Any) -> bool:
    """Whether this is one value rather than a batch; an empty sequence is one value."""
    if leaf.kind == "text":
        return isinstance(value, str)
    if leaf.kind == "own":
        return not isinstance(value, list)  # a tuple is one value of a OneOf
    try:
        entries = list(value)
        return all(np.asarray(entry).shape == leaf.shape[1:] for entry in entries)
    except (TypeError, ValueError):
        return True


def _rows(leaf: Leaf, value: Any) -> Sequence[Any]:
    if isinstance(value, list | tuple) or (isinstance(value, np.ndarray) and value.ndim):
        return value  # type: ignore[return-value]
    raise _misfit(leaf, value, "a list with one value for each environment")


def _write_text(leaf: Leaf, value: Any, row: npt.NDArray[Any]) -> None:
    if not isinstance(value, str):
        raise _misfit(leaf, value, "a str")
    _insist_on_length(leaf, len(value), f"{value[:40]!r}")
    found = codes_of(str(value), leaf.characters, leaf.nvec[0])
    if found is None:
        odd = next(character for character in value if character not in leaf.characters)
        raise UserError(
            f"An observation{leaf.where} holds the character {odd!r}, which is none of its space's.",
            remedy="Pass texts of the space that the policy was made for.",
            code="obs-range",
        )
    row[: len(value)] = found


@functools.lru_cache(maxsize=1024)
def codes_of(text: str, characters: str, codes: int) -> tuple[int, ...] | None:
    """1 + the place of each character; None where one is not there, unless there is a code for those."""
    places = _places(characters)
    other = codes if codes > len(characters) else 0
    found = tuple(places.get(character, other) for character in text)
    return found if other or all(found) else None


@functools.lru_cache(maxsize=64)
def _places(characters: str) -> dict[str, int]:
    return {character: i + 1 for i, character in enumerate(characters)}


def _write_entries(leaf: Leaf, value: Any, row: npt.NDArray[Any]) -> None:
    shape = leaf.shape[1:]
    if isinstance(value, str | bytes | dict) or not hasattr(value, "__len__"):
        raise _misfit(leaf, value, "a sequence")
    _insist_on_length(leaf, len(value), f"one of length {len(value)}")
    if not len(value):
        return
    try:
        array = np.asarray(value)
    except (ValueError, TypeError, RuntimeError):
        array = np.array(None)
    if array.dtype.kind not in "biuf" or array.shape[1:] != shape:
        raise _misfit(leaf, value, f"a sequence of numbers of shape {shape}")
    if leaf.kind == "sequence":
        with np.errstate(over="ignore"):  # becomes infinite, which the caller looks for
            row[: len(array), :-1] = array.reshape(len(array), math.prod(shape))
        row[: len(array), -1] = 1.0
        return
    (n,), (start,) = leaf.nvec, leaf.start
    with np.errstate(invalid="ignore"):
        whole = array.astype(np.int64)
    wrong = (whole != array) | (whole < start) | (whole >= start + n)
    if wrong.any():
        raise UserError(
            f"An observation{leaf.where} holds {array[wrong][0]}, which is not from {start} to {start + n - 1}.",
            remedy="Pass observations of the space that the policy was made for.",
            code="obs-range",
        )
    row[: len(array)] = whole - start + 1


def _write_own(leaf: Leaf, value: Any, row: npt.NDArray[Any], convert: Converter | None) -> None:
    if convert is None:
        raise UserError(
            f"The observation{leaf.where} needs the class of its encoder, which makes arrays of its values.",
            remedy=f"Pass it: encoders={{{leaf.path!r}: MyEncoder}}.",
            code="no-encoder",
        )
    try:
        array = np.asarray(convert(value), dtype=np.float32)
    except Exception as error:
        raise UserError(
            f"to_array of the encoder{leaf.where} failed: {type(error).__name__}: {words(error)}.",
            remedy=f"It has to make an array of shape {leaf.shape} of each value.",
            code="bad-encoder",
        ) from error
    if array.shape != leaf.shape:
        raise UserError(
            f"to_array of the encoder{leaf.where} made an array of shape {array.shape} instead of {leaf.shape}.",
            remedy="Let its class attribute `shape` say which shape it makes.",
            code="bad-encoder",
        )
    row[...] = array


def _insist_on_length(leaf: Leaf, length: int, shown: str) -> None:
    if length > leaf.shape[0]:
        raise UserError(
            f"An observation{leaf.where} is {shown}, longer than the {leaf.shape[0]} entries that are kept.",
            remedy="Train anew with a larger sequence_length (--sequence-length): a policy keeps the one that it was "
            "made with.",
            code="obs-length",
        )


def _misfit(leaf: Leaf, value: Any, wanted: str) -> UserError:
    return UserError(
        f"An observation{leaf.where} is a {type(value).__name__}, not {wanted}.",
        remedy="Pass observations of the space that the policy was made for.",
        code="obs-type",
    )
