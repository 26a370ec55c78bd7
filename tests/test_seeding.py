"""Named streams: independent of each other, pinned to known numbers, resumed from JSON at any point."""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from steadyrl.seeding import Seeds, Stream


def drawn(stream: Stream) -> list[Any]:
    """A little of everything, with odd counts of 32-bit numbers so that half a word stays buffered."""
    return [
        stream.normal((3,)).tolist(),
        stream.uniform((1,)).tolist(),
        stream.permutation(7).tolist(),
        stream.integers(0, 2**40, (2,)).tolist(),
        stream.seed(),
    ]


def test_a_stream_is_numpys_philox_with_a_spawn_key() -> None:
    generator = np.random.Generator(
        np.random.Philox(np.random.SeedSequence(7, spawn_key=(zlib.crc32(b"algo/actions"), 3)))
    )
    expected = generator.standard_normal(5, dtype=np.float32)
    assert Stream(7, "algo/actions", 3).normal((5,)).tolist() == expected.tolist()


def test_known_numbers() -> None:
    """Pinned: a change here changes every run with a given seed."""
    stream = Stream(0, "golden")
    assert stream.integers(0, 2**62, (3,)).tolist() == GOLDEN_INTEGERS
    assert [float(x).hex() for x in stream.uniform((3,))] == GOLDEN_UNIFORM
    assert [float(x).hex() for x in stream.normal((3,))] == GOLDEN_NORMAL
    assert stream.permutation(6).tolist() == GOLDEN_PERMUTATION
    assert stream.seed() == GOLDEN_SEED
    assert Seeds(3).env_seeds(3) == GOLDEN_ENV_SEEDS


GOLDEN_INTEGERS = [808212781455985542, 2626773066340235024, 1482720820203525193]
GOLDEN_UNIFORM = ["0x1.5cf0a00000000p-1", "0x1.b1103c0000000p-2", "0x1.f8edcc0000000p-1"]
GOLDEN_NORMAL = ["0x1.96f24e0000000p-2", "0x1.2118dc0000000p-2", "-0x1.f5c3700000000p-2"]
GOLDEN_PERMUTATION = [5, 1, 3, 4, 0, 2]
GOLDEN_SEED = 1905299983
GOLDEN_ENV_SEEDS = [1990900106, 1917075514, 1211160565]


def test_types_and_ranges() -> None:
    stream = Stream(1, "types")
    assert stream.normal((2, 3)).dtype == np.float32
    uniform = stream.uniform((10_000,))
    assert uniform.dtype == np.float32
    assert 0 <= uniform.min() < 0.01
    assert 0.99 < uniform.max() < 1
    whole = stream.integers(-2, 3, (1000,))
    assert whole.dtype == np.int64
    assert set(whole.tolist()) == {-2, -1, 0, 1, 2}
    assert sorted(stream.permutation(50).tolist()) == list(range(50))
    assert all(0 <= stream.seed() < 2**31 for _ in range(100))


def test_normal_numbers_have_mean_0_and_variance_1() -> None:
    numbers = Stream(2, "moments").normal((200_000,)).astype(np.float64)
    assert abs(numbers.mean()) < 5 / np.sqrt(200_000)
    assert abs(numbers.var() - 1) < 5 * np.sqrt(2 / 200_000)


def test_seed_name_and_index_each_make_another_stream() -> None:
    streams = [Stream(0, "a"), Stream(1, "a"), Stream(0, "b"), Stream(0, "a", 1), Stream(2**80, "a"), Stream(0, "")]
    first = [tuple(stream.normal((4,)).tolist()) for stream in streams]
    assert len(set(first)) == len(streams)
    # Neighbouring indices are as unrelated as any other two.
    a, b = Stream(0, "a", 0).normal((50_000,)), Stream(0, "a", 1).normal((50_000,))
    assert abs(np.corrcoef(a, b)[0, 1]) < 5 / np.sqrt(50_000)


