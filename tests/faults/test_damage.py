"""Flipped bits, cut files, foreign and hostile checkpoints: refused with the file named, the one before is taken."""

from __future__ import annotations

import hashlib
import json
import os
import random
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load as load_arrays
from safetensors.numpy import save as save_arrays

import steadyrl as srl
from steadyrl.envs.snapshots.values import digest, flatten, unflatten
from steadyrl.errors import NonFiniteError, UserError
from steadyrl.training import chunks
from steadyrl.training.checkpoint import INDEX, POLICY, _sealed, read_index, steps_in
from steadyrl.training.resuming import newest
from steadyrl.training.run_folder import RunFolder
from steadyrl.training.saving import ARRAYS, STATE
from support.checkpoints import SESSION, Work, files, found

CUT = 4096


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Work]:
    before = chunks.CHUNK_BYTES
    work = Work(tmp_path_factory.mktemp("work"))
    work.saver(work.run, keep_last=None).save(SESSION)
    assert list(steps_in(work.run / "checkpoints")) == [80, 120]
    yield work
    chunks.CHUNK_BYTES = before


def own(run: Path) -> list[str]:
    """What the newest checkpoint alone consists of: its files, and chunks that the one before does not name."""
    index, older = (read_index(run / "checkpoints" / f"step_{step}") for step in (120, 80))
    mine = set(chunks.named_chunks(index)) - set(chunks.named_chunks(older))
    assert mine
    return [f"checkpoints/step_120/{name}" for name in (POLICY, INDEX, STATE, ARRAYS)] + [
        f"checkpoints/chunks/{name}" for name in sorted(mine)
    ]


def insist_on_fall_back(run: Path, name: str) -> None:
    """Step 80 is taken, step 120 set aside, and the damaged file was named; then all is put back."""
    said: list[str] = []
    checkpoint = found(run, said)
    assert checkpoint is not None
    assert checkpoint.step == 80, name
    assert len(said) == 1
    assert Path(name).name in said[0], said
    assert "set aside" in said[0]
    os.rename(run / "checkpoints" / "step_120.damaged-1", run / "checkpoints" / "step_120")


@pytest.mark.parametrize("count", [400, pytest.param(10_000, marks=pytest.mark.soak)])
def test_every_flipped_bit_is_seen(count: int, work: Work, tmp_path: Path) -> None:
    run, draw = work.copy(tmp_path / "run"), random.Random(1)
    names = own(run)
    for _ in range(count):
        path = run / (name := draw.choice(names))
        data = path.read_bytes()
        at = draw.randrange(len(data))
        path.write_bytes(data[:at] + bytes([data[at] ^ 1 << draw.randrange(8)]) + data[at + 1 :])
        insist_on_fall_back(run, name)
        path.write_bytes(data)
    assert found(run).step == 120  # type: ignore[union-attr]


def test_every_cut_is_seen(work: Work, tmp_path: Path) -> None:
    run = work.copy(tmp_path / "run")
    for name in own(run):
        data = (run / name).read_bytes()
        for length in {*range(0, len(data), CUT), len(data) - 1}:
            (run / name).write_bytes(data[:length])
            insist_on_fall_back(run, name)
        (run / name).write_bytes(data + b"\0")
        insist_on_fall_back(run, name)
        (run / name).write_bytes(data)
    assert found(run).step == 120  # type: ignore[union-attr]


def reseal(run: Path, change: Callable[[dict[str, Any]], None]) -> None:
    """Change the newest index as somebody would who knows how its checksum is made."""
    path = run / "checkpoints" / "step_120" / INDEX
    index = json.loads(path.read_text())
    del index["checksum"]
    change(index)
    path.write_bytes(_sealed(index))


def put(run: Path, name: str, data: bytes) -> None:
    """Replace a file of the newest checkpoint, checksums and all."""
    (run / "checkpoints" / "step_120" / name).write_bytes(data)
    facts = {"size": len(data), "sha256": hashlib.sha256(data).hexdigest()}
    reseal(run, lambda index: index["files"].update({name: facts}))


def nested(depth: int) -> bytes:
    return b'{"a":' * depth + b"1" + b"}" * depth


