"""Some hundred bundles that must not be loaded, made from a good one by rule: what is wrong with their containers."""

from __future__ import annotations

import gzip
import io
import os
import stat
import struct
import tarfile
import warnings
import zipfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from support.bundles import GOOD
from support.hostile import Hostile
from support.hostile_contents import PICKLES, Case, contents

CONTAINER = "damaged, incomplete, or was packed by another program"
NAMES = [
    "../x",
    "../../etc/passwd",
    "/etc/passwd",
    "//server/x",
    "C:\\x",
    "..\\x",
    "a\\b",
    "a\0b",
    "",
    ".",
    "..",
    "./bundle.json",
    "bundle.json/",
    "BUNDLE.JSON",
    "Weights.safetensors",
    "bundle.json ",
    "bundle\u2024json",
    "CON",
    "a\r\nb",
    "\u202ex",
    "x" * 60_000,
    "data.pkl",
    "__main__.py",
    "sitecustomize.py",
    ".git/hooks/post-checkout",
]
# Where the fields of ZIP's three records are, from their signature on: name, offset, bytes (APPNOTE.TXT 4.3.7, 12, 16).
LOCAL = [
    ("signature", 0, 4),
    ("version", 4, 2),
    ("flags", 6, 2),
    ("method", 8, 2),
    ("time", 10, 2),
    ("date", 12, 2),
    ("crc", 14, 4),
    ("packed size", 18, 4),
    ("size", 22, 4),
    ("name length", 26, 2),
    ("extra length", 28, 2),
]
CENTRAL = [
    ("signature", 0, 4),
    ("made by", 4, 2),
    ("version", 6, 2),
    ("flags", 8, 2),
    ("method", 10, 2),
    ("time", 12, 2),
    ("date", 14, 2),
    ("crc", 16, 4),
    ("packed size", 20, 4),
    ("size", 24, 4),
    ("name length", 28, 2),
    ("extra length", 30, 2),
    ("comment length", 32, 2),
    ("disk", 34, 2),
    ("internal attributes", 36, 2),
    ("mode", 38, 4),
    ("offset", 42, 4),
]
END = [
    ("signature", 0, 4),
    ("disk", 4, 2),
    ("first disk", 6, 2),
    ("entries here", 8, 2),
    ("entries", 10, 2),
    ("length", 12, 4),
    ("offset", 16, 4),
    ("comment length", 20, 2),
]


def bundles() -> Iterator[Hostile]:
    """All of them."""
    for name, data, *told in (*_members(), *_fields(), *_archives(), *contents()):
        assert data != GOOD, name
        yield Hostile(name, partial(_write, data), tuple(told))
    yield from _no_files()


def _write(data: bytes, path: Path) -> None:
    path.write_bytes(data)


def _zipped(parts: list[tuple[str, bytes]], method: int = zipfile.ZIP_STORED, mode: int = 0) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of a duplicate name, which is meant
        for name, data in parts:
            info = zipfile.ZipInfo("x")
            info.filename, info.external_attr = name, mode << 16
            archive.writestr(info, data, method)
    return buffer.getvalue()


def parts() -> tuple[list[tuple[str, bytes]], bytes, bytes]:
    """Both members of the good one: names and contents, then the contents alone."""
    with zipfile.ZipFile(io.BytesIO(GOOD)) as archive:
        text, weights = archive.read("bundle.json"), archive.read("weights.safetensors")
    return [("bundle.json", text), ("weights.safetensors", weights)], text, weights


def _members() -> Iterator[Case]:
    """Members with names that lead elsewhere, beside the two or in place of one; twice, missing, of other kinds."""
    both, text, weights = parts()
    for name in NAMES:
        short = name[:20]
        yield f"member {short!r} besides", _zipped([*both, (name, b"x")]), CONTAINER
        yield f"member {short!r} for the description", _zipped([(name, text), both[1]]), CONTAINER
        yield f"member {short!r} for the weights", _zipped([both[0], (name, weights)]), CONTAINER
    for kind, data in PICKLES.items():
        yield f"pickle, {kind}, for the description", _zipped([("bundle.json", data), both[1]]), CONTAINER
        yield f"pickle, {kind}, alone", data, CONTAINER
    for name, mode in (
        ("link", stat.S_IFLNK),
        ("fifo", stat.S_IFIFO),
        ("block device", stat.S_IFBLK),
        ("device", stat.S_IFCHR),
        ("socket", stat.S_IFSOCK),
        ("folder", stat.S_IFDIR),
        ("setuid", stat.S_IFREG | 0o4755),
    ):
        for record in (GOOD.index(b"PK\x01\x02"), GOOD.rindex(b"PK\x01\x02")):
            yield f"mode of a {name} at {record}", _patched(record + 38, 4, mode << 16), CONTAINER
    for method, name in ((zipfile.ZIP_DEFLATED, "deflate"), (zipfile.ZIP_BZIP2, "bzip2"), (zipfile.ZIP_LZMA, "lzma")):
        yield f"packed by {name}", _zipped(both, method), CONTAINER
        yield f"bomb by {name}", _zipped([both[0], ("weights.safetensors", bytes(4 << 20))], method), CONTAINER
    yield "one of two", _zipped(both[:1]), CONTAINER
    yield "none", _zipped([]), CONTAINER
    yield "description twice", _zipped([both[0], *both]), CONTAINER
    yield "weights twice", _zipped([*both, both[1]]), CONTAINER
    yield "other order", _zipped(both[::-1]), CONTAINER
    yield "packed again", _zipped(both), CONTAINER


