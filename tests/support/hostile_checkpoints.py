"""Some hundred checkpoints that must not be taken up, made from a good one by rule; their checksums are right.

Somebody who may write there made them, or another version did. What flipped bits and cuts do is told elsewhere: these
are what checksums do not see.
"""

from __future__ import annotations

import copy
import hashlib
import json
import os
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import load as load_arrays
from safetensors.numpy import save as save_arrays

from steadyrl.training.checkpoint import INDEX, POLICY, _sealed, read_index
from steadyrl.training.chunks import named_chunks
from steadyrl.training.saving import ARRAYS, STATE
from support.hostile import Hostile
from support.hostile_contents import PICKLES

STEP = Path("checkpoints") / "step_120"
Tree = dict[str, Any]
ODD: list[Any] = [{"$call": "os:system"}, ["../../x"], "os:system"]


def checkpoints(run: Path) -> Iterator[Hostile]:
    """All of them.

    Args:
        run: One with a good checkpoint of step 120; a case is put into a copy of it.
    """
    state: Tree = json.loads((run / STEP / STATE).read_text())
    yield from _indices(json.loads((run / STEP / INDEX).read_text()))
    yield from _states(state)
    yield from _arrays(state, load_arrays((run / STEP / ARRAYS).read_bytes()))
    yield from _files(run)


def reseal(run: Path, index: Tree) -> None:
    """Write an index with the checksum that belongs to it."""
    (run / STEP / INDEX).write_bytes(_sealed({key: value for key, value in index.items() if key != "checksum"}))


def put(run: Path, name: str, data: bytes) -> None:
    """Replace a file, and say so in the index."""
    (run / STEP / name).write_bytes(data)
    index = json.loads((run / STEP / INDEX).read_text())
    index["files"][name] = {"size": len(data), "sha256": hashlib.sha256(data).hexdigest()}
    reseal(run, index)


def _changed(tree: Tree, way: tuple[Any, ...], *value: Any) -> Tree:
    """A copy with another value there, or with none."""
    tree = copy.deepcopy(tree)
    place: Any = tree
    for key in way[:-1]:
        place = place[key]
    if value:
        place[way[-1]] = value[0]
    else:
        del place[way[-1]]
    return tree


def _walk(value: Any, way: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], Any]]:
    for key, part in value.items() if isinstance(value, dict) else enumerate(value):
        yield (*way, key), part
        if isinstance(part, dict | list):
            yield from _walk(part, (*way, key))


def _index(index: Tree, run: Path) -> None:
    reseal(run, index)


def _indices(index: Tree) -> Iterator[Hostile]:
    """Each field of the index missing and of other types; names of files and chunks that lead elsewhere."""
    told = (INDEX, ARRAYS, STATE, POLICY, "index", "logs", "of the algo", "of the env", "it lacks")
    optional = {"parts", "holds", "left_out", "inexact", "environments"}  # told to people, or compared
    for way, now in _walk(index):
        deep = len(way) > 2 and way[:2] in {("about", name) for name in optional}
        if way[0] == "checksum" or deep or isinstance(way[-1], int):
            continue
        odd = [*ODD, None, -1, 1.5] if not isinstance(now, list) else [{"$call": "os:system"}, None, 3]
        odd += ["0" * 63, "G" * 64] if way[-1] == "sha256" else [True] if type(now) is int else []
        odd += [2**63] if type(now) is int and "logs" not in way else []  # a log may have lost what it had
        if way == ("steadyrl",):
            odd.remove("os:system")
        for value in odd:
            if not (
                isinstance(now, dict) and isinstance(value, dict) and way[:1] == ("about",) and way[-1] in optional
            ):
                yield Hostile(f"index {way} is {value}", partial(_index, _changed(index, way, value)), told)
        may_lack = way[0] == "about" and (way[-1] in optional or "logs" in way[1:-1])  # a log may not be there yet
        if not may_lack:
            yield Hostile(f"index {way} is missing", partial(_index, _changed(index, way)), told)
    facts = {"size": 2, "sha256": hashlib.sha256(b"{}").hexdigest()}
    for name in (
        "../../config.json",
        "/etc/passwd",
        "..\\x",
        "a\0b",
        "STATE.JSON",
        "x/y",
        ".",
        "..",
        "",
        "con.",
        "a" * 99,
        INDEX,
        "\u202ex",
        "state.json ",
    ):
        files = index["files"] | {name: facts}
        yield Hostile(f"index names the file {name[:20]!r}", partial(_index, index | {"files": files}), (INDEX,))
        rings = index["about"]["replay"]
        ring = next(iter(rings))
        about = index["about"] | {"replay": rings | {ring: rings[ring] | {"chunks": [name]}}}
        yield Hostile(f"index names the chunk {name[:20]!r}", partial(_index, index | {"about": about}), ("index",))
    for version in (0, 1, 3.0, "2", True, 2**63, None):
        words = (INDEX,)
        yield Hostile(f"index of version {version!r}", partial(_index, index | {"version": version}), words)
    for extra in ("hook", "\u202e", "__class__"):
        yield Hostile(f"index says {extra!r}", partial(_index, index | {extra: 1}), (INDEX,))


