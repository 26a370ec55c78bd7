"""How the cost of PPO grows with minibatch, width, depth and environments, on the kernels and in PyTorch.

    python benchmarks/growth.py       # benchmarks/results/growth.json and docs/images/growth.svg

A minibatch is fetched, run forward, through the loss, back and through Adam; a vector step acts, steps CartPole and
is stored. Medians in microseconds; the two ways take turns.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

import gymnasium as gym
import numpy as np
import torch
from updates import policy_of

import steadyrl as srl
from steadyrl import kernels
from steadyrl.algorithms import make_on_policy
from steadyrl.configs import PPOConfig
from steadyrl.data.rollout import RolloutBatch
from steadyrl.seeding import Seeds
from steadyrl.training.on_policy import OnPolicyLoop

HERE = Path(__file__).parent
WAYS = {"kernels": True, "PyTorch": False}
MINIBATCHES = 4
PANELS: dict[str, list[int]] = {
    "minibatch": [16, 64, 256, 1024, 4096],
    "width": [16, 64, 256, 512],
    "depth": [1, 2, 4, 8],
    "environments": [1, 4, 16, 64, 256],
}
Timed = Callable[[], object]


def minibatch(native: bool, size: int = 256, width: int = 64, depth: int = 2) -> Timed:
    """An update of `MINIBATCHES` minibatches."""
    config = PPOConfig(num_envs=8, batch_size=size, n_epochs=MINIBATCHES, net_arch=(width,) * depth)
    policy = policy_of(config, 4, gym.spaces.Discrete(2), native=native)
    algorithm = make_on_policy(config, policy, Seeds(0))
    random = np.random.default_rng(0)
    floats = [torch.from_numpy(random.normal(size=size).astype(np.float32)) for _ in range(4)]
    obs = torch.from_numpy(random.normal(size=(size, 4)).astype(np.float32))
    batch = RolloutBatch({"": obs}, torch.from_numpy(random.integers(0, 2, size)), *floats)
    return lambda: algorithm.learn(batch, 0.0)


def vector_step(native: bool, num_envs: int) -> Timed:
    """A vector step of CartPole."""
    options: dict[str, Any] = {"preset": "none", "seed": 0, "kernels": "native" if native else "torch"}
    loop = srl.PPO("CartPole-v1", num_envs=num_envs, n_steps=128, **options).loop
    assert isinstance(loop, OnPolicyLoop)

    def step() -> None:
        if loop.rollout.full:
            loop.rollout.clear()
        loop.step(10**9, 10**9)

    return step


def timed(panel: str, value: int, native: bool) -> Timed:
    """The work of one point."""
    if panel == "environments":
        return vector_step(native, value)
    return minibatch(native, **{"size" if panel == "minibatch" else panel: value})


def measure(panel: str, value: int) -> dict[str, float]:
    """Microseconds of each way."""
    works = {way: timed(panel, value, native) for way, native in WAYS.items()}
    per = 1 if panel == "environments" else MINIBATCHES
    times: dict[str, list[float]] = {way: [] for way in WAYS}
    for block in range(6):
        for way, work in works.items():
            for _ in range(10):
                start = perf_counter()
                work()
                if block > 0:
                    times[way].append((perf_counter() - start) * 1e6 / per)
    return {way: round(median(found), 1) for way, found in times.items()}


def picture(results: dict[str, dict[str, dict[str, float]]]) -> str:
    """Four panels, logarithmic both ways."""
    return "\n".join(
        [
            '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 900 640" role="img" '
            'aria-label="Cost of PPO by minibatch, width, depth and environments" font-family="system-ui, sans-serif">',
            '<rect width="900" height="640" fill="#ffffff"/>',
            *(line for i, (panel, points) in enumerate(results.items()) for line in _panel(i, panel, points)),
            "</svg>",
        ]
    )


def _panel(number: int, name: str, points: dict[str, dict[str, float]]) -> Iterator[str]:
    left, top, width, height = 80 + 450 * (number % 2), 50 + 310 * (number // 2), 330, 210
    xs = [float(x) for x in points]
    values = [value for row in points.values() for value in row.values()]
    low, high = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))

    def at(x: float, y: float) -> str:
        right = (math.log(x) - math.log(xs[0])) / (math.log(xs[-1]) - math.log(xs[0]))
        return f"{left + width * right:.1f},{top + height * (high - math.log10(y)) / (high - low):.1f}"

    unit = "vector step" if name == "environments" else "minibatch"
    by = "its rows" if name == "minibatch" else name
    yield f'<text x="{left}" y="{top - 16}" font-size="16" fill="#16181d">us a {unit}, by {by}</text>'
    for power in range(low, high + 1):
        y = top + height * (high - power) / (high - low)
        yield f'<line x1="{left}" x2="{left + width}" y1="{y:.1f}" y2="{y:.1f}" stroke="#e6e8ec"/>'
        yield _label(left - 8, y + 4, f"{10**power:g}", "end")
    for x in xs:
        yield _label(float(at(x, 10**low).partition(",")[0]), top + height + 20, f"{x:g}", "middle")
    for way, colour, aside in zip(WAYS, ("#0072b2", "#c74a00"), (18, -10), strict=True):
        line = " ".join(at(float(x), row[way]) for x, row in points.items())
        x, y = map(float, line.split(" ")[1].split(","))
        yield f'<polyline points="{line}" fill="none" stroke="{colour}" stroke-width="2.5"/>'
        yield _label(x, y + aside, way, "middle", colour)


def _label(x: float, y: float, text: str, anchor: str, colour: str = "#575d69") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" font-size="13" text-anchor="{anchor}" fill="{colour}">{text}</text>'


def main() -> None:
    """Measure, print, keep and draw."""
    torch.set_num_threads(1)
    kernels.set_threads(kernels.usable_cores())
    results = {panel: {str(x): measure(panel, x) for x in xs} for panel, xs in PANELS.items()}
    document = {"isa": kernels.isa(), "kernel_threads": kernels.usable_cores(), "torch_threads": 1, "results": results}
    text = json.dumps(document, indent=1)
    (HERE / "results" / "growth.json").write_text(text + "\n")
    (HERE.parent / "docs" / "images" / "growth.svg").write_text(picture(results) + "\n")
    print(text)


if __name__ == "__main__":
    main()
