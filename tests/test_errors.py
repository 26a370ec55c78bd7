"""Errors in words, and suggestions."""

from __future__ import annotations

import pytest

from steadyrl.errors import LONGEST, nearest, words


def without_text() -> None:
    raise RuntimeError


def test_an_error_says_its_text_or_the_line_that_raised_it() -> None:
    assert words(ValueError("too hot")) == "too hot"
    assert words(ValueError()) == "no reason given"
    line = without_text.__code__.co_firstlineno + 1
    with pytest.raises(RuntimeError) as caught:
        without_text()
    assert words(caught.value) == f"test_errors.py, line {line}: raise RuntimeError"


class SpeechlessError(Exception):
    def __str__(self) -> str:
        raise ValueError


def test_an_error_that_cannot_say_its_text_keeps_its_place() -> None:
    assert words(SpeechlessError()) == "no reason given"


def test_a_suggestion_is_as_near_as_asked_for() -> None:
    known = ["Reacher-v5", "CartPole-v1"]
    assert nearest("cartpole-v1", known) == "Did you mean CartPole-v1?"
    assert nearest("FetchReach-v4", known) == "Did you mean Reacher-v5?"
    assert nearest("FetchReach-v4", known, cutoff=0.8) == ""
    assert nearest("CartPol-v1", known, cutoff=0.8) == "Did you mean CartPole-v1?"


def test_a_text_that_never_ends_is_cut_and_says_so() -> None:
    assert words(ValueError("x" * LONGEST)) == "x" * LONGEST
    assert words(ValueError("x" * (LONGEST + 1234))) == "x" * LONGEST + " ... (1,234 more characters)"
