"""Seeded mutations of bytes and of JSON: what a damaged disk, another program or somebody hostile makes of a file."""

from __future__ import annotations

import copy
import json
import random
from typing import Any

WORDS = [
    b'"',
    b"{",
    b"}",
    b"[",
    b"]",
    b",",
    b":",
    b"NaN",
    b"1e999",
    b"-Infinity",
    b"null",
    b"true",
    b"\\u0000",
    b"\\ud800",
    b"\0",
    b"\xff",
    b"$array",
    b"$dict",
    b"$tuple",
    b"$int",
    b"../",
    b"9" * 25,
    b"[" * 50,
    b'{"":' * 40,
    b"PK\x03\x04",
    b"\x80\x04",
    b"\n",
    b"\r\n",
]
ODD: list[Any] = [
    None,
    True,
    False,
    0,
    1,
    -1,
    2**31,
    2**63 - 1,
    2**63,
    2**64,
    -(2**63) - 1,
    10**30,
    0.0,
    -0.0,
    0.5,
    1e308,
    -1e308,
    1e-320,
    float("nan"),
    float("inf"),
    "",
    "x",
    "../../etc/passwd",
    "\0",
    "\u202e",
    "a" * 5000,
    "os:system",
    "file.py:Class",
    "0" * 64,
    "nan",
    "1",
    [],
    [[]],
    [None],
    [0] * 100,
    {},
    {"": None},
    {"$array": "x", "dtype": "<f4", "shape": [1]},
    {"$int": "7"},
    {"$tuple": []},
    {"$dict": [["$", 1]]},
    {"$bytes": "x"},
    {"$scalar": ["<f8", "00"]},
    {"~object": "os:system", "attributes": {}},
]
RAW = 0.4  # share of mutations that know nothing of JSON


def mutated(data: bytes, draw: random.Random) -> bytes:
    """A few changes of bytes: flipped, cut out, doubled, zeroed, drawn, words put in, numbers replaced."""
    result = bytearray(data)
    for _ in range(draw.choice((1, 1, 1, 2, 4))):
        at, size = draw.randrange(len(result) + 1), draw.choice((1, 2, 4, 8, 30, 300))
        kind = draw.randrange(8)
        if kind == 0 and at < len(result):
            result[at] ^= 1 << draw.randrange(8)
        elif kind == 1:
            del result[at : at + size]
        elif kind == 2:
            result[at:at] = result[at : at + size]
        elif kind == 3:
            result[at : at + size] = bytes(len(result[at : at + size]))
        elif kind == 4:
            result[at : at + size] = draw.randbytes(size)
        elif kind == 5:
            result[at:at] = draw.choice(WORDS)
        elif kind == 6:
            del result[at:]
        else:
            other = draw.randrange(len(result) + 1)
            result[at : at + size] = result[other : other + size]
    return bytes(result)


def mutated_tree(text: bytes | str, draw: random.Random) -> Any:
    """A few changes of values in a value given as JSON: replaced, taken away, doubled, renamed, moved, wrapped."""
    tree = json.loads(text)
    for _ in range(draw.choice((1, 1, 1, 2, 3))):
        places = [*_places(tree)]
        if not places:
            return draw.choice(ODD)
        place, key = draw.choice(places)
        kind = draw.randrange(7)
        if kind <= 1:
            place[key] = copy.deepcopy(draw.choice(ODD))
        elif kind == 2:
            del place[key]
        elif kind == 3:
            other, name = draw.choice(places)
            place[key] = copy.deepcopy(other[name])
        elif kind == 4:
            place[key] = draw.choice(([place[key]], {"x": place[key]}, [place[key]] * 3))
        elif isinstance(place, dict):
            name = draw.choice(("x", "", "$array", "~object", "__class__", f"{key}'", str(key).upper()))
            place[name] = place.pop(key) if kind == 5 else place[key]
        else:
            place.insert(key, copy.deepcopy(draw.choice(ODD)))
    return tree


def _places(tree: Any) -> list[tuple[Any, Any]]:
    found: list[tuple[Any, Any]] = []
    waiting = [tree]
    while waiting:
        value = waiting.pop()
        if isinstance(value, dict | list):
            for key in value if isinstance(value, dict) else range(len(value)):
                found.append((value, key))
                waiting.append(value[key])
    return found


def mutated_json(data: bytes, draw: random.Random) -> bytes:
    """A file of JSON with changed values, or with changed bytes."""
    if draw.random() < RAW:
        return mutated(data, draw)
    return json.dumps(mutated_tree(data, draw)).encode()


def mutated_lines(data: bytes, draw: random.Random) -> bytes:
    """The same for a file with one value a line."""
    lines = data.split(b"\n")
    at = draw.randrange(len(lines))
    lines[at] = mutated_json(lines[at], draw) if lines[at] else mutated(lines[at], draw)
    return b"\n".join(lines)
