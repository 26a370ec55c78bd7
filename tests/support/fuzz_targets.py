"""Everything that reads a file which somebody else may have written, ready to be given mutated ones."""

from __future__ import annotations

import json
import random
import signal
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from types import FrameType
from typing import Any

import steadyrl as srl
from steadyrl.bundle import read_bundle
from steadyrl.config import from_json
from steadyrl.data.replay import Replay
from steadyrl.envs import failures
from steadyrl.envs.failure import Failure
from steadyrl.errors import UserError
from steadyrl.strict_json import strict_object
from steadyrl.strict_tensors import strict_tensors
from steadyrl.training.checkpoint import INDEX, DamagedError, _sealed, verify
from steadyrl.training.chunks import ChunkStore, named_chunks, read_rings
from steadyrl.training.comparing import first_difference
from steadyrl.training.curve import write_curve
from steadyrl.training.equivalence import final_score, what_of
from steadyrl.training.jsonlines import read_jsonl
from steadyrl.training.provenance import provenance
from steadyrl.training.resuming import differences, read_state
from steadyrl.training.run_folder import RunFolder
from steadyrl.training.saving import ARRAYS, STATE
from steadyrl.training.sources import CODE
from steadyrl.training.taking_up import setup_of
from support.bundles import GOOD, members, packed
from support.checkpoints import Work
from support.fuzz import mutated, mutated_json, mutated_lines, mutated_tree
from support.policies import CPU

LIMIT_S = 30  # of one case on a busy machine; what takes longer hangs
STEP = Path("checkpoints") / "step_80"


@dataclass(frozen=True)
class Target:
    """One reader.

    Attributes:
        mutate: Another content.
        read: Is given it.
        refusals: What it may raise.
        share: How many cases, as against the others.
    """

    mutate: Callable[[random.Random], Any]
    read: Callable[[Any], object]
    refusals: tuple[type[Exception], ...] = (UserError,)
    share: int = 1


@dataclass
class Count:
    """What became of a target's cases."""

    refused: int = 0
    taken: int = 0
    slowest_s: float = 0.0


def targets(work: Work, folder: Path) -> dict[str, Target]:
    """All of them.

    Args:
        work: A run to take good files from.
        folder: Of this call's own.
    """
    run = work.copy(folder / "run")
    return {**_bundles(folder), **_checkpoints(work, run), **_records(run), **_failures(folder)}


def _file(path: Path, read: Callable[[], object]) -> Callable[[bytes], object]:
    """Puts the content into a file, reads, and puts back what was there."""
    before = path.read_bytes() if path.exists() else None

    def act(data: bytes) -> None:
        path.write_bytes(data)
        try:
            read()
        finally:
            path.unlink() if before is None else path.write_bytes(before)

    return act


