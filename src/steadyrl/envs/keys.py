"""Keys of `info` under which the wrappers of this library tell of games that are more than one episode."""

from __future__ import annotations

GAME = "steadyrl_game"  # the raw sum of rewards of the game that is over
PART = "steadyrl_part"  # only an episode for learning is over, or begins; the game goes on
