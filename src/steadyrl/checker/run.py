"""`check_env`: an environment is played in processes of its own, and the rules tell what is wrong with it."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import gymnasium as gym
from gymnasium.vector import VectorEnv

from steadyrl.checker import rules
from steadyrl.checker.child import Task
from steadyrl.checker.experiments import ALONE, EXPERIMENTS, Context, found_in, perform
from steadyrl.checker.finding import RULES, Finding, settled
from steadyrl.checker.plan import Plan, plan_of
from steadyrl.checker.probe.stage import Stage
from steadyrl.checker.process import ChildProcess
from steadyrl.checker.records import Died
from steadyrl.checker.report import Report
from steadyrl.envs.make import EnvFactory, EnvLike, make_env_factory, quiet_gymnasium
from steadyrl.envs.workers.recipe import Recipe
from steadyrl.errors import UserError, nearest

_DEATHS = 4  # processes that may end before the check gives up


@dataclass
class _Result:
    """What the processes told so far."""

    findings: list[Finding] = field(default_factory=list)
    numbers: dict[str, Any] = field(default_factory=dict)
    done: dict[str, float] = field(default_factory=dict)
    known: Context = field(default_factory=Context)
    copies: int = 0


def check_env(
    env: EnvLike | EnvFactory | VectorEnv[Any, Any, Any],
    *,
    env_kwargs: dict[str, Any] | None = None,
    quick: bool = False,
    no_side_effects: bool = False,
    strict: bool = False,
    ignore: Iterable[str] = (),
    only: Iterable[str] = (),
    timeout: float = 30.0,
    told: Callable[[str], None] | None = None,
) -> Report:
    """Find what is wrong with an environment.

    It is played in processes of its own, so one that hangs, prints, forks or ends its process is reported. An id is
    checked together with the vector version that is registered for it.

    Args:
        env: A Gymnasium id, `package.module:Id-v0`, `path/to/file.py:ClassName`, a class or function that makes one, an
            environment, or a vector environment. Of an instance, copies are played; one that cannot be copied is played
            itself, in this process, as with `no_side_effects`.
        env_kwargs: Arguments of the environment.
        quick: Seconds instead of some ten seconds, with fewer steps and seeds.
        no_side_effects: Make one instance only, and reset only where an episode has ended: for real hardware.
        strict: Warnings count as well for `ok`.
        ignore: Codes or kinds of rules to leave out.
        only: Codes or kinds of the only rules to hold it to.
        timeout: Seconds that one call of the environment may take.
        told: Called with the name of each experiment as it begins.

    Raises:
        UserError: there is no such environment, a package that it needs is missing, or there is no such rule.
    """
    plan = plan_of(quick=quick, no_side_effects=no_side_effects, timeout=timeout)
    wanted = chosen(ignore, only)
    start = time.perf_counter()
    if isinstance(env, VectorEnv):
        name, result = _vector_name(env), _vector(env, plan)
    else:
        factory = make_env_factory(env, env_kwargs=env_kwargs)
        name = factory.id
        result = _played(factory, plan, told or (lambda experiment: None))
    kept = [finding for finding in settled(result.findings) if finding.code in wanted]
    numbers = dict(result.numbers)
    fits = numbers.pop("fits", {})
    return Report(name, plan.name, kept, strict, numbers, fits, time.perf_counter() - start, result.done)


def chosen(ignore: Iterable[str], only: Iterable[str]) -> set[str]:
    """The codes of the rules to hold an environment to.

    Raises:
        UserError: there is no such rule.
    """
    assert rules.SUBJECTS
    kept = _codes(only) or set(RULES)
    return kept - _codes(ignore)


def _codes(words: Iterable[str]) -> set[str]:
    codes: set[str] = set()
    for word in words:
        found = {code for code, rule in RULES.items() if word.upper() == code or word.lower() == rule.kind}
        if not found:
            known = [*RULES, *{rule.kind for rule in RULES.values()}]
            raise UserError(
                f"There is no rule '{word}'.",
                remedy=f"{nearest(word, known)} `steadyrl check --list` lists them.".strip(),
                code="unknown-rule",
            )
        codes |= found
    return codes


def _played(factory: EnvFactory, plan: Plan, told: Callable[[str], None]) -> _Result:
    """All experiments, each process going on where one before it ended."""
    try:
        recipe = Recipe(factory)
    except UserError as error:
        return _here(factory, plan, error)
    result = _Result()
    left = [name for name in EXPERIMENTS if name in ALONE or not plan.alone]
    deaths = 0
    while left and deaths < _DEATHS:
        process = ChildProcess(_task(recipe, factory, plan, tuple(left), result.known))
        try:
            died = _listened(process, result, left, told)
        finally:
            process.close()
        if died is None:
            break
        deaths += 1
        left.remove(died.experiment) if died.experiment in left else left.clear()
        _take_in(result.findings, found_in("died", died))
        if died.status is None or died.experiment == "facts":
            break  # each further wait would take as long
    _take_in(result.findings, found_in("forks", result.copies))
    return result


def _task(recipe: Recipe, factory: EnvFactory, plan: Plan, experiments: tuple[str, ...], known: Context) -> Task:
    return Task(recipe, plan, experiments, list(sys.argv), factory.is_instance, known)


def _listened(process: ChildProcess, result: _Result, left: list[str], told: Callable[[str], None]) -> Died | None:
    for message in process.messages():
        if isinstance(message, Died):
            return message
        if "begin" in message:
            told(message["begin"])
        if "end" in message:
            result.findings += message["findings"]
            result.numbers |= message["numbers"]
            result.done[message["end"]] = message["s"]
            left.remove(message["end"])
        result.known = message.get("known", result.known)
        result.copies += message.get("copies", 0)
    return None


def _take_in(findings: list[Finding], more: Sequence[Finding]) -> None:
    """Those of a kind that was not found yet."""
    kinds = {finding.kind for finding in findings}
    findings += [finding for finding in more if finding.kind not in kinds]


def _here(factory: EnvFactory, plan: Plan, why: UserError) -> _Result:
    """The one instance that cannot be sent anywhere, played in this process."""
    alone = plan_of(no_side_effects=True, timeout=plan.timeout)
    env = factory.bare()
    stage = Stage(lambda mode: env, alone, factory.id)
    result, context = _Result(), Context()
    for name in ALONE:
        with quiet_gymnasium():
            _, findings = perform(name, stage, context)
        result.findings += findings
        result.done[name] = 0.0
    result.numbers = context.numbers
    rule = RULES["SRL-PRC-007"]
    result.findings.append(
        Finding(rule.code, rule.kind, rule.severity, why.message, {"value": why.message}, rule.remedy, rule.docs)
    )
    return result


def _vector_name(env: VectorEnv[Any, Any, Any]) -> str:
    return env.spec.id if env.spec is not None else type(env.unwrapped).__name__


def _vector(env: VectorEnv[Any, Any, Any], plan: Plan) -> _Result:
    """A vector environment that was given, played in this process: nothing is known of how to make another one."""
    from steadyrl.checker.probe.vector_probe import VectorProbe

    spec = env.spec
    singles = spec is not None and spec.entry_point is not None

    def single(mode: str | None) -> gym.Env[Any, Any]:
        assert spec is not None
        return gym.make(spec.id, disable_env_checker=True)

    stage = Stage(single, plan, _vector_name(env))
    record = VectorProbe(stage, None, env, singles).run()
    result = _Result(found_in("vector", record))
    result.numbers = {"steps": record.compared, "episodes": record.ends}
    result.done["vector"] = 0.0
    return result
