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


def _file(path: Path, read: Callable[[], object]) -> dict[str, Callable[..., object]]:
    """Of a target: puts the content into a file and reads; at the end there is again what there was."""
    before = path.read_bytes()

    def act(data: bytes) -> None:
        path.write_bytes(data)
        read()

    return {"read": act, "end": lambda: path.write_bytes(before)}


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
    damaged: dict[str, Any] = {"refusals": (DamagedError,)}

    def look() -> None:
        store.check(named_chunks(verify(folder)))

    def rings(about: dict[str, Any]) -> None:
        named_chunks({"about": about})
        described = about.get("replay")
        if isinstance(described, dict):
            read_rings(described, store, replay)

    def stated() -> None:
        read_state(folder)

    return {
        "index": Target(lambda draw: mutated_json(index, draw), **_file(folder / INDEX, look), **damaged, share=20),
        "index, sealed": Target(
            lambda draw: _sealed(_finite(mutated_tree(unsealed, draw))),
            **_file(folder / INDEX, look),
            **damaged,
            share=10,
        ),
        "rings": Target(lambda draw: _dict(mutated_tree(about, draw)), rings, **damaged, share=10),
        "state": Target(lambda draw: mutated_json(state, draw), **_file(folder / STATE, stated), **damaged, share=10),
        "arrays": Target(lambda draw: _tensors(arrays, draw), **_file(folder / ARRAYS, stated), **damaged, share=10),
        "chunk": Target(
            lambda draw: mutated(content, draw),
            **_file(store.folder / chunk, lambda: store.get(chunk, len(content))),
            **damaged,
            share=5,
        ),
    }  # fmt: skip


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
        sources.code_hashes, resuming.computing_facts = hashes, facts
        try:
            differences(RunFolder.open(run), now)
        finally:
            sources.code_hashes, resuming.computing_facts = code_hashes, computing_facts

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
        "config.json": Target(
            lambda draw: mutated_json(config, draw), **_file(run / "config.json", configured), share=10
        ),
        "manifest.json": Target(
            lambda draw: mutated_json(manifest, draw), **_file(run / "manifest.json", manifested), share=10
        ),
        "code.json": Target(lambda draw: mutated_json(code, draw), **_file(run / CODE, changes), share=2),
        "episodes.jsonl": Target(
            lambda draw: mutated_lines(episodes, draw), **_file(run / "episodes.jsonl", logged), share=2
        ),
        "metrics.jsonl": Target(
            lambda draw: mutated_lines(metrics, draw), **_file(run / "metrics.jsonl", measured), share=2
        ),
    }


def _failures(folder: Path) -> dict[str, Target]:
    failure = Failure(0, None, "step", 2, 3, {"a": (1, 2)}, None, [0, 1], True, "ValueError: x", "Traceback")
    path = failures.write(folder / "failures", failure, failures.Origin("X-v0", "X-v0", {"b": 1.5}, None))
    text = path.read_bytes()
    read = _file(path, lambda: failures.read(path))
    return {"failure": Target(lambda draw: mutated_json(text, draw), **read, share=30)}
