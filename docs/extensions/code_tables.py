"""Tables made of the code: keys of the configuration, errors, metrics, lines of the log."""

import ast
import enum
import inspect
import re
import types
import typing
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

import attrs

import groupcommd
from docs.extensions.api_pages import fields_of
from docs.extensions.markdown import cell, code, prose, table
from docs.extensions.public_names import public_names, value_of
from groupcomm.config.core import PRESETS, Timing, Windows
from groupcomm.errors import Code, GroupCommError
from groupcommd.config.config_tables import ConfigFile
from groupcommd.http.metrics import METRICS
from groupcommd.service import RELOADED


class Key(NamedTuple):
    """One key of the configuration.

    Attributes:
        name: the dotted key; NAME stands for any name.
        kind: the type of its value, in the words of TOML.
        default: its default; "" without one.
        text: its meaning, as in the docstring.
        live: whether SIGHUP changes it while the daemon runs.
    """

    name: str
    kind: str
    default: str
    text: str
    live: bool


_KINDS: Final = {str: "string", int: "integer", float: "number", bool: "boolean"}

LIVE: Final = {
    "access": "access",
    "clients.quotas": "quotas",
    "clients.slow_receivers": "limits",
    "clients.block_bytes": "limits",
    "clients.block_s": "limits",
    "clients.output_cap_bytes": "limits",
    "clients.unreliable_drop_bytes": "limits",
    "clients.backlog_cap_bytes": "limits",
    "clients.session_timeout_s": "limits",
    "clients.tls.certificate": "tls",
    "clients.tls.key": "tls",
    "clients.tls.ca": "tls",
    "clients.tls.revoked": "tls",
    "clients.tokens": "tls",
}
"""The part of the daemon's configuration that a key or a table makes, if that can be reloaded."""


def configuration_keys() -> list[Key]:
    """Return all keys of the configuration, in the order of the file's classes."""
    return list(_keys(ConfigFile, ""))


def _keys(kind: type, prefix: str) -> Iterator[Key]:
    texts = {field.name: field.text for field in fields_of(kind)}
    for field in attrs.fields(kind):
        name, value = f"{prefix}{field.name}", _without_none(field.type)
        if field.name == "timing":
            yield from _keys(Timing, "timing.")
        elif field.name == "windows":
            yield from _keys(Windows, "windows.")
        elif (inner := _table_of(value)) is not None:
            yield from _keys(inner, _inside(name, value))
        else:
            yield Key(name, _kind(name, value), _default(field), texts[field.name], _is_live(name))


def _is_live(name: str) -> bool:
    made = {part for key, part in LIVE.items() if f"{name}.".startswith(f"{key}.")}
    return bool(made) and made <= RELOADED | {"tls"}


def _without_none(kind: Any) -> Any:
    """Return a type without None, which stands for a key that is not there."""
    if isinstance(kind, types.UnionType) or typing.get_origin(kind) is typing.Union:
        rest = [each for each in typing.get_args(kind) if each is not type(None)]
        return rest[0] if len(rest) == 1 else kind
    return kind


def _table_of(kind: Any) -> type | None:
    """Return the class of the tables of a type; None if its values are none."""
    found = typing.get_args(kind)[-1] if typing.get_args(kind) else kind
    return found if isinstance(found, type) and attrs.has(found) else None


def _inside(name: str, kind: Any) -> str:
    """Return the beginning of the keys in the tables of a key."""
    if typing.get_origin(kind) is dict:
        return f"{name}.A-B." if name == "links" else f"{name}.NAME."
    return f"{name}."


def _kind(name: str, kind: Any) -> str:
    if kind in _KINDS:
        return _KINDS[kind]
    if typing.get_origin(kind) is dict:
        return "table of strings, or of lists of them"
    return "string, or list of strings" if name.startswith("access") else "list of strings"


def _default(field: "attrs.Attribute[Any]") -> str:
    if field.default is attrs.NOTHING:
        return ""
    value = field.default
    if (factory := getattr(value, "factory", None)) is not None:
        value = factory()
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return f'"{value}"'
    if isinstance(value, tuple | list):
        return f"[{', '.join(f'{chr(34)}{each}{chr(34)}' for each in value)}]" if value else ""
    if isinstance(value, int | float):
        return f"{value:g}" if isinstance(value, float) else str(value)
    return ""


def describe_keys() -> str:
    """Return the keys of the configuration as sections, one for each table of the file."""
    parts: dict[str, list[Key]] = {}
    for key in configuration_keys():
        parts.setdefault(key.name.rpartition(".")[0], []).append(key)
    return "\n\n".join(_section(part, keys) for part, keys in parts.items())


def _section(part: str, keys: list[Key]) -> str:
    title = f"[{part}]" if part else "At the top"
    title = "[[access]]" if part == "access" else title
    heads: tuple[str, ...] = ("key", "type", "default", "SIGHUP", "means")
    if part == "timing":
        heads = ("key", *(f"`{name}`, s" for name in PRESETS), "means")
    rows = [_row(key, key.name.rpartition(".")[2]) for key in keys]
    if "SIGHUP" in heads and not any(key.live for key in keys):  # nothing to say in this table
        heads, *rows = ((*row[:3], row[4]) for row in (heads, *rows))
    return f"## {title}\n\n{table(heads, rows)}"


def _row(key: Key, last: str) -> tuple[str, ...]:
    if key.name.startswith("timing."):
        defaults = [f"{getattr(timing, last):g}" for timing in PRESETS.values()]
        return code(last), *defaults, prose(key.text)
    default = code(key.default) if key.default else ""
    return code(last), key.kind, default, "yes" if key.live else "", prose(key.text)


