"""What commands write to a terminal: nothing in it is obeyed that somebody else has written.

A message, a name, the text of an error or a daemon's answer may hold what a terminal obeys, or what
nobody sees. The command line's own streams escape all of it, so that no command can forget to.
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TextIO, cast

from groupcomm.visible import visible


class VisibleStream:
    """A stream that shows what is not to be seen, and is its `below` otherwise.

    A command draws over its own line by a carriage return that begins what it writes; any other
    one is escaped. What must go out as it is, as a picture with colours, is written `below`.
    """

    def __init__(self, below: TextIO) -> None:
        self.below = below

    def write(self, text: str) -> int:
        """Write a text whose lines and tabs are its own."""
        head = text[:1] if text[:1] == "\r" else ""
        self.below.write(head + visible(text[len(head) :], kept="\n\t"))
        return len(text)

    def writelines(self, lines: Any) -> None:
        """Write several texts."""
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        """Return what the stream below has of this name."""
        return getattr(self.below, name)


def below(stream: TextIO) -> TextIO:
    """Return the stream on which a picture, or bytes for another program, go out as they are."""
    return stream.below if isinstance(stream, VisibleStream) else stream


@contextmanager
def visible_output() -> Iterator[None]:
    """Have standard output and standard error escape what is not to be seen, during the block."""
    output, messages = sys.stdout, sys.stderr
    sys.stdout = cast(TextIO, VisibleStream(below(output)))
    sys.stderr = cast(TextIO, VisibleStream(below(messages)))
    try:
        yield
    finally:
        sys.stdout, sys.stderr = output, messages


def say(text: str) -> None:
    """Print a message for people on standard error."""
    print(text, file=sys.stderr, flush=True)
