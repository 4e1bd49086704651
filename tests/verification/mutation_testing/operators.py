"""The operators: the ways in which one place of a module is changed.

A mutation is one change at one place. The places are counted in the order of the syntax tree, so a
module and a number name a mutation as long as the module stays as it is. Not changed are texts,
annotations, assertions (the invariants that have to notice changes), and what is run at import.
"""

import ast
from collections.abc import Callable, Iterator
from copy import copy
from itertools import islice
from typing import Any, Final, TypeAlias

import attrs

Change: TypeAlias = Callable[[], None]

COMPARISONS: Final[dict[type[ast.cmpop], type[ast.cmpop]]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
ARITHMETIC: Final[dict[type[ast.operator], type[ast.operator]]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.FloorDiv,
    ast.BitOr: ast.BitAnd,
    ast.BitAnd: ast.BitOr,
}
INVARIANT: Final = "assert_"
"""The functions that check invariants have names that begin so."""

CALLS: Final = {"min": "max", "max": "min", "any": "all", "all": "any"}


@attrs.frozen
class Mutation:
    """One change.

    Attributes:
        module: the path of the module, from the root of the repository.
        number: the number of the change in the module, from 0.
        function: the function that is changed, with its class.
        line: the line.
        statement_line: the line at which the statement begins that holds the change.
        operator: the kind of change.
        text: the changed source of the statement, or expression.
        statement: the first line of the statement before the change.
    """

    module: str
    number: int
    function: str
    line: int
    statement_line: int
    operator: str
    text: str
    statement: str = ""

    def __str__(self) -> str:
        return f"{self.module}:{self.line} {self.function}: {self.operator}: {self.text}"

    @property
    def key(self) -> str:
        """Return its name without line and number, which other changes of the module move."""
        place = f" in {self.statement}" if self.operator == "constant" else ""
        return f"{self.module} {self.function}: {self.operator}: {self.text}{place}"


@attrs.frozen
class _Place:
    """A place that can be changed, and what makes the change in the tree."""

    function: str
    statement: ast.stmt
    node: ast.AST
    operator: str
    change: Change


class _Places:
    """Finds the places of one module, and what can be changed there."""

    def __init__(self) -> None:
        self._names: list[str] = []

    def changes(self, tree: ast.Module) -> Iterator[_Place]:
        """Yield all places, in the order of the tree."""
        for node in tree.body:
            yield from self._of_definition(node)

    def _of_definition(self, node: ast.stmt) -> Iterator[_Place]:
        if isinstance(node, ast.FunctionDef) and node.name.startswith(INVARIANT):
            return
        if isinstance(node, ast.ClassDef | ast.FunctionDef):
            self._names.append(node.name)
            for each in node.body:
                if isinstance(each, ast.FunctionDef | ast.ClassDef):
                    yield from self._of_definition(each)
                elif isinstance(node, ast.FunctionDef):
                    yield from self._of_statement(each)
            self._names.pop()

    def _of_statement(self, node: ast.stmt) -> Iterator[_Place]:
        if isinstance(node, ast.Assert | ast.Raise) or _is_invariant(node):
            return
        where = ".".join(self._names)
        for changed, operator, change in _of_whole(node):
            yield _Place(where, node, changed, operator, change)
        for expression in _own_expressions(node):
            for each in _walk(expression):
                for operator, change in _of_expression(each):
                    yield _Place(where, node, each, operator, change)
        for body in _bodies(node):
            for statement in body:
                if isinstance(statement, ast.FunctionDef):
                    yield from self._of_definition(statement)
                else:
                    yield from self._of_statement(statement)


def _of_whole(node: ast.stmt) -> Iterator[tuple[ast.AST, str, Change]]:
    """Yield what can be changed about a statement as such."""
    is_text = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    if isinstance(node, ast.Expr | ast.AugAssign | ast.Delete) and not is_text:
        yield node, "statement dropped", _dropping(node)
    elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Attribute):
        yield node, "assignment dropped", _dropping(node)
    elif isinstance(node, ast.If | ast.While):
        yield node.test, "condition negated", _negating(node)


def _is_invariant(node: ast.stmt) -> bool:
    """Return whether a statement only checks an invariant."""
    call = node.value if isinstance(node, ast.Expr) else None
    return (
        isinstance(call, ast.Call)
        and isinstance(call.func, ast.Name)
        and call.func.id.startswith(INVARIANT)
    )


def _bodies(node: ast.stmt) -> Iterator[list[ast.stmt]]:
    for name in ("body", "orelse", "finalbody"):
        yield getattr(node, name, [])
    for handler in getattr(node, "handlers", []):
        yield handler.body
    for case in getattr(node, "cases", []):
        yield case.body


