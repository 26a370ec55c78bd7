"""What was seen in many episodes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from steadyrl.checker.probe.driver import Fault


@dataclass(frozen=True)
class Place:
    """Where something was seen."""

    policy: str
    seed: int
    step: int

    def __str__(self) -> str:
        return (
            f"at step {self.step} of an episode with seed {self.seed} ({self.policy})"
            if self.step
            else (f"at reset with seed {self.seed}")
        )

    @property
    def evidence(self) -> dict[str, Any]:
        """As evidence of a finding."""
        return {"step": self.step, "seed": self.seed, "policy": self.policy}


@dataclass
class Seen:
    """Something that was seen, the first time and how often.

    Attributes:
        place: The first time.
        what: What it was then.
        count: Times.
    """

    place: Place
    what: Any
    count: int = 1


@dataclass
class Episode:
    """One episode.

    Attributes:
        policy: Who acted.
        seed: Of its reset.
        length: Steps.
        total: Sum of rewards.
        terminated: As the outermost wrapper said.
        truncated: The same.
        own: Both flags as the environment itself said.
        fault: What it raised.
        last: The action of its last step, in words.
        complete: It came to an end of its own.
        early: Its reset broke the episode before off.
        course: Hash of its actions: episodes with equal ones were acted alike.
        told_cut: Its last info had a true `TimeLimit.truncated`.
    """

    policy: str
    seed: int
    length: int = 0
    total: float = 0.0
    terminated: bool = False
    truncated: bool = False
    own: tuple[bool, bool] = (False, False)
    fault: Fault | None = None
    last: str = ""
    complete: bool = False
    early: bool = False
    course: int = 0
    told_cut: bool = False


@dataclass
class Survey:
    """What was seen in many episodes.

    Attributes:
        episodes: All of them.
        forms: Observations unlike their space: (kind, key) -> where.
        kept: Returned objects that changed afterwards: `observation` or `info` -> where.
        values: Other faults by name: rewards, flags, infos, masks and actions, each with where.
        info_types: Key -> the kinds of value that it had.
        draws: Global generators that went on: (generator, phase) -> where.
        printed: Steps and resets that wrote something, by stream.
        text: What they wrote, its beginning.
        times: Seconds of each step.
        idle: Those of them in which the step waited.
        time_steps: The step of its episode that each was.
        reset_times: Seconds of each reset.
        rewards: All finite ones.
        names: Of the features.
        continuous: Which of them are of a Box, [D].
        parts: The part of the observation that each is of, [D].
        still: Pictures in the observation in which nothing ever moved.
        rows: Features, [R, D].
        row_steps: The step of each row in its episode, [R].
        row_episodes: Its episode, [R].
        exhausted: Why it was ended early: `memory`, `files` or empty.
        limit: Steps of an episode as registered, or by a TimeLimit.
        arity: What reset and step returned, where that was not two and five values.
        mutated: How a space had changed after an episode, in words.
    """

    episodes: list[Episode] = field(default_factory=list)
    forms: dict[tuple[str, str], Seen] = field(default_factory=dict)
    kept: dict[str, Seen] = field(default_factory=dict)
    values: dict[str, Seen] = field(default_factory=dict)
    info_types: dict[str, dict[str, Place]] = field(default_factory=dict)
    draws: dict[tuple[str, str], Place] = field(default_factory=dict)
    printed: dict[str, int] = field(default_factory=dict)
    text: str = ""
    looked: int = 0
    times: list[float] = field(default_factory=list)
    idle: list[float] = field(default_factory=list)
    time_steps: list[int] = field(default_factory=list)
    reset_times: list[float] = field(default_factory=list)
    rewards: list[float] = field(default_factory=list)
    names: list[str] = field(default_factory=list)
    continuous: Any = None
    parts: Any = None
    still: list[str] = field(default_factory=list)
    rows: Any = None
    row_steps: Any = None
    row_episodes: Any = None
    exhausted: str = ""
    limit: int | None = None
    arity: dict[str, str] = field(default_factory=dict)
    mutated: str = ""

    @property
    def steps(self) -> int:
        """Of all episodes."""
        return sum(episode.length for episode in self.episodes)

    @property
    def ended(self) -> list[Episode]:
        """The episodes that came to an end of their own."""
        return [episode for episode in self.episodes if episode.complete]


def kind_of(value: Any) -> str:
    """The kind of value that something is for whoever reads infos: vectors put the values of one key into one array."""
    if value is None:
        return "None"
    if isinstance(value, bool | np.bool_):
        return "bool"
    if isinstance(value, int | float | np.number):
        return "number"
    if isinstance(value, np.ndarray):
        return f"array of shape {value.shape}" if value.ndim else "number"
    for kind in (str, dict, list, tuple):
        if isinstance(value, kind):
            return kind.__name__
    return type(value).__name__