def test_a_stream_does_not_depend_on_others() -> None:
    alone = drawn(Stream(5, "actions"))
    seeds = Seeds(5)
    for name in ("weights", "minibatches", "predict"):
        drawn(seeds.stream("algo", name))
    np.random.seed(1)
    np.random.random()
    stream, other = Stream(5, "actions"), Stream(5, "other")
    mixed = []
    for draw in (lambda: stream.normal((3,)), lambda: stream.uniform((1,)), lambda: stream.permutation(7)):
        other.normal((11,))
        mixed.append(draw().tolist())
    assert mixed == alone[:3]


DRAWS: list[Callable[[Stream], object]] = [
    lambda stream: stream.normal((3,)),  # 3 of the 4 words of a block, and half a word
    lambda stream: stream.uniform((1,)),
    lambda stream: stream.permutation(5),
    lambda stream: stream.integers(0, 10),
    lambda stream: stream.normal((1000,)),
]


@pytest.mark.parametrize("before", range(1, 2 ** len(DRAWS), 3))
def test_the_state_is_json_and_resumes_anywhere(before: int) -> None:
    stream = Stream(9, "state", 4)
    for i, draw in enumerate(DRAWS):
        if before >> i & 1:
            draw(stream)
    text = json.dumps(stream.state_dict(), allow_nan=False)
    after = [drawn(stream) for _ in range(3)]
    resumed = Stream(0, "state")
    drawn(resumed)
    resumed.load_state_dict(json.loads(text))
    assert json.dumps(resumed.state_dict()) == text
    assert [drawn(resumed) for _ in range(3)] == after


def test_half_a_word_is_part_of_the_state() -> None:
    stream = Stream(0, "half")
    stream.uniform((1,))
    state = stream.state_dict()
    assert state["has_uint32"] == 1
    expected = stream.uniform((1,)).item()
    resumed = Stream(0, "half")
    resumed.load_state_dict(state | {"has_uint32": 0})
    assert resumed.uniform((1,)).item() != expected


def test_levels_share_the_seed_unless_fixed_apart() -> None:
    def numbers(seeds: Seeds) -> dict[str, Any]:
        return {
            "env": seeds.env_seeds(2),
            "algo": drawn(seeds.stream("algo", "actions")),
            "eval": seeds.eval_episode_seeds(2),
        }

    def same(a: Seeds, b: Seeds) -> set[str]:
        x, y = numbers(a), numbers(b)
        return {level for level in x if x[level] == y[level]}

    assert same(Seeds(1), Seeds(1)) == {"env", "algo", "eval"}
    assert same(Seeds(1), Seeds(2)) == {"eval"}  # the same evaluation episodes for every training seed
    assert same(Seeds(1), Seeds(2, env_seed=1)) == {"env", "eval"}
    assert same(Seeds(1), Seeds(2, algo_seed=1)) == {"algo", "eval"}
    assert same(Seeds(1, eval_seed=5), Seeds(2, eval_seed=5)) == {"eval"}
    assert same(Seeds(1), Seeds(1, eval_seed=5)) == {"env", "algo"}
    assert same(Seeds(0), Seeds(5, env_seed=0, algo_seed=0)) == {"env", "algo", "eval"}


def test_levels_of_one_seed_are_unrelated() -> None:
    seeds = Seeds(0)
    first = [tuple(seeds.stream(level, "x").normal((4,)).tolist()) for level in ("env", "algo", "eval")]
    assert len(set(first)) == 3


def test_seeds_of_environments_and_episodes_depend_on_their_number_alone() -> None:
    seeds = Seeds(4)
    assert seeds.env_seeds(8)[:3] == seeds.env_seeds(3)
    assert seeds.eval_episode_seeds(100)[:10] == seeds.eval_episode_seeds(10)
    assert len(set(seeds.env_seeds(64) + seeds.eval_episode_seeds(64))) == 128
