"""An audit hook sees what Python does while something is loaded: no import, compilation, process, socket or pickle."""

from __future__ import annotations

import pickle
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import steadyrl as srl
from steadyrl.bundle import read_bundle
from steadyrl.envs import failures
from steadyrl.errors import UserError
from steadyrl.training import chunks
from steadyrl.training.agent import Agent
from steadyrl.training.finding import find_checkpoint
from steadyrl.training.resuming import put_back
from steadyrl.training.run_folder import RunFolder
from steadyrl.training.setup import Setup
from steadyrl.training.taking_up import setup_of
from support.bundles import GOOD
from support.checkpoints import OFF, Work, found
from support.policies import CPU

WORDS = (
    "exec",
    "compile",
    "import",
    "pickle",
    "marshal",
    "code",
    "subprocess",
    "os.exec",
    "os.fork",
    "os.system",
    "os.spawn",
    "os.posix_spawn",
    "socket",
    "ctypes",
    "urllib",
    "sys.set",
    "shutil",
    "tempfile",
    "webbrowser",
)
_seen: list[str] | None = None
_hooked = False


def _hook(event: str, arguments: tuple[Any, ...]) -> None:
    if _seen is not None and event.startswith(WORDS):
        _seen.append(f"{event} {str(arguments)[:200]}")


@contextmanager
def audited() -> Iterator[list[str]]:
    """What was seen inside; a hook can never be taken away again, so there is one for all tests."""
    global _seen, _hooked
    if not _hooked:
        sys.addaudithook(_hook)
        _hooked = True
    events: list[str] = []
    _seen = events
    try:
        yield events
    finally:
        _seen = None


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Work]:
    before = chunks.CHUNK_BYTES
    yield Work(tmp_path_factory.mktemp("work"))
    chunks.CHUNK_BYTES = before


def bundle(run: Path) -> Callable[[], object]:
    (run / "x.srl").write_bytes(GOOD)
    return lambda: read_bundle(run / "x.srl", CPU)


def load(run: Path) -> Callable[[], object]:
    return lambda: srl.load(find_checkpoint(run / "checkpoints", "80")).predict(np.zeros(4, dtype=np.float32))


def checkpoint(run: Path) -> Callable[[], object]:
    return lambda: found(run)


def resume(run: Path) -> Callable[[], object]:
    """All of a resume but the making of its environments, which are code of whoever wrote them."""
    setup: Setup = setup_of(RunFolder.open(run))
    agent: Agent = srl.DQN("CartPole-v1", seed=1, vec="sync", **OFF)
    assert (setup.resolved.algo, agent.algo) == ("dqn", "dqn")
    newest = found(run)
    assert newest is not None
    return lambda: put_back(agent, newest)


def records(run: Path) -> Callable[[], object]:
    opened = srl.Run.open(run)
    return lambda: (
        opened.config,
        opened.manifest,
        opened.metrics(),
        opened.episodes(),
        opened.evals(),
        opened.summary(),
    )


def damaged(run: Path) -> Callable[[], object]:
    """A refusal is looked at too."""
    (run / "x.srl").write_bytes(GOOD[:-1])

    def refused() -> None:
        with pytest.raises(UserError):
            read_bundle(run / "x.srl", CPU)

    return refused


def failure(run: Path) -> Callable[[], object]:
    (run / "x.json").write_text("{}")

    def refused() -> None:
        with pytest.raises(UserError):
            failures.read(run / "x.json")

    return refused


@pytest.mark.parametrize("prepare", [bundle, load, checkpoint, resume, records, damaged, failure])
def test_loading_runs_nothing(prepare: Callable[[Path], Callable[[], object]], work: Work, tmp_path: Path) -> None:
    """A second load is looked at: what the first one brings in lazily is part of the package, not of the file."""
    prepare(work.copy(tmp_path / "first"))()
    act = prepare(work.copy(tmp_path / "second"))
    with audited() as events:
        act()
    assert events == []
    shutil.rmtree(tmp_path / "first")


FIRST = """
import importlib, pkgutil, sys
from pathlib import Path
import safetensors.numpy, safetensors.torch, torch
import steadyrl as srl
for module in pkgutil.walk_packages(srl.__path__, "steadyrl."):
    if not module.name.endswith(("__main__", "envpool")):
        importlib.import_module(module.name)
from steadyrl.config import hints
from steadyrl.configs import CONFIGS
for algo in CONFIGS:
    hints(algo)  # the package's own annotations, which Python turns into types by compiling them
run, seen, watching = Path(sys.argv[1]), [], True
sys.addaudithook(lambda event, arguments: seen.append(event + str(arguments)[:200])
                 if watching and event.startswith(tuple(sys.argv[2:])) else None)
srl.load(run / "checkpoints" / "step_80" / "policy.srl")
srl.training.resuming.newest(srl.training.run_folder.RunFolder.open(run), print)
opened = srl.Run.open(run)
opened.summary(), opened.metrics(), opened.episodes()
watching = False
print(seen)
"""


def test_the_very_first_load_runs_nothing_either(work: Work) -> None:
    """Once the package with all its modules, torch and safetensors are imported."""
    command = [sys.executable, "-c", FIRST, str(work.run), *WORDS]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("[]\n", "")


@pytest.mark.parametrize(
    "act",
    [
        lambda path: exec("1"),
        lambda path: compile("1", "x", "eval"),
        lambda path: __import__("colorsys"),
        lambda path: shutil.copyfile(__file__, path / "x"),
        lambda path: tempfile.mkdtemp(dir=path),
        lambda path: subprocess.run(["true"], check=True),
        lambda path: socket.socket().close(),
        lambda path: pickle.loads(pickle.dumps(Path)),
    ],
)
def test_the_hook_sees(act: Callable[[Path], object], tmp_path: Path) -> None:
    """Each of these must be seen, or an empty list would prove nothing."""
    sys.modules.pop("colorsys", None)
    with audited() as events:
        act(tmp_path)
    assert events != []
