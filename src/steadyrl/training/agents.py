"""The typed constructors, and loading a saved policy as the agent that made it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Self

from steadyrl.bundle import SUFFIX, read_bundle
from steadyrl.config import from_json
from steadyrl.configs.run import MAX_EPISODES
from steadyrl.configs.validate import count, truth, whole
from steadyrl.errors import UserError
from steadyrl.seeding import Seeds
from steadyrl.training.agent import Agent
from steadyrl.training.arguments import evaluated_by_position, names_environment, path_of, unknown_to_evaluate
from steadyrl.training.evaluation import Evaluation
from steadyrl.training.evaluator import Evaluator, eval_source, spared_failures
from steadyrl.training.mistaken import better_told
from steadyrl.training.opened import EnvLike
from steadyrl.training.policies import require_same_network, require_same_spaces, resolve_device, with_kernels
from steadyrl.training.setup import prepare_again
from steadyrl.training.signatures import signature_of
from steadyrl.training.spaces import encoders_of, migrated
from steadyrl.training.taking_along import brought


class _Loads(Agent):
    """An agent whose class loads what one of its kind saved, and has its algorithm's options in its signature."""

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        cls.__signature__ = signature_of(cls, Agent, cls.algo)  # type: ignore[attr-defined]

    @classmethod
    def load(cls, path: str | Path, env: EnvLike | None = None, **options: Any) -> Self:
        """The agent in a bundle, as `steadyrl.load`, which reads the algorithm from it.

        Raises:
            UserError: as `steadyrl.load`, or another algorithm made it.
        """
        agent = load(path, env, **options)
        if not isinstance(agent, cls):
            raise UserError(
                f"{path} was made by {type(agent).__name__}, not by {cls.__name__}.",
                remedy=f"Use steadyrl.load or {type(agent).__name__}.load.",
                code="other-algorithm",
            )
        return agent


class PPO(_Loads):
    """Proximal policy optimisation; hyperparameters as in `steadyrl.configs.PPOConfig`."""

    algo = "ppo"


class A2C(_Loads):
    """Advantage actor-critic; hyperparameters as in `steadyrl.configs.A2CConfig`."""

    algo = "a2c"


class DQN(_Loads):
    """Deep Q-learning; hyperparameters as in `steadyrl.configs.DQNConfig`."""

    algo = "dqn"


class DDPG(_Loads):
    """Deep deterministic policy gradient; hyperparameters as in `steadyrl.configs.DDPGConfig`."""

    algo = "ddpg"


class TD3(_Loads):
    """Twin delayed DDPG; hyperparameters as in `steadyrl.configs.TD3Config`."""

    algo = "td3"


class SAC(_Loads):
    """Soft actor-critic; hyperparameters as in `steadyrl.configs.SACConfig`."""

    algo = "sac"


AGENTS: dict[str, type[Agent]] = {cls.algo: cls for cls in (PPO, A2C, DQN, DDPG, TD3, SAC)}


