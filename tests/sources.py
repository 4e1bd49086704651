"""The sources of this project, each parsed once for all rules about them."""

import ast
import functools
import gc
from collections.abc import Iterator
from pathlib import Path

import attrs

ROOT = Path(__file__).parent.parent
SKIPS = frozenset({"skip", "skipif", "xfail", "importorskip"})


def label(path: Path) -> str:
    return str(path.relative_to(ROOT) if path.is_relative_to(ROOT) else path)


@attrs.frozen
class Source:
    """The parts of a module that rules ask for, with their lines.

    Attributes:
        lines: the number of its lines.
        imports: the absolute name of every import, in functions too.
        calls: each name that is called.
        functions: each function with its length.
        skips: each attribute that skips a test.
        core_uses: each attribute of what is called `core`, unless that is one of a configuration.
        names: the names that it declares: its own, classes, functions, attributes, and members of
            enumerations.
        inner: the names within functions: parameters and variables.
        docstrings: each function that has one, with the first word.
    """

    lines: int
    imports: list[tuple[int, str]] = attrs.field(factory=list)
    calls: list[tuple[int, str]] = attrs.field(factory=list)
    functions: list[tuple[int, str, int]] = attrs.field(factory=list)
    skips: list[tuple[int, str]] = attrs.field(factory=list)
    core_uses: list[tuple[int, str]] = attrs.field(factory=list)
    names: set[str] = attrs.field(factory=set)
    inner: set[str] = attrs.field(factory=set)
    docstrings: list[tuple[str, str]] = attrs.field(factory=list)


@functools.cache
def read(path: Path) -> Source:
    """Return the parts of a module; it is parsed once for all rules."""
    text = path.read_text()
    source = Source(text.count("\n"))
    source.names.add(path.stem)
    gc.disable()  # a tree is one large object, and goes as a whole
    try:
        for node in nodes_of(ast.parse(text)):
            note(source, node, path)
    finally:
        gc.enable()
    return source


def nodes_of(tree: ast.AST) -> Iterator[ast.AST]:
    """Yield all nodes, as `ast.walk` does in twice the time."""
    left = [tree]
    while left:
        node = left.pop()
        yield node
        for value in vars(node).values():
            if isinstance(value, list):
                left.extend(each for each in value if isinstance(each, ast.AST))
            elif isinstance(value, ast.AST):
                left.append(value)


def note(source: Source, node: ast.AST, path: Path) -> None:
    """Add what a node says."""
    match node:
        case ast.Constant():
            pass
        case ast.Name(ctx=ast.Store(), id=name) | ast.arg(arg=name):
            source.inner.add(name)
        case ast.Attribute():
            note_attribute(source, node)
        case ast.Call(func=ast.Name(id=name), lineno=line):
            source.calls.append((line, name))
        case ast.Import(names=names, lineno=line):
            source.imports.extend((line, alias.name) for alias in names)
        case ast.ImportFrom(module=str(module), names=names, level=0, lineno=line):
            source.imports.extend((line, f"{module}.{alias.name}") for alias in names)
        case ast.ImportFrom(lineno=line):
            raise AssertionError(f"{label(path)}:{line}: imports here are absolute")
        case ast.ClassDef():
            note_class(source, node)
        case ast.FunctionDef() | ast.AsyncFunctionDef():
            note_function(source, node)
        case _:
            pass


def note_class(source: Source, node: ast.ClassDef) -> None:
    """Add the names of a class and of what it assigns, as the members of an enumeration are."""
    source.names.add(node.name)
    for each in node.body:
        if isinstance(each, ast.Assign):
            source.names.update(name.id for name in each.targets if isinstance(name, ast.Name))


def note_function(source: Source, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
    """Add a function: its name, its length, and the first word of its docstring."""
    assert node.end_lineno is not None
    source.names.add(node.name)
    source.functions.append((node.lineno, node.name, node.end_lineno - node.lineno + 1))
    if words := (ast.get_docstring(node, clean=False) or "").split():
        source.docstrings.append((node.name, words[0].rstrip(".,:;")))


def note_attribute(source: Source, node: ast.Attribute) -> None:
    """Add an attribute that skips a test, that is one of a core, or that is declared."""
    if node.attr in SKIPS:
        source.skips.append((node.lineno, node.attr))
    elif is_core(node.value):
        source.core_uses.append((node.lineno, node.attr))
    if isinstance(node.ctx, ast.Store):
        source.names.add(node.attr)


def is_core(node: ast.expr) -> bool:
    """Return whether an expression is a daemon's core, by its name."""
    match node:
        case ast.Name(id="core" | "_core"):
            return True
        case ast.Attribute(attr="core" | "_core", value=owner):
            return ast.unparse(owner).split(".")[-1] not in ("config", "_config")
        case _:
            return False
