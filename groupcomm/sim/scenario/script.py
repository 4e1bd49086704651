"""The text of a scenario: blocks of commands, each followed by what happened.

::

    # a comment
    crash c
    await a b within 700ms
    ----
    a b: leaves with a b

A block ends with an empty line. Comments stand anywhere but in the part below ``----``.
"""

from collections.abc import Sequence
from typing import Final

import attrs

from groupcomm.sim.scenario.words import ScenarioError

MARK: Final = "----"


@attrs.frozen
class Block:
    """Some commands and what they should bring about.

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
        name: of its file.
        lines: all of it.
        blocks: in their order.
    """

    name: str
    lines: tuple[str, ...]
    blocks: tuple[Block, ...]

    def rewritten(self, outputs: Sequence[Sequence[str]]) -> str:
        """The text with other lines below its marks; blocks without any keep theirs."""
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
        name: of the file, for complaints.

    Raises:
        ScenarioError: it does not begin with a comment, or a block has no mark.
    """
    lines = text.splitlines()
    if not lines or not lines[0].startswith("#"):
        raise ScenarioError(f"{name}:1: expected a comment that says what this is about")
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
