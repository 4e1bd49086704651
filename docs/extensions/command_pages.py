"""The commands as Markdown, from their parsers: usage, arguments, options, exit statuses, example.

The parsers are those that the commands use, so the pages have what the commands take. Each verb has
a page of its own, which is no file: `outside` adds it to the site.
"""

import argparse
import functools
import re
from collections.abc import Iterable, Iterator
from typing import Final

import groupcomm_tools.cli
import groupcommd.cli
from docs.extensions.markdown import cell, table
from groupcomm_tools.cli import COMMANDS

WIDTH: Final = 92
"""Columns of a usage."""

FOLDER: Final = "reference/commands/"
"""The folder of the pages."""

DAEMON: Final = "groupcommd"


@functools.cache
def _parsers() -> dict[str, argparse.ArgumentParser]:
    """Return the parsers of the verbs of `groupcomm`, and of `groupcommd`, by name."""
    verbs = groupcomm_tools.cli.make_parser().commands.choices
    return {**{name: verbs[name] for name in COMMANDS}, DAEMON: groupcommd.cli.make_parser()}


def page_names() -> list[str]:
    """Return the names of all pages: the verbs of `groupcomm`, and `groupcommd`."""
    return [*_parsers()]


def describe_commands() -> str:
    """Return a heading for each purpose, and below it a table of its verbs; then the contents."""
    parsers, parts = _parsers(), []
    for title, group in groupcomm_tools.cli.GROUPS.items():
        rows = [(_link(name), sentence(parsers[name].description or "")) for name in group]
        parts += [f"## {title[0].upper()}{title[1:]}", table(("verb", "does"), rows)]
    daemon = sentence(parsers[DAEMON].description or "")
    parts += ["## The daemon's own command", table(("command", "does"), [(_link(DAEMON), daemon)])]
    pages = "\n".join(f"commands/{name}" for name in page_names())
    return "\n\n".join([*parts, f"```{{toctree}}\n:hidden:\n\n{pages}\n```"])


def _link(name: str) -> str:
    return f"{{doc}}`{name} <commands/{name}>`"


def describe_page(name: str) -> str:
    """Return the page of a verb, or that of `groupcommd`."""
    return "\n\n".join(describe_command(_parsers()[name], level=1))


def describe_command(parser: argparse.ArgumentParser, level: int) -> Iterator[str]:
    """Yield the paragraphs about a command, and about its own commands.

    Args:
        parser: the parser of the command.
        level: the level of its heading, from 1.
    """
    yield f"{'#' * level} {parser.prog}"
    yield sentence(parser.description or "")
    yield f"```text\n{usage_of(parser)}\n```"
    yield from tables_of(parser)
    yield statuses_of(parser)
    yield example_of(parser)
    for each in subparsers_of(parser):
        yield from describe_command(each, level + 1)


def sentence(text: str) -> str:
    """Return a description as a sentence."""
    text = " ".join(text.split())
    return f"{text[0].upper()}{text[1:].rstrip('.')}."


def usage_of(parser: argparse.ArgumentParser) -> str:
    """Return the usage, on as many lines as it takes."""
    formatter = argparse.HelpFormatter(parser.prog, width=WIDTH)
    formatter.add_usage(parser.usage, parser._actions, parser._mutually_exclusive_groups, prefix="")
    return formatter.format_help().rstrip()


def actions_of(parser: argparse.ArgumentParser) -> list[argparse.Action]:
    """Return the arguments and options of a command, without --help and its own commands."""
    # argparse has no public access to them; argparse-manpage and shtab do the same.
    return [
        action
        for action in parser._actions
        if not isinstance(action, argparse._HelpAction | argparse._SubParsersAction)
        and action.help != argparse.SUPPRESS
    ]


def subparsers_of(parser: argparse.ArgumentParser) -> list[argparse.ArgumentParser]:
    """Return the parsers of a command's own commands."""
    return [
        each
        for action in parser._actions
        if isinstance(action, argparse._SubParsersAction)
        for each in action.choices.values()
    ]


def tables_of(parser: argparse.ArgumentParser) -> Iterator[str]:
    """Yield a table of the arguments, and one of the options."""
    actions = actions_of(parser)
    arguments = [action for action in actions if not action.option_strings]
    if arguments:
        yield table(("argument", "means"), [(words_of(each), help_of(each)) for each in arguments])
    options = [action for action in actions if action.option_strings]
    if options:
        yield table(
            ("option", "means", "default"),
            [(words_of(each), help_of(each), default_of(each)) for each in options],
        )


def words_of(action: argparse.Action) -> str:
    """Return the option with its value, or the name of the argument, as code."""
    value = action.metavar or action.dest.upper()
    if not action.option_strings:
        return f"`{' '.join(value) if isinstance(value, tuple) else value}`"
    if action.nargs == 0:
        return f"`{', '.join(action.option_strings)}`"
    if action.choices is not None and action.metavar is None:
        value = "|".join(str(choice) for choice in action.choices)
    shown = " ".join(value) if isinstance(value, tuple) else value
    more = " ..." if action.nargs in ("+", "*") else ""
    return f"`{', '.join(action.option_strings)} {shown}{more}`".replace("|", "\\|")


def help_of(action: argparse.Action) -> str:
    """Return the help of an action as the cell of a table."""
    text = cell((action.help or "").replace("%%", "%") % {"default": action.default})
    return f"{text}; needed" if action.required and action.option_strings else text


def default_of(action: argparse.Action) -> str:
    """Return the default as code; "" for that of a switch, and if there is none."""
    default = action.default
    if default in (None, False, argparse.SUPPRESS, (), [], ""):
        return ""
    if isinstance(default, list | tuple):
        default = " ".join(map(str, default))
    return f"`{cell(str(default))}`"


def statuses_of(parser: argparse.ArgumentParser) -> str:
    """Return the exit statuses as a list."""
    found = re.search(r"exit status: (.*?)(?:\n\n|$)", parser.epilog or "", re.DOTALL)
    lines = [f"- {number}: {what}" for number, what in split_statuses(found[1] if found else "")]
    return "\n".join(["Exit status:", "", *lines]) if lines else ""


def split_statuses(text: str) -> list[tuple[str, str]]:
    """Return the statuses of a sentence such as ``0 done; 1 failed``, each with its meaning."""
    parts = re.split(r"(?:^|; )(\d+) ", " ".join(text.split()))
    return list(zip(parts[1::2], parts[2::2], strict=True))


def example_of(parser: argparse.ArgumentParser) -> str:
    """Return the example of the help as a block of shell."""
    _, marked, example = (parser.epilog or "").partition("example:\n")
    lines = "\n".join(line.removeprefix("  ") for line in example.splitlines())
    return f"```sh\n{lines}\n```" if marked else ""


def all_parsers() -> Iterable[argparse.ArgumentParser]:
    """Return the parsers of all commands, and of their own commands."""
    todo = [*_parsers().values()]
    while todo:
        parser = todo.pop(0)
        yield parser
        todo += subparsers_of(parser)


def describe_statuses() -> str:
    """Return the table of the verbs: what status 1 means for each, and whether it connects."""
    return table(
        ("verb", "1 means", "connects"),
        [
            (_link(name), cell(each.fails), "yes" if each.connects else "no")
            for name, each in COMMANDS.items()
        ],
    )
