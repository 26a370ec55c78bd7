"""Imports go one way, the light modules stay without torch, and nothing that runs code is used to read data."""

import ast
import subprocess
import sys
from collections.abc import Iterable

import pytest

from support.imports import PACKAGE, SOURCE, imports_of, package_modules, parent_package, with_ancestors

BASE = {"_version", "cores", "errors", "strict_json", "strict_tensors"}
FOUNDATION = BASE | {"seeding", "spaces", "config", "configs", "stats"}
TENSORS = BASE | {"seeding", "spaces", "kernels", "nn", "data"}
LEARNING = FOUNDATION | TENSORS | {"bundle", "algorithms"}

# What each top-level module may import, itself aside. A new module must be given its place here.
MAY_IMPORT: dict[str, set[str]] = {
    "_version": set(),
    "cores": set(),
    "errors": set(),
    "strict_json": set(),
    "strict_tensors": {"strict_json"},
    "seeding": BASE,
    "spaces": BASE | {"seeding"},
    "stats": BASE,
    "configs": BASE,
    "config": BASE | {"configs"},
    "envs": FOUNDATION,
    "checker": FOUNDATION | {"envs"},
    "kernels": BASE,
    "nn": BASE | {"seeding", "spaces", "kernels"},
    "data": BASE | {"seeding", "spaces", "kernels"},
    "bundle": BASE | {"spaces", "nn"},
    "algorithms": FOUNDATION | TENSORS | {"bundle"},
    "training": LEARNING | {"envs"},
    "bench": LEARNING | {"envs", "training"},
    "cli": LEARNING | {"envs", "checker", "training", "bench"},
    "__main__": {"cli"},
}

# The kernels said once more in plain torch, for tests; it may look up, because nothing looks at it.
ORACLE = "steadyrl.kernels.reference"

# Workers, `--help` and the line that names the run folder must not pay for `import torch` (seconds, hundreds of MB).
TORCH_FREE = [
    "",
    "cores",
    "errors",
    "seeding",
    "spaces",
    "config",
    "configs",
    "stats",
    "envs",
    "checker",
    "training.events",
    "training.displays",
    "cli",
]
TORCH = {"torch", "safetensors.torch"}

BANNED_MODULES = {"pickle", "_pickle", "cloudpickle", "dill", "joblib", "marshal", "shelve", "yaml"}
BANNED_CALLS = {"eval", "exec", "__import__", "torch.load", "torch.jit.load", "torch.export.load"}
# A worker process receives its environment from its own parent; nothing is read from disk or network there.
EXEMPT = {("steadyrl.envs.workers.recipe", "cloudpickle")}


def layer_of(target: str) -> str | None:
    """The top-level module that a dotted name belongs to; None outside the package and for the package itself."""
    head, _, rest = target.partition(".")
    return rest.partition(".")[0] if head == PACKAGE and rest else None


def direction_faults(module: str, source: str, package: str) -> list[str]:
    """Imports of this module that go up or sideways."""
    layer = layer_of(module)
    if layer is None:
        return []
    if layer not in MAY_IMPORT:
        return [f"{module}: '{layer}' has no place in MAY_IMPORT"]
    allowed = MAY_IMPORT[layer] | {layer, None} | (TENSORS if module == ORACLE else set())
    faults = []
    for target, line, _ in imports_of(source, package):
        if layer_of(target) not in allowed or target == ORACLE:
            faults.append(f"{module}:{line} imports {target}, which is not below '{layer}'")
        elif target.startswith(f"{PACKAGE}.__"):
            faults.append(f"{module}:{line} imports {target} from the top package: name the module that defines it")
    return faults


def code_loading_faults(module: str, source: str) -> list[str]:
    """Uses of anything that can run code while it reads data."""
    faults = []
    for target, line, _ in imports_of(source):
        name = target.partition(".")[0]
        if (name in BANNED_MODULES and (module, name) not in EXEMPT) or target in BANNED_CALLS:
            faults.append(f"{module}:{line} imports {target}")
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call) and ast.unparse(node.func) in BANNED_CALLS:
            faults.append(f"{module}:{node.lineno} calls {ast.unparse(node.func)}")
        if isinstance(node, ast.keyword) and node.arg == "allow_pickle" and ast.unparse(node.value) != "False":
            faults.append(f"{module}:{node.value.lineno} allows pickle")
    return faults


