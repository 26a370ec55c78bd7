"""Every instruction set that this CPU has gives right results; a name that it has not is refused."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from steadyrl import kernels
from support.kernels import needs_native

pytestmark = needs_native

CHECK = """
import itertools, json, torch
from support.kernels import flat_net, normal
from steadyrl.kernels import _native, reference
x, g = normal("x", 50, 19), normal("g", 2, 50, 43)
worst = 0.0
for activation, norm in itertools.product(("tanh", "relu", "elu", "silu"), (False, True)):
    net = flat_net(19, [70, 33], [3, 40], 2, norm=norm)
    params, out, grads = normal("p", net.size, scale=0.3), torch.empty(2, 50, 43), torch.zeros(net.size)
    mlp = _native.Mlp(19, net.members, activation, "tanh", net.norms)
    mlp.forward(params, x, out)
    mlp.backward(params, g, grads)
    leaf = params.double().requires_grad_()
    expected = reference.mlp(leaf, x.double(), net.members, activation, "tanh", net.norms)
    by_params = torch.autograd.grad(expected, leaf, g.double())[0]
    errors = (out - expected).abs().max(), (grads - by_params).abs().max() / by_params.abs().max()
    worst = max(worst, *map(float, errors))
state = [normal(n, 1003).abs() for n in "abcd"]
exact = [s.double() for s in state]
for module, s in ((_native, state), (reference, exact)):
    module.adam(*s, 3, 1e-3, 0.5, 0.9, 0.999, 1e-5)
worst = max(worst, *(float((a - b).abs().max()) for a, b in zip(state, exact)))
print(json.dumps([_native.isa(), worst]))
"""


def run(isa: str, code: str = CHECK) -> subprocess.CompletedProcess[str]:
    paths = [p for p in sys.path if p] + [os.environ.get("PYTHONPATH", "")]
    environment = {**os.environ, "STEADYRL_ISA": isa, "PYTHONPATH": os.pathsep.join(filter(None, paths))}
    return subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=120)


@pytest.mark.parametrize("isa", ["sse2", "avx2", "avx512", "neon"])
def test_each_instruction_set(isa: str) -> None:
    from steadyrl.kernels import _native

    if isa not in _native.usable_isas():
        pytest.skip(f"this CPU has no {isa}")
    done = run(isa)
    assert done.returncode == 0, done.stderr
    name, worst = json.loads(done.stdout)
    assert name == isa
    assert 0 < worst < 2e-5


def test_the_best_is_chosen() -> None:
    from steadyrl.kernels import _native

    wanted = os.environ.get("STEADYRL_ISA")
    assert kernels.isa() == (wanted or _native.usable_isas()[0])


def test_an_unknown_name_is_a_reason_not_a_crash() -> None:
    code = "from steadyrl import kernels; print(kernels.available(), kernels.reason())"
    done = run("sse9", code)
    assert done.returncode == 0
    assert "False The native kernels could not be loaded: STEADYRL_ISA is 'sse9', but this CPU has:" in done.stdout
