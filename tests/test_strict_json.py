"""What Python's JSON parser takes and this library does not write is refused, with the reason."""

from __future__ import annotations

import pytest

from steadyrl.strict_json import strict_object


def test_what_is_written_is_read() -> None:
    text = b'{"a": [1, -2.5, null, true, "x", {"b": {}}], "c": 18446744073709551615}'
    assert strict_object(text, max_bytes=100) == {"a": [1, -2.5, None, True, "x", {"b": {}}], "c": 2**64 - 1}


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (b'{"a": 1, "a": 2}', "twice"),
        (b'{"a": NaN}', "not a finite"),
        (b'{"a": 1e999}', "not a finite"),
        (b'{"a": -Infinity}', "not a finite"),
        (b"[1]", "not an object"),
        (b'{"a": ' + b"[" * 200 + b"]" * 200 + b"}", "nested deeper than 128"),
        (b"[" * 100_000, "."),
        (b"{} {}", "Extra data"),
        (b'{"a": "\xff"}', "decode"),
        (b"", "."),
        (b'{"a": 99999999999999999999}', "64 bits"),
        (b'{"a": "\\ud800"}', "surrogates"),
        (b" " * 200_001, "larger than 200000 bytes"),
    ],
)
def test_json_is_strict(text: bytes, told: str) -> None:
    with pytest.raises(ValueError, match=told):
        strict_object(text, max_bytes=200_000)


@pytest.mark.parametrize("inner", ["[{}]", '{{"a":{}}}'])
def test_depth_and_size_at_their_limits(inner: str) -> None:
    """The deepest and the largest are taken, and one more is not."""
    for depth in (1, 4):
        value = "1"
        for _ in range(depth - 1):
            value = inner.format(value)
        text = f'{{"a":{value}}}'.encode()
        assert strict_object(text, max_bytes=len(text), max_depth=depth)
        with pytest.raises(ValueError, match=f"nested deeper than {depth - 1}"):
            strict_object(text, max_bytes=len(text), max_depth=depth - 1)
        with pytest.raises(ValueError, match=f"larger than {len(text) - 1} bytes"):
            strict_object(text, max_bytes=len(text) - 1)


@pytest.mark.parametrize("number", [2**64 - 1, -(2**63)])
def test_integers_at_their_limits(number: int) -> None:
    assert strict_object(f'{{"a":{number}}}'.encode(), max_bytes=99) == {"a": number}
    more = number + (1 if number > 0 else -1)
    with pytest.raises(ValueError, match="64 bits"):
        strict_object(f'{{"a":{more}}}'.encode(), max_bytes=99)