HUGE = {"size": 1 << 50, "sha256": "0" * 64}
INDICES: dict[str, Callable[[dict[str, Any]], None]] = {
    "files a list": lambda index: index.update(files=[]),
    "a path upwards": lambda index: index["files"].update({"../../config.json": HUGE}),
    "an absolute path": lambda index: index["files"].update({"/etc/passwd": HUGE}),
    "a backslash": lambda index: index["files"].update({"..\\x": HUGE}),
    "a NUL": lambda index: index["files"].update({"a\0b": HUGE}),
    "a name in capitals": lambda index: index["files"].update({"STATE.JSON": HUGE}),
    "a huge size": lambda index: index["files"].update({STATE: HUGE}),
    "a size of text": lambda index: index["files"][STATE].update(size="1"),
    "no checksum": lambda index: index["files"][STATE].pop("sha256"),
    "facts a number": lambda index: index["files"].update({STATE: 3}),
    "another step": lambda index: index.update(step=4),
    "no policy": lambda index: index["files"].pop(POLICY),
    "about a list": lambda index: index.update(about=[]),
    "a chunk upwards": lambda index: index["about"]["replay"]["obs/"].update(chunks=["../step_80/state.json"]),
    "chunks a number": lambda index: index["about"]["replay"]["obs/"].update(chunks=3),
    "the replay a list": lambda index: index["about"].update(replay=["x"]),
}


@pytest.mark.parametrize("what", INDICES)
def test_a_hostile_index_is_refused(what: str, work: Work, tmp_path: Path) -> None:
    run = work.copy(tmp_path / "run")
    reseal(run, INDICES[what])
    said: list[str] = []
    assert found(run, said).step == 80  # type: ignore[union-attr]
    assert "step_120" in said[0]


ONE = '{"dtype": "U8", "shape": [4], "data_offsets": [0, 4]}'
OVERLAPPING = f'{{"a": {ONE}, "b": {ONE}}}'.encode()
STATES: dict[str, tuple[str, bytes]] = {
    "a key twice": (STATE, b'{"session": {}, "session": {}}'),
    "NaN": (STATE, b'{"session": {"elapsed": NaN}}'),
    "too deep": (STATE, nested(400)),
    "much too deep": (STATE, nested(200_000)),
    "a long integer": (STATE, b'{"session": ' + b"9" * 5000 + b"}"),
    "no object": (STATE, b"[1]"),
    "an unknown tag": (STATE, b'{"session": {"$call": "os.system"}}'),
    "a missing array": (STATE, b'{"session": {"$array": "x", "dtype": "<f4", "shape": [1]}}'),
    "a huge shape": (STATE, b'{"session": {"$array": "x", "dtype": "<f4", "shape": [1000000000000]}}'),
    "an object dtype": (STATE, b'{"session": {"$array": "x", "dtype": "|O", "shape": [1]}}'),
    "no session": (STATE, b"{}"),
    "a pickle": (ARRAYS, b"\x80\x04\x95\x1f\x00\x00\x00\x00\x00\x00\x00\x8c\x05posix\x94\x8c\x06system\x94\x93\x94."),
    "a header of a terabyte": (ARRAYS, (1 << 40).to_bytes(8, "little") + b"{}"),
    "overlapping arrays": (
        ARRAYS,
        len(OVERLAPPING).to_bytes(8, "little") + OVERLAPPING + b"1234",
    ),
    "nothing": (ARRAYS, b""),
}  # fmt: skip


@pytest.mark.parametrize("what", STATES)
def test_a_hostile_state_is_refused(what: str, work: Work, tmp_path: Path) -> None:
    run = work.copy(tmp_path / "run")
    put(run, *STATES[what])
    said: list[str] = []
    assert found(run, said).step == 80  # type: ignore[union-attr]
    assert STATES[what][0] in said[0] or STATE in said[0]


@pytest.mark.parametrize("odd", ["link", "pipe", "folder", "sparse"])
@pytest.mark.parametrize("name", [INDEX, STATE, "chunk"])
def test_what_is_no_plain_file_is_refused(name: str, odd: str, work: Work, tmp_path: Path) -> None:
    run = work.copy(tmp_path / "run")
    path = run / next(place for place in own(run) if place.endswith(name) or (name == "chunk" and "chunks/" in place))
    path.rename(tmp_path / "elsewhere")
    if odd == "link":
        path.symlink_to(tmp_path / "elsewhere")
    elif odd == "pipe":
        os.mkfifo(path)
    elif odd == "folder":
        path.mkdir()
    else:
        with path.open("wb") as file:
            file.truncate(1 << 40)
    insist_on_fall_back(run, path.name)


Change = Callable[[dict[str, Any], dict[str, Any]], None]


def at(tree: Any, *path: str) -> Any:
    for name in path:
        tree = tree[name]
    return tree


