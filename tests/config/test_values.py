from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest

from steadyrl.config.values import coerce, describe, encode, is_schedule, parse_value
from steadyrl.configs import LinearSchedule, Schedule
from steadyrl.errors import UserError

NetArch = tuple[int, ...] | dict[str, tuple[int, ...]]


@pytest.mark.parametrize(
    ("text", "annotation", "value"),
    [
        ("3", int, 3),
        ("1e6", int, 1_000_000),
        ("1_000_000", int, 1_000_000),
        ("-1", int, -1),
        ("1e-3", float, 1e-3),
        ("3", float, 3.0),
        ("-2", float, -2.0),
        ("True", bool, True),
        ("no", bool, False),
        ("YES", bool, True),
        ("false", bool, False),
        ("None", int | None, None),
        ("none", float | None, None),
        ("0.2", float | None, 0.2),
        ("[64,64]", NetArch, (64, 64)),
        ("(64, 64)", NetArch, (64, 64)),
        ("64,64", NetArch, (64, 64)),
        ("64", NetArch, (64,)),
        ("[]", NetArch, ()),
        ("{'pi': [64], 'vf': [32, 16]}", NetArch, {"pi": (64,), "vf": (32, 16)}),
        ("relu", Literal["tanh", "relu"], "relu"),
        ("'relu'", Literal["tanh", "relu"], "relu"),
        ("5", str, "5"),
        ("None", str | None, None),
        ("runs/x", Path | None, Path("runs/x")),
        ("3e-4", Schedule, 3e-4),
        ("{'start': 1e-3, 'end': 0}", Schedule, LinearSchedule(1e-3, 0.0)),
    ],
)
def test_text_becomes_the_value_of_its_field(text: str, annotation: Any, value: Any) -> None:
    parsed = parse_value(text, annotation, "field")
    assert parsed == value
    assert type(parsed) is type(value)


@pytest.mark.parametrize(
    ("text", "annotation"),
    [
        ("1.5", int),
        ("True", int),
        ("abc", float),
        ("nan", float),
        ("1e999", float),
        ("2", bool),
        ("maybe", bool),
        ("None", int),
        ("[64, 'a']", NetArch),
        ("[64.5]", NetArch),
        ("{1: [64]}", NetArch),
        ("sigmoid", Literal["tanh", "relu"]),
        ("lin_1e-3", Schedule),
        ("{'start': 1e-3}", Schedule),
        ("{'start': 1, 'end': 0, 'middle': 2}", Schedule),
        ("__import__('os').getcwd()", float),
        ("(" * 5000, float),
        ("", Path),
    ],
)
def test_text_that_does_not_fit_is_refused(text: str, annotation: Any) -> None:
    with pytest.raises(UserError) as caught:
        parse_value(text, annotation, "n_steps")
    assert caught.value.code == "bad-value"
    assert caught.value.message.startswith("n_steps is ")
    assert len(str(caught.value).splitlines()) == 2


def test_the_error_names_field_value_expectation_and_example() -> None:
    with pytest.raises(UserError) as caught:
        parse_value("soon", int | None, "eval_freq")
    assert caught.value.message == "eval_freq is 'soon', but it must be a whole number or None."
    assert caught.value.remedy == "For example: --eval-freq 8, in Python eval_freq=8."


def test_a_misspelt_choice_gets_the_nearest() -> None:
    with pytest.raises(UserError, match="Did you mean relu"):
        coerce("rellu", Literal["tanh", "relu"], "activation_fn")


@pytest.mark.parametrize(
    ("given", "annotation", "value"),
    [
        ([64, 64], NetArch, (64, 64)),
        (1, float, 1.0),
        (1e5, int, 100_000),
        (np.int64(4), int, 4),
        (np.float32(0.5), float, 0.5),
        (np.bool_(True), bool, True),
        ({"start": 1, "end": 0, "fraction": 0.5}, Schedule, LinearSchedule(1.0, 0.0, 0.5)),
        (LinearSchedule(1, 0), Schedule, LinearSchedule(1.0, 0.0)),
        ({"a": [1]}, Mapping[str, Any], {"a": [1]}),
    ],
)
def test_python_values_take_the_exact_type(given: Any, annotation: Any, value: Any) -> None:
    coerced = coerce(given, annotation, "field")
    assert coerced == value
    assert type(coerced) is type(value)


@pytest.mark.parametrize(
    ("given", "annotation"),
    [
        (True, int),
        (True, float),
        (1, bool),
        ("8", int),
        (float("nan"), float),
        (float("inf"), int),
        (10**400, float),
        (None, int),
        (object(), float),
        ([True], NetArch),
    ],
)
def test_python_values_of_another_kind_are_refused(given: Any, annotation: Any) -> None:
    with pytest.raises(UserError, match="must be"):
        coerce(given, annotation, "field")


def test_a_schedule_outside_its_fraction_is_refused() -> None:
    with pytest.raises(UserError, match="fraction"):
        coerce({"start": 1, "end": 0, "fraction": 0}, Schedule, "learning_rate")


def test_words_for_annotations() -> None:
    assert describe(Schedule) == "a finite number or a schedule {'start': x, 'end': y}"
    assert describe(Literal["tanh", "relu"]) == "one of tanh, relu"
    assert is_schedule(Schedule)
    assert not is_schedule(float | None)


def test_encoding_reads_back() -> None:
    assert encode(LinearSchedule(1.0, 0.0)) == {"start": 1.0, "end": 0.0, "fraction": 1.0}
    assert encode({"pi": (64, 32)}) == {"pi": [64, 32]}
    assert encode(Path("a/b")) == "a/b"


def test_a_number_or_a_word() -> None:
    assert parse_value("0.2", float | str, "ent_coef") == 0.2
    assert parse_value("2", float | str, "ent_coef") == 2.0
    assert parse_value("auto", float | str, "ent_coef") == "auto"
    assert parse_value("auto_0.1", float | str, "ent_coef") == "auto_0.1"
