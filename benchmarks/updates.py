"""Whole updates from Python beside eager ones as Stable-Baselines3 writes them, and beside their bare matrix products
(medians and ratios as JSON).

    python benchmarks/updates.py [--threads 2] [--output benchmarks/results/updates.json]
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import torch
from torch import Tensor, nn

from kernels import Case, Work, measure, products
from steadyrl import kernels
from steadyrl.algorithms import DQN, PPO, SAC, make_off_policy, make_on_policy
from steadyrl.configs import DQNConfig, PPOConfig, SACConfig
from steadyrl.data.rollout import RolloutBatch
from steadyrl.data.transitions import ReplayBatch
from steadyrl.nn.native.stack import linears
from steadyrl.nn.policy import Policy
from steadyrl.seeding import Seeds, Stream
from steadyrl.spaces import ActionSpec, ObsSpec
from steadyrl.training.architectures import architecture_of

MINIBATCHES = 10  # of an update, which itself costs something once
RESULTS = Path(__file__).parent / "results"


def policy_of(config: Any, obs: int, action: gym.Space[Any], *, native: bool = True) -> Policy:
    """A policy with its initial weights."""
    obs_spec = ObsSpec.of(gym.spaces.Box(-np.inf, np.inf, (obs,)))
    policy = Policy(obs_spec, ActionSpec.of(action), architecture_of(config), None, torch.device("cpu"), native=native)
    policy.initialise(Stream(0, "weights"))
    return policy


class Same:
    """Gives the same minibatch again and again."""

    def __init__(self, batch: ReplayBatch) -> None:
        self._batch = batch

    def sample(self, batch_size: int) -> ReplayBatch:
        return self._batch

    def update_priorities(self, batch: ReplayBatch, td_errors: Tensor) -> None:
        pass


def ppo_case(batch_size: int) -> Case:
    """Minibatches: fetched, forward, loss, backward, clip and Adam, on CartPole's shapes."""
    config = PPOConfig(num_envs=8, batch_size=batch_size, n_epochs=MINIBATCHES)
    policy = policy_of(config, 4, gym.spaces.Discrete(2))
    algorithm = make_on_policy(config, policy, Seeds(0))
    assert isinstance(algorithm, PPO)
    random = np.random.default_rng(0)
    floats = [torch.from_numpy(random.normal(size=batch_size).astype(np.float32)) for _ in range(4)]
    obs = torch.from_numpy(random.normal(size=(batch_size, 4)).astype(np.float32))
    actions = torch.from_numpy(random.integers(0, 2, batch_size))
    batch = RolloutBatch({"": obs}, actions, *floats)
    return Case(
        f"{MINIBATCHES} PPO minibatches of {batch_size}, beside eager ones",
        lambda: algorithm.learn(batch, 0.0),
        eager_ppo(batch),
    )


def eager_ppo(batch: RolloutBatch) -> Work:
    """The same minibatch in the way of Stable-Baselines3: modules, torch.distributions, autograd, torch's Adam."""
    pi, vf = (
        nn.Sequential(nn.Linear(4, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, width))
        for width in (2, 1)
    )
    parameters = [*pi.parameters(), *vf.parameters()]
    optimizer = torch.optim.Adam(parameters, lr=3e-4, eps=1e-5)
    order = torch.arange(len(batch.actions))

    def step() -> None:
        for _ in range(MINIBATCHES):
            minibatch()

    def minibatch() -> None:
        rows = batch.take(order)
        distribution = torch.distributions.Categorical(logits=pi(rows.obs[""]))
        values = vf(rows.obs[""]).flatten()
        advantages = (rows.advantages - rows.advantages.mean()) / (rows.advantages.std() + 1e-8)
        ratio = torch.exp(distribution.log_prob(rows.actions) - rows.log_probs)  # type: ignore[no-untyped-call]
        surrogate = torch.min(advantages * ratio, advantages * ratio.clamp(0.8, 1.2)).mean()
        entropy = distribution.entropy().mean()  # type: ignore[no-untyped-call]
        loss = -surrogate + 0.5 * nn.functional.mse_loss(values, rows.returns) - 0.0 * entropy
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(parameters, 0.5)
        optimizer.step()

    return step


