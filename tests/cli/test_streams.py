"""Lines for people on streams of any kind."""

from __future__ import annotations

import io

import pytest

from steadyrl.cli.streams import tell, visible


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain: 3.5 \u00e4\u20ac\n\tindented", "plain: 3.5 \u00e4\u20ac\n\tindented"),
        ("\x1b[31mred\x1b[0m", "\\x1b[31mred\\x1b[0m"),
        ("title\x1b]0;owned\x07\r\b", "title\\x1b]0;owned\\x07\\r\\x08"),
        ("\u202eback \x9b2J", "\\u202eback \\x9b2J"),
        ("\udc80", "\\udc80"),
    ],
)
def test_what_would_steer_the_terminal_is_shown_instead(text: str, shown: str) -> None:
    assert visible(text) == shown
    stream = io.StringIO()
    tell(text, stream)
    assert stream.getvalue() == f"{shown}\n"
