"""Bundles that are damaged or made to harm: each is refused with our error, and nothing else escapes."""

from __future__ import annotations

import io
import json
import random
import struct
import warnings
import zipfile
from pathlib import Path

import numpy as np
import pytest

import steadyrl.bundle as module
from steadyrl.bundle import read_bundle
from steadyrl.errors import UserError
from support.bundles import GOOD, POLICY, members, packed, why_refused
from support.policies import CPU


def test_the_parts_are_accepted_as_they_are(tmp_path: Path) -> None:
    path = tmp_path / "x.srl"
    path.write_bytes(packed(*members()))
    assert read_bundle(path, CPU).policy.sha256() == POLICY.sha256()


def test_every_truncation(tmp_path: Path) -> None:
    for length in [*range(100), *range(100, len(GOOD), 37), *range(len(GOOD) - 100, len(GOOD))]:
        assert "damaged" in why_refused(GOOD[:length], tmp_path)


def test_every_single_flipped_bit(tmp_path: Path) -> None:
    draw = random.Random(0)
    bits = len(GOOD) * 8
    ends = [*range(0, 400, 7), *range(bits - 1200, bits, 13)]  # the ZIP's own fields are at both ends
    for bit in [*ends, *draw.sample(range(bits), 600)]:
        damaged = bytearray(GOOD)
        damaged[bit // 8] ^= 1 << bit % 8
        why_refused(bytes(damaged), tmp_path)


def mutate(data: bytes, draw: random.Random) -> bytes:
    """A few random changes: bytes, cut or doubled pieces, pieces of zeros."""
    result = bytearray(data)
    for _ in range(draw.randint(1, 4)):
        at, size = draw.randrange(len(result)), draw.randint(1, 40)
        kind = draw.randrange(5)
        if kind == 0:
            result[at] = draw.randrange(256)
        elif kind == 1:
            del result[at : at + size]
        elif kind == 2:
            result[at:at] = result[at : at + size]
        elif kind == 3:
            result[at : at + size] = bytes(size)
        else:
            result[at:at] = draw.randbytes(size)
        result = result or bytearray(b"P")
    return bytes(result)


def test_random_mutations_of_the_file(tmp_path: Path) -> None:
    draw = random.Random(1)
    for _ in range(500):
        data = mutate(GOOD, draw)
        if data != GOOD:
            why_refused(data, tmp_path)


def test_random_mutations_inside_a_sound_container(tmp_path: Path) -> None:
    """The parsers behind the checksums: either the bundle loads and works, or our error says why not."""
    header, weights = members()
    text = json.dumps(header, indent=1).encode()
    draw, path, loaded = random.Random(2), tmp_path / "x.srl", 0
    for _ in range(500):
        if draw.random() < 0.5:
            data = packed(mutate(text, draw))
        else:
            changed = bytearray(weights)
            index = draw.randrange(min(len(changed), 700))
            changed[index] = draw.randrange(256)
            data = packed(header, bytes(changed))
        path.write_bytes(data)
        try:
            bundle = read_bundle(path, CPU)
        except UserError:
            continue
        loaded += 1
        obs = {"": np.zeros((1, 2), dtype=np.float32)}
        assert np.isfinite(bundle.policy.predict(obs)).all()
    assert loaded < 250


def zipped(parts: list[tuple[str, bytes]], compression: int = zipfile.ZIP_STORED) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of a duplicate name, which is meant
        for name, data in parts:
            archive.writestr(zipfile.ZipInfo(name), data, compression)
    return buffer.getvalue()


def containers() -> dict[str, bytes]:
    header, weights = members()
    text = json.dumps(header).encode()
    both = [("bundle.json", text), ("weights.safetensors", weights)]
    commented = bytearray(GOOD + b"hello")
    commented[-7:-5] = struct.pack("<H", 5)
    with_mode = bytearray(GOOD)
    at = GOOD.index(b"PK\x01\x02") + 38
    with_mode[at : at + 4] = struct.pack("<I", 0o120777 << 16)  # a symbolic link
    encrypted = bytearray(GOOD)
    encrypted[6] |= 1
    return {
        "empty": b"",
        "text": b"not a bundle at all, but long enough to hold one",
        "pickle": b"\x80\x04\x95\x10\x00\x00\x00\x00\x00\x00\x00\x8c\x05posix\x94\x8c\x06system\x94\x93\x94.",
        "empty-zip": zipped([]),
        "one-member": zipped(both[:1]),
        "extra": zipped([*both, ("extra.txt", b"x")]),
        "duplicate": zipped([*both, both[0]]),
        "deflated": zipped(both, zipfile.ZIP_DEFLATED),
        "other-order": zipped(both[::-1]),
        "packed-again": zipped(both),
        "traversal": GOOD.replace(b"bundle.json", b"../ndle.jso"),
        "absolute": GOOD.replace(b"bundle.json", b"/tmp/dl.jso"),
        "backslash": GOOD.replace(b"bundle.json", b"..\\dle.json"),
        "nul": GOOD.replace(b"bundle.json", b"bundle\0json"),
        "case": GOOD.replace(b"bundle.json", b"BUNDLE.json"),
        "trailing": GOOD + b"\0",
        "leading": b"#!/bin/sh\n" + GOOD,
        "twice": GOOD + GOOD,
        "comment": bytes(commented),
        "link": bytes(with_mode),
        "encrypted": bytes(encrypted),
        "disagreement": GOOD[::-1].replace(b"bundle.json"[::-1], b"bundle.jsox"[::-1], 1)[::-1],
    }


@pytest.mark.parametrize("name", list(containers()))
def test_another_container(name: str, tmp_path: Path) -> None:
    data = containers()[name]
    assert data != GOOD
    assert "damaged, incomplete, or was packed by another program" in why_refused(data, tmp_path)


def test_nothing_is_written_or_run(tmp_path: Path) -> None:
    for data in containers().values():
        why_refused(data, tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["x.srl"]


def test_a_file_beyond_the_largest_size_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_MAX_BUNDLE", len(GOOD) - 1)
    path = tmp_path / "x.srl"
    path.write_bytes(GOOD)
    monkeypatch.setattr(Path, "read_bytes", lambda self: pytest.fail("read"))
    with pytest.raises(UserError, match="refused"):
        read_bundle(path, CPU)