def _own_expressions(node: ast.stmt) -> Iterator[ast.expr]:
    """Yield the expressions of a statement, without those of the statements in it."""
    for name, value in ast.iter_fields(node):
        if name == "annotation":
            continue
        for each in value if isinstance(value, list) else [value]:
            if isinstance(each, ast.expr):
                yield each
    for case in getattr(node, "cases", []):
        if case.guard is not None:
            yield case.guard


def _walk(node: ast.expr) -> Iterator[ast.expr]:
    """Yield an expression and all in it, but no text."""
    yield node
    if isinstance(node, ast.JoinedStr):
        return
    for each in ast.iter_child_nodes(node):
        if isinstance(each, ast.expr):
            yield from _walk(each)
        elif isinstance(each, ast.comprehension):
            for part in (each.target, each.iter, *each.ifs):
                yield from _walk(part)
        elif isinstance(each, ast.keyword) and each.arg != "strict":  # that is an assertion, too
            yield from _walk(each.value)


def _of_expression(node: ast.expr) -> Iterator[tuple[str, Change]]:
    if isinstance(node, ast.Compare):
        for place, found in enumerate(node.ops):
            yield "comparison", _setting(node.ops, place, COMPARISONS[type(found)]())
    elif isinstance(node, ast.BoolOp):
        other = ast.Or() if isinstance(node.op, ast.And) else ast.And()
        yield "and, or", lambda: setattr(node, "op", other)
    elif isinstance(node, ast.BinOp) and type(node.op) in ARITHMETIC:
        arithmetic = ARITHMETIC[type(node.op)]()
        yield "arithmetic", lambda: setattr(node, "op", arithmetic)
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        yield "not", lambda: _make_bool(node)
    elif isinstance(node, ast.Constant) and type(node.value) in (int, bool, float):
        value: Any = node.value
        other_value = (not value) if isinstance(value, bool) else value + 1
        yield "constant", lambda: setattr(node, "value", other_value)
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in CALLS:
        function, name = node.func, CALLS[node.func.id]
        yield "min, max, any, all", lambda: setattr(function, "id", name)
    elif isinstance(node, ast.IfExp):
        yield "branches swapped", lambda: _swap(node)


def _make_bool(node: ast.UnaryOp) -> None:
    """Make ``not x`` a plain ``bool(x)``: two negations."""
    node.operand = ast.UnaryOp(op=ast.Not(), operand=node.operand)
    ast.fix_missing_locations(ast.copy_location(node.operand, node))


def _swap(node: ast.IfExp) -> None:
    node.body, node.orelse = node.orelse, node.body


def _setting(ops: list[ast.cmpop], place: int, other: ast.cmpop) -> Change:
    return lambda: ops.__setitem__(place, other)


def _negating(node: ast.If | ast.While) -> Change:
    def change() -> None:
        node.test = ast.copy_location(ast.UnaryOp(op=ast.Not(), operand=node.test), node.test)

    return change


def _dropping(node: ast.stmt) -> Change:
    """Return a change that makes a statement do nothing.

    It stays as code that is never run. So the function keeps its variables, also the hidden one
    that ``super()`` uses, and can be replaced by the changed one.
    """

    def change() -> None:
        dropped = copy(node)
        node.__dict__.clear()
        node.__class__ = ast.If
        node.__dict__.update(test=ast.Constant(value=False), body=[dropped], orelse=[])
        ast.copy_location(node, dropped)

    return change


def count_of(source: str) -> int:
    """Return the number of mutations of a module."""
    return sum(1 for _ in _Places().changes(ast.parse(source)))


def mutate(module: str, source: str, number: int) -> tuple[Mutation, ast.Module]:
    """Return one mutation of a module, and the mutated tree.

    Number -1 changes nothing.

    Args:
        module: its path.
        source: its text.
        number: the number of the mutation.
    """
    tree = ast.parse(source)
    if number < 0:
        return Mutation(module, number, "", 0, 0, "unchanged", ""), tree
    place = next(islice(_Places().changes(tree), number, None))
    node = place.node
    line, statement_line = getattr(node, "lineno", 0), place.statement.lineno
    before, statement = ast.unparse(node), ast.unparse(place.statement).splitlines()[0]
    place.change()
    ast.fix_missing_locations(tree)
    after = before if place.operator.endswith("dropped") else ast.unparse(node)
    text = before if after == before else f"{before}  ->  {after}"
    return Mutation(
        module, number, place.function, line, statement_line, place.operator, text, statement
    ), tree