def _patched(at: int, size: int, value: int) -> bytes:
    return GOOD[:at] + value.to_bytes(size, "little") + GOOD[at + size :]


def _fields() -> Iterator[Case]:
    """Each field of the ZIP's records as something else: encryption, methods, sizes, places that disagree."""
    for record, fields in ((b"PK\x03\x04", LOCAL), (b"PK\x01\x02", CENTRAL), (b"PK\x05\x06", END)):
        start = GOOD.find(record)
        while start >= 0:
            for field, offset, size in fields:
                at = start + offset
                now = int.from_bytes(GOOD[at : at + size], "little")
                for value in {now ^ 1, now ^ 1 << 8 * size - 1, 2 ** (8 * size) - 1, 0} - {now}:
                    told = (CONTAINER, "larger than", "cannot be read")
                    yield f"{field} at {start} is {value}", _patched(at, size, value), *told
            start = GOOD.find(record, start + 1)


def _archives() -> Iterator[Case]:
    """Other containers, and more around the right one."""
    tar = io.BytesIO()
    with tarfile.open(fileobj=tar, mode="w") as archive:
        entry = tarfile.TarInfo("../bundle.json")
        entry.size = 4
        archive.addfile(entry, io.BytesIO(b"evil"))
    zip64 = struct.pack("<4sQ2H2I4Q", b"PK\x06\x06", 44, 45, 45, 0, 0, 2, 2, 122, len(GOOD) - 144)
    end = GOOD.index(b"PK\x05\x06")
    for name, data in {
        "nothing": b"",
        "a byte": b"P",
        "text": b"not a bundle" * 20,
        "zeros": bytes(4096),
        "a tar": tar.getvalue(),
        "gzip": gzip.compress(GOOD),
        "gzip bomb": gzip.compress(bytes(4 << 20)),
        "zip in zip": _zipped([("x.srl", GOOD)]),
        "npy": b"\x93NUMPY\x01\x00",
        "HDF5": b"\x89HDF\r\n\x1a\n" + bytes(500),
        "ELF": b"\x7fELF" + bytes(500),
        "script before": b"#!/bin/sh\n" + GOOD,
        "a byte after": GOOD + b"\0",
        "a byte before": b"\0" + GOOD,
        "twice": GOOD + GOOD,
        "zip64": GOOD[:end] + zip64 + GOOD[end:],
        "comment": GOOD[:-2] + b"\x05\0hello",
        "between": GOOD[:end] + b"gap" + GOOD[end:],
        "backwards": GOOD[::-1],
        "half": GOOD[: len(GOOD) // 2],
        "without its end": GOOD[:end],
        "only its end": GOOD[end:],
        "two ends": GOOD + GOOD[end:],
        "torch's": _zipped([("archive/data.pkl", PICKLES["protocol 2"]), ("archive/version", b"3\n")]),
    }.items():
        yield name, data, CONTAINER


def _no_files() -> Iterator[Hostile]:
    """What has no content of its own; a sparse file of a terabyte."""
    makers: dict[str, Callable[[Path], object]] = {
        "a folder": Path.mkdir,
        "a pipe": os.mkfifo,
        "a link to a device": lambda path: path.symlink_to("/dev/zero"),
        "a link to itself": lambda path: path.symlink_to(path),
        "a link to nothing": lambda path: path.symlink_to(path.with_name("nothing")),
        "a terabyte": _sparse,
    }
    for name, put in makers.items():
        yield Hostile(name, put, ("cannot be read", CONTAINER))


def _sparse(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(1 << 40)
