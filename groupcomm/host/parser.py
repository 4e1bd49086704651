"""The parser of the command lines of `groupcomm` and `groupcommd`.

It differs from that of `argparse` in what users ran into:

- options may stand anywhere between the other words, also within a verb;
- an error is one line, with the verb whose help explains more;
- an option is written out: a beginning of it could be of another one, too;
- an unknown name brings the known ones that are like it;
- examples in the help stay on their lines, so that they can be pasted.
"""

import argparse
import difflib
import sys
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final, NoReturn

from groupcomm.host.line_writer import write_last

USAGE: Final = 2
"""Exit status after wrong usage."""

SHOWN_NAMES: Final = 3
"""The number of names that are suggested at most."""

_END_OF_OPTIONS: Final = "--"


class Formatter(argparse.HelpFormatter):
    """A formatter that fills paragraphs, but keeps the lines of those with indented ones."""

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        shown = []
        for paragraph in text.split("\n\n"):
            lines = paragraph.splitlines()
            if any(line.startswith("  ") for line in lines):
                shown += ["\n".join(indent + line for line in lines)]
            else:
                words = " ".join(paragraph.split())
                shown += [textwrap.fill(words, width, initial_indent=indent)]
        return "\n\n".join(shown)


class Parser(argparse.ArgumentParser):
    """A parser whose verbs are parsers of the same kind."""

    def __init__(self, *args: Any, **options: Any) -> None:
        options.setdefault("formatter_class", Formatter)
        options.setdefault("allow_abbrev", False)  # otherwise --to would mean --token-file
        super().__init__(*args, **options)
        self._has_subcommands = False
        self.old_names: dict[str, str] = {}

    def add_subparsers(self, **options: Any) -> Any:
        """See ArgumentParser."""
        self._has_subcommands = True
        return super().add_subparsers(**options)

    def parse_known_args(  # type: ignore[override]  # its overloads are for other namespaces
        self, args: Sequence[str] | None = None, namespace: argparse.Namespace | None = None
    ) -> tuple[argparse.Namespace, list[str]]:
        """Parse the options wherever they stand, then the other words; nothing is left over."""
        words = self._with_present_names(sys.argv[1:] if args is None else args)
        if self._has_subcommands:
            found, rest = super().parse_known_args(words, namespace)
            self._refuse(rest)
            return found, []
        usage = self.usage
        if usage is None:  # the usage names all words, also those that are parsed later
            self.usage = self.format_usage().removeprefix("usage: ")
        try:
            return self._parse_in_parts(words, namespace), []
        finally:
            self.usage = usage

    def _with_present_names(self, words: Sequence[str]) -> list[str]:
        """Return the words with options by their present names; say which others were given."""
        present: list[str] = []
        for word in words:
            option, has_value, value = word.partition("=")
            new = self.old_names.get(option)
            if new is None or _END_OF_OPTIONS in present:
                present.append(word)
                continue
            said = f"is {new} now" if new else "is left out now: the names alone are enough"
            print(
                f"{self.prog}: {option} {said}; the next release has no {option}", file=sys.stderr
            )
            if new:
                present.append(f"{new}={value}" if has_value else new)
            elif has_value:
                present.append(value)
        return present

    def _parse_in_parts(
        self, words: list[str], namespace: argparse.Namespace | None
    ) -> argparse.Namespace:
        end = words.index(_END_OF_OPTIONS) if _END_OF_OPTIONS in words else len(words)
        words, literal = words[:end], words[end + 1 :]
        positionals = self._get_positional_actions()
        with _inactive(positionals):
            found, rest = super().parse_known_args(words, namespace)
        self._refuse(filter(_is_option, rest))
        rest += literal
        if not positionals:
            self._refuse(rest)
        with _optional(self._get_optional_actions(), self._mutually_exclusive_groups):
            # The rest has no options, even where it begins with a dash.
            found, rest = super().parse_known_args(rest and [_END_OF_OPTIONS, *rest], found)
        self._refuse(rest)
        return found

    def _refuse(self, words: Iterable[str]) -> None:
        """End with an error if there are words that mean nothing here."""
        for word in words:
            if not _is_option(word):
                self.error(f"there is no place for {word!r}")
            self.error(f"there is no option {word}{_alike(word, self._option_string_actions)}")

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        """See ArgumentParser, which lists all choices instead of those that are alike."""
        if action.choices is None or value in action.choices:
            return
        known = [str(choice) for choice in action.choices]
        alike = _alike(str(value), known) or f"; it must be one of {', '.join(known)}"
        raise argparse.ArgumentError(action, f"there is no {value!r}{alike}")

    def error(self, message: str) -> NoReturn:
        """End with a line that names the error, and the command for help."""
        see = " See" if message.endswith("?") else "; see"
        write_last(f"{self.prog}: {message}{see} {self.prog} --help")
        self.exit(USAGE)


def keep_old_names(parser: argparse.ArgumentParser, **names: str) -> None:
    """Accept options by the names that they had, for one release; the help does not show these.

    Args:
        parser: the parser of a verb.
        names: for each old name, with _ for -, the present one; "" for words without an option.
    """
    if isinstance(parser, Parser):
        parser.old_names |= {f"--{old.replace('_', '-')}": new for old, new in names.items()}


class ShowVersion(argparse.Action):
    """An action that prints the version of the package, which is looked up only then."""

    def __init__(self, option_strings: Sequence[str], dest: str, **options: Any) -> None:
        super().__init__(option_strings, dest, nargs=0, **options)

    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> None:
        """Print it, and end."""
        from importlib.metadata import version  # noqa: PLC0415 - takes longer than the rest

        print(f"{parser.prog} {version('groupcomm')}")
        parser.exit()


def add_version_option(parser: argparse.ArgumentParser) -> None:
    """Declare the option that shows the version."""
    parser.add_argument(
        "--version", action=ShowVersion, default=argparse.SUPPRESS, help="show the version, and end"
    )


def example_text(example: str) -> str:
    """Return a paragraph with an example, whose lines are kept."""
    lines = "\n".join(f"  {line}" for line in example.splitlines())
    return f"example:\n{lines}"


def _is_option(word: str) -> bool:
    return word.startswith("-") and word != "-"


def _alike(word: str, known: Iterable[str]) -> str:
    """Return a question with the known names that are like a word; "" if there is none."""
    found = difflib.get_close_matches(word.partition("=")[0].lower(), known, SHOWN_NAMES)
    return f"; did you mean {' or '.join(found)}?" if found else ""


@contextmanager
def _inactive(actions: Sequence[argparse.Action]) -> Iterator[None]:
    """Have a parser take no word for these actions in the block."""
    kept = [(action, action.nargs, action.default, action.required) for action in actions]
    for action in actions:
        action.nargs = action.default = argparse.SUPPRESS
        action.required = False
    try:
        yield
    finally:
        for action, nargs, default, required in kept:
            action.nargs, action.default, action.required = nargs, default, required


@contextmanager
def _optional(actions: Sequence[argparse.Action], groups: Sequence[Any]) -> Iterator[None]:
    """Have a parser miss none of these actions and groups in the block."""
    parts: list[Any] = [*actions, *groups]
    kept = [part.required for part in parts]
    for part in parts:
        part.required = False
    try:
        yield
    finally:
        for part, required in zip(parts, kept, strict=True):
            part.required = required
