"""Small faults put into a module's code, one at a time: what a good test notices.

Comparisons, `and`/`or`, `not`, arithmetic, True/False, numbers by one, conditions turned round, statements left out,
`return None`, `break`/`continue`. Texts, annotations, docstrings and what only a type checker runs stay as they are.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

_COMPARED: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In,
}  # fmt: skip
_COMPUTED: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Add, ast.Div: ast.Mult, ast.FloorDiv: ast.Mult, ast.Mod: ast.Add,
    ast.Pow: ast.Mult, ast.BitAnd: ast.BitOr, ast.BitOr: ast.BitAnd, ast.LShift: ast.RShift, ast.RShift: ast.LShift,
}  # fmt: skip
_UNTOUCHED = ("annotation", "returns", "type_params")
_LONGEST = 60  # characters of code in a mutant's name


@dataclass(frozen=True)
class Mutant:
    """A module with one fault.

    Attributes:
        module: Path of the file, from the root.
        line: Where the fault is.
        what: The code before and after, for people; with the number of its like in the module where there are several.
        source: The whole module.
    """

    module: str
    line: int
    what: str
    source: str


def mutants_of(module: str, text: str) -> list[Mutant]:
    """All mutants of a module's text, in the order of the code."""
    tree = ast.parse(text)
    found: list[Mutant] = []
    seen: dict[str, int] = {}
    sources = {ast.unparse(tree)}
    for place in [*_places(tree)]:
        old = place.node
        for new in _variants(old):
            name = f"{_short(old)} -> {_short(new)}"
            place.put(new)
            source = ast.unparse(ast.fix_missing_locations(tree))
            place.put(old)
            if source not in sources:
                sources.add(source)
                seen[name] = seen.get(name, 0) + 1
                what = name if seen[name] == 1 else f"{name} (number {seen[name]})"
                found.append(Mutant(module, getattr(old, "lineno", 0), what, source))
    return found


@dataclass(frozen=True)
class _Place:
    owner: ast.AST
    field: str
    at: int | None
    node: ast.AST

    def put(self, node: ast.AST) -> None:
        if self.at is None:
            setattr(self.owner, self.field, node)
        else:
            getattr(self.owner, self.field)[self.at] = node


def _places(owner: ast.AST) -> Iterator[_Place]:
    for field, value in ast.iter_fields(owner):
        if field in _UNTOUCHED:
            continue
        for at, node in enumerate(value) if isinstance(value, list) else [(None, value)]:
            if isinstance(node, ast.AST) and not _is_passive(node):
                yield _Place(owner, field, at, node)
                yield from _places(node)


def _is_passive(node: ast.AST) -> bool:
    """Whether it is a docstring, a text, an import or for type checkers alone."""
    match node:
        case ast.Expr(value=ast.Constant()) | ast.JoinedStr() | ast.Import() | ast.ImportFrom() | ast.Assert():
            return True
        case ast.If(test=ast.Name(id="TYPE_CHECKING")):
            return True
    return False


def _variants(node: ast.AST) -> Iterator[ast.AST]:
    """What may stand in the place of a piece of code."""
    match node:
        case ast.Compare():
            for at, op in enumerate(node.ops):
                ops = [*node.ops[:at], _COMPARED[type(op)](), *node.ops[at + 1 :]]
                yield ast.Compare(node.left, ops, node.comparators)
        case ast.BoolOp():
            yield ast.BoolOp(ast.Or() if isinstance(node.op, ast.And) else ast.And(), node.values)
        case ast.UnaryOp(op=ast.Not() | ast.USub()):
            yield node.operand
        case ast.BinOp(op=op) if type(op) in _COMPUTED:
            yield ast.BinOp(node.left, _COMPUTED[type(op)](), node.right)
        case ast.AugAssign(op=op) if type(op) in _COMPUTED:
            yield ast.AugAssign(node.target, _COMPUTED[type(op)](), node.value)
            yield ast.Pass()
        case ast.Constant(value=bool(value)):
            yield ast.Constant(not value)
        case ast.Constant(value=int(value) | float(value)):
            yield from (ast.Constant(value + 1), ast.Constant(value - 1))
        case ast.If() if not isinstance(node.test, ast.Compare | ast.UnaryOp):
            yield ast.If(ast.UnaryOp(ast.Not(), node.test), node.body, node.orelse)
        case ast.IfExp() if not isinstance(node.test, ast.Compare | ast.UnaryOp):
            yield ast.IfExp(ast.UnaryOp(ast.Not(), node.test), node.body, node.orelse)
        case ast.Return(value=ast.expr() as value) if not _is_none(value):
            yield ast.Return(ast.Constant(None))
        case ast.Break():
            yield ast.Continue()
        case ast.Continue():
            yield ast.Break()
        case ast.Assign(targets=[ast.Attribute() | ast.Subscript()]) | ast.Expr() | ast.Delete() | ast.Raise():
            yield ast.Pass()


def _is_none(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


def _short(node: ast.AST) -> str:
    text = " ".join(ast.unparse(ast.fix_missing_locations(node)).split())
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 3]}..."
