"""Mutated files of every kind: only our error comes out of a reader, and something always does."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from steadyrl.training import chunks
from support.checkpoints import Work
from support.fuzz import mutated, mutated_json
from support.fuzz_run import Target, fuzz
from support.fuzz_targets import targets


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Work]:
    before = chunks.CHUNK_BYTES
    yield Work(tmp_path_factory.mktemp("work"))
    chunks.CHUNK_BYTES = before


@pytest.mark.filterwarnings("ignore")  # of numbers that leave their range, as mutated configurations have them
@pytest.mark.parametrize(
    "cases", [30_000, pytest.param(1_000_000, marks=[pytest.mark.soak, pytest.mark.timeout(4 * 3600)])]
)
def test_only_our_error_comes_out(cases: int, work: Work, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    def say(text: str) -> None:
        if cases > 30_000:
            with capfd.disabled():
                print(f"\nfuzz: {text}", end="", flush=True)

    found = targets(work, tmp_path)
    counts = fuzz(found, cases, seed=0, say=say)
    assert cases - len(found) <= sum(count.cases for count in counts.values()) <= cases + len(found)
    for name, count in counts.items():
        told_apart = name != "code.json"  # one that cannot be read tells nothing of the code, which is no error
        assert not told_apart or count.refused > count.taken / 50, (name, count)  # else the mutations reach nothing


def test_an_error_of_another_kind_is_told() -> None:
    ended: list[bool] = []
    target = Target(lambda draw: draw.randbytes(3), lambda data: {}[data], end=lambda: ended.append(True))
    with pytest.raises(AssertionError, match="x, case 0 of seed 0: KeyError"):
        fuzz({"x": target}, 10, seed=0)
    assert ended


def test_cases_are_the_same_in_rounds_and_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: dict[str, list[bytes]] = {"a": [], "b": []}
    found = {
        name: Target(lambda draw: draw.randbytes(4), drawn.append, share=share)
        for (name, drawn), share in zip(seen.items(), (1, 3), strict=True)
    }
    assert [count.taken for count in fuzz(found, 80, seed=1).values()] == [20, 60]
    before = {name: drawn.copy() for name, drawn in seen.items()}
    for drawn in seen.values():
        drawn.clear()
    monkeypatch.setattr("support.fuzz_run.ROUND", 8)
    said: list[str] = []
    fuzz(found, 80, seed=1, say=said.append)
    assert seen == before
    assert len(said) == 10
    assert said[-1].startswith("80 of 80 cases")
    assert sum(count.cases for count in fuzz(found, 80, seed=1, seconds=0).values()) == 8


def test_mutations_are_many_and_repeat() -> None:
    data = b'{"a": [1, 2], "b": {"c": null}}'
    for change in (mutated, mutated_json):
        drawn = [[change(data, random.Random(i)) for i in range(300)] for _ in range(2)]
        assert drawn[0] == drawn[1]
        assert len({*drawn[0]}) > 200
