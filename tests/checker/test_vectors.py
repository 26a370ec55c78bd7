"""Vector versions beside single environments, in each autoreset mode."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from gymnasium.vector import AutoresetMode, SyncVectorEnv

from steadyrl.checker.experiments import found_in
from steadyrl.checker.probe.batched import batched
from steadyrl.checker.probe.vector_probe import VectorProbe
from support.checked_envs import Hops, Walk
from support.checker import SMALL, codes, stage_of

MODES = (AutoresetMode.SAME_STEP, AutoresetMode.NEXT_STEP, AutoresetMode.DISABLED)


class Fleet(SyncVectorEnv):
    """Sound: Gymnasium's own, whose results a test may change."""

    mode = AutoresetMode.SAME_STEP
    single: type[Walk] = Walk

    def __init__(self, count: int) -> None:
        super().__init__([self.single] * count, autoreset_mode=self.mode)

    def step(self, actions: Any) -> Any:
        return self.changed(*super().step(actions))

    def changed(self, *told: Any) -> Any:
        return told


def fleet(**members: Any) -> type[Fleet]:
    return type("Fleet", (Fleet,), members)


def without_final(self: Any, obs: Any, rewards: Any, terminated: Any, truncated: Any, infos: Any) -> Any:
    return obs, rewards, terminated, truncated, {key: value for key, value in infos.items() if "final" not in key}


def wrong_final(self: Any, obs: Any, rewards: Any, terminated: Any, truncated: Any, infos: Any) -> Any:
    for i in np.flatnonzero(terminated | truncated):
        infos["final_obs"][i] = obs[i].copy()
    return obs, rewards, terminated, truncated, infos


def reset_at_end(self: Any, obs: Any, rewards: Any, terminated: Any, truncated: Any, infos: Any) -> Any:
    obs = obs.copy()
    obs[terminated | truncated] = 0.0
    return obs, rewards, terminated, truncated, infos


def less(self: Any, obs: Any, rewards: Any, terminated: Any, truncated: Any, infos: Any) -> Any:
    return obs, rewards + 0.5 * terminated, terminated, truncated, infos


def unsaid(self: Any, count: int) -> None:
    Fleet.__init__(self, count)
    self.metadata = {}


def columns(self: Any, obs: Any, rewards: Any, terminated: Any, truncated: Any, infos: Any) -> Any:
    return obs, rewards[:, None], terminated, truncated, infos


def late_flag(self: Any, obs: Any, rewards: Any, terminated: Any, truncated: Any, infos: Any) -> Any:
    return obs, rewards, terminated | truncated, truncated, infos


def noisy(self: Any, obs: Any, rewards: Any, terminated: Any, truncated: Any, infos: Any) -> Any:
    noise = np.random.default_rng().normal(0, 0.1, len(rewards))
    return obs, rewards + noise, terminated, truncated, infos


def outside(self: Any, obs: Any, rewards: Any, terminated: Any, truncated: Any, infos: Any) -> Any:
    return obs + 3, rewards, terminated, truncated, infos


def same_seed(self: Any, *, seed: Any = None, options: Any = None) -> Any:
    return SyncVectorEnv.reset(self, seed=None if seed is None else [seed] * self.num_envs, options=options)


def reversed_seeds(self: Any, *, seed: Any = None, options: Any = None) -> Any:
    seeds = None if seed is None else [seed + i for i in reversed(range(self.num_envs))]
    return SyncVectorEnv.reset(self, seed=seeds, options=options)


class FarAway(Walk):
    """Starts where the single environment never does."""

    def begin(self) -> None:
        super().begin()
        self.wind += 5


def other_seeds(self: Any, *, seed: Any = None, options: Any = None) -> Any:
    return SyncVectorEnv.reset(self, seed=None if seed is None else seed + 100, options=options)


def halving(self: Any, actions: Any) -> Any:
    actions *= 0.5
    return SyncVectorEnv.step(self, 2 * actions)


def shared(self: Any, actions: Any) -> Any:
    told = SyncVectorEnv.step(self, actions)
    self.buffer = getattr(self, "buffer", None) if hasattr(self, "buffer") else told[0]
    self.buffer[:] = told[0]
    return self.buffer, *told[1:]


