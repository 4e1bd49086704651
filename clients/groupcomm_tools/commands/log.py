"""`groupcomm log`: print, check, compare and compact recorded messages and views."""

import argparse
import json
import sys
from collections.abc import Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final

from groupcomm.errors import ConfigError
from groupcomm.host.option_types import existing_folder, one_or_more
from groupcomm_log.errors import Damage, LogError
from groupcomm_tools.commands.options import need_pyarrow
from groupcomm_tools.commands.subcommands import Subcommand, add_subcommands, argument
from groupcomm_tools.commands.subcommands import run as run_subcommand
from groupcomm_tools.terminal import below, say

if TYPE_CHECKING:
    import pyarrow as pa

EXAMPLE: Final = "groupcomm log cat chat-log --from -10 --format '{row} {sender} {data}'"

FROM_HELP: Final = "begin, -100, row:N, row:EPOCH:N or @TIME (begin); docs/recorder.md"


FOLDER: Final = (
    argument("folder", type=existing_folder, metavar="DIR", help="folder of the log"),
    argument("--json", action="store_true", help="print one line of JSON for each row"),
)
PLACES: Final = (
    argument("--from", dest="start", default="begin", metavar="WHERE", help=FROM_HELP),
    argument("--count", type=one_or_more, metavar="N", help="end after N rows"),
    argument("--messages", action="store_true", help="omit views and gaps"),
    argument("--format", metavar="TEXT", help="format of a row, with {fields} and \\n"),
)
OTHER: Final = argument(
    "other", type=existing_folder, metavar="DIR", help="folder of the other recorder's log"
)
MOST: Final = argument(
    "--to-mb",
    type=one_or_more,
    default=512,
    metavar="MB",
    help="the most megabytes of files that become one (512)",
)


def add_options(parser: argparse.ArgumentParser) -> None:
    """Declare the verbs."""
    add_subcommands(
        parser,
        Subcommand("cat", _cat, "print rows", "chat-log --from -10 --json", *FOLDER, *PLACES),
        Subcommand(
            "check",
            _check,
            "check that everything is there, as it was written",
            "chat-log",
            *FOLDER,
        ),
        Subcommand(
            "diff", _diff, "compare the logs of two recorders", "log-a log-b", *FOLDER, OTHER
        ),
        Subcommand(
            "compact",
            _compact,
            "write many sealed files as few, with the same rows",
            "chat-log",
            *(*FOLDER, MOST),
        ),
    )


def run(options: argparse.Namespace) -> int:
    """Run the verb that was chosen; return its exit status."""
    need_pyarrow("reads logs")
    return run_subcommand(options)


class Damages:
    """A callback that prints each damage once, and remembers it."""

    def __init__(self) -> None:
        self.found: set[Damage] = set()

    def __call__(self, damage: Damage) -> None:
        """Print a damage, unless it was printed before."""
        if damage in self.found:
            return  # the log is read twice
        self.found.add(damage)
        say(f"groupcomm: damaged: {damage}")


def batches_from(options: argparse.Namespace, damages: Damages) -> Iterator["pa.RecordBatch"]:
    """Return the rows of a log, from the start in the options up to the present end.

    Raises:
        ConfigError: `--from` names no place.
        LogError: there is no log.
    """
    from groupcomm_log.reader import (  # noqa: PLC0415 - an extra
        LogReader,
        find_start,
        parse_start,
    )

    try:
        start = parse_start(options.start)
    except LogError as error:
        raise ConfigError(f"--from {error}") from None
    reader = LogReader(options.folder, damages)
    return reader.batches(find_start(reader, start), reader.end())


# ---- cat ----


def _cat(options: argparse.Namespace) -> int:
    from groupcomm_tools.recording.row_text import (  # noqa: PLC0415 - an extra
        DEFAULT_FORMAT,
        RowFormat,
        as_json,
    )

    text = RowFormat(DEFAULT_FORMAT if options.format is None else options.format)
    damages = Damages()
    whole = options.format is not None and options.format.endswith("\\0")
    end, output = (
        ("", below(sys.stdout)) if whole else ("\n", sys.stdout)
    )  # JSON for a program, or text for people
    for row in _rows(options, damages):
        if options.json:
            print(json.dumps(as_json(row), ensure_ascii=False))
        else:
            output.write(text.of(row) + end)
    sys.stdout.flush()
    return 1 if damages.found else 0


def _rows(options: argparse.Namespace, damages: Damages) -> Iterator[dict[str, Any]]:
    left = options.count
    for batch in batches_from(options, damages):
        for row in batch.to_pylist():
            if options.messages and row["kind"] != "message":
                continue
            if left is not None:
                if not left:
                    return
                left -= 1
            yield row


# ---- check ----


def _check(options: argparse.Namespace) -> int:
    from groupcomm_log.check import check_log  # noqa: PLC0415 - an extra

    found = check_log(options.folder)
    missing = [f"rows {first} to {last} are missing" for first, last in found.missing]
    aside = [f"{name}: damaged; its readable rows are sealed" for name in found.put_aside]
    wrong = [*map(str, found.damage), *missing, *aside]
    if options.json:
        figures = {
            "files": found.files,
            "rows": found.rows,
            "messages": found.messages,
            "first": found.first,
            "last": found.last,
            "gaps": found.gaps,
            "wrong": wrong,
            "recorded_now": found.is_recorded,
        }
        print(json.dumps(figures))
    else:
        for text in wrong:
            say(f"groupcomm: {text}")
        span = f"{found.first.row} to {found.last.row}" if found.first and found.last else "none"
        print(
            f"{found.files} files, {found.rows} rows ({span}), {found.messages} messages,"
            f" {len(found.gaps)} gaps marked, {len(wrong)} faults"
        )
    return 1 if wrong else 0


# ---- diff ----


def _diff(options: argparse.Namespace) -> int:
    from groupcomm_log.diff import compare  # noqa: PLC0415 - an extra

    damages = Damages()
    found = compare(options.folder, options.other, damages)
    if options.json:
        figures = {
            "views": found.views,
            "group_views": found.changes,
            "messages": dict(found.compared),
            "left_out": found.left_out,
            "differences": found.differences,
        }
        print(json.dumps(figures))
    else:
        for text in found.differences:
            print(text)
        levels = ", ".join(f"{count} {level}" for level, count in sorted(found.compared.items()))
        print(
            f"{found.views} views of daemons in common, {found.changes} group views and"
            f" {levels or 'no'} messages compared, {found.left_out} below AGREED left out because"
            f" not both were members throughout, {len(found.differences)} differences"
        )
    return 1 if found.differences or damages.found else 0


# ---- compact ----


def _compact(options: argparse.Namespace) -> int:
    from groupcomm_log.compaction import compact  # noqa: PLC0415 - an extra

    done = compact(options.folder, options.to_mb * 1_000_000)
    if options.json:
        print(json.dumps(asdict(done)))
    else:
        print(f"{done.before} files became {done.after}, {done.rows} rows were written anew")
    return 0
