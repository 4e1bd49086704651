"""The commands of a chat: text for a group, or those of spuser, the program that comes with
Spread.
"""

import os
from collections.abc import Callable
from typing import Final

import trio

from groupcomm.errors import LocalProtocolError
from groupcomm.wire.messages import MAX_MESSAGE_BYTES
from groupcomm_tools.chat.session import ChatSession

READ_BYTES: Final = 65_536


class InputLines:
    """The lines of a file descriptor, as they come, without a thread; only one task may wait for
    them.

    Args:
        descriptor: descriptor of the input; it is neither closed nor made non-blocking.
        most_bytes: maximum length of a line; a longer line is dropped as a whole.

    Attributes:
        number: number of the last line that was returned, from 1.
    """

    def __init__(self, descriptor: int, most_bytes: int = MAX_MESSAGE_BYTES) -> None:
        self.number = 0
        self._descriptor = descriptor
        self._most_bytes = most_bytes
        self._waiting = bytearray()
        self._searched = 0  # searched bytes of the input without an end of a line
        self._dropping = False  # the present line is too long already
        self._ended = False
        self._watchable = True

    async def next(self) -> bytes | None:
        """Return the next line without its end, as bytes; None at the end of the input.

        Raises:
            LocalProtocolError: a line was too long and is dropped; the next call continues after
                it.
            OSError: the input cannot be read.
        """
        while True:
            end = self._waiting.find(b"\n", self._searched)
            if end >= 0:
                return self._pop_line(end, end + 1)
            self._searched = len(self._waiting)
            if self._searched > self._most_bytes:
                self._dropping = True
                self._waiting.clear()
                self._searched = 0
            if self._ended:
                if not (self._waiting or self._dropping):
                    return None
                return self._pop_line(len(self._waiting), len(self._waiting))
            data = await self._read()
            self._ended = not data
            self._waiting += data

    def _pop_line(self, end: int, following: int) -> bytes:
        line = bytes(self._waiting[:end])
        del self._waiting[:following]
        self._searched = 0
        self.number += 1
        too_long, self._dropping = self._dropping or end > self._most_bytes, False
        if too_long:
            raise LocalProtocolError(
                f"the line has more than {self._most_bytes} bytes and was dropped; split it, or"
                " send it in parts"
            )
        return line.removesuffix(b"\r")

    async def _read(self) -> bytes:
        """Return the bytes that have come, at least one; none at the end."""
        if self._watchable:
            try:
                await trio.lowlevel.wait_readable(self._descriptor)
            except PermissionError:
                self._watchable = False  # a file on disk always has input
        else:
            await trio.lowlevel.checkpoint()
        return os.read(self._descriptor, READ_BYTES)


COMMANDS: Final = """\
  j GROUP             join a group, and talk there from now on
  l [GROUP]           leave a group, by default the current one
  s NAME [TEXT]       send a message to a group or a private name; no text: the next line is it
  m [NAME]            send the lines that follow, up to an empty one, as one message
  b [NAME] [BYTES]    send a burst of 10 messages; no bytes: the next line says how many
  d                   show nothing from now on: events wait
  e                   show events again
  r                   show one event, while nothing else is shown
  p                   print how many events wait
  q                   end, once all own messages have come back; so does the end of input"""

BURST_MESSAGES: Final = 10
DEFAULT_PROMPT: Final = "> "


class ChatCommands:
    """The commands of a chat, which executes its lines.

    Args:
        session: the session of the chat.
        lines: lines of the input.
        spuser: every line is a command, and all words after ``s`` are groups, as in spuser; else
            commands begin with a slash, and all other lines are messages.
        say: is called with messages for the user.
        prompt: asks for the next line, if there is a user to ask.
    """

    def __init__(
        self,
        session: ChatSession,
        lines: InputLines,
        *,
        spuser: bool,
        say: Callable[[str], None],
        prompt: Callable[[str], None],
    ) -> None:
        self._session = session
        self._lines = lines
        self._spuser = spuser
        self._say = say
        self._prompt = prompt

    async def execute_all(self) -> bool:
        """Execute all lines, up to the end; return whether all of them could be executed.

        Raises:
            SessionEnded: the session is over.
        """
        good = going = True
        while going:
            self._prompt(DEFAULT_PROMPT if self._spuser else "")
            try:
                going = await self._execute_next()
            except LocalProtocolError as error:
                good = False
                self._say(f"line {self._lines.number}: {error}")
        return good

    async def _execute_next(self) -> bool:
        line = await self._lines.next()
        if line is None:
            return False
        if self._spuser or (line.startswith(b"/") and not line.startswith(b"//")):
            return await self._execute_command(_text(line).removeprefix("/"))
        await self._session.send([line.removeprefix(b"/")])
        return True

    async def _execute_command(self, text: str) -> bool:
        letter, _, rest = text.strip().partition(" ")
        rest = rest.strip()
        match letter:
            case "":
                pass
            case "j" if rest:
                await self._session.join(rest)
            case "l":
                await self._session.leave(rest or self._session.group)
            case "s" if rest:
                await self._send(rest)
            case "m":
                await self._send_lines([rest] if rest else [])
            case "b":
                await self._burst(rest.split())
            case "q":
                return False
            case _:
                await self._control_display(letter)
        return True

    async def _control_display(self, letter: str) -> None:
        session = self._session
        match letter:
            case "d":
                session.pause()
            case "e":
                session.read()
            case "r" if session.paused:
                await session.receive()
            case "r":
                raise LocalProtocolError(
                    "all events are shown already; after d, r shows one at a time"
                )
            case "p":
                self._say(f"{await session.waiting()} events wait")
            case _:
                raise LocalProtocolError(f"unknown command; the commands are:\n{COMMANDS}")

    async def _send(self, rest: str) -> None:
        if self._spuser:
            groups, text = rest.split(), ""
        else:
            group, _, text = rest.partition(" ")
            groups = [group]
        await self._session.send([text.encode() if text else await self._ask("message: ")], groups)

    async def _send_lines(self, groups: list[str]) -> None:
        self._prompt("message, then an empty line:\n")
        lines = []
        while line := await self._lines.next():
            lines.append(line)
        await self._session.send([b"\n".join(lines)], groups)

    async def _burst(self, words: list[str]) -> None:
        groups = words[:1] if words and not words[0].isdigit() else []
        size = "".join(words[len(groups) :]) or _text(await self._ask("bytes of each: "))
        if not (size.isascii() and size.isdigit()) or int(size) > MAX_MESSAGE_BYTES:
            raise LocalProtocolError(f"{size!r} bytes; it must be 0 to {MAX_MESSAGE_BYTES}")
        texts = (b"message %d " % number for number in range(1, BURST_MESSAGES + 1))
        await self._session.send(
            [text.ljust(int(size), b".")[: int(size)] for text in texts], groups
        )

    async def _ask(self, what: str) -> bytes:
        self._prompt(what)
        line = await self._lines.next()
        if line is None:
            raise LocalProtocolError(f"the input ended before: {what.strip(': ')}")
        return line


def _text(line: bytes) -> str:
    try:
        return line.decode()
    except UnicodeDecodeError:
        raise LocalProtocolError(f"the command is not UTF-8: {line[:40]!r}") from None
