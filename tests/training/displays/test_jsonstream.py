from __future__ import annotations

import io
import json

from steadyrl.training.displays import make_display
from steadyrl.training.events import (
    EpisodeEnded,
    Notice,
)
from support.simulated_run import FakeClock, awkward_events


def test_json_writes_a_strict_object_per_event() -> None:
    stream = io.StringIO()
    display = make_display("json", stream, clock=FakeClock())
    events = awkward_events()
    for event in events:
        display(event)

    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} is not JSON")

    rows = [json.loads(line, parse_constant=refuse) for line in stream.getvalue().splitlines()]
    assert [row["event"] for row in rows] == [
        "notice", "run_started", "progress", "episode_ended", "episode_ended", "metrics_logged", "progress", "progress",
        "evaluation_ended", "evaluation_ended", "evaluation_ended", "checkpoint_saved", "notice", "progress",
        "run_ended",
    ]  # fmt: skip
    assert rows[3]["return"] is None
    assert rows[3]["nonfinite"] == ["return"]
    assert rows[11] == {"event": "checkpoint_saved", "step": 3, "path": "x", "kind": "best"}


def test_json_writes_episodes_in_batches_and_keeps_the_order() -> None:
    clock, stream = FakeClock(), io.StringIO()
    display = make_display("json", stream, clock=clock)
    episode = EpisodeEnded(1, 0, 2.0, 3, True, False, None)
    display(episode)
    assert stream.getvalue() == ""
    clock.now += 0.3
    display(episode)
    assert stream.getvalue().count("\n") == 2
    display(episode)
    display(Notice("a", "b"))
    assert [json.loads(line)["event"] for line in stream.getvalue().splitlines()[2:]] == ["episode_ended", "notice"]
    display(episode)
    display.close()
    assert stream.getvalue().count("\n") == 5
