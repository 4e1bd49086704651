"""Streams of commands, which escape everything that a terminal would execute or hide.

A message, a name, the text of an error or a daemon's answer may hold control sequences, or
invisible characters. The streams of the command line escape all of them, so that no command can
forget to.
"""

import json
import os
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from io import TextIOWrapper
from typing import Any, Self, TextIO, cast

from groupcomm.errors import ConfigError
from groupcomm.host.line_writer import LineWriter
from groupcomm.visible import visible


class VisibleStream:
    """A stream that shows invisible characters as escapes, and otherwise acts as its stream
    `below`.

    A command may begin a text with a carriage return, to draw over its own line; any other one is
    escaped. Texts that must not be changed, such as a coloured picture, are written to `below`.
    """

    def __init__(self, below: TextIO) -> None:
        self.below = below

    def write(self, text: str) -> int:
        """Write a text; its lines and tabs are kept."""
        head = text[:1] if text[:1] == "\r" else ""
        self.below.write(head + visible(text[len(head) :], kept="\n\t"))
        return len(text)

    def writelines(self, lines: Any) -> None:
        """Write several texts."""
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        """Return the attribute of the stream below with this name."""
        return getattr(self.below, name)


def below(stream: TextIO) -> TextIO:
    """Return the stream that writes pictures, or bytes for another program, unchanged."""
    return stream.below if isinstance(stream, VisibleStream) else stream


@contextmanager
def visible_output() -> Iterator[None]:
    """Have standard output and standard error escape invisible characters during the block."""
    output, messages = sys.stdout, sys.stderr
    with ExitStack() as stack:
        sys.stdout, sys.stderr = (
            cast(TextIO, VisibleStream(below(_or_nothing(stream, stack))))
            for stream in (output, messages)
        )
        try:
            yield
        finally:
            sys.stdout, sys.stderr = output, messages


def _or_nothing(stream: TextIO | None, stack: ExitStack) -> TextIO:
    """Return a stream; for one that the caller has closed, a stream that keeps nothing.

    What its encoding does not have is written with escapes.
    """
    if isinstance(stream, TextIOWrapper):
        stream.reconfigure(errors="backslashreplace")
    if stream is not None:
        return stream
    return stack.enter_context(open(os.devnull, "w"))  # noqa: PTH123 - it is no path


def standard_input() -> TextIO:
    """Return standard input.

    Raises:
        ConfigError: it is closed.
    """
    if sys.stdin is None:
        raise ConfigError("there is no standard input; redirect one, such as </dev/null")
    return sys.stdin


class Reports:
    """What a program that runs long tells of its work; it never waits for whoever reads that.

    Attributes:
        as_json: whether events go to standard output, as JSON; else their texts to standard error.
    """

    def __init__(self, *, as_json: bool = False) -> None:
        self.as_json = as_json
        self._texts = LineWriter(
            below(sys.stderr), lambda count: f"{count} lines were dropped, as nobody read them"
        )
        self._objects = LineWriter(
            below(sys.stdout), lambda count: json.dumps({"event": "dropped", "lines": count})
        )
        self._is_said = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Wait for the last lines, for a bounded time."""
        self._objects.close()
        self._check_reader()
        self._texts.close()

    def say(self, text: str) -> None:
        """Tell people something."""
        self._texts.put(visible(text, kept="\n\t"))

    def report(self, happened: dict[str, Any]) -> None:
        """Tell an event; one without a `text` only to programs."""
        if self.as_json:
            self.print_json(happened)
        elif "text" in happened:
            self.say(str(happened["text"]))

    def print_json(self, found: object) -> None:
        """Tell programs something, as JSON on standard output."""
        self._objects.put(json.dumps(found))
        self._check_reader()

    def _check_reader(self) -> None:
        if self._objects.has_no_reader and not self._is_said:
            self._is_said = True
            self.say("the reader of standard output has ended; the work goes on")


def say(text: str) -> None:
    """Print a message for people on standard error."""
    print(text, file=sys.stderr, flush=True)
