"""What is put around an environment: Atari preprocessing, Gymnasium wrappers by name, and the usual small ones."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from steadyrl.configs.validate import at_least_one, fail, in_range, not_negative_whole, positive
from steadyrl.errors import UserError

MAX_FRAMES = 256  # stacked; their number within an episode is kept in a byte
MAX_DELAY = 10_000  # steps that are held in memory
_EXAMPLE = "gymnasium.wrappers:FlattenObservation"


@dataclass(frozen=True, kw_only=True)
class WrapperSettings:
    """Wrappers of the environments of a run: the same ones in training, evaluation and recording."""

    atari: Literal["auto", "on", "off"] = "auto"
    """Atari preprocessing; auto is on for the ids of ale-py, off where env_kwargs choose obs_type."""
    frame_skip: int = 4
    """Atari: frames that an action is held for; the picture is the maximum of the last two."""
    noop_max: int = 30
    """Atari: an episode begins with 1 to so many frames without action, drawn at random; 0 is none."""
    terminal_on_life_loss: bool = True
    """Atari: a lost life ends the episode for learning; the game goes on, and its whole score is what is logged."""
    fire_reset: bool = True
    """Atari: an episode begins with FIRE where the game has it."""
    screen_size: int = 84
    """Atari: height and width of the picture; 0 leaves it as it is."""
    grayscale: bool = True
    """Atari: pictures are grey, by ale-py's palette."""
    frame_stack: int | None = None
    """Newest observations that are seen as one; None is 4 with Atari preprocessing, else 1."""
    clip_reward: Literal["auto", "sign", "off"] = "auto"
    """Learns from the sign of the reward; auto is sign with Atari preprocessing, else off. Logged scores are raw."""
    reward_scale: float = 1.0
    """Learns from the reward, or its sign, times this. Logged scores are raw."""
    wrappers: tuple[Any, ...] = ()
    """A wrapper by name, such as gymnasium.wrappers:FlattenObservation, package.module:Class or file.py:Class, or with
    arguments as {"name": NAME, "kwargs": {...}}; again for more, from the inside out."""
    action_repeat: int = 1
    """Steps of the environment that an action is repeated for; their rewards are added up. With Atari preprocessing
    frame_skip does this."""
    sticky_actions: float | None = None
    """Probability that the last action is taken instead of the chosen one; with ale-py's ids, of every frame, and None
    is the game's own (0.25 in the -v5 ids), 0 none."""
    time_in_obs: bool = False
    """The share of the time limit that has passed is the last number of the observation."""
    rescale_obs: bool = False
    """Observations go from their bounds, which have to be finite, to [-1, 1]."""
    clip_obs: float | None = None
    """Observations are clipped at minus and plus this."""
    rescale_action: bool = False
    """Actions are taken in [-1, 1] and go to the bounds of the environment's."""
    clip_action: bool = False
    """Any action is taken, and clipped at the bounds of the environment's."""
    delay_actions: int = 0
    """Steps until an action takes effect; the first ones are 0."""
    delay_obs: int = 0
    """Steps until an observation is seen; the first ones are 0."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "wrappers", wrapper_list(self.wrappers))
        at_least_one(self, "frame_skip", "action_repeat")
        not_negative_whole(self, "noop_max", "screen_size", "delay_actions", "delay_obs")
        for name in ("delay_actions", "delay_obs"):
            if getattr(self, name) > MAX_DELAY:
                raise fail(self, name, f"at most {MAX_DELAY}")
        in_range(self, 1e-30, 1e30, "reward_scale")
        if self.sticky_actions is not None:
            in_range(self, 0.0, 0.99, "sticky_actions")
        if self.frame_stack is not None:
            at_least_one(self, "frame_stack")
            if self.frame_stack > MAX_FRAMES:
                raise fail(self, "frame_stack", f"at most {MAX_FRAMES}")
        if self.clip_obs is not None:
            positive(self, "clip_obs")
        if self.rescale_action and self.clip_action:
            raise fail(self, "clip_action", "off where rescale_action is on")
        if self.rescale_obs and self.clip_obs is not None:
            raise fail(self, "clip_obs", "left out where rescale_obs is on: observations are in [-1, 1]")

    @property
    def said(self) -> dict[str, Any]:
        """The settings that are not the defaults, as JSON values."""
        values = {field.name: getattr(self, field.name) for field in dataclasses.fields(WrapperSettings)}
        said = {name: value for name, value in values.items() if value != _DEFAULTS[name]}
        if "wrappers" in said:
            said["wrappers"] = [dict(entry) for entry in self.wrappers]
        return said

    @property
    def only(self) -> WrapperSettings:
        """These alone, without what a class derived from this one has besides."""
        return WrapperSettings(**self.said)


_DEFAULTS = {field.name: field.default for field in dataclasses.fields(WrapperSettings)}
WRAPPER_FIELDS = tuple(_DEFAULTS)
ATARI_FIELDS = ("frame_skip", "noop_max", "terminal_on_life_loss", "fire_reset", "screen_size", "grayscale")


def wrapper_list(given: Any) -> tuple[dict[str, Any], ...]:
    """Wrappers as `({"name": ..., "kwargs": {...}}, ...)`.

    Args:
        given: A name or class, a table of name and kwargs, JSON text of these, or several of them.

    Raises:
        UserError: it is something else.
    """
    if given is None:
        return ()
    if isinstance(given, str):
        given = _decoded(given)
    entries = list(given) if isinstance(given, list | tuple) else [given]
    found: list[dict[str, Any]] = []
    for entry in entries:
        read = _decoded(entry) if isinstance(entry, str) else entry
        found += wrapper_list(read) if isinstance(read, list) else [_entry(read)]
    return tuple(found)


def _decoded(text: str) -> Any:
    """What JSON text holds; any other text is a name."""
    if not text.lstrip().startswith(("[", "{", '"')):
        return text
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise UserError(
            f"wrappers is {_shown(text)}, which begins like JSON and is none: {error}.",
            remedy=f"""For example: --wrappers '[{{"name": "{_EXAMPLE}", "kwargs": {{}}}}]'.""",
            code="bad-value",
        ) from None


def _entry(given: Any) -> dict[str, Any]:
    if isinstance(given, str) and given.strip():
        return {"name": given.strip(), "kwargs": {}}
    if isinstance(given, type):
        return {"name": _name_of(given), "kwargs": {}}
    kwargs = given.get("kwargs", {}) if isinstance(given, Mapping) else None
    if isinstance(given, Mapping) and isinstance(kwargs, Mapping) and set(given) <= {"name", "kwargs"}:
        return {**_entry(given.get("name")), "kwargs": dict(kwargs)}
    raise UserError(
        f"wrappers holds {_shown(given)}, which names no wrapper.",
        remedy=f"For example: --wrapper {_EXAMPLE}, in Python wrappers=['{_EXAMPLE}'] or "
        "wrappers=[{'name': 'StickyAction', 'kwargs': {'repeat_action_probability': 0.1}}].",
        code="bad-value",
    )


def _name_of(kind: type) -> str:
    """How a class is found from everywhere."""
    if kind.__module__.startswith("gymnasium.wrappers."):
        return f"gymnasium.wrappers:{kind.__qualname__}"
    if kind.__module__ == "__main__" or "<" in kind.__qualname__:
        raise UserError(
            f"The wrapper {kind.__qualname__} is of this script, where other processes cannot find it.",
            remedy=f"Put it into a file of its own and name it: wrappers=['path/to/file.py:{kind.__name__}'].",
            code="bad-value",
        )
    return f"{kind.__module__}:{kind.__qualname__}"


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."
