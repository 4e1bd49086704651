"""Streams of commands, which escape everything that a terminal would execute or hide.

A message, a name, the text of an error or a daemon's answer may hold control sequences, or
invisible characters. The streams of the command line escape all of them, so that no command can
forget to.
"""

import os
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, TextIO, cast

from groupcomm.errors import ConfigError
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
    """Return a stream; for one that the caller has closed, a stream that keeps nothing."""
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


def say(text: str) -> None:
    """Print a message for people on standard error."""
    print(text, file=sys.stderr, flush=True)
