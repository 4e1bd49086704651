"""The code blocks of a page of Markdown, and the marks that say what is done with each.

A mark is a comment of HTML directly before a block; docs/CONTRIBUTING.md lists the marks.
Pure: text in, blocks out.
"""

import enum
import re
from collections.abc import Iterator
from typing import Final

import attrs
from markdown_it import MarkdownIt
from markdown_it.token import Token

LANGUAGES: Final = {"sh": "sh", "bash": "sh", "shell": "sh", "python": "python", "py": "python"}
"""The languages whose blocks are run, by the names that a fence may have."""

_COMMENT: Final = re.compile(r"<!--(.*?)-->", re.DOTALL)
_MARK: Final = re.compile(
    r"(not run|file|background|stop|output|input|status|until)\b\s*(?::\s*(.*))?", re.DOTALL
)
_NEED_VALUE: Final = frozenset({"not run", "file", "input", "status", "until"})


class PageError(Exception):
    """A page that breaks the convention, or whose block did not do what the page says.

    The text begins with the page and the line.
    """


class Act(enum.Enum):
    """The treatment of a block."""

    NONE = enum.auto()  # a text to look at
    RUN = enum.auto()
    BACKGROUND = enum.auto()  # run beside the blocks that follow
    FILE = enum.auto()  # saved
    INPUT = enum.auto()  # typed into a program in the background
    OUTPUT = enum.auto()  # compared with what was printed
    NOT_RUN = enum.auto()


@attrs.frozen(kw_only=True)
class Block:
    """A block of a page.

    Attributes:
        page: the name of the page, for errors.
        line: the line of its fence, from 1.
        language: "sh", "python", or the word behind the fence as it is.
        text: its lines, each with its end.
        act: what is done with it.
        name: the file to save; the program in the background that is meant, "" without a name.
        reason: the reason for which it is not run; else "".
        stops: the programs that are stopped before it; "" is all of them.
        status: the exit status that it has to have.
        until: a command that has to succeed before the block is run; else "".
    """

    page: str
    line: int
    language: str
    text: str
    act: Act
    name: str = ""
    reason: str = ""
    stops: tuple[str, ...] = ()
    status: int = 0
    until: str = ""

    @property
    def place(self) -> str:
        """Return page and line."""
        return f"{self.page}:{self.line}"

    @property
    def is_program(self) -> bool:
        """Return whether the block is of a language that is run."""
        return self.language in LANGUAGES.values() and self.act not in (Act.OUTPUT, Act.INPUT)


def read_blocks(page: str, text: str) -> list[Block]:
    """Return the blocks of a page, in its order.

    Args:
        page: the name of the page, for errors.
        text: the page.

    Raises:
        PageError: a block has no language, is indented instead of fenced, or has marks that do not
            go together; or a mark stands before no block.
    """
    blocks: list[Block] = []
    marks: dict[str, list[str]] = {}
    marked_at = 0
    for token in MarkdownIt("commonmark").parse(text):
        line = token.map[0] + 1 if token.map else 0
        if token.type == "html_block":
            found = list(_marks(f"{page}:{line}", token.content))
            marked_at = line if found else marked_at
            for mark, value in found:
                marks.setdefault(mark, []).append(value)
        elif token.type == "code_block":
            raise PageError(
                f"{page}:{line}: this block is indented, and so has no language: write it between"
                " two lines of ```, with the language behind the first"
            )
        elif token.type == "fence":
            blocks.append(_block(page, line, token, marks))
            marks = {}
        elif marks and token.type != "paragraph_close":
            raise PageError(f"{page}:{marked_at}: no block follows this mark directly")
    if marks:
        raise PageError(f"{page}:{marked_at}: no block follows this mark directly")
    return blocks


def _marks(place: str, html: str) -> Iterator[tuple[str, str]]:
    for comment in _COMMENT.findall(html):
        found = _MARK.fullmatch(comment.strip())
        if found is None:
            continue
        mark, value = found[1], " ".join((found[2] or "").split())
        if mark in _NEED_VALUE and not value:
            raise PageError(f"{place}: {mark!r} needs a value: <!-- {mark}: ... -->")
        yield mark, value


_ACTS: Final = {
    "not run": Act.NOT_RUN,
    "file": Act.FILE,
    "background": Act.BACKGROUND,
    "input": Act.INPUT,
    "output": Act.OUTPUT,
}


def _block(page: str, line: int, token: Token, marks: dict[str, list[str]]) -> Block:
    place = f"{page}:{line}"
    word = token.info.split()[0] if token.info.split() else ""
    language = LANGUAGES.get(word.strip("{}"), word)
    if not language:
        raise PageError(f"{place}: the block has no language: write it behind ```, or text")
    acts = [act for mark, act in _ACTS.items() if mark in marks]
    if len(acts) > 1:
        raise PageError(f"{place}: a block has one mark of: {', '.join(map(repr, _ACTS))}")
    runs = language in LANGUAGES.values()
    act = acts[0] if acts else Act.RUN if runs else Act.NONE
    if act is Act.BACKGROUND and not runs:
        raise PageError(f"{place}: only blocks of sh and python can be run in the background")
    (status,) = marks.get("status", ["0"])
    if not status.isdecimal():
        raise PageError(f"{place}: the status is no number: {status!r}")
    named = next(
        (marks[mark][0] for mark in ("file", "background", "input", "output") if mark in marks), ""
    )
    return Block(
        page=page,
        line=line,
        language=language,
        text=token.content,
        act=act,
        name=named,
        reason=marks.get("not run", [""])[0],
        stops=tuple(marks.get("stop", ())),
        status=int(status),
        until=marks.get("until", [""])[0],
    )
