"""`steadyrl presets [ALGO] [ENV]`: tuned settings and where they come from."""

from __future__ import annotations

import textwrap
from dataclasses import dataclass
from typing import Any

from steadyrl.cli.flags import shown
from steadyrl.cli.parser import understood
from steadyrl.cli.session import Session
from steadyrl.config import Preset, check_algo, encode, presets
from steadyrl.configs import CONFIGS
from steadyrl.errors import UserError, nearest

_ALIKE = 0.7  # ids have a version at their end in common


@dataclass(frozen=True, kw_only=True)
class PresetsOptions:
    """What `steadyrl presets` takes."""

    json: bool = False
    """One JSON document on stdout."""


def run(args: list[str], session: Session) -> int:
    """Prints the presets that the words ask for."""
    line = understood(
        args,
        PresetsOptions,
        "steadyrl presets",
        usage="steadyrl presets [ALGO] [ENV] [flags]",
        description="Lists tuned settings per algorithm and environment; `train` takes them by itself.",
        example="  steadyrl presets ppo\n  steadyrl presets ppo CartPole-v1 --json",
        positionals={"ALGO": "only this algorithm", "ENV": "only this environment"},
    )
    if line is None:
        return 0
    chosen = _choose(line[0])
    if session.json:
        session.emit({"presets": [_document(algo, preset) for algo, preset in chosen]})
    else:
        print("\n".join(_lines(chosen)))
    return 0


def _choose(asked: list[str]) -> list[tuple[str, Preset]]:
    """The presets of the algorithm and environment asked for, either of which may be left out."""
    algos, env = list(CONFIGS), None
    if asked and (asked[0].lower() in CONFIGS or len(asked) == 2):
        algos, asked = [check_algo(asked[0])], asked[1:]
    if asked:
        env = asked[0]
    chosen = [(algo, preset) for algo in algos for preset in presets(algo).values() if env in (None, preset.name)]
    if not chosen:
        others = [algo for algo in CONFIGS if env in presets(algo)]
        if others:
            raise UserError(
                f"There is no preset of {algos[0]} for {env}, only of {', '.join(others)}.",
                remedy=f"`steadyrl presets {env}` shows what there is.",
                code="unknown-preset",
            )
        known = {name for algo in algos for name in presets(algo)}
        raise UserError(
            f"There is no preset for {env}.",
            remedy=f"{nearest(str(env), known | set(algos), cutoff=_ALIKE)} `steadyrl presets` lists them all.".strip(),
            code="unknown-preset",
        )
    return chosen


def _document(algo: str, preset: Preset) -> dict[str, Any]:
    return {
        "algo": algo,
        "env": preset.name,
        "total_timesteps": preset.total_timesteps,
        "source": preset.source,
        "hyperparameters": encode(preset.values),
    }


def _lines(chosen: list[tuple[str, Preset]]) -> list[str]:
    lines: list[str] = []
    for algo, preset in chosen:
        total = "" if preset.total_timesteps is None else f"{preset.total_timesteps:,} steps"
        settings = " ".join(f"{name}={shown_setting(value)}" for name, value in preset.values.items())
        lines.append(f"{algo:<5}{preset.name:<26}{total:>16}")
        for text in (settings, f"source: {preset.source}"):
            lines += textwrap.wrap(
                text,
                78,
                initial_indent="     ",
                subsequent_indent="     ",
                break_long_words=False,
                break_on_hyphens=False,
            )
    return lines


def shown_setting(value: Any) -> str:
    """A value of a preset's file as one would type it; schedules as `start..end`."""
    if isinstance(value, dict) and {"start", "end"} <= set(value):
        return f"{value['start']:g}..{value['end']:g}"
    if isinstance(value, dict):
        return "{" + ",".join(f"{key}:{shown_setting(item)}" for key, item in value.items()) + "}"
    return shown(tuple(value) if isinstance(value, list) else value)
