"""Blocks and marks of pages are read; what breaks the convention is named by page and line."""

import pytest

from tests.documentation.blocks import Act, PageError, read_blocks


def page(*lines: str) -> str:
    return "\n".join(lines) + "\n"


def test_sh_and_python_are_run_and_other_languages_are_read() -> None:
    text = page(
        "# A",
        "```sh",
        "ls",
        "pwd",
        "```",
        "x",
        "",
        "```python",
        "1",
        "```",
        "```toml",
        "a = 1",
        "```",
    )
    blocks = read_blocks("a.md", text)
    assert [(b.line, b.language, b.act) for b in blocks] == [
        (2, "sh", Act.RUN),
        (8, "python", Act.RUN),
        (11, "toml", Act.NONE),
    ]
    assert blocks[0].text == "ls\npwd\n"
    assert [b.is_program for b in blocks] == [True, True, False]


@pytest.mark.parametrize(
    ("mark", "language", "act", "name"),
    [
        ("file: a.toml", "toml", Act.FILE, "a.toml"),
        ("background", "sh", Act.BACKGROUND, ""),
        ("background: ann", "python", Act.BACKGROUND, "ann"),
        ("output", "text", Act.OUTPUT, ""),
        ("output: ann", "text", Act.OUTPUT, "ann"),
        ("input: ann", "text", Act.INPUT, "ann"),
        ("not run: it needs two hosts", "sh", Act.NOT_RUN, ""),
        ("a comment about something else", "sh", Act.RUN, ""),
    ],
)
def test_a_mark_says_what_is_done_with_the_block_behind_it(
    mark: str, language: str, act: Act, name: str
) -> None:
    (block,) = read_blocks("a.md", page(f"<!-- {mark} -->", f"```{language}", "x", "```"))
    assert (block.act, block.name) == (act, name)


def test_the_reason_for_which_a_block_is_not_run_is_kept() -> None:
    (block,) = read_blocks(
        "a.md", page("<!-- not run: it needs", "two hosts -->", "```sh", "x", "```")
    )
    assert block.reason == "it needs two hosts"


def test_several_marks_stand_before_one_block() -> None:
    marks = (
        "<!-- stop: a --><!-- stop: b -->",
        "",
        "<!-- until: groupcomm status -->",
        "<!-- status: 3 -->",
    )
    (block,) = read_blocks("a.md", page(*marks, "```sh", "x", "```"))
    assert block.stops == ("a", "b")
    assert (block.until, block.status, block.act) == ("groupcomm status", 3, Act.RUN)


def test_blocks_in_lists_and_tables_are_found() -> None:
    text = page(
        "- one",
        "",
        "  <!-- file: a -->",
        "  ```python",
        "  1",
        "  ```",
        "",
        "<table>",
        "",
        "```sh",
        "x",
        "```",
        "",
        "</table>",
    )
    assert [(b.act, b.text) for b in read_blocks("a.md", text)] == [
        (Act.FILE, "1\n"),
        (Act.RUN, "x\n"),
    ]


@pytest.mark.parametrize(
    ("lines", "error"),
    [
        (["", "    ls"], "a.md:2: this block is indented"),
        (["```", "ls", "```"], "a.md:1: the block has no language"),
        (["<!-- file -->", "```sh", "ls", "```"], "a.md:1: 'file' needs a value"),
        (["<!-- not run -->", "```sh", "ls", "```"], "a.md:1: 'not run' needs a value"),
        (
            ["<!-- background -->", "", "Words.", "", "```sh", "ls", "```"],
            "a.md:1: no block follows",
        ),
        (["<!-- background -->"], "a.md:1: no block follows"),
        (["<!-- file: a --><!-- output -->", "```sh", "ls", "```"], "a.md:2: a block has one mark"),
        (["<!-- background -->", "```text", "ls", "```"], "a.md:2: only blocks of sh and python"),
        (["<!-- status: bad -->", "```sh", "ls", "```"], "a.md:2: the status is no number"),
    ],
)
def test_what_breaks_the_convention_is_named(lines: list[str], error: str) -> None:
    with pytest.raises(PageError, match=f"^{error}"):
        read_blocks("a.md", page(*lines))
