"""Windows against the definition, one transition at a time."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from steadyrl.data.windows import Windows

GAMMA = 0.5


@given(
    rows=st.integers(1, 6),
    num_envs=st.integers(1, 3),
    n_step=st.integers(2, 4),
    written=st.integers(1, 15),
    seed=st.integers(0, 999),
)
@settings(max_examples=100, deadline=None)
def test_a_window_is_the_steps_up_to_its_end(rows: int, num_envs: int, n_step: int, written: int, seed: int) -> None:
    capacity, end, rng = rows * num_envs, written * num_envs, np.random.default_rng(seed)
    arrays = {
        "rewards": rng.integers(1, 9, capacity).astype(np.float32),
        "terminated": rng.random(capacity) < 0.2,
        "truncated": rng.random(capacity) < 0.2,
        "valid": rng.random(capacity) < 0.8,
    }
    stored = np.arange(max(end - capacity, 0), end)
    index = stored[arrays["valid"][stored % capacity]]
    windows = Windows(GAMMA, n_step, num_envs, capacity)
    found = windows.of(arrays, index, end)
    places, discounts = windows.later(found)
    for i, first in enumerate(index.tolist()):
        taken: list[int] = []
        for number in range(first, end, num_envs)[:n_step]:
            place = number % capacity
            if not arrays["valid"][place]:
                break
            taken.append(place)
            if arrays["terminated"][place] or arrays["truncated"][place]:
                break
        assert found.rewards[i] == sum(GAMMA**k * arrays["rewards"][place] for k, place in enumerate(taken))
        assert found.discounts[i] == GAMMA ** len(taken)
        assert found.last[i] == taken[-1]
        beyond = n_step - len(taken)
        assert places[i].tolist() == taken[1:] + [taken[0]] * beyond
        assert discounts[i].tolist() == [GAMMA**k for k in range(1, len(taken))] + [0.0] * beyond
