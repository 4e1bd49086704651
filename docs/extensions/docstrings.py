"""Docstrings of this project as reStructuredText: the fields of classes, and links to pages.

They are plain prose with backticks, sections such as ``Args:``, and literal blocks behind ``::``.
Napoleon makes field lists of the sections. Here comes what it does not do: each class of values
gets the list of all its fields, also of those whose meaning is a comment behind them, and
``docs/NAME.md`` becomes a link.
"""

import enum
import inspect
import re
from collections.abc import Sequence
from typing import Any

import attrs
import msgspec

from docs.extensions.api_pages import Field, attributes_of, fields_of

_PAGE = re.compile(r"(?<![\w/`])docs/([\w/-]+)\.md\b")


def to_rst(lines: Sequence[str], value: Any) -> list[str]:
    """Return a docstring as reStructuredText for napoleon.

    Args:
        lines: the docstring.
        value: the object that has it.
    """
    text = "\n".join(lines)
    if inspect.isclass(value):
        fields = fields_of(value) if has_fields(value) else said_fields(text)
        text = f"{without_attributes(text)}\n\n{field_list(fields)}\n"
    return link_pages(text).splitlines()


def with_defaults(signature: str, value: Any) -> str:
    """Return the signature of a class with the defaults that its source has.

    That of attrs' own code has ``attr_dict['NAME'].default`` in their place.
    """
    if not inspect.isclass(value) or "attr_dict[" not in signature:
        return signature
    defaults = {field.name: field.default for field in fields_of(value)}

    def default(found: re.Match[str]) -> str:
        source = defaults.get(found[1], "")
        return "..." if not source or "field(" in source else source

    return re.sub(r"attr_dict\['(\w+)'\]\.default", default, signature)


def has_fields(value: type) -> bool:
    """Return whether a class is one of values: attrs, msgspec, a named tuple or an enumeration."""
    if attrs.has(value) or issubclass(value, msgspec.Struct | enum.Enum):
        return True
    return issubclass(value, tuple) and hasattr(value, "_fields")


def said_fields(text: str) -> list[Field]:
    """Return the fields of a class that only its docstring names."""
    return [Field(name, meaning, "") for name, meaning in attributes_of(text).items()]


def without_attributes(text: str) -> str:
    """Return a docstring without its section ``Attributes:``."""
    return re.sub(r"^Attributes:\n(?:[ ]{4}.*(?:\n|$)|\n)+", "", text, flags=re.MULTILINE)


def field_list(fields: Sequence[Field]) -> str:
    """Return a bullet list of the fields; "" without one."""
    lines = [
        f"- ``{each.name}``{f' = ``{each.default}``' if each.default else ''}"
        f"{f': {each.text}' if each.text else ''}"
        for each in fields
    ]
    return "\n".join(lines)


def link_pages(text: str) -> str:
    """Return a text in which ``docs/NAME.md`` is a link to the page."""
    return _PAGE.sub(r":doc:`/\1`", text)