def load(path: str | Path, env: EnvLike | None = None, **options: Any) -> Agent:
    """The agent in a bundle; the algorithm is read from it.

    Args:
        path: The file that `agent.save` made, with or without its suffix.
        env: Where it may learn on, with a fresh optimiser; predicting needs none.
        **options: Settings such as `device`, `threads` or `env_kwargs`, hyperparameters that should differ, and
            `encoders`, the classes of own encoders by path. Wrappers are those that the policy was trained
            with, unless they are among these; in the environment that it was trained in its arguments and time limit
            stay too.

    Raises:
        UserError: the file is missing or damaged, the environment's spaces are not the policy's, or a hyperparameter
            asks for another network.
    """
    file = path_of(path, "path")
    if file.suffix != SUFFIX and (file.is_dir() or not os.path.exists(file)):
        file = file.with_name(file.name + SUFFIX)
    given = {name: "auto" if options.get(name) is None else options[name] for name in ("device", "kernels")}
    device, native = resolve_device(given["device"]), with_kernels(given["kernels"])
    try:
        bundle = read_bundle(file, device, native=native, encoders=encoders_of(options.get("encoders")))
    except UserError as error:
        better = better_told(path_of(path, "path"), error)
        if better is None:
            raise
        raise better from error
    algo = bundle.about.get("algo")
    if algo not in AGENTS:
        raise UserError(
            f"{file} was made by the algorithm {algo!r}, which this version does not have.",
            remedy="Install the version that made it.",
            code="unknown-algorithm",
        )
    trained_with = migrated(bundle.about["config"])
    config = from_json(algo, trained_with)
    setup = None
    if env is None and (without_effect := sorted(set(options) - {"device", "kernels", "encoders"})):
        raise UserError(
            f"{', '.join(without_effect)} given without an environment would have no effect.",
            remedy="Pass env= as well, or leave it out.",
            code="no-env",
        )
    if env is not None:
        trained = {"seed": bundle.about.get("seed", 0)} | trained_with
        setup = prepare_again(algo, env, trained | brought(bundle.about, env), options)
        require_same_spaces(bundle.policy, setup)
        require_same_network(config, setup)
    return AGENTS[algo].from_bundle(bundle, setup, config)


def evaluate(
    agent: Agent,
    episodes: int = 100,
    *others: Any,
    seed: int | None = None,
    eval_seed: int | None = None,
    deterministic: bool = True,
    env: EnvLike | None = None,
    **unknown: Any,
) -> Evaluation:
    """Play whole episodes with the agent's policy; normaliser frozen, raw rewards, training untouched.

    An episode that fails is left out, and told in `failed`, where the training went on after such a failure too
    (`on_env_error`, `on_nonfinite`).

    Args:
        agent: Whose policy.
        episodes: How many.
        *others: There are none: what is given here is answered with an error.
        seed: Fixes the episodes; None takes the agent's `eval_seed`.
        eval_seed: The same under the name of the flag.
        deterministic: The most likely actions, or sampled ones.
        env: Where; None makes environments like the agent's own.
        **unknown: There are no others: what is given here is answered with an error.

    Raises:
        UserError: an argument does not fit, or there is no environment to play in.
        RunFailedError: the environment failed, told a number that is not finite, or an episode seems to have no end.
    """
    if not isinstance(agent, Agent):
        raise UserError(
            f"evaluate was given a {type(agent).__name__}, not an agent.",
            remedy="Pass an agent, such as that of steadyrl.load(path, env=...).",
            code="bad-value",
        )
    if others or names_environment(episodes):
        raise evaluated_by_position()
    if unknown:
        raise unknown_to_evaluate(next(iter(unknown)))
    modes = truth("deterministic", deterministic)
    seeds = _eval_seeds(agent, seed, eval_seed)
    episode_seeds = seeds.eval_episode_seeds(count("episodes", episodes, "episodes", MAX_EPISODES))
    source = eval_source(agent, env)
    if source is None:
        raise UserError(
            "There is no environment to evaluate in.",
            remedy="Pass env=: an id, a function that makes an environment, or an environment.",
            code="no-env",
        )
    evaluator = Evaluator(source, episode_seeds, spared_failures(agent.setup.settings) if agent.setup else frozenset())
    try:
        with agent.computing():
            return evaluator(agent.policy, None if modes else seeds.stream("eval", "actions"))
    finally:
        evaluator.close()


def _eval_seeds(agent: Agent, seed: Any, eval_seed: Any) -> Seeds:
    if seed is not None and eval_seed is not None:
        raise UserError(
            f"seed is {seed!r} and eval_seed is {eval_seed!r}, which are two names of one thing.",
            remedy="Pass one of them.",
            code="bad-value",
        )
    chosen = seed if eval_seed is None else eval_seed
    if chosen is None:
        return agent.seeds
    return Seeds(agent.seeds.seed, eval_seed=whole("seed" if eval_seed is None else "eval_seed", chosen))