STATE_CHANGES: dict[str, tuple[str, Change]] = {
    "a part missing": ("loop", lambda state, _: state.pop("loop")),
    "an unknown part": ("more", lambda state, _: state.update(more=1)),
    "an optimiser of another type": (
        "loop/algorithm/optimizer", lambda state, _: at(state, "loop", "algorithm").update(optimizer=3)
    ),
    "a number that is text": ("loop/due", lambda state, _: state["loop"].update(due="1")),
    "another step": ("loop/stepper/timesteps", lambda state, _: at(state, "loop", "stepper").update(timesteps=7)),
    "a stream of another name": ("predict/name", lambda state, _: state["predict"].update(name="env/0")),
    "a stream of another seed": ("predict", lambda state, _: state["predict"].update(key=[1, 2])),
    "an unknown generator": (
        "generators/numpy/name", lambda state, _: at(state, "generators", "numpy").update(name="os.system")
    ),
    "a class of another package": ("os:system", lambda state, arrays: _replace_layer(state, arrays, "os:system")),
    "an unknown class of Gymnasium's": (
        "gymnasium.core:Nothing", lambda state, arrays: _replace_layer(state, arrays, "gymnasium.core:Nothing")
    ),
    "environments of another number": ("2", lambda state, _: state["envs"].update(num_envs=3)),
    "an episode with unknown facts": (
        "odd", lambda state, _: at(state, "loop", "stepper").update(episodes=[{"odd": 1}])
    ),
    "a resource of Gymnasium's": (
        "AsyncVectorEnv",
        lambda state, arrays: _replace_layer(state, arrays, "gymnasium.vector.async_vector_env:AsyncVectorEnv"),
    ),
    "a session without a best": ("session/best", lambda state, _: state["session"].pop("best")),
    "a session that says more": ("session", lambda state, _: state["session"].update(more=1)),
    "weights of another shape": ("policy", lambda state, arrays: _smaller(state, arrays, "policy")),
    "a target of another shape": (
        "loop/algorithm/target", lambda state, arrays: _smaller(state, arrays, "loop/algorithm/target")
    ),
}  # fmt: skip


def _replace_layer(state: dict[str, Any], arrays: dict[str, Any], name: str) -> None:
    """A generator in an environment becomes an object of this class, with the environment's own checksum mended."""
    envs = unflatten(state["envs"], arrays)
    (inner, *_) = [node for node in _nodes(envs) if "checksum" in node and "content" in node]
    (node, *_) = [node for node in _nodes(inner["content"]) if "~generator" in node]
    node.clear()
    node.update({"~object": name, "attributes": {}})
    inner["checksum"] = digest([inner["kind"], inner["env_id"], inner["content"]])
    state["envs"], fresh = flatten(envs)
    _renamed(state["envs"])
    arrays.update({f"new/{key}": array for key, array in fresh.items()})


def _renamed(packed: Any) -> None:
    for node in _nodes(packed):
        for tag in ("$array", "$bytes"):
            if tag in node:
                node[tag] = f"new/{node[tag]}"


def _nodes(value: Any) -> Iterator[dict[str, Any]]:
    if isinstance(value, dict):
        yield value
        value = list(value.values())
    for child in value if isinstance(value, list | tuple) else []:
        yield from _nodes(child)


def _smaller(state: dict[str, Any], arrays: dict[str, Any], start: str) -> None:
    def cut(node: Any) -> bool:
        if isinstance(node, dict) and node.get("$array", "").startswith(start):
            array = arrays[node["$array"]]
            arrays[node["$array"]] = array.reshape(-1)[:-1].copy()
            node["shape"] = [array.size - 1]
            return True
        return any(cut(child) for child in node.values()) if isinstance(node, dict) else False

    assert cut(state)


@pytest.mark.parametrize("what", STATE_CHANGES)
def test_a_state_of_another_form_is_refused_by_name(what: str, work: Work, tmp_path: Path) -> None:
    """Its checksums are right: somebody who may write there made it, or another version did. Nothing is run."""
    run = work.copy(tmp_path / "run")
    folder = run / "checkpoints" / "step_120"
    named, change = STATE_CHANGES[what]
    state, arrays = json.loads((folder / STATE).read_text()), load_arrays((folder / ARRAYS).read_bytes())
    change(state, arrays)
    used = {node[tag] for node in _nodes(state) for tag in ("$array", "$bytes") if tag in node}
    put(run, STATE, json.dumps(state).encode())
    put(run, ARRAYS, save_arrays({name: array for name, array in arrays.items() if name in used}))
    before, manifest, modules = files(run), (run / "manifest.json").read_bytes(), set(sys.modules)
    with pytest.raises(UserError) as caught:
        srl.resume(run, say=lambda notice: None)
    assert "step_120" in str(caught.value)
    assert named in str(caught.value)
    assert "os" not in {name.partition(".")[0] for name in set(sys.modules) - modules}
    assert files(run) == before
    assert (run / "manifest.json").read_bytes() == manifest  # a refusal leaves the run as it was


