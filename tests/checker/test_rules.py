"""Each rule with an environment that breaks it and one that does not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.error import ResetNeeded

from steadyrl.checker.experiments import EXPERIMENTS
from steadyrl.checker.finding import RULES
from support import checked_envs as envs
from support.checked_envs import Hops, Masked, Painted, Rounds, Walk, at, changed, raising, variant, with_spaces
from support.checker import Case, found, hold


def box(low: Any, high: Any, size: int = 1, dtype: Any = np.float32) -> spaces.Box:
    return spaces.Box(np.full(size, low, dtype), np.full(size, high, dtype), dtype=dtype)


def upside_down() -> spaces.Box:
    space = box(-1, 1, 2)
    space.low[0] = 2
    return space


def of_every_size(self: Any, render_mode: str | None = None) -> None:
    envs.Numbered.__init__(self, render_mode)
    self.observation_space = box(-1, 1 + self.number, 2)


def set_in(key: int, value: Any) -> Callable[[Any, Any], Any]:
    """Replaces one of the five values of a step."""
    return lambda self, told: (*told[:key], value, *told[key + 1 :])


def obs_at(step: int, value: Any) -> Callable[[Any, Any], Any]:
    """Spoils the first entry of the observation from a step on."""

    def change(self: Any, obs: Any) -> Any:
        if self.t >= step:
            obs[0] = value
        return obs

    return change


def mutating(self: Any, action: Any) -> Any:
    action *= 0.5
    return Walk.move(self, action)


def keeping(self: Any, action: Any) -> Any:
    self.last = getattr(self, "last", None) if self.t > 1 else None
    late = 0.0 if self.last is None else float(self.last[0])
    self.last = action
    return Walk.move(self, action) - late


def growing(self: Any, told: Any) -> Any:
    self.observation_space = spaces.Box(-1 - self.t, 2, (2,), np.float32)
    return told


def widening(self: Any, told: Any) -> Any:
    if told[2] or told[3]:
        self.observation_space = spaces.Box(-2, 2, (2,), np.float32)
    return told


def first_seed_only(self: Any, *, seed: int | None = None, options: Any = None) -> Any:
    return Walk.reset(self, seed=None if self._np_random is not None else seed, options=options)


def drawn_too_early(self: Any, *, seed: int | None = None, options: Any = None) -> Any:
    self.next = float(self.np_random.uniform(-0.5, 0.5))
    Walk.reset(self, seed=seed, options=options)
    self.x = self.next
    return self.observe(), {}


def harder_each_time(self: Any) -> None:
    Walk.begin(self)
    self.level = getattr(self, "level", 0) + 1
    self.wind += 0.01 * self.level


def gusty(self: Any, action: Any) -> Any:
    if self.t == 11:
        self.x += np.random.uniform(-0.01, 0.01)
    return Walk.move(self, action)


def carried(self: Any) -> None:
    old = getattr(self, "x", 0.0)
    Walk.begin(self)
    self.x = 0.5 * self.x + 0.5 * old


def loose(self: Any) -> None:
    Walk.begin(self)
    self.x = float(np.random.default_rng().uniform(-0.5, 0.5))


def constant_seed(self: Any, *, seed: int | None = None, options: Any = None) -> Any:
    return Walk.reset(self, seed=0, options=options)


def reseeding(self: Any, *, seed: int | None = None, options: Any = None) -> Any:
    self.mine = getattr(self, "mine", 0) if seed is None else seed
    return Walk.reset(self, seed=self.mine, options=options)


def clobbering(self: Any, *, seed: int | None = None, options: Any = None) -> Any:
    if seed is not None:
        np.random.seed(seed)
    return Walk.reset(self, seed=seed, options=options)


def late_noise(self: Any, action: Any) -> Any:
    if self.t > 5:
        self.x += float(np.random.default_rng().normal(0, 0.01))
    return Walk.move(self, action)


def no_early_reset(self: Any, *, seed: int | None = None, options: Any = None) -> Any:
    if 0 < self.t < self.horizon and abs(self.x) < 1:
        raise RuntimeError("still running")
    return Walk.reset(self, seed=seed, options=options)


def unseeded_leak(self: Any, *, seed: int | None = None, options: Any = None) -> Any:
    old = self.x
    told = Walk.reset(self, seed=seed, options=options)
    if seed is None:
        self.x = 0.5 * old
        return self.observe(), {}
    return told


def dirty_when_early(self: Any, *, seed: int | None = None, options: Any = None) -> Any:
    early = 0 < self.t < self.horizon and abs(self.x) < 1
    Walk.reset(self, seed=seed, options=options)
    self.wind += 0.3 * early
    return self.observe(), {}


def unheard_when_early(self: Any, *, seed: int | None = None, options: Any = None) -> Any:
    if getattr(self, "begun", False) and self.t < self.horizon and abs(self.x) < 1:
        return self.observe(), {}
    self.begun = True
    return Walk.reset(self, seed=seed, options=options)


def opening_scene(self: Any, action: Any) -> Any:
    """As a game whose first 70 frames show its title."""
    if self.t > 70:
        return Walk.move(self, action)
    return 0.0


def clocked(self: Any, told: Any) -> Any:
    obs, reward, terminated, truncated, info = told
    return obs, reward, terminated or truncated, False, info


def both(self: Any, told: Any) -> Any:
    obs, reward, terminated, truncated, info = told
    return obs, reward, terminated or truncated, truncated, info


def strict_after_end(self: Any, action: Any) -> Any:
    if self.t >= self.horizon or abs(self.x) >= 1:
        raise ResetNeeded("over")
    return Walk.step(self, action)


def zombie(self: Any, action: Any) -> Any:
    if self.t >= self.horizon or abs(self.x) >= 1:
        self.t, self.x = 0, 0.0
    return Walk.step(self, action)


def wordy(self: Any) -> dict[str, Any]:
    return {"gap": self.x if self.x < 0 else "right"}


def growing_path(self: Any) -> dict[str, Any]:
    self.path = [*(self.path if self.t else []), self.x]
    return {"path": self.path, "step": self.t}


def notes(self: Any) -> dict[str, Any]:
    self.shared = getattr(self, "shared", {})
    self.shared["t"] = self.t
    return self.shared  # type: ignore[no-any-return]


def unsteady(self: Any) -> Any:
    self.x += 0.01
    return Painted.render(self)


def closing_once(self: Any) -> None:
    del self.render_mode


def float_obs(self: Any, obs: Any) -> Any:
    return obs.astype(np.float64)


def crash_on_last(self: Any, action: Any) -> float:
    return (-1.0, 1.0)[int(action)]


FIXED = envs.Fixed
NESTED = spaces.Dict(place=spaces.Box(-1, 1, (2,), np.float32))


def info_of(info: dict[str, Any], base: type[Walk]) -> type[Walk]:
    return variant(base, info=lambda self: dict(info))


def sometimes(there: Callable[[Any], bool]) -> Callable[[Any], dict[str, Any]]:
    """Masks where this is so."""
    return lambda self: Masked.info(self) if there(self) else {}


PARTS = (np.array([1, 0], np.int8), np.array([1, 0, 1], np.int8))
CHOICES = with_spaces(variant(push=lambda self, action: 0.5 * float(action[0])), action=spaces.MultiDiscrete([2, 3]))


CASES = [
    Case("SRL-SPC-001", "facts", variant(__init__=raising(ValueError("no map")))),
    Case("SRL-SPC-002", "facts", variant(action_space=None, __init__=lambda self, render_mode=None: None)),
    Case("SRL-SPC-003", "facts", with_spaces(observation=envs.Picky(-1, 1, (2,), np.float32))),
    Case("SRL-SPC-004", "facts", changed("reset", growing)),
    Case("SRL-SPC-008", "survey", changed("step", widening)),
    Case("SRL-SPC-005", "facts", variant(spec="Walk-v0")),
    Case("SRL-SPC-006", "facts", with_spaces(observation=upside_down())),
    Case("SRL-SPC-007", "facts", with_spaces(observation=box(-np.inf, np.inf, 2))),
    Case("SRL-API-001", "facts", variant(reset=lambda self, *, seed, options=None: Walk.reset(self, seed=seed))),
    Case("SRL-API-001", "facts", variant(reset=lambda self, *, seed=7, options=None: Walk.reset(self, seed=seed))),
    Case(
        "SRL-API-002",
        "facts",
        variant(reset=lambda self, *, seed=None: Walk.reset(self, seed=seed)),
        variant(reset=lambda self, **given: Walk.reset(self, **given)),
    ),
    Case("SRL-API-003", "survey", changed("reset", lambda self, told: told[0])),
    Case("SRL-API-004", "survey", changed("step", lambda self, told: (*told[:2], told[2], told[4]))),
    Case("SRL-API-005", "survey", changed("step", set_in(4, None))),
    Case("SRL-API-006", "survey", changed("step", set_in(1, np.zeros(1))), changed("step", set_in(1, np.float32(0.5)))),
    Case("SRL-API-007", "survey", changed("step", set_in(3, 0)), changed("step", set_in(3, np.bool_(False)))),
    Case("SRL-API-008", "survey", at(6, raising(IndexError("row 6")))),
    Case("SRL-API-009", "survey", variant(begin=raising(OSError("no server")))),
    Case("SRL-API-010", "survey", variant(reset=no_early_reset, horizon=5_000, push=lambda self, action: 0.0)),
    Case("SRL-API-011", "repeat", variant(reset=no_early_reset)),
    Case("SRL-API-011", "repeat", variant(reset=dirty_when_early)),
    Case("SRL-API-011", "repeat", variant(reset=unheard_when_early)),
    Case("SRL-OBS-001", "survey", changed("observe", lambda self, obs: obs.tolist())),
    Case(
        "SRL-OBS-002",
        "survey",
        changed("observe", float_obs),
        with_spaces(changed("observe", float_obs), box(-1, 1, 2, float)),
    ),
    Case("SRL-OBS-003", "survey", changed("observe", lambda self, obs: obs[None])),
    Case(
        "SRL-OBS-004",
        "survey",
        with_spaces(changed("observe", lambda self, obs: {"place": obs} if self.t < 4 else {}), NESTED),
        with_spaces(changed("observe", lambda self, obs: {"place": obs}), NESTED),
    ),
    Case("SRL-OBS-005", "survey", changed("observe", obs_at(8, np.nan))),
    Case("SRL-OBS-005", "survey", with_spaces(changed("observe", obs_at(8, -np.inf)), box(-np.inf, 1, 2))),
    Case("SRL-OBS-006", "survey", changed("observe", obs_at(8, 1.5))),
    Case("SRL-OBS-007", "survey", envs.Buffer),
    Case("SRL-OBS-008", "survey", changed("observe", obs_at(0, 0.25))),
    Case(
        "SRL-OBS-009",
        "survey",
        with_spaces(changed("observe", lambda self, obs: obs * np.array([1, 1e6], np.float32)), box(-1e7, 1e7, 2)),
    ),
    Case("SRL-OBS-009", "survey", changed("observe", lambda self, obs: obs * np.array([1, 1e-7], np.float32))),
    Case("SRL-SEED-001", "repeat", variant(begin=loose), FIXED),
    Case("SRL-SEED-001", "repeat", variant(reset=first_seed_only), FIXED),
    Case("SRL-SEED-001", "repeat", variant(reset=drawn_too_early), FIXED),
    Case("SRL-SEED-013", "survey", variant(move=gusty)),
    Case("SRL-SEED-002", "repeat", variant(reset=constant_seed), FIXED),
    Case("SRL-SEED-003", "repeat", envs.Wild),
    Case("SRL-SEED-004", "repeat", variant(reset=clobbering)),
    Case("SRL-SEED-005", "repeat", variant(move=late_noise)),
    Case("SRL-SEED-006", "repeat", envs.Numbered),
    Case("SRL-SEED-007", "repeat", variant(begin=carried)),
    Case("SRL-SEED-007", "repeat", variant(reset=unseeded_leak), envs.Nested),
    Case("SRL-SEED-007", "repeat", variant(reset=unseeded_leak), envs.Hidden),
    Case("SRL-SEED-007", "repeat", variant(begin=harder_each_time)),
    Case("SRL-SEED-008", "together", envs.Shared),
    Case("SRL-SEED-009", "together", variant(envs.Numbered, __init__=of_every_size)),
    Case("SRL-SEED-010", "together", envs.Buffer),
    Case("SRL-SEED-012", "repeat", variant(reset=reseeding), FIXED),
    Case("SRL-EPI-001", "survey", changed("step", clocked), Rounds),
    Case("SRL-EPI-002", "survey", changed("step", both)),
    Case("SRL-EPI-003", "survey", Walk, Walk, limit=13),
    Case("SRL-EPI-004", "ends", variant(horizon=10**9, move=lambda self, action: 0.0)),
    Case("SRL-EPI-005", "survey", variant(horizon=1), variant(), limit=30),
    Case("SRL-EPI-006", "ends", variant(step=zombie), variant(step=strict_after_end)),
    Case("SRL-ACT-001", "facts", with_spaces(action=box(0, np.inf)), with_spaces(action=box(-0.4, 1))),
    Case("SRL-ACT-002", "facts", with_spaces(action=spaces.Discrete(1)), Hops),
    Case("SRL-ACT-002", "facts", with_spaces(action=box(np.float32(0), np.float32(0)))),
    Case("SRL-ACT-003", "facts", with_spaces(action=box(-1, 500)), with_spaces(action=box(-3, 3))),
    Case("SRL-ACT-003", "facts", with_spaces(action=box(-1e-3, 1e-3)), with_spaces(action=box(0, 1))),
    Case("SRL-ACT-004", "survey", variant(move=mutating)),
    Case("SRL-ACT-005", "acting", variant(push=lambda self, action: 0.3)),
    Case("SRL-ACT-005", "acting", variant(push=lambda self, action: 0.3), variant(move=opening_scene, horizon=150)),
    Case("SRL-ACT-006", "acting", envs.Deaf2),
    Case("SRL-ACT-007", "acting", with_spaces(variant(push=crash_on_last), action=spaces.Discrete(3)), Hops),
    Case("SRL-ACT-008", "acting", variant(move=keeping)),
    Case("SRL-REW-001", "survey", changed("move", lambda self, reward: reward if self.t < 8 else np.nan)),
    Case("SRL-REW-002", "survey", changed("move", lambda self, reward: 1e5 * reward)),
    Case("SRL-REW-002", "survey", changed("move", lambda self, reward: 1e-6 * reward)),
    Case(
        "SRL-REW-003",
        "survey",
        variant(move=lambda self, action: 1.0),
        changed("move", lambda self, reward: 1.0),
    ),
    Case("SRL-REW-003", "survey", variant(move=lambda self, action: float(self.t))),
    Case("SRL-INF-001", "survey", variant(info=notes), variant(info=growing_path)),
    Case("SRL-INF-002", "survey", variant(info=lambda self: {"at": {"side": None if self.x < 0 else 1}})),
    Case("SRL-INF-002", "survey", variant(info=wordy), variant(info=growing_path)),
    Case(
        "SRL-MSK-001", "survey", changed("info", lambda self, info: {"action_mask": np.zeros(2, np.int8)}, Hops), Masked
    ),
    Case(
        "SRL-MSK-002", "survey", changed("info", lambda self, info: {"action_mask": np.ones(3, np.int8)}, Hops), Masked
    ),
    Case("SRL-MSK-002", "survey", info_of({"action_mask": "left"}, Hops), Masked),
    Case(
        "SRL-MSK-002",
        "survey",
        info_of({"action_mask": PARTS[::-1]}, CHOICES),
        info_of({"action_mask": PARTS}, CHOICES),
    ),
    Case(
        "SRL-MSK-002",
        "survey",
        info_of({"action_mask": np.ones(4)}, CHOICES),
        info_of({"action_mask": np.ones(5)}, CHOICES),
    ),
    Case("SRL-MSK-003", "survey", info_of({"action_masks": np.ones(2)}, Hops), Masked),
    Case("SRL-MSK-003", "survey", envs.MaskInObs, variant(envs.MaskInObs, action_masks=lambda self: np.ones(2))),
    Case("SRL-MSK-003", "survey", info_of({"action_mask": np.ones(2)}, Walk), Walk),
    Case("SRL-MSK-003", "survey", variant(Hops, action_masks=np.ones(2)), Hops),
    Case("SRL-MSK-004", "survey", variant(Masked, info=sometimes(lambda self: self.t != 3)), Masked),
    Case("SRL-MSK-004", "survey", variant(Masked, info=sometimes(lambda self: self.t > 0)), Masked),
    Case(
        "SRL-MSK-004",
        "survey",
        variant(Masked, info=sometimes(lambda self: self.t < self.horizon)),
        variant(Masked, info=sometimes(lambda self: abs(self.x) < 1)),
    ),
    Case("SRL-GOL-001", "goals", changed("step", set_in(1, -0.5), envs.Goal), envs.Goal),
    Case(
        "SRL-GOL-002",
        "goals",
        variant(envs.Goal, compute_reward=lambda self, a, d, info: -float(np.abs(a - d).sum())),
        envs.Goal,
    ),
    Case(
        "SRL-GOL-004", "goals", variant(envs.Goal, compute_reward=property(raising(AttributeError("none")))), envs.Goal
    ),
    Case("SRL-PRC-001", "survey", envs.Leaving),
    Case("SRL-PRC-002", "facts", variant(__init__=raising(SystemExit(1)))),
    Case("SRL-PRC-007", "process", envs.Lambda),
    Case("SRL-PRC-008", "process", envs.Forgetful),
    Case("SRL-PRC-009", "process", variant(close=closing_once)),
    Case("SRL-PRC-010", "survey", envs.Sleepy),
    Case("SRL-RES-001", "resources", envs.Leaky, variant(info=growing_path)),
    Case("SRL-RES-002", "resources", variant(envs.Opening, close=lambda self: None), Walk),
    Case("SRL-RND-001", "render", variant(Painted, render=lambda self: None), Painted),
    Case("SRL-RND-002", "render", variant(Painted, metadata={"render_modes": ["rgb_array"]}), Painted),
    Case("SRL-RND-003", "render", variant(Painted, render=unsteady), Painted),
    Case("SRL-RND-004", "render", variant(metadata={"render_modes": 3}), Painted),
    Case("SRL-RND-005", "render", variant(Painted, render=raising(ImportError("no display"))), Painted),
]
ELSEWHERE = {  # held by tests of their own
    "SRL-SEED-011": "test_run",
    "SRL-GOL-003": "test_records",
    "SRL-RND-006": "test_records",
    "SRL-PRC-003": "test_run",
    "SRL-PRC-004": "test_run",
    "SRL-PRC-005": "test_run",
    "SRL-PRC-006": "test_run",
    "SRL-PRC-011": "test_records",
    "SRL-FIT-001": "test_records",
    "SRL-FIT-002": "test_records",
    "SRL-FIT-003": "test_records",
    "SRL-FIT-004": "test_records",
    "SRL-CHK-001": "test_records",
    **{f"SRL-VEC-{number:03}": "test_vectors" for number in range(1, 12)},
    "SRL-PRC-014": "test_starting",
    **dict.fromkeys(("SRL-TIM-001", "SRL-TIM-002", "SRL-TIM-003"), "test_records"),
    **dict.fromkeys(
        (
            "SRL-SPC-009",
            "SRL-OBS-010",
            "SRL-OBS-011",
            "SRL-OBS-012",
            "SRL-ACT-010",
            "SRL-SEED-014",
            "SRL-SEED-015",
            "SRL-EPI-007",
            "SRL-EPI-008",
            "SRL-ACT-009",
            "SRL-REW-004",
            "SRL-REW-005",
            "SRL-VEC-012",
            "SRL-PRC-012",
            "SRL-PRC-013",
            "SRL-PRC-015",
            "SRL-RES-003",
            "SRL-RES-004",
            "SRL-RES-005",
            "SRL-RND-007",
        ),
        "test_deeper_rules",
    ),
}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.code)
def test_a_rule_tells_faulty_from_sound(case: Case) -> None:
    hold(case)


def test_every_rule_has_a_case() -> None:
    assert set(RULES) - {case.code for case in CASES} == set(ELSEWHERE)


@pytest.mark.parametrize(
    "make", [Walk, Hops, Rounds, Masked, Painted, envs.Goal, FIXED], ids=lambda make: make.__name__
)
def test_sound_environments_pass_every_rule(make: Callable[..., Any]) -> None:
    names = [name for name in EXPERIMENTS if name not in ("vector", "saving")]
    assert [f for f in found(make, *names) if f.severity != "note" or f.code == "SRL-CHK-001"] == []
