"""Random generators as plain values."""

from __future__ import annotations

import numpy as np
import pytest

from steadyrl.envs.snapshots.generators import bits_of, bits_state, process_state, set_process_state
from steadyrl.errors import UserError


@pytest.mark.parametrize(("kind", "most"), [(np.random.MT19937, 624), (np.random.Philox, 4)])
def test_a_position_outside_its_buffer_is_refused(kind: type[np.random.BitGenerator], most: int) -> None:
    state = bits_state(kind(1))
    assert state is not None
    own = state["state"]
    place, name = (own["state"], "pos") if "pos" in own["state"] else (own, "buffer_pos")
    for good in (0, most):
        place[name] = good
        assert np.random.Generator(bits_of(state)).integers(9) < 9
    for bad in (-1, most + 1):
        place[name] = bad
        with pytest.raises(ValueError, match=f"its position is {bad}, not between 0 and {most}"):
            bits_of(state)


def test_the_process_keeps_its_generators_where_theirs_are_damaged() -> None:
    state, before = process_state(), process_state()
    state["numpy"]["state"]["pos"] = 625
    with pytest.raises(UserError, match="its position is 625"):
        set_process_state(state)
    assert process_state()["numpy"]["state"]["pos"] == before["numpy"]["state"]["pos"]