def test_a_checkpoint_of_another_run_is_refused(work: Work, tmp_path: Path) -> None:
    run = work.copy(tmp_path / "run")
    reseal(run, lambda index: index["about"].update(algo="sac"))
    with pytest.raises(UserError, match="is of the algo 'sac', and the run's is 'dqn'"):
        srl.resume(run)
    reseal(run, lambda index: index["about"].update(algo="dqn", env="Acrobot-v1"))
    with pytest.raises(UserError, match="is of the env 'Acrobot-v1', and the run's is 'CartPole-v1'"):
        srl.resume(run)


def test_a_checkpoint_of_a_later_version_stays_where_it_is(work: Work, tmp_path: Path) -> None:
    run = work.copy(tmp_path / "run")
    reseal(run, lambda index: index.update(version=3))
    with pytest.raises(UserError, match="is of version 3, which a later steadyrl reads"):
        newest(RunFolder.open(run), lambda notice: None)
    assert (run / "checkpoints" / "step_120" / INDEX).exists()


def test_what_cannot_be_read_just_now_is_not_called_damaged(
    work: Work, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = work.copy(tmp_path / "run")
    real = Path.read_bytes

    def refuse(path: Path) -> bytes:
        if path.name == INDEX:
            raise PermissionError(13, "Permission denied")
        return real(path)

    monkeypatch.setattr(Path, "read_bytes", refuse)
    with pytest.raises(UserError, match=r"checkpoint.json cannot be read \(Permission denied\)"):
        newest(RunFolder.open(run), lambda notice: None)
    assert (run / "checkpoints" / "step_120").is_dir()


def test_loading_opens_nothing_else_and_runs_nothing(work: Work, tmp_path: Path) -> None:
    """An audit hook sees what Python does: no import, no compilation, no process, no socket, no pickle."""
    run = work.copy(tmp_path / "run")
    found(run)  # everything is imported
    seen: list[str] = []
    watching = True

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        if watching and event.split(".")[0] in (
            "exec",
            "compile",
            "import",
            "pickle",
            "subprocess",
            "socket",
            "ctypes",
        ):
            seen.append(event)

    sys.addaudithook(hook)
    found(run)
    watching = False
    assert seen == []


def test_what_is_not_finite_is_never_committed(work: Work, tmp_path: Path) -> None:
    """Weights, an optimiser's moments, a replay's rewards: nothing is written, and what was there stays whole."""
    agent = work.agent
    flat: Any = agent.loop.algorithm
    rings = agent.loop.replay.rings  # type: ignore[attr-defined]
    agent.learn(2, schedule_steps=1000)
    targets: list[np.ndarray[Any, Any]] = [
        flat._optimizer._mean.numpy(), flat._target.flat.data.numpy(), rings["rewards"]
    ]  # fmt: skip
    for array in targets:
        run = work.copy(tmp_path / "run")
        before, kept = files(run), array.copy()
        array.reshape(-1)[0] = np.inf
        try:
            with pytest.raises(NonFiniteError, match="so it is not written"):
                work.saver(run, keep_last=1).save(SESSION)
        finally:
            array[...] = kept
        assert {name: data for name, data in files(run).items() if "chunks" not in name} == {
            name: data for name, data in before.items() if "chunks" not in name
        }
        assert found(run).step == 120  # type: ignore[union-attr]
        shutil.rmtree(run)


def test_pruning_waits_for_a_new_one_that_can_be_read_back(
    work: Work, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A disk that answers well and stores nonsense: nothing older is removed."""
    run = work.copy(tmp_path / "run")
    agent = work.agent
    agent.learn(2, schedule_steps=1000)
    real = os.replace

    def corrupt(source: Any, target: Any) -> None:
        real(source, target)
        if "chunks" in str(target):
            Path(target).write_bytes(b"nonsense")

    monkeypatch.setattr(os, "replace", corrupt)
    work.saver(run, keep_last=1).save(SESSION)
    monkeypatch.undo()
    steps = list(steps_in(run / "checkpoints"))
    assert steps[:2] == [80, 120]
    assert len(steps) == 3
    assert found(run).step == 120  # type: ignore[union-attr]
