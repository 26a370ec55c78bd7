"""`mutation.py` for checkpoints and loaders.

    python benchmarks/mutation_loading.py NAME [--sample 60] [--seed 0] [--again] [--output FILE]

The tests that are quick come first: a fault is noticed by the first one that fails.
"""

from __future__ import annotations

from mutation import TARGETS, main

_SRC, _TESTS = "src/steadyrl/", "tests/training/test_"
_PARTS = (
    "durable", "checkpoint", "chunks", "lock", "state_limits", "loading", "crash_safe", "saver_edges", "copies"
)  # fmt: skip
TARGETS |= {
    "loading": (
        [f"{_SRC}{name}.py" for name in ("strict_json", "strict_tensors", "bundle")],
        [
            "tests/test_strict_json.py",
            "tests/test_strict_tensors.py",
            "tests/faults/test_hostile_bundles.py",
            "tests/test_bundle.py",
        ],
    ),
    "checkpoints": (
        [f"{_SRC}training/{name}.py" for name in (
            "durable", "checkpoint", "chunks", "lock", "state", "state_limits", "saving", "resuming"
        )],
        [*(f"{_TESTS}{name}.py" for name in _PARTS), "tests/faults/test_damage.py"],
    ),
}  # fmt: skip

if __name__ == "__main__":
    main()
