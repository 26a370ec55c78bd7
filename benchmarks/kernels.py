"""Single kernels beside the PyTorch code that does the same work (medians and ratios as JSON).

Run: python benchmarks/kernels.py [--threads 2] [--repeats 200]. Both sides take turns, so that a busy machine slows
them alike. torch runs with its own best number of threads of those asked for; kernels with what they choose.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from steadyrl import kernels
from steadyrl.kernels import _native, reference
from steadyrl.nn.flat import FlatParameters

Work = Callable[[], object]


class Case(NamedTuple):
    """The same work twice."""

    name: str
    native: Work
    torch: Work


SHAPES = (
    ("PPO 4-64-64-2, batch 64", 4, (64, 64), 2, 64, 1),
    ("PPO 4-64-64-2, batch 256", 4, (64, 64), 2, 256, 1),
    ("PPO 17-64-64-6, batch 64", 17, (64, 64), 6, 64, 1),
    ("DQN 4-256-256-2, batch 64", 4, (256, 256), 2, 64, 1),
    ("SAC actor 17-256-256-12, batch 256", 17, (256, 256), 12, 256, 1),
    ("SAC critics 2 x 23-256-256-1, batch 256", 23, (256, 256), 1, 256, 2),
    ("wide 17-1024-1024-6, batch 256", 17, (1024, 1024), 6, 256, 1),
)


def network(inputs: int, hidden: tuple[int, ...], outputs: int) -> nn.Sequential:
    """Linear layers with tanh between them."""
    widths = [inputs, *hidden]
    layers: list[nn.Module] = []
    for width_in, width_out in zip(widths, hidden, strict=False):
        layers += [nn.Linear(width_in, width_out), nn.Tanh()]
    return nn.Sequential(*layers, nn.Linear(widths[-1], outputs))


class Pair:
    """The same networks as kernels and as modules, on the same parameters."""

    def __init__(self, inputs: int, hidden: tuple[int, ...], outputs: int, batch: int, members: int) -> None:
        self.nets = [network(inputs, hidden, outputs) for _ in range(members)]
        self.flat = FlatParameters(nn.ModuleList(self.nets))
        self.layers = [[layer for layer in net if isinstance(layer, nn.Linear)] for net in self.nets]
        places = [[*map(self.flat.place, net)] for net in self.layers]
        self.mlp = _native.Mlp(inputs, [(place[:-1], place[-1:]) for place in places], "tanh", "none")
        self.x, self.out = torch.randn(batch, inputs), torch.empty(members, batch, outputs)
        self.gradient, self.grads = torch.randn_like(self.out), torch.zeros_like(self.flat.grad)

    def native_forward(self) -> None:
        self.mlp.forward(self.flat.data, self.x, self.out)

    def native_pass(self) -> None:
        self.native_forward()
        self.mlp.backward(self.flat.data, self.gradient, self.grads)

    def torch_forward(self) -> None:
        with torch.no_grad():
            torch.stack([net(self.x) for net in self.nets])

    def torch_pass(self) -> None:
        self.flat.zero_grad()
        torch.autograd.backward(torch.stack([net(self.x) for net in self.nets]), self.gradient)


def mlp_cases() -> Iterator[Case]:
    """Forward passes without a gradient, training passes, and the matrix products of those alone."""
    for name, inputs, hidden, outputs, batch, members in SHAPES:
        pair = Pair(inputs, hidden, outputs, batch, members)
        yield Case(f"forward: {name}", pair.native_forward, pair.torch_forward)
        yield Case(f"forward and backward: {name}", pair.native_pass, pair.torch_pass)
        bare = products(pair.layers, len(pair.x))
        yield Case(f"forward and backward against bare products: {name}", pair.native_pass, bare)


@torch.no_grad()
def products(members: list[list[nn.Linear]], batch: int) -> Work:
    """The matrix products of a training pass, outputs allocated beforehand."""
    jobs: list[tuple[Tensor, Tensor, Tensor]] = []
    for layers in members:
        for i, layer in enumerate(layers):
            x, grad = torch.randn(batch, layer.in_features), torch.randn(batch, layer.out_features)
            weight = layer.weight.detach()
            jobs += [(x, weight.T, torch.empty_like(grad)), (grad.T, x, torch.empty_like(weight))]
            if i > 0:
                jobs.append((grad, weight, torch.empty_like(x)))

    def run() -> None:
        for a, b, out in jobs:
            torch.mm(a, b, out=out)

    return run


def adam_case(size: int) -> Case:
    """Clip and step."""
    state: Any = [*(torch.randn(size) * 0.1 for _ in range(3)), torch.rand(size), 5, 1e-6, 0.5, 0.9, 0.999, 1e-8]
    return Case(f"clip and Adam, {size} parameters", lambda: _native.adam(*state), lambda: reference.adam(*state))


def polyak_case(size: int) -> Case:
    """One step of a target network."""
    target, online = torch.randn(size), torch.randn(size)
    return Case(
        f"polyak, {size} parameters",
        lambda: _native.polyak(target, online, 0.005),
        lambda: reference.polyak(target, online, 0.005),
    )


def data_cases() -> Iterator[Case]:
    """Gathering a minibatch, advantages of a rollout."""
    stores = [*(torch.randn(2048, width) for width in (17, 6)), *(torch.randn(2048) for _ in range(3))]
    index = torch.randint(0, 2048, (64,))
    outs = [torch.empty((64, *store.shape[1:])) for store in stores]
    yield Case(
        "gather 64 rows of five arrays",
        lambda: _native.gather(index, stores, outs),
        lambda: [store[index] for store in stores],
    )
    rows: Any = [
        *(torch.randn(128, 8) for _ in range(3)),
        *(torch.rand(128, 8) < p for p in (0.02, 0.02, 1.0)),
        0.99,
        0.95,
    ]
    native_gae: Any = _native.gae
    room = torch.empty(128, 8), torch.empty(128, 8)
    yield Case("advantages of 128 x 8 steps", lambda: native_gae(*rows, *room), lambda: reference.gae(*rows))


def cases() -> Iterator[Case]:
    """All of them."""
    yield from mlp_cases()
    for size in (5_000, 140_000):
        yield adam_case(size)
        yield polyak_case(size)
    yield from data_cases()


def measure(case: Case, repeats: int, threads: int) -> dict[str, object]:
    """Medians in microseconds; the two sides alternate in blocks."""
    times: dict[str, list[float]] = {"native": [], "torch": []}
    for block in range(10):
        for side, work in (("native", case.native), ("torch", case.torch)):
            # Two pools at once stall each other, so torch has threads only while it is measured.
            torch.set_num_threads(threads if side == "torch" else 1)
            for i in range(repeats // 10 + 2):
                start = time.perf_counter()
                work()
                if i >= 2 or block > 0:
                    times[side].append(1e6 * (time.perf_counter() - start))
    native, other = (statistics.median(times[side]) for side in ("native", "torch"))
    return {
        "case": case.name,
        "native_us": round(native, 2),
        "torch_us": round(other, 2),
        "ratio": round(other / native, 2),
    }


def main() -> None:
    """Measure everything and print JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=2, help="the most that either side may use")
    parser.add_argument("--repeats", type=int, default=200)
    args = parser.parse_args()
    kernels.set_threads(args.threads)
    rows = [measure(case, args.repeats, args.threads) for case in cases()]
    settings = {"threads": args.threads, "isa": kernels.isa(), "torch": torch.__version__}
    print(json.dumps({**settings, "results": rows}, indent=1))


if __name__ == "__main__":
    main()
