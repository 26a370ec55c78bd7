"""What an environment declares: its spaces, its signatures, its specification, its metadata."""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from typing import Any

import gymnasium as gym
from gymnasium.envs.registration import EnvSpec

from steadyrl.checker.plan import SEED
from steadyrl.checker.probe.driver import Broken, Driver, Fault, Signature, fault_of, signature_of
from steadyrl.checker.probe.play import over
from steadyrl.checker.probe.policies import act, at_random
from steadyrl.checker.probe.stage import Stage
from steadyrl.checker.probe.values import brief
from steadyrl.envs.sources import time_limit

_SAMPLES = 200


@dataclass
class Facts:
    """What is declared.

    Attributes:
        made: What the constructor raised.
        missing: Spaces that are none: name -> what is there.
        observation: Observation space.
        action: Action space.
        rejected: Space -> a sample of its own that it does not contain.
        mutated: How a space had changed after some episodes, in words.
        reset: Signature of the environment's own reset.
        needs: Arguments without which reset raises: name -> what it raised.
        class_name: Of the environment.
        spec_fault: What is wrong with its specification.
        limit: Registered limit, or a TimeLimit's.
        metadata: As declared.
        nondeterministic: Declared so in its specification.
    """

    made: Fault | None = None
    missing: dict[str, str] = field(default_factory=dict)
    observation: Any = None
    action: Any = None
    rejected: dict[str, str] = field(default_factory=dict)
    mutated: str = ""
    reset: Signature = field(default_factory=Signature)
    needs: dict[str, str] = field(default_factory=dict)
    class_name: str = ""
    spec_fault: str = ""
    limit: int | None = None
    metadata: dict[str, Any] = field(default_factory=dict)
    nondeterministic: bool = False


def facts(stage: Stage) -> Facts:
    """Make one and read what it declares; then a few steps."""
    found = Facts()
    try:
        driver = stage.drive()
    except Broken as broken:
        found.made = broken.fault
        return found
    env = driver.env
    found.class_name = type(env.unwrapped).__name__
    for name in ("observation_space", "action_space"):
        space = getattr(env, name, None)
        if not isinstance(space, gym.Space):
            found.missing[name] = brief(space)
    if found.missing:
        return found
    found.observation, found.action = copy.deepcopy(env.observation_space), copy.deepcopy(env.action_space)
    found.metadata = dict(env.metadata or {})
    found.limit = _limit(driver)
    found.reset = _signature(driver)
    for name in ("observation_space", "action_space"):
        rejected = rejected_sample(copy.deepcopy(getattr(env, name)))
        if rejected is not None:
            found.rejected[name] = rejected
    found.nondeterministic = bool(getattr(env.spec, "nondeterministic", False))
    if not stage.plan.alone:
        found.needs = _needs(driver)
        _begin(driver, found)
    found.spec_fault = _spec_fault(stage, driver)  # after some episodes: they may have changed it
    if not stage.plan.alone:
        driver.close()
    return found


def _limit(driver: Driver) -> int | None:
    try:
        return time_limit(driver.env)
    except AttributeError:  # a specification that is none
        return None


def _signature(driver: Driver) -> Signature:
    """Of the environment's own reset, and of any wrapper that is not Gymnasium's."""
    layer: Any = driver.env
    while layer is not driver.tap:
        if not type(layer).__module__.startswith(("gymnasium.", "steadyrl.")):
            told: Signature = signature_of(layer.reset)
            if told != Signature():
                return told
        layer = layer.env
    takes: Signature = driver.tap.takes
    return takes


def rejected_sample(space: gym.Space[Any]) -> str | None:
    """A sample of the space that it does not contain, in words; None where it contains all that were tried."""
    space.seed(SEED)
    for _ in range(_SAMPLES):
        try:
            sample = space.sample()
        except Exception as error:
            return f"nothing, for sample() raised {fault_of(error, 'make', 0).error}"
        try:
            inside = bool(space.contains(sample))
        except Exception as error:
            return f"{brief(sample)}, for contains() raised {fault_of(error, 'make', 0).error}"
        if not inside:
            return brief(sample)
    return None


def _needs(driver: Driver) -> dict[str, str]:
    """Which argument a plain reset lacks: one that makes the difference between an error and none."""
    told = _raised(driver, None, None)
    if told and not _raised(driver, SEED, None):
        return {"seed": told}
    if told and not _raised(driver, SEED, {}):
        return {"options": told}
    return {}


def _raised(driver: Driver, seed: int | None, options: dict[str, Any] | None) -> str:
    try:
        driver.reset(seed=seed, options=options)
    except Broken as broken:
        return broken.fault.error
    return ""


def _begin(driver: Driver, found: Facts) -> None:
    """Whether the spaces are still the same after some episodes."""
    before = found.observation, found.action
    policy = at_random(found.action)(SEED)
    try:
        for number in range(4):
            driver.reset(seed=SEED + number)
            for _ in range(10):
                if over(driver.step(act(policy, driver))):
                    break
            after = driver.env.observation_space, driver.env.action_space
            for name, one, other in zip(("observation_space", "action_space"), before, after, strict=True):
                if not found.mutated and not _equal(one, other):
                    found.mutated = f"{name} was {one} and is {other}"
    except Broken:  # found by those who play longer
        return


def _equal(one: Any, other: Any) -> bool:
    try:
        return bool(one == other) and repr(one) == repr(other)
    except Exception:  # a space's own
        return True


def _spec_fault(stage: Stage, driver: Driver) -> str:
    """What is wrong with the specification, in words."""
    inner, outer = driver.env.unwrapped.spec, driver.env.spec
    given = stage.registered
    if given is not None:
        if inner is None:
            return f"it was made as {given.id}, but its spec is None"
        if getattr(inner, "id", None) != given.id:
            return f"it was made as {given.id}, but its spec says {getattr(inner, 'id', inner)}"
        if getattr(inner, "entry_point", None) != given.entry_point:
            return f"it is made by {given.entry_point}, but its spec says {getattr(inner, 'entry_point', None)}"
    if outer is None:
        return ""
    if not isinstance(outer, EnvSpec):
        return f"its spec is a {type(outer).__name__}, not an EnvSpec"
    if outer.entry_point is None or stage.plan.alone or any(w.kwargs is None for w in outer.additional_wrappers):
        return ""
    later = [inner] if isinstance(inner, EnvSpec) and inner.kwargs != outer.kwargs else []  # wrappers keep an older one
    made = ((outer, driver.env), *((spec, driver.env.unwrapped) for spec in later))
    return next((fault for spec, env in made if (fault := _rebuilt(spec, env))), "")


def _rebuilt(spec: EnvSpec, env: gym.Env[Any, Any]) -> str:
    """What is wrong with what a specification makes instead of an environment, in words."""
    try:
        rebuilt = gym.make(spec, disable_env_checker=True)
        rebuilt = rebuilt.unwrapped if env is env.unwrapped else rebuilt
    except Exception as error:
        return f"gymnasium.make(env.spec) raised {fault_of(error, 'make', 0).error}"
    try:
        if type(rebuilt.unwrapped).__qualname__ != type(env.unwrapped).__qualname__:
            return f"gymnasium.make(env.spec) makes a {type(rebuilt.unwrapped).__name__}"
        for name in ("observation_space", "action_space"):
            one, other = getattr(env, name), getattr(rebuilt, name)
            if type(one) is not type(other) or one.shape != other.shape:
                return f"gymnasium.make(env.spec) has the {name} {other} instead of {one}"
    finally:
        rebuilt.close()
    return ""
