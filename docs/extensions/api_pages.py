"""The description of public names on pages: Markdown with the directives of Sphinx's autodoc.

Everything that stands there comes from docstrings, types and comments beside values.
"""

import ast
import enum
import inspect
import io
import re
import tokenize
from collections.abc import Iterable, Sequence
from typing import Any, Final, NamedTuple

from docs.extensions.public_names import (
    PublicName,
    public_names,
    tree_of,
    value_of,
)

LONGEST_VALUE: Final = 60
"""The most letters of a constant's value that are shown."""


class Field(NamedTuple):
    """One field of a class of values, or one member of an enumeration.

    Attributes:
        name: its name.
        text: its meaning; "" if nothing says it.
        default: its default or value, as in the source; "" without one.
    """

    name: str
    text: str
    default: str


def describe_names(module: str, names: Sequence[str] = ()) -> str:
    """Return the text about names of a public module; about all of them if none are given.

    Raises:
        LookupError: a name is not public.
    """
    known = {each.name: each for each in public_names() if each.module == module}
    if unknown := [name for name in names if name not in known]:
        raise LookupError(f"{module} has no public {', '.join(unknown)}")
    chosen = [known[name] for name in names or known]
    own = [each for each in chosen if each.first == each.full]
    parts = [] if names else [_module_lines(module)]
    parts += [_block("\n".join(_directive(each))) for each in own]
    parts += [_elsewhere([each for each in chosen if each.first != each.full])]
    return "\n\n".join(filter(None, parts))


def _module_lines(module: str) -> str:
    lines = [f".. py:module:: {module}", "", *docstring_lines(tree_of(module))]
    return _block("\n".join(lines))


def _elsewhere(names: Iterable[PublicName]) -> str:
    shown = [f"{{py:obj}}`{each.name} <{each.first}>`" for each in names]
    return f"The same here: {', '.join(shown)}." if shown else ""


def _block(text: str) -> str:
    return f"```{{eval-rst}}\n{text}\n```"


def _directive(name: PublicName) -> list[str]:
    value = value_of(name.module, name.name)
    if inspect.isclass(value):
        kind = "exception" if issubclass(value, BaseException) else "class"
        return [f".. auto{kind}:: {name.full}", "   :members:", *_inherited(value)]
    if inspect.isroutine(value) or inspect.isfunction(inspect.unwrap(value)):
        return [f".. autofunction:: {name.full}"]
    return _constant(name, value)


def _inherited(value: type) -> list[str]:
    """Return the option that also shows the members of bases that are not public."""
    public = {each.first for each in public_names()}
    firsts = {(each.origin, each.defined): each.first for each in public_names()}
    hidden = [
        base
        for base in value.__mro__[1:]
        if base.__module__.startswith(("groupcomm", "pyspark_groupcomm"))
        and firsts.get((base.__module__, base.__qualname__)) not in public
    ]
    if not hidden:
        return []
    shown = {base.__name__ for base in value.__mro__[1:] if base not in hidden}
    return [f"   :inherited-members: {', '.join(sorted(shown))}"]


def _constant(name: PublicName, value: Any) -> list[str]:
    node, text = _assignment(name.origin, name.defined)
    lines = [f".. py:data:: {name.name}", f"   :module: {name.module}"]
    if f"{name.origin}.{name.defined}" != name.full:
        lines += [f"   :canonical: {name.origin}.{name.defined}"]
    source = "" if node is None or node.value is None else ast.unparse(node.value)
    shown = source if len(source) <= LONGEST_VALUE else ""
    if isinstance(value, int | str | float) and len(repr(value)) <= LONGEST_VALUE:
        shown = repr(value)
    if shown:
        lines += [f"   :value: {shown}"]
    return [*lines, "", *(f"   {line}" for line in text.splitlines())]


def _assignment(module: str, name: str) -> tuple[ast.Assign | ast.AnnAssign | None, str]:
    """Return the assignment of a constant, and the docstring or the comment beside it."""
    body = tree_of(module).body
    for node, following in zip(body, [*body[1:], None], strict=True):
        targets = node.targets if isinstance(node, ast.Assign) else []
        if isinstance(node, ast.AnnAssign):
            targets = [node.target]
        if isinstance(node, ast.Assign | ast.AnnAssign) and any(
            isinstance(target, ast.Name) and target.id == name for target in targets
        ):
            if isinstance(following, ast.Expr) and isinstance(following.value, ast.Constant):
                return node, inspect.cleandoc(str(following.value.value))
            return node, _comments(module).get(node.end_lineno or 0, "")
    return None, ""


def _comments(module: str) -> dict[int, str]:
    """Return the comments of a module's source that stand behind code, by line."""
    value = __import__(module, fromlist=["_"])
    return comments_of(inspect.getsource(value))


def comments_of(source: str) -> dict[int, str]:
    """Return the comments that stand behind code, by line from 1."""
    lines = source.splitlines()
    found = {}
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        line, column = token.start
        if token.type == tokenize.COMMENT and lines[line - 1][:column].strip():
            found[line] = re.sub(r"\s*\bnoqa\b.*", "", token.string.lstrip("# ")).strip()
    return found


def fields_of(value: type) -> list[Field]:
    """Return the fields of a class of values, or the members of an enumeration, in their order.

    The meaning of a field is that of the section ``Attributes:`` of the docstring, else the comment
    behind it.
    """
    source = inspect.cleandoc("\n" + _dedented(value))
    body = next(node for node in ast.parse(source).body if isinstance(node, ast.ClassDef)).body
    said, comments = attributes_of(inspect.cleandoc(value.__doc__ or "")), comments_of(source)
    is_enum = issubclass(value, enum.Enum)
    found = []
    for node in body:
        name, default = "", None
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            name, default = node.target.id, node.value
        elif is_enum and isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            name, default = node.targets[0].id, node.value
        if not name or name.startswith("_") or _is_class_variable(node):
            continue
        text = said.get(name) or comments.get(node.end_lineno or 0, "")
        found.append(Field(name, text, "" if default is None else ast.unparse(default)))
    return found


def _dedented(value: type) -> str:
    lines = inspect.getsource(value).splitlines()
    margin = len(lines[0]) - len(lines[0].lstrip())
    return "\n".join(line[margin:] for line in lines)


def _is_class_variable(node: ast.stmt) -> bool:
    return isinstance(node, ast.AnnAssign) and ast.unparse(node.annotation).startswith("ClassVar")


def attributes_of(docstring: str) -> dict[str, str]:
    """Return the meanings in the section ``Attributes:`` of a docstring, by name."""
    section = re.search(r"^Attributes:\n((?:[ ]{4}.*\n?|\n)+)", docstring, re.MULTILINE)
    found: dict[str, str] = {}
    names: list[str] = []
    for line in (section[1] if section else "").splitlines():
        entry = re.match(r" {4}(\*{0,2}\w[\w, ]*): (.*)", line)
        if entry:
            names = re.split(r",\s*", entry[1])
            found |= dict.fromkeys(names, entry[2])
        elif line.strip():
            found |= {name: f"{found[name]} {line.strip()}" for name in names}
    return found


def docstring_lines(node: ast.Module) -> list[str]:
    """Return the docstring of a module, as lines."""
    return (ast.get_docstring(node) or "").splitlines()
