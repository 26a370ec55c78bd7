"""Documentation of dataclass fields: the string literal below each field is what `--help` shows."""

from __future__ import annotations

import ast
import functools
import inspect
import sys
from collections.abc import Mapping


def field_docs(cls: type) -> dict[str, str]:
    """Field name -> its docstring, inherited fields included; read from the source, so nothing is repeated elsewhere.

    Empty where the source is not at hand (a frozen application).
    """
    docs: dict[str, str] = {}
    for base in reversed(cls.__mro__):
        module = sys.modules.get(base.__module__)
        path = getattr(module, "__file__", None)
        if path is not None and base.__module__ != "builtins":
            docs.update(_docs_of_file(path).get(base.__qualname__, {}))
    return docs


@functools.cache
def _docs_of_file(path: str) -> Mapping[str, Mapping[str, str]]:
    try:
        with open(path, encoding="utf-8") as file:
            tree = ast.parse(file.read())
    except (OSError, SyntaxError, UnicodeDecodeError):
        return {}
    return {node.name: _docs_of_class(node) for node in tree.body if isinstance(node, ast.ClassDef)}


def _docs_of_class(node: ast.ClassDef) -> dict[str, str]:
    docs: dict[str, str] = {}
    for statement, following in zip(node.body, node.body[1:], strict=False):
        match statement, following:
            case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(text))):
                docs[name] = " ".join(inspect.cleandoc(text).split())
    return docs