def _state(state: Tree, run: Path) -> None:
    """Write a state, with those arrays that it names."""
    used = {
        part[tag]
        for _, part in _walk(state)
        if isinstance(part, dict)
        for tag in ("$array", "$bytes")
        if _names(part, tag)
    }
    arrays = load_arrays((run / STEP / ARRAYS).read_bytes())
    put(run, ARRAYS, save_arrays({name: array for name, array in arrays.items() if name in used}))
    put(run, STATE, json.dumps(state).encode())


def _names(part: Tree, tag: str) -> bool:
    return isinstance(part.get(tag), str)


def _states(state: Tree) -> Iterator[Hostile]:
    """Each part of the state missing, and as something that no run writes there."""
    for way, now in _walk(state):
        told = ("step_120", STATE)
        if isinstance(way[-1], int):
            continue
        for value in ODD:
            if type(value) is not type(now):
                yield Hostile(f"state {way} is {value}", partial(_state, _changed(state, way, value)), told)
        if way[-1] not in ("order", "readonly"):
            yield Hostile(f"state {way} is missing", partial(_state, _changed(state, way)), told)
    for name, text in {
        "a key twice": b'{"session": {}, "session": {}}',
        "NaN": b'{"session": {"elapsed": NaN}}',
        "infinity": b'{"session": 1e999}',
        "too deep": b'{"a":' * 400 + b"1" + b"}" * 400,
        "much too deep": b'{"a":' * 200_000 + b"1" + b"}" * 200_000,
        "no object": b"[1]",
        "a long integer": b'{"session": ' + b"9" * 5000 + b"}",
        "an unknown tag": b'{"session": {"$call": "os.system"}}',
        "empty": b"",
        "zeros": bytes(99),
        "an array instead": b'{"$array": "x", "dtype": "<f4", "shape": [1]}',
        "a tuple instead": b'{"$tuple": []}',
        "an int instead": b'{"$int": "5"}',
        "bytes instead": b'{"$bytes": "x"}',
        "a dict of pairs": b'{"$dict": [[1, 2]]}',
        "a long $int": b'{"session": {"$int": "' + b"9" * 99999 + b'"}}',
    }.items():
        yield Hostile(f"state: {name}", partial(_text, STATE, text), (STATE,))
    for kind, data in PICKLES.items():
        yield Hostile(f"state: a pickle of {kind}", partial(_text, STATE, data), (STATE,))
        yield Hostile(f"arrays: a pickle of {kind}", partial(_text, ARRAYS, data), (ARRAYS,))


def _text(name: str, data: bytes, run: Path) -> None:
    put(run, name, data)