def public_errors() -> list[tuple[str, type[BaseException]]]:
    """Return each public exception with the public name under which it is described."""
    found = {}
    for each in public_names():
        value = value_of(each.module, each.name)
        if inspect.isclass(value) and issubclass(value, BaseException):
            found[each.first] = value
    return sorted(found.items(), key=lambda item: item[0])


def describe_errors() -> str:
    """Return all public exceptions as a tree, each with the first sentence about it."""
    names = {value: name for name, value in public_errors()}
    lines: list[str] = []

    def add(value: type[BaseException], depth: int) -> None:
        said = (inspect.getdoc(value) or "").split("\n\n")[0]
        name = names[value]
        lines.append(
            f"{'  ' * depth}- {{py:obj}}`{name.rpartition('.')[2]} <{name}>`: {prose(said)}"
        )
        for each in names:
            if _parent(each, names) is value:
                add(each, depth + 1)

    for value in sorted(names, key=lambda each: (each is not GroupCommError, names[each])):
        if _parent(value, names) is None:
            add(value, 0)
    return "\n".join(lines)


def _parent(value: type, known: Any) -> type | None:
    return next((base for base in value.__mro__[1:] if base in known), None)


def describe_codes() -> str:
    """Return the table of the numbers of failures."""
    return describe_enum(Code)


def describe_enum(kind: type[enum.Enum]) -> str:
    """Return a table of the members of an enumeration."""
    rows = [(code(each.default), code(each.name), prose(each.text)) for each in fields_of(kind)]
    return table(("value", "name", "means"), rows)


def describe_metrics() -> str:
    """Return the table of the metrics of a daemon."""
    heads = ("metric", "type", "unit", "labels", "tells")
    return table(
        heads,
        [
            (code(m.name), m.kind, m.unit, ", ".join(map(code, m.labels)), cell(m.help))
            for m in METRICS
        ],
    )


class LogLine(NamedTuple):
    """One line that the daemon may log.

    Attributes:
        level: debug, info, warning, error or critical.
        text: its text, with ``...`` for what differs.
        fields: the fields that it has besides in JSON.
        source: the module, relative to the package of the daemon.
    """

    level: str
    text: str
    fields: tuple[str, ...]
    source: str


def log_lines() -> list[LogLine]:
    """Return all lines that the daemon may log, by module."""
    root = Path(groupcommd.__file__).parent
    return [
        line
        for path in sorted(root.rglob("*.py"))
        for line in lines_of(path.read_text(), path.relative_to(root).as_posix())
    ]


def lines_of(source: str, name: str) -> list[LogLine]:
    """Return the lines that the source of a module may log, in its order."""
    nodes = ast.walk(ast.parse(source))
    calls = [node for node in nodes if isinstance(node, ast.Call) and _is_of_the_log(node.func)]
    found = []
    for call in sorted(calls, key=lambda each: each.lineno):
        assert isinstance(call.func, ast.Attribute)
        level, words = call.func.attr, call.args
        if level == "line":  # of a BoundedLog, whose first argument is the kind
            level, words = "log", words[1:]
        if level == "log":
            level, words = _level(words[0]), words[1:]
        level = "error" if level == "exception" else level
        found += [LogLine(level, text, _fields(call), name) for text in _texts(words[0])]
    return found


def _is_of_the_log(called: ast.expr) -> bool:
    if not isinstance(called, ast.Attribute):
        return False
    own = isinstance(called.value, ast.Name) and called.value.id in ("_log", "log")
    return called.attr == "line" or (own and called.attr in (*_LEVELS, "log", "exception"))


_LEVELS: Final = ("debug", "info", "warning", "error", "critical")
_ORDER: Final = _LEVELS[::-1]


def _level(node: ast.expr) -> str:
    """Return the level of a call that computes it, such as ``logging.INFO``."""
    found = [each.attr.lower() for each in ast.walk(node) if isinstance(each, ast.Attribute)]
    return " or ".join(each for each in found if each in _LEVELS) or "info or warning"


def _texts(node: ast.expr) -> list[str]:
    """Return the texts that an expression may be, with ``...`` for what differs."""
    if isinstance(node, ast.IfExp):
        return [*_texts(node.body), *_texts(node.orelse)]
    if isinstance(node, ast.Constant):
        return [re.sub(r"%[-#.\d]*[a-z]", "...", str(node.value))]
    if isinstance(node, ast.JoinedStr):
        parts = [each.value if isinstance(each, ast.Constant) else "..." for each in node.values]
        return ["".join(map(str, parts))]
    return ["..."]


def _fields(call: ast.Call) -> tuple[str, ...]:
    """Return the names of the fields that a call gives besides."""
    extra = next((each.value for each in call.keywords if each.arg == "extra"), None)
    keys = extra.keys if isinstance(extra, ast.Dict) else []
    return tuple(str(key.value) for key in keys if isinstance(key, ast.Constant))


def describe_log() -> str:
    """Return the lines of the daemon's log as a table for each level."""
    rows: dict[str, list[tuple[str, ...]]] = {}
    for line in sorted(log_lines(), key=lambda each: _ORDER.index(each.level.split()[0])):
        text = cell(line.text).replace("<", "&lt;")
        row = (text, ", ".join(map(code, line.fields)), code(line.source))
        rows.setdefault(line.level, []).append(row)
    return "\n\n".join(
        f"## {level[0].upper()}{level[1:]}\n\n{table(('text', 'fields', 'from'), found)}"
        for level, found in rows.items()
    )
