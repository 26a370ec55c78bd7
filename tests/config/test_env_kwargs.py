"""Arguments of an environment are stored as strict JSON, or refused at once under their key."""

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from steadyrl.config import storable_kwargs
from steadyrl.config.env_kwargs import MAX_BYTES
from steadyrl.errors import UserError

DEEP: Any = 0
for _ in range(40):
    DEEP = [DEEP]


def test_numpys_scalars_become_pythons_and_the_rest_stays() -> None:
    given_ = {
        "a": np.float32(0.5),
        "b": np.int64(3),
        "c": np.bool_(True),
        "d": np.array(2.0),
        "e": {"f": (np.int8(1), [None, "x"])},
    }
    stored = storable_kwargs(given_)
    assert stored == {"a": 0.5, "b": 3, "c": True, "d": 2.0, "e": {"f": (1, [None, "x"])}}
    assert [type(stored[key]) for key in "abcd"] == [float, int, bool, float]
    assert type(stored["e"]["f"]) is tuple
    assert type(given_["a"]) is np.float32


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (np.zeros(3), "env_kwargs['key'] is array([0., 0., 0.]) (ndarray)"),
        (Path("x"), "(PosixPath)"),
        (b"x", "env_kwargs['key'] is b'x' (bytes)"),
        ({1}, "env_kwargs['key'] is {1} (set)"),
        (len, "builtin_function"),
        (math.nan, "env_kwargs['key'] is nan (float)"),
        (np.float32(np.inf), "env_kwargs['key'] is inf (float)"),
        (2**63, "env_kwargs['key'] is 9223372036854775808 (int)"),
        (-(2**63) - 1, "(int)"),
        ("\ud800", "no Unicode"),
        ({"inner": [1, {2: 3}]}, "env_kwargs['key']['inner'][1] has the key 2 (int)"),
        ({"\udfff": 1}, "no Unicode"),
        ([0, (1, 1j)], "env_kwargs['key'][1][1] is 1j (complex)"),
        (DEEP, "nested deeper"),
        ("x" * MAX_BYTES, "bytes as JSON"),
    ],
    ids=lambda x: str(x)[:20].encode("ascii", "replace").decode(),
)
def test_what_json_cannot_hold_is_refused_under_its_key(value: Any, said: str) -> None:
    with pytest.raises(UserError) as caught:
        storable_kwargs({"good": 1, "key": value})
    assert said in caught.value.message
    assert "lambda: Env(...)" in caught.value.remedy


@pytest.mark.parametrize("wrong", [3, "a=1", [("a", 1)], None])
def test_only_a_table_is_taken(wrong: Any) -> None:
    with pytest.raises(UserError, match="it must be a table of arguments"):
        storable_kwargs(wrong)


def test_keys_are_words() -> None:
    with pytest.raises(UserError, match=r"env_kwargs has the key 3 \(int\)"):
        storable_kwargs({3: 1})


@given(
    st.dictionaries(
        st.text(max_size=3),
        st.recursive(
            st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3) | st.binary(max_size=2),
            lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=2), inner, max_size=3),
            max_leaves=6,
        ),
        max_size=4,
    )
)
def test_what_is_taken_survives_strict_json(kwargs: dict[str, Any]) -> None:
    try:
        stored = storable_kwargs(kwargs)
    except UserError:
        return
    assert json.loads(json.dumps(stored, allow_nan=False).encode()) == stored == kwargs