def _arrays(state: Tree, arrays: dict[str, Any]) -> Iterator[Hostile]:
    """Each array missing, besides, twice, of other types and shapes; weights and moments that are not finite."""
    for name, array in arrays.items():
        others = {key: value for key, value in arrays.items() if key != name}
        variants: dict[str, Any] = {
            "missing": others,
            "renamed": others | {name + "x": array},
            "besides": arrays | {name + "x": array},
            "shorter": others | {name: array.reshape(-1)[:-1].copy()},
            "longer": others | {name: np.concatenate([array.reshape(-1)] * 2 or [array])},
        }
        if array.dtype != np.bool_:
            variants["of truth values"] = others | {name: np.zeros(array.shape, dtype=np.bool_)}
        if array.dtype != np.float64:
            variants["of doubles"] = others | {name: np.zeros(array.shape)}
        if array.dtype.kind == "f" and name.startswith(("policy", "loop/algorithm")):
            for value in (np.nan, np.inf, -np.inf):
                changed = array.copy()
                changed.reshape(-1)[-1] = value
                variants[f"with {value}"] = others | {name: changed}
        for what, found in variants.items():
            data = save_arrays(found)
            if array.size or what in ("missing", "renamed", "besides"):
                yield Hostile(f"array {name} {what}", partial(_text, ARRAYS, data), ("step_120",))
    data = save_arrays(arrays)
    size = int.from_bytes(data[:8], "little")
    index, rest = json.loads(data[8 : 8 + size]), data[8 + size :]
    for name, facts in index.items():
        for what, change in {
            "BF16": {"dtype": "BF16"},
            "huge": {"shape": [2**40, 2**40]},
            "minus": {"shape": [-1]},
            "over": {"data_offsets": [0, 4]},
            "far": {"data_offsets": [2**40, 2**41]},
        }.items():
            text = json.dumps(index | {name: facts | change}).encode()
            text += b" " * (-len(text) % 8)
            yield Hostile(
                f"array {name} {what}", partial(_text, ARRAYS, len(text).to_bytes(8, "little") + text + rest), (ARRAYS,)
            )
    bomb = {"$array": next(iter(arrays)), "dtype": "<f4", "shape": [1]}
    yield Hostile(
        "one array a thousand times",
        partial(_text, STATE, json.dumps(state | {"x": [bomb] * 1000}).encode()),
        ("step_120",),
    )


def _files(run: Path) -> Iterator[Hostile]:
    """Files that are none, files besides, and chunks that are not what they are called."""
    chunks = sorted(named_chunks(read_index(run / STEP)))
    places = [STEP / name for name in (INDEX, STATE, ARRAYS, POLICY)] + [
        Path("checkpoints") / "chunks" / name for name in chunks[:4]
    ]
    makers: dict[str, Callable[[Path], object]] = {
        "missing": lambda path: None,
        "a link": lambda path: path.symlink_to(run / "config.json"),
        "a link to a device": lambda path: path.symlink_to("/dev/zero"),
        "a link to itself": lambda path: path.symlink_to(path),
        "a pipe": os.mkfifo,
        "a folder": Path.mkdir,
        "a terabyte": _sparse,
        "empty": lambda path: path.write_bytes(b""),
    }
    for place in places:
        for what, make in makers.items():
            yield Hostile(f"{place.name[:20]} is {what}", partial(_instead, place, make), (place.name,))
    for name in (".hidden", "STATE.JSON", "x.py", "sitecustomize.py", "chunk", "state.json~", "data.pkl"):
        yield Hostile(f"besides {name}", partial(_besides, name), (name,))


def _instead(place: Path, make: Callable[[Path], object], run: Path) -> None:
    (run / place).unlink()
    make(run / place)


def _besides(name: str, run: Path) -> None:
    (run / STEP / name).write_bytes(b"import os")


def _sparse(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(1 << 40)
