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
        (b'{"a": ' + b"[" * 100 + b"]" * 100 + b"}", "nested deeper than 32"),
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
