"""Manual pages and shell completions, made from the parsers of the commands.

    python -m packages.manuals DIR

writes man/man1/groupcomm.1 and a page for each verb, man/man8/groupcommd.8, and completions for
bash, zsh and fish below DIR, in the places where /usr/share has them.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import shtab
from argparse_manpage.manpage import Manpage

import groupcomm_tools.cli
import groupcommd.cli

COMPLETIONS: Final = {
    "bash": "bash-completion/completions/{name}",
    "zsh": "zsh/vendor-completions/_{name}",
    "fish": "fish/vendor_completions.d/{name}.fish",
}
"""The place of a command's completions below /usr/share, by shell."""

SECTIONS: Final = {"groupcomm": 1, "groupcommd": 8}
"""Section 1 of the manual has commands of users, section 8 those of administrators."""


def parsers() -> list[argparse.ArgumentParser]:
    """Return the parser of each command, complete."""
    return [groupcomm_tools.cli.make_parser(), groupcommd.cli.make_parser()]


def command_pages() -> list[argparse.ArgumentParser]:
    """Return the parser of groupcomm, which only names its verbs, and those of the verbs."""
    top = groupcomm_tools.cli.make_parser(())
    top.epilog = f"groupcomm-VERB(1) describes a verb.\n\n{top.epilog}"
    verbs = groupcomm_tools.cli.make_parser().commands.choices.values()
    return [top, *verbs]


def write_all(folder: Path) -> list[Path]:
    """Write the manual page and the completions of each command; return the files."""
    written = []
    for parser, pages in zip(parsers(), (command_pages(), parsers()[1:]), strict=True):
        name = parser.prog
        section = SECTIONS[name]
        texts = {
            f"man/man{section}/{page.prog.replace(' ', '-')}.{section}": manual_page(page, section)
            for page in pages
        }
        complete_files(parser)
        for shell, place in COMPLETIONS.items():
            texts[place.format(name=name)] = shtab.complete(parser, shell=shell)
        for place, text in texts.items():
            path = folder / place
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
            written.append(path)
    return written


def manual_page(parser: argparse.ArgumentParser, section: int) -> str:
    """Return a manual page in roff: description, each command with its options, examples."""
    add_examples(parser)
    short = str(parser.description).rstrip(".")
    if parser.prog != "groupcommd":
        parser.description = f"{parser.description}\n\n{parser.epilog or ''}"
        parser.epilog = None
    for group in parser._action_groups:
        if group.title == "positional arguments" and group._group_actions:
            has_verbs = isinstance(group._group_actions[0], argparse._SubParsersAction)
            group.title = "commands" if has_verbs else "arguments"
    page = Manpage(parser, format="pretty")
    page.prog = parser.prog.replace(" ", "-")
    page.section, page.source, page.manual = section, "groupcomm", "groupcomm"
    page.description = short[0].lower() + short[1:]
    return str(page)


def add_examples(parser: argparse.ArgumentParser) -> None:
    """Add the epilog of every subcommand to its description: its page has no other place for it."""
    for action in parser._actions:  # argparse has no public access to them; shtab also uses this
        if isinstance(action, argparse._SubParsersAction):
            for command in action.choices.values():
                command.description = f"{command.description or ''}\n\n{command.epilog or ''}"
                command.epilog = None
                add_examples(command)


def complete_files(parser: argparse.ArgumentParser) -> None:
    """Have every option and argument that is a path be completed with names of files."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for command in action.choices.values():
                complete_files(command)
        elif action.type is Path:
            action.complete = shtab.FILE  # type: ignore[attr-defined]


def main(arguments: Sequence[str] | None = None) -> int:
    """Write all files below a folder."""
    parser = argparse.ArgumentParser(
        prog="packages.manuals", description="Write manual pages and completions."
    )
    parser.add_argument("folder", type=Path, metavar="DIR")
    for path in write_all(parser.parse_args(arguments).folder):
        print(path)
    return 0


if __name__ == "__main__":
    sys.exit(main())
