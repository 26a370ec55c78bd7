"""Everything that reads a file which somebody else may have written, ready to be given mutated ones.

A million cases have to fit an hour. So parsers are given bytes where they take bytes, and have the largest shares; what
a reader looks up beside the file, as the hashes of this package's code, is looked up once.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest

import steadyrl as srl
from steadyrl import bundle
from steadyrl.config import from_json
from steadyrl.data.replay import Replay
from steadyrl.envs import failures
from steadyrl.envs.failure import Failure
from steadyrl.errors import UserError
from steadyrl.strict_json import strict_object
from steadyrl.strict_tensors import strict_tensors
from steadyrl.training import resuming, sources
from steadyrl.training.checkpoint import INDEX, DamagedError, _sealed, verify
from steadyrl.training.chunks import ChunkStore, named_chunks, read_rings
from steadyrl.training.comparing import first_difference
from steadyrl.training.computing import computing_facts
from steadyrl.training.curve import write_curve
from steadyrl.training.equivalence import final_score, what_of
from steadyrl.training.jsonlines import read_jsonl
from steadyrl.training.provenance import provenance
from steadyrl.training.resuming import differences, read_state
from steadyrl.training.run_folder import RunFolder
from steadyrl.training.saving import ARRAYS, STATE
from steadyrl.training.sources import CODE, code_hashes
from steadyrl.training.taking_up import setup_of
from support.bundles import GOOD, members, packed
from support.checkpoints import Work
from support.fuzz import mutated, mutated_json, mutated_lines, mutated_tree
from support.fuzz_run import Target
from support.policies import CPU

STEP = Path("checkpoints") / "step_80"
SMALL = 1 << 20


def targets(work: Work, folder: Path) -> dict[str, Target]:
    """All of them.

    Args:
        work: A run to take good files from.
        folder: Of this call's own.
    """
    run = work.copy(folder / "run")
    return {**_bundles(), **_checkpoints(work, run), **_records(run), **_failures(folder)}


def _file(
    path: Path,
    mutate: Callable[[random.Random], bytes],
    read: Callable[[], object],
    share: int,
    refusals: tuple[type[Exception], ...] = (UserError,),
) -> Target:
    """Puts the content into a file and reads; at the end there is again what there was."""
    before = path.read_bytes()

    def act(data: bytes) -> None:
        path.write_bytes(data)
        read()

    return Target(mutate, act, refusals, share, lambda: path.write_bytes(before))


def _bundles() -> dict[str, Target]:
    header, weights = members()
    text = json.dumps(header).encode()
    few = json.dumps({"gamma": 0.9, "net_arch": [8], "num_envs": 2})
    refusals: tuple[type[Exception], ...] = (bundle._RefusedError, UserError)

    def read(data: bytes) -> None:
        bundle._from_bytes(data, CPU, False)

    def of(content: Callable[[random.Random], bytes], share: int) -> Target:
        return Target(content, read, refusals, share)

    return {
        "bundle": of(lambda draw: mutated(GOOD, draw), 60),
        "bundle's description": of(lambda draw: packed(mutated_json(text, draw), weights), 60),
        "bundle's description, sealed": of(lambda draw: packed(_dict(mutated_tree(text, draw)), weights), 40),
        "bundle's weights": of(lambda draw: packed(header, _tensors(weights, draw)), 40),
        "strict JSON": Target(
            lambda draw: mutated_json(text, draw), lambda data: strict_object(data, max_bytes=SMALL), (ValueError,), 60
        ),
        "strict tensors": Target(
            lambda draw: _tensors(weights, draw), lambda data: strict_tensors(data, max_index=SMALL), (ValueError,), 60
        ),
        "hyperparameters": Target(
            lambda draw: _dict(mutated_tree(few, draw)), lambda data: from_json("ppo", data), share=40
        ),
    }  # fmt: skip


def _dict(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {"": value}


def _tensors(data: bytes, draw: random.Random) -> bytes:
    """Other bytes, or another index with its length mended."""
    size = int.from_bytes(data[:8], "little")
    if draw.random() < 0.3:
        return mutated(data, draw)
    text = mutated_json(data[8 : 8 + size], draw)
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text + data[8 + size :]


def _checkpoints(work: Work, run: Path) -> dict[str, Target]:
    folder = run / STEP
    index, state, arrays = ((folder / name).read_bytes() for name in (INDEX, STATE, ARRAYS))
    tree = {key: value for key, value in json.loads(index).items() if key != "checksum"}
    unsealed, about = json.dumps(tree), json.dumps(tree["about"])
    store = ChunkStore(run / "checkpoints" / "chunks")
    replay: Replay = work.agent.loop.replay  # type: ignore[attr-defined]
    chunk = sorted(named_chunks(json.loads(index)))[0]
    content = (store.folder / chunk).read_bytes()
    damaged = (DamagedError,)

    def look() -> None:
        store.check(named_chunks(verify(folder)))

    def rings(about: dict[str, Any]) -> None:
        named_chunks({"about": about})
        described = about.get("replay")
        if isinstance(described, dict):
            read_rings(described, store, replay)

    def fetched() -> None:
        store.get(chunk, len(content))

    def stated() -> None:
        read_state(folder)

    def sealed(draw: random.Random) -> bytes:
        return _sealed(_finite(mutated_tree(unsealed, draw)))

    return {
        "index": _file(folder / INDEX, lambda draw: mutated_json(index, draw), look, 20, damaged),
        "index, sealed": _file(folder / INDEX, sealed, look, 10, damaged),
        "rings": Target(lambda draw: _dict(mutated_tree(about, draw)), rings, damaged, 10),
        "state": _file(folder / STATE, lambda draw: mutated_json(state, draw), stated, 10, damaged),
        "arrays": _file(folder / ARRAYS, lambda draw: _tensors(arrays, draw), stated, 10, damaged),
        "chunk": _file(
            store.folder / chunk,
            lambda draw: mutated(content, draw),
            lambda: store.get(chunk, len(content)),
            5,
            damaged,
        ),
    }


def _finite(tree: Any) -> dict[str, Any]:
    """Without what JSON has no word for, which nobody could seal."""
    return dict(json.loads(json.dumps(_dict(tree)), parse_constant=lambda word: 0))


def _records(run: Path) -> dict[str, Target]:
    config, manifest = (run / "config.json").read_bytes(), (run / "manifest.json").read_bytes()
    episodes, metrics, code = ((run / name).read_bytes() for name in ("episodes.jsonl", "metrics.jsonl", CODE))
    now = provenance(run)
    other = run.with_name("other")
    other.mkdir()
    for name in ("episodes.jsonl", "metrics.jsonl"):
        (other / name).write_bytes((run / name).read_bytes())
    hashes, facts = cache(code_hashes), cache(computing_facts)

    def changes() -> None:
        """With what is the same each time looked up once: it takes longer than all the rest."""
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(sources, "code_hashes", hashes)
            patch.setattr(resuming, "computing_facts", facts)
            differences(RunFolder.open(run), now)

    def configured() -> None:
        srl.Run.open(run).summary()
        setup_of(RunFolder.open(run))

    def manifested() -> None:
        srl.Run.open(run).summary()
        changes()
        if final_score(run) is not None:
            what_of(run)

    def logged() -> None:
        read_jsonl(run / "episodes.jsonl")
        first_difference(run, other)
        write_curve(run)

    def measured() -> None:
        read_jsonl(run / "metrics.jsonl")
        first_difference(run, other)

    return {
        "config.json": _file(run / "config.json", lambda draw: mutated_json(config, draw), configured, 10),
        "manifest.json": _file(run / "manifest.json", lambda draw: mutated_json(manifest, draw), manifested, 10),
        "code.json": _file(run / CODE, lambda draw: mutated_json(code, draw), changes, 2),
        "episodes.jsonl": _file(run / "episodes.jsonl", lambda draw: mutated_lines(episodes, draw), logged, 2),
        "metrics.jsonl": _file(run / "metrics.jsonl", lambda draw: mutated_lines(metrics, draw), measured, 2),
    }


def _failures(folder: Path) -> dict[str, Target]:
    failure = Failure(0, None, "step", 2, 3, {"a": (1, 2)}, None, [0, 1], True, "ValueError: x", "Traceback")
    path = failures.write(folder / "failures", failure, failures.Origin("X-v0", "X-v0", {"b": 1.5}, None))
    text = path.read_bytes()
    return {"failure": _file(path, lambda draw: mutated_json(text, draw), lambda: failures.read(path), 30)}
