"""JSON as this library writes it and nothing else: what Python's parser also takes is refused."""

from __future__ import annotations

import json
import math
from typing import Any

MAX_DEPTH = 128  # a space takes up to three levels for each of its own


def strict_object(data: bytes, *, max_bytes: int, max_depth: int = MAX_DEPTH) -> dict[str, Any]:
    """The object in UTF-8 JSON: no key twice, no NaN or infinity, no long integer, not large, not deep.

    Args:
        data: The whole file.
        max_bytes: Its largest size.
        max_depth: How deep values may be nested.

    Raises:
        ValueError: it is something else; the text says what, in the middle of a sentence.
    """

    def no_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        result = dict(pairs)
        if len(result) != len(pairs):
            raise ValueError("a key stands twice")
        return result

    def finite(text: str) -> float:
        number = float(text)
        if not math.isfinite(number):
            raise ValueError(f"{text} is not a finite number")
        return number

    def whole(text: str) -> int:
        if len(text) > 20 or not -(2**63) <= int(text) < 2**64:
            raise ValueError("an integer is longer than 64 bits")
        return int(text)

    try:
        if len(data) > max_bytes:
            raise ValueError(f"it is larger than {max_bytes} bytes")
        document = json.loads(
            data.decode(), object_pairs_hook=no_duplicates, parse_constant=finite, parse_float=finite, parse_int=whole
        )
        _check_depth(document, max_depth, max_depth)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"is not strict JSON ({str(error)[:300]})") from error
    if not isinstance(document, dict):
        raise ValueError("is not an object")
    return document


def _check_depth(value: Any, depth: int, most: int) -> None:
    if depth < 0:
        raise ValueError(f"it is nested deeper than {most}")
    if isinstance(value, str):
        value.encode()  # half a surrogate pair is an error here rather than where it is printed
    elif isinstance(value, dict | list):
        for part in [*value, *value.values()] if isinstance(value, dict) else value:
            _check_depth(part, depth - 1, most)
