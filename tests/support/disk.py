"""The file system between a checkpoint and the disk: calls that fail, that kill, or that are written down.

What a crash of the machine may leave is computed from what was written down: everything that was flushed, and any part
of the rest (Pillai et al. 2014, "All file systems are not created equal").
"""

from __future__ import annotations

import itertools
import os
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

CALLS = ("open", "write", "fsync", "mkdir", "rename", "replace", "unlink", "rmdir", "ftruncate")
WRITING = ("open", "write", "fsync", "mkdir", "rename", "replace")


@dataclass(frozen=True)
class Call:
    """One change of the file system, before it is made."""

    name: str
    path: str
    other: str = ""
    data: bytes = b""


def _full(path: Any, dir_fd: int | None) -> str:
    if isinstance(path, int):
        return os.readlink(f"/proc/self/fd/{path}")
    text = os.fspath(path)
    return os.path.join(os.readlink(f"/proc/self/fd/{dir_fd}"), text) if dir_fd is not None else os.path.abspath(text)


@contextmanager
def watched(below: Path, before: Callable[[Call], None]) -> Iterator[None]:
    """`before` is called ahead of each change below a folder; it may raise, or never come back."""
    real = {name: getattr(os, name) for name in CALLS if hasattr(os, name)}

    def wrap(name: str) -> Callable[..., Any]:
        def call(path: Any, *args: Any, **kwargs: Any) -> Any:
            full = _full(path, kwargs.get("dir_fd"))
            changes = name != "open" or bool(args and args[0] & os.O_CREAT)
            if changes and full.startswith(str(below)):
                other = _full(args[0], None) if name in ("rename", "replace") else ""
                before(Call(name, full, other, bytes(args[0]) if name == "write" else b""))
            return real[name](path, *args, **kwargs)

        return call

    try:
        for name in real:
            setattr(os, name, wrap(name))
        yield
    finally:
        for name, function in real.items():
            setattr(os, name, function)


class Counter:
    """Counts calls, and does something at one of them."""

    def __init__(self, at: int, do: Callable[[], None], names: tuple[str, ...] = CALLS) -> None:
        self.at, self.do, self.names = at, do, names
        self.count = 0

    def __call__(self, call: Call) -> None:
        if call.name in self.names:
            self.count += 1
            if self.count == self.at:
                self.do()


@dataclass
class _Node:
    """A file, or a folder with what its names meant at the last flush and what changed since."""

    is_folder: bool
    flushed: bytes = b""
    content: bytes = b""
    entries: dict[str, _Node] = field(default_factory=dict)
    pending: list[tuple[str, str, str, _Node | None]] = field(default_factory=list)
    now: dict[str, _Node] = field(default_factory=dict)


class Machine:
    """What may be on the disk after a crash at any moment of a recorded series of calls.

    Args:
        root: The folder; everything in it counts as flushed.
    """

    def __init__(self, root: Path) -> None:
        self._root = str(root)
        self._node = self._read(root)

    def _read(self, path: Path) -> _Node:
        if path.is_dir():
            entries = {child.name: self._read(child) for child in path.iterdir()}
            return _Node(True, entries=dict(entries), now=dict(entries))
        data = path.read_bytes()
        return _Node(False, data, data)

    def _find(self, path: str) -> _Node:
        node = self._node
        for part in [part for part in os.path.relpath(path, self._root).split(os.sep) if part != "."]:
            node = node.now[part]
        return node

    def apply(self, call: Call) -> None:
        """Let a call happen."""
        parent, name = os.path.split(call.path)
        if call.name == "write":
            self._find(call.path).content += call.data
        elif call.name == "fsync":
            node = self._find(call.path)
            node.flushed = node.content
            node.entries, node.pending = dict(node.now), []
        elif call.name in ("rename", "replace"):
            folder, target = self._find(parent), os.path.basename(call.other)
            assert os.path.dirname(call.other) == parent
            moved = folder.now.pop(name)
            folder.now[target] = moved
            folder.pending.append(("rename", name, target, moved))
        elif call.name in ("unlink", "rmdir"):
            folder = self._find(parent)
            if name in folder.now:  # else the call fails
                del folder.now[name]
                folder.pending.append(("remove", name, "", None))
        elif call.name in ("open", "mkdir"):
            folder = self._find(parent)
            if name not in folder.now:
                folder.now[name] = _Node(call.name == "mkdir")
                folder.pending.append(("make", name, "", folder.now[name]))

    def crashes(self, draw: random.Random, most: int) -> Iterator[dict[str, bytes | None]]:
        """Trees that a crash may leave, as content by relative path, None for a folder.

        None of what was not flushed, all of it, each of it alone, all but each, and random parts; files that were not
        flushed are empty, cut off, or whole.
        """
        count = len(self._pending(self._node))
        kept = [set[int](), set(range(count))]
        kept += [{i} for i in range(count)] + [set(range(count)) - {i} for i in range(count)]
        kept += [{i for i in range(count) if draw.random() < 0.5} for _ in range(most)]
        for which, share in itertools.product(kept[:most], (0.0, 0.5, 1.0)):
            numbers = itertools.count()
            yield dict(self._tree(self._node, "", which, numbers, share))

    def _pending(self, node: _Node) -> list[Any]:
        found = list(node.pending)
        for child in {id(child): child for child in [*node.entries.values(), *node.now.values()]}.values():
            found += self._pending(child)
        return found

    def _tree(
        self, node: _Node, place: str, kept: set[int], numbers: Iterator[int], share: float
    ) -> Iterator[tuple[str, bytes | None]]:
        if not node.is_folder:
            extra = len(node.content) - len(node.flushed)
            yield place, node.flushed + node.content[len(node.flushed) :][: int(share * extra)]
            return
        if place:
            yield place, None
        entries = dict(node.entries)
        for kind, name, target, child in node.pending:
            if next(numbers) not in kept:
                continue
            if kind == "remove":
                entries.pop(name, None)
            elif kind == "make" and child is not None:
                entries[name] = child
            elif child is not None:
                entries.pop(name, None)
                entries[target] = child
        for name, child in entries.items():
            yield from self._tree(child, f"{place}/{name}" if place else name, kept, numbers, share)


def written(tree: dict[str, bytes | None], root: Path) -> None:
    """Make a tree on the real disk."""
    root.mkdir()
    for place, content in tree.items():
        if content is None:
            (root / place).mkdir(parents=True, exist_ok=True)
        else:
            (root / place).parent.mkdir(parents=True, exist_ok=True)
            (root / place).write_bytes(content)
