"""Reads the package's imports from its source, without running it."""

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import steadyrl

PACKAGE = "steadyrl"
SOURCE = Path(steadyrl.__file__).parent


class Import(NamedTuple):
    """One imported module, the line of the import, and whether it runs when its file is imported."""

    target: str
    line: int
    at_import: bool


def package_modules() -> dict[str, Path]:
    """Every module of the package by dotted name."""
    modules = {}
    for path in sorted(SOURCE.rglob("*.py")):
        parts = [PACKAGE, *path.relative_to(SOURCE).with_suffix("").parts]
        modules[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return modules


def parent_package(module: str, path: Path) -> str:
    """The package that a relative import in this module starts from."""
    return module if path.name == "__init__.py" else module.rpartition(".")[0]


def is_type_checking(node: ast.AST) -> bool:
    """Whether the node is `if TYPE_CHECKING:`, whose body never runs."""
    return isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)


def targets_of(node: ast.Import | ast.ImportFrom, package: str) -> list[str]:
    """Dotted names that an import statement may load: `from a import b` may load both `a` and `a.b`."""
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    base = node.module or ""
    if node.level:
        above = package.split(".")[: len(package.split(".")) - node.level + 1]
        base = ".".join([*above, base] if base else above)
    return [base, *(f"{base}.{alias.name}" for alias in node.names)]


def imports_of(source: str, package: str = PACKAGE) -> Iterator[Import]:
    """Every import of a module's source, those inside functions and `if TYPE_CHECKING` too."""

    def walk(node: ast.AST, at_import: bool) -> Iterator[Import]:
        if isinstance(node, ast.Import | ast.ImportFrom):
            for target in targets_of(node, package):
                yield Import(target, node.lineno, at_import)
        deferred = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
        if is_type_checking(node):
            assert isinstance(node, ast.If)
            for child in node.body:
                yield from walk(child, False)
            for child in node.orelse:
                yield from walk(child, at_import)
            return
        for inner in ast.iter_child_nodes(node):
            yield from walk(inner, at_import and not deferred)

    return walk(ast.parse(source), True)


def with_ancestors(module: str) -> list[str]:
    """The module and the packages above it, which run first."""
    parts = module.split(".")
    return [".".join(parts[: depth + 1]) for depth in range(len(parts))]
