"""The text of a scenario: blocks of commands, each followed by their effects.

::

    # a comment
    crash c
    await a b within 700ms
    ----
    a b: leaves with a b

A block ends with an empty line. Comments stand anywhere but in the part below ``----``. `Words`
gives the words of one command one after the other; its errors name the expected words.
"""

import re
from collections.abc import Sequence
from string import ascii_lowercase
from typing import Final, NoReturn

import attrs

from groupcomm.sim.network.network import Pair
from groupcomm.sim.virtual_time import SECOND

_UNITS: Final = {"ms": SECOND // 1000, "s": SECOND, "min": 60 * SECOND, "d": 86_400 * SECOND}
_TIME: Final = re.compile(r"(\d+)(ms|s|min|d)")
_POWER: Final = re.compile(r"2\^(\d{1,2})-(\d+)")
_PATH: Final = re.compile(r"([a-z]|\*)([->])([a-z]|\*)")
_USER: Final = re.compile(r"[a-z]{2,}")
_PLACE: Final = re.compile(r"([a-z]{2,})@([a-z])")
_GROUP: Final = re.compile(r"#?[a-z]{2,}")


class ScenarioError(Exception):
    """Raised for a wrong text of a scenario; names the file, the line and the expected
    words."""


class Words:
    """The words of a line.

    Args:
        line: the whole line.
        place: file and line number, for errors.
        daemons: the number of daemons of the scenario at this point.
    """

    def __init__(self, line: str, place: str, daemons: int) -> None:
        words, _, self._text = line.partition(": ")
        self._left = words.replace(", ", " , ").split()[::-1]
        self._place = place
        self._daemons = daemons

    def fail(self, expected: str, word: str | None = None) -> NoReturn:
        """Raise an error: something else was expected here."""
        found = word or (self._left[-1] if self._left else "")
        instead = f"not {found!r}" if found else "but the line ends"
        raise ScenarioError(f"{self._place}: expected {expected}, {instead}")

    def know(self, daemons: int) -> None:
        """Set the number of daemons from now on."""
        self._daemons = daemons

    # ---- any words ----

    @property
    def more(self) -> bool:
        """Return whether there are words left."""
        return bool(self._left)

    def pop(self, expected: str) -> str:
        """Return the next word, which has to be there."""
        if not self._left:
            self.fail(expected)
        return self._left.pop()

    def got(self, word: str) -> bool:
        """Return whether this word comes next; if so, consume it."""
        if self._left and self._left[-1] == word:
            self._left.pop()
            return True
        return False

    def one_of(self, words: Sequence[str]) -> str:
        """Return the next word, one of these."""
        word = self.pop(" or ".join(words))
        if word not in words:
            self.fail(" or ".join(words), word)
        return word

    def end(self) -> None:
        """Check that the line ends here."""
        if self._left or self._text:
            self.fail("the end of the line", None if self._left else ":")

    def text(self) -> str:
        """Return the text after a colon and a space, which ends the words."""
        if self._left or not self._text:
            self.fail("': ' and a text")
        text, self._text = self._text, ""
        return text

    def _match(self, pattern: re.Pattern[str], expected: str) -> re.Match[str]:
        word = self.pop(expected)
        match = pattern.fullmatch(word)
        if match is None:
            self.fail(expected, word)
        return match

    # ---- numbers ----

    def number(self, expected: str) -> int:
        """Return a count above 0."""
        word = self.pop(expected)
        if not word.isdecimal() or not int(word):
            self.fail(expected, word)
        return int(word)

    def power(self) -> int:
        """Return a power of two less something, such as 2^31-5."""
        match = self._match(_POWER, "a power of two less something, such as 2^31-5")
        return int(2 ** int(match[1]) - int(match[2]))

    def duration(self) -> int:
        """Return a time such as 20ms or 2s, in microseconds."""
        match = self._match(_TIME, "a time such as 20ms or 2s")
        return int(match[1]) * _UNITS[match[2]]

    def shift(self) -> int:
        """Return a time with a sign, such as +1d or -2s, in microseconds."""
        word = self.pop("a time with a sign, such as +1d")
        match = _TIME.fullmatch(word[1:])
        if word[0] not in "+-" or match is None:
            self.fail("a time with a sign, such as +1d", word)
        return int(match[1]) * _UNITS[match[2]] * (1 if word[0] == "+" else -1)

    # ---- names ----

    def daemon(self) -> int:
        """Return one daemon, by its letter; its index."""
        word = self.pop("a daemon")
        return self._index(word)

    def _index(self, word: str) -> int:
        index = ascii_lowercase.find(word) if len(word) == 1 else -1
        if not 0 <= index < self._daemons:
            last = ascii_lowercase[self._daemons - 1] if self._daemons else "none"
            self.fail(f"a daemon (a to {last})", word)
        return index

    def daemons(self) -> tuple[int, ...]:
        """Return one or more daemons, to a word of another kind or the end."""
        found = [self.daemon()]
        while self._left and len(self._left[-1]) == 1 and self._left[-1] in ascii_lowercase:
            found.append(self.daemon())
        return tuple(found)

    def sides(self) -> tuple[tuple[int, ...], ...]:
        """Return sets of daemons with ``|`` between them."""
        sides = [self.daemons()]
        while self.got("|"):
            sides.append(self.daemons())
        return tuple(sides)

    def paths(self) -> tuple[Pair, ...]:
        """Return one or more of ``a>b`` (one way), ``a-b`` (both), ``*>b`` and the like."""
        found: dict[Pair, None] = {}
        while not found or (self._left and _PATH.fullmatch(self._left[-1])):
            match = self._match(_PATH, "a path such as a>b, a-b or *>b")
            sources, targets = (
                range(self._daemons) if end == "*" else (self._index(end),)
                for end in (match[1], match[3])
            )
            for pair in ((one, other) for one in sources for other in targets if one != other):
                found[pair] = None
                if match[2] == "-":
                    found[pair[::-1]] = None
        return tuple(found)

    def users(self) -> tuple[str, ...]:
        """Return programs with commas between them."""
        users = self.pop("users such as anna,ben").split(",")
        for user in users:
            if _USER.fullmatch(user) is None:
                self.fail("users such as anna,ben", user)
        return tuple(users)

    def user_at(self) -> tuple[str, int]:
        """Return a program and its daemon, such as anna@a."""
        match = self._match(_PLACE, "a user and a daemon, such as anna@a")
        return match[1], self._index(match[2])

    def groups(self) -> tuple[str, ...]:
        """Return groups, and programs as ``#anna``, with commas between them."""
        groups = self.pop("groups such as room,#anna").split(",")
        for group in groups:
            if _GROUP.fullmatch(group) is None:
                self.fail("groups such as room,#anna", group)
        return tuple(groups)


MARK: Final = "----"


@attrs.frozen
class Block:
    """Some commands and their expected effects.

    Attributes:
        commands: (number of its line, from 1; text) of each.
        expected: the lines below the mark.
        mark: index of the mark's line.
    """

    commands: tuple[tuple[int, str], ...]
    expected: tuple[str, ...]
    mark: int


@attrs.frozen
class Script:
    """A scenario's text.

    Attributes:
        name: the name of its file.
        lines: all lines.
        blocks: the blocks in their order.
    """

    name: str
    lines: tuple[str, ...]
    blocks: tuple[Block, ...]

    def rewritten(self, outputs: Sequence[Sequence[str]]) -> str:
        """Return the text with other lines below its marks; blocks without any keep theirs."""
        lines: list[str] = []
        place = 0
        for block, output in zip(self.blocks, outputs, strict=False):
            lines += self.lines[place : block.mark + 1]
            lines += output
            place = block.mark + 1 + len(block.expected)
        lines += self.lines[place:]
        return "\n".join(lines) + "\n"


def read_script(text: str, name: str) -> Script:
    """Find the blocks of a text.

    Args:
        text: the whole file.
        name: the name of the file, for errors.

    Raises:
        ScenarioError: it does not begin with a comment, or a block has no mark.
    """
    lines = text.splitlines()
    if not lines or not lines[0].startswith("#"):
        raise ScenarioError(f"{name}:1: expected a comment that names the subject")
    blocks: list[Block] = []
    place = 0
    while place < len(lines):
        if not lines[place] or lines[place].startswith("#"):
            place += 1
            continue
        block = _read_block(lines, place, name)
        blocks.append(block)
        place = block.mark + 1 + len(block.expected)
    if not blocks:
        raise ScenarioError(f"{name}:{len(lines)}: expected commands, but the file ends")
    return Script(name, tuple(lines), tuple(blocks))


def _read_block(lines: Sequence[str], start: int, name: str) -> Block:
    commands: list[tuple[int, str]] = []
    mark = start
    while mark < len(lines) and lines[mark] != MARK:
        if not lines[mark]:
            raise ScenarioError(f"{name}:{mark + 1}: expected {MARK!r} before the empty line")
        if not lines[mark].startswith("#"):
            commands.append((mark + 1, lines[mark]))
        mark += 1
    if mark == len(lines):
        raise ScenarioError(f"{name}:{mark}: expected {MARK!r}, but the file ends")
    end = mark + 1
    while end < len(lines) and lines[end]:
        end += 1
    return Block(tuple(commands), tuple(lines[mark + 1 : end]), mark)