def _bundles(folder: Path) -> dict[str, Target]:
    header, weights = members()
    text = json.dumps(header).encode()
    path = folder / "x.srl"
    read = _file(path, lambda: read_bundle(path, CPU))
    refusal = (ValueError,)
    return {
        "bundle": Target(lambda draw: mutated(GOOD, draw), read, share=3),
        "bundle's description": Target(lambda draw: packed(mutated_json(text, draw)), read, share=4),
        "bundle's description, sealed": Target(lambda draw: packed(_dict(mutated_tree(header, draw))), read, share=4),
        "bundle's weights": Target(lambda draw: packed(header, _tensors(weights, draw)), read, share=4),
        "strict JSON": Target(
            lambda draw: mutated_json(text, draw), lambda data: strict_object(data, max_bytes=1 << 20), refusal, 2
        ),
        "strict tensors": Target(
            lambda draw: _tensors(weights, draw), lambda data: strict_tensors(data, max_index=1 << 20), refusal, 4
        ),
        "hyperparameters": Target(
            lambda draw: _dict(mutated_tree({"gamma": 0.9, "net_arch": [8], "num_envs": 2}, draw)),
            lambda data: from_json("ppo", data),
        ),
    }


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

    return {
        "index": Target(lambda draw: mutated_json(index, draw), _file(folder / INDEX, look), damaged, 3),
        "index, sealed": Target(
            lambda draw: _sealed(_finite(mutated_tree(tree, draw))), _file(folder / INDEX, look), damaged, 3
        ),
        "rings": Target(lambda draw: _dict(mutated_tree(tree["about"], draw)), rings, damaged, 2),
        "state": Target(
            lambda draw: mutated_json(state, draw), _file(folder / STATE, lambda: read_state(folder)), damaged, 2
        ),
        "arrays": Target(
            lambda draw: _tensors(arrays, draw), _file(folder / ARRAYS, lambda: read_state(folder)), damaged, 2
        ),
        "chunk": Target(
            lambda draw: mutated(content, draw),
            _file(store.folder / chunk, lambda: store.get(chunk, len(content))),
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

    def manifested() -> None:
        opened = srl.Run.open(run)
        opened.summary()
        differences(RunFolder.open(run), now)
        if final_score(run) is not None:
            what_of(run)

    def logged() -> None:
        read_jsonl(run / "episodes.jsonl")
        first_difference(run, other)
        write_curve(run)

    return {
        "config.json": Target(
            lambda draw: mutated_json(config, draw),
            _file(run / "config.json", lambda: (srl.Run.open(run).summary(), setup_of(RunFolder.open(run)))),
        ),
        "manifest.json": Target(lambda draw: mutated_json(manifest, draw), _file(run / "manifest.json", manifested)),
        "code.json": Target(
            lambda draw: mutated_json(code, draw), _file(run / CODE, lambda: differences(RunFolder.open(run), now))
        ),
        "episodes.jsonl": Target(lambda draw: mutated_lines(episodes, draw), _file(run / "episodes.jsonl", logged)),
        "metrics.jsonl": Target(
            lambda draw: mutated_lines(metrics, draw),
            _file(run / "metrics.jsonl", lambda: (read_jsonl(run / "metrics.jsonl"), first_difference(run, other))),
        ),
    }


def _failures(folder: Path) -> dict[str, Target]:
    failure = Failure(0, None, "step", 2, 3, {"a": (1, 2)}, None, [0, 1], True, "ValueError: x", "Traceback")
    path = failures.write(folder / "failures", failure, failures.Origin("X-v0", "X-v0", {"b": 1.5}, None))
    text = path.read_bytes()
    return {"failure": Target(lambda draw: mutated_json(text, draw), _file(path, lambda: failures.read(path)), share=3)}


class HangError(AssertionError):
    """A case took too long."""


def fuzz(found: dict[str, Target], cases: int, seed: int) -> dict[str, Count]:
    """Give each target its share of so many cases.

    Raises:
        AssertionError: something else than a refusal was raised, or nothing came back in time; the case is named.
    """
    total = sum(target.share for target in found.values())
    counts = {}
    for name, target in found.items():
        counts[name] = count = Count()
        for i in range(max(cases * target.share // total, 1)):
            begun = perf_counter()
            if _one(target, random.Random(f"{name} {seed} {i}"), f"{name}, case {i} of seed {seed}"):
                count.taken += 1
            else:
                count.refused += 1
            count.slowest_s = max(count.slowest_s, perf_counter() - begun)
    return counts


def _one(target: Target, draw: random.Random, case: str) -> bool:
    def hangs(number: int, frame: FrameType | None) -> None:
        raise HangError(f"{case}: nothing came back within {LIMIT_S} s")

    content = target.mutate(draw)
    before = signal.signal(signal.SIGALRM, hangs)
    signal.alarm(LIMIT_S)
    try:
        target.read(content)
    except target.refusals:
        return False
    except Exception as error:
        raise AssertionError(f"{case}: {type(error).__name__}: {error}: {str(content)[:2000]}") from error
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
    return True