def loaded_with(module: str, modules: Iterable[str]) -> dict[str, str]:
    """Modules of the package that run when `module` is imported, each with the one that asks for it."""
    known, paths = set(modules), package_modules()
    asked_by = dict.fromkeys(with_ancestors(module), module)
    pending = list(asked_by)
    while pending:
        current = pending.pop()
        for target, _, at_import in imports_of(paths[current].read_text(), parent_package(current, paths[current])):
            for name in with_ancestors(target):
                if at_import and name in known and name not in asked_by:
                    asked_by[name] = current
                    pending.append(name)
    return asked_by


def torch_free_modules() -> list[str]:
    """The modules that TORCH_FREE names and all below them, as far as they exist."""
    names = [f"{PACKAGE}.{name}".rstrip(".") for name in TORCH_FREE]
    return [m for m in package_modules() if m in names or any(m.startswith(f"{n}.") for n in names if n != PACKAGE)]


MODULES = package_modules()


@pytest.mark.parametrize("module", MODULES)
def test_imports_go_one_way(module: str) -> None:
    path = MODULES[module]
    assert direction_faults(module, path.read_text(), parent_package(module, path)) == []


def test_no_layer_can_reach_itself() -> None:
    def below(layer: str) -> set[str]:
        return MAY_IMPORT[layer].union(*(below(name) for name in MAY_IMPORT[layer]))

    assert [layer for layer in MAY_IMPORT if layer in below(layer)] == []


@pytest.mark.parametrize("module", MODULES)
def test_nothing_runs_code_to_read_data(module: str) -> None:
    assert code_loading_faults(module, MODULES[module].read_text()) == []


@pytest.mark.parametrize("module", torch_free_modules())
def test_light_module_names_no_torch(module: str) -> None:
    faults = [
        f"{name}:{line} imports {target} (asked for by {asker})"
        for name, asker in loaded_with(module, MODULES).items()
        for target, line, at_import in imports_of(MODULES[name].read_text(), parent_package(name, MODULES[name]))
        if at_import and any(ancestor in TORCH for ancestor in with_ancestors(target))
    ]
    assert faults == []


def test_light_modules_load_no_torch() -> None:
    code = (
        "import importlib, sys\n"
        "for name in sys.argv[1:]:\n"
        "    importlib.import_module(name)\n"
        "    if 'torch' in sys.modules: sys.exit(f'{name} loads torch')\n"
    )
    command = [sys.executable, "-c", code, *torch_free_modules()]
    result = subprocess.run(command, capture_output=True, text=True, cwd=SOURCE.parent, check=False)
    assert (result.returncode, result.stderr) == (0, "")


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("steadyrl.nn.mlp", "from steadyrl.algorithms import ppo"),
        ("steadyrl.envs.vector", "from steadyrl import nn"),
        ("steadyrl.envs.vector", "from ..nn import mlp"),
        ("steadyrl.envs.vector", "def f():\n    import steadyrl.training"),
        ("steadyrl.algorithms.ppo", "if TYPE_CHECKING:\n    from steadyrl.envs.types import Step"),
        ("steadyrl.spaces", "from steadyrl import __version__"),
        ("steadyrl.novelty", "import math"),
    ],
)
def test_a_wrong_direction_is_seen(module: str, source: str) -> None:
    assert len(direction_faults(module, source, module.rpartition(".")[0])) >= 1


@pytest.mark.parametrize(
    "source",
    [
        "import pickle",
        "from cloudpickle import loads",
        "from yaml import safe_load",
        "def f():\n    import torch\n    torch.load('x')",
        "from torch import load",
        "eval('1')",
        "np.load('x', allow_pickle=True)",
        "np.load('x', allow_pickle=flag)",
    ],
)
def test_code_loading_is_seen(source: str) -> None:
    assert len(code_loading_faults("steadyrl.bundle", source)) >= 1


@pytest.mark.parametrize("source", ["model.eval()", "np.load('x', allow_pickle=False)", "ast.literal_eval('1')"])
def test_harmless_look_alikes_pass(source: str) -> None:
    assert code_loading_faults("steadyrl.bundle", source) == []


def test_deferred_imports_are_told_from_immediate_ones() -> None:
    source = (
        "import a\nif TYPE_CHECKING:\n    import b\nelse:\n    import c\ndef f():\n    import d\nclass K:\n    import e"
    )
    assert {(found.target, found.at_import) for found in imports_of(source)} == {
        ("a", True),
        ("b", False),
        ("c", True),
        ("d", False),
        ("e", True),
    }