def replay_batch(n: int, obs: int, actions: Tensor) -> ReplayBatch:
    """n transitions."""
    random = np.random.default_rng(0)
    now, then = ({"": torch.from_numpy(random.normal(size=(n, obs)).astype(np.float32))} for _ in range(2))
    rewards = torch.from_numpy(random.normal(size=n).astype(np.float32))
    done = torch.zeros(n, dtype=torch.bool)
    return ReplayBatch(now, actions, rewards, then, done, torch.full((n,), 0.99), torch.ones(n), torch.arange(n))


def sac_case() -> Case:
    """One update of SAC on HalfCheetah's shapes, beside the products of its networks' passes."""
    config = SACConfig(num_envs=1, batch_size=256)
    action = gym.spaces.Box(-1.0, 1.0, (6,))
    policy = policy_of(config, 17, action)
    algorithm = make_off_policy(config, policy, Seeds(0))
    assert isinstance(algorithm, SAC)
    source = Same(replay_batch(256, 17, 2 * torch.rand(256, 6) - 1))
    actor = [linears(algorithm._pi.module)]
    critics = [linears(critic) for critic in algorithm._q.module.critics]  # type: ignore[union-attr]
    # Actor twice forward, once back; critics and targets forward, critics back, forward again, back to the actions.
    jobs = [
        products(actor, 256),
        forward(actor, 256),
        forward(critics, 256),
        products(critics, 256),
        inputs(critics, 256),
    ]
    return Case(
        "SAC update, beside its bare products",
        lambda: algorithm.learn(source, 1, 1, 0.0),
        lambda: [job() for job in jobs],
    )


def dqn_case() -> Case:
    """One update of DQN on CartPole's shapes with 256 x 256, beside the products of its networks' passes."""
    config = DQNConfig(num_envs=1, batch_size=64, net_arch=(256, 256))
    policy = policy_of(config, 4, gym.spaces.Discrete(2))
    algorithm = make_off_policy(config, policy, Seeds(0))
    assert isinstance(algorithm, DQN)
    source = Same(replay_batch(64, 4, torch.randint(0, 2, (64,))))
    layers = [linears(algorithm._q.module)]
    jobs = [products(layers, 64), forward(layers, 64)]
    return Case(
        "DQN update, beside its bare products",
        lambda: algorithm.learn(source, 1, 1, 0.0),
        lambda: [job() for job in jobs],
    )


@torch.no_grad()
def forward(members: list[list[nn.Linear]], batch: int) -> Work:
    """The products of a forward pass alone."""
    return _products([(torch.randn(batch, x.in_features), x.weight.detach().T) for net in members for x in net])


@torch.no_grad()
def inputs(members: list[list[nn.Linear]], batch: int) -> Work:
    """The products of a forward pass and of one back to the inputs."""
    back = [(torch.randn(batch, x.out_features), x.weight.detach()) for net in members for x in net]
    there = forward(members, batch)
    again = _products(back)
    return lambda: (there(), again())


def _products(pairs: list[tuple[Tensor, Tensor]]) -> Work:
    outs = [torch.empty(a.shape[0], b.shape[1]) for a, b in pairs]

    def run() -> None:
        for (a, b), out in zip(pairs, outs, strict=True):
            torch.mm(a, b, out=out)

    return run


def cases() -> Iterator[Case]:
    """All of them."""
    yield from (ppo_case(64), ppo_case(256), sac_case(), dqn_case())


def main() -> None:
    """Measure, print and keep."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=2, help="the most that either side may use")
    parser.add_argument("--repeats", type=int, default=200)
    parser.add_argument("--output", type=Path, default=RESULTS / "updates.json")
    args = parser.parse_args()
    kernels.set_threads(args.threads)
    rows = [measure(case, args.repeats, args.threads) for case in cases()]
    document = {"threads": args.threads, "isa": kernels.isa(), "torch": torch.__version__, "results": rows}
    text = json.dumps(document, indent=1)
    args.output.write_text(text + "\n")
    print(text)


if __name__ == "__main__":
    main()