def raises(self: Any, actions: Any) -> Any:
    raise ValueError("no such action")


CASES = [
    ("SRL-VEC-001", fleet(changed=without_final)),
    ("SRL-VEC-001", fleet(changed=wrong_final)),
    ("SRL-VEC-001", fleet(changed=reset_at_end, mode=AutoresetMode.NEXT_STEP)),
    ("SRL-VEC-001", fleet(changed=reset_at_end, mode=AutoresetMode.DISABLED)),
    ("SRL-VEC-002", fleet(changed=less)),
    ("SRL-VEC-002", fleet(changed=less, mode=AutoresetMode.NEXT_STEP)),
    ("SRL-VEC-002", fleet(changed=late_flag)),
    ("SRL-VEC-002", fleet(reset=reversed_seeds)),
    ("SRL-VEC-002", fleet(single=FarAway)),
    ("SRL-VEC-003", fleet(changed=columns)),
    ("SRL-VEC-004", fleet(step=raises)),
    ("SRL-VEC-005", fleet(reset=same_seed)),
    ("SRL-VEC-006", fleet(changed=noisy)),
    ("SRL-VEC-007", fleet(step=shared)),
    ("SRL-VEC-008", fleet(step=halving)),
    ("SRL-VEC-009", fleet(changed=outside)),
    ("SRL-VEC-010", fleet(__init__=unsaid, mode=AutoresetMode.NEXT_STEP)),
    ("SRL-VEC-011", fleet(reset=other_seeds)),
]


def findings(make: Callable[[int], Any], single: type[Walk] = Walk) -> Any:
    record = VectorProbe(stage_of(single, replace(SMALL, vector_steps=90)), make).run()
    return record, found_in("vector", record)


@pytest.mark.parametrize(("code", "make"), CASES, ids=[code for code, _ in CASES])
def test_a_fault_is_found(code: str, make: Callable[[int], Any]) -> None:
    assert code in codes(findings(make)[1])


class Telling(Walk):
    """Its info is a whole number now and then."""

    def info(self) -> dict[str, Any]:
        return {"gap": self.x if self.t % 3 else 0}


def wrong_info(self: Any, obs: Any, rewards: Any, terminated: Any, truncated: Any, infos: Any) -> Any:
    return obs, rewards, terminated, truncated, infos | {"gap": infos["gap"] + 1.0}


def right_info(self: Any, obs: Any, rewards: Any, terminated: Any, truncated: Any, infos: Any) -> Any:
    return obs, rewards, terminated, truncated, infos | {"gap": np.array([env.info()["gap"] for env in self.envs])}


def test_infos_of_a_native_vector_are_those_of_single_environments() -> None:
    wrong, right = (
        findings(fleet(changed=change, single=Telling, mode=AutoresetMode.NEXT_STEP), Telling)[1]
        for change in (wrong_info, right_info)
    )
    assert "infos['gap']" in next(each.message for each in wrong if each.code == "SRL-VEC-002")
    assert right == []


def test_whole_numbers_among_others_in_infos_are_no_fault_of_gymnasiums_vectors() -> None:
    assert found_in("batched", batched(stage_of(Telling))) == []


@pytest.mark.parametrize("mode", MODES, ids=lambda mode: mode.value)
@pytest.mark.parametrize("single", [Walk, Hops])
def test_gymnasiums_own_passes_in_each_mode(mode: AutoresetMode, single: type[Walk]) -> None:
    record, found = findings(fleet(mode=mode, single=single), single)
    assert found == []
    assert record.comparable
    assert record.ends > 5
    assert record.mode == mode.value


def test_a_vector_environment_can_be_checked_itself() -> None:
    import steadyrl as srl

    good = srl.check_env(Fleet(3))
    assert good.ok
    assert good.experiments.keys() == {"vector"}
    bad = srl.check_env(fleet(changed=without_final)(3))
    assert [finding.kind for finding in bad.findings if finding.severity == "error"] == ["vector-final-obs"]
