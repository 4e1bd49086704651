"""`groupcomm history cursors`: cursors that archives hold, shown, moved and removed by hand."""

import argparse
import json
from typing import Any, Final

import msgspec

from groupcomm.clocks.stamp import Position
from groupcomm.errors import ConfigError, GroupCommError
from groupcomm.events import MemberId
from groupcomm_client.blocking import BlockingConnection
from groupcomm_client.history.cursors import (
    CursorAnswer,
    CursorEntry,
    CursorList,
    ListCursors,
    PutCursor,
    merge_entry,
)
from groupcomm_client.history.frames import ARCHIVES, Find, Frame, Offer, encode
from groupcomm_client.history.given import Start
from groupcomm_tools.commands import reading
from groupcomm_tools.commands.connecting import connect_blocking
from groupcomm_tools.commands.options import add_connection_options
from groupcomm_tools.commands.subcommands import JSON, Subcommand, add_subcommands, argument
from groupcomm_tools.event_text import position_text
from groupcomm_tools.terminal import say

FAILED: Final = 1

WAIT_S: Final = 5.0
"""The time in which archives answer, as in `groupcomm_client.history.cursor_client`."""

PLACE_HELP: Final = "earliest, now, a POSITION that was printed, or @TIME"

_LIST, _PUT, _FIND = 1, 2, 3
"""The numbers of requests."""


class NoCursor(GroupCommError):
    """There is no such cursor; the text says what to do."""


NAME: Final = argument("name", metavar="NAME", help="name of the cursor")
PLACE: Final = argument(
    "place", metavar="PLACE", help=f"where to: {PLACE_HELP}; {reading.TIME_HELP}"
)


def add_options(parser: argparse.ArgumentParser) -> None:
    """Declare the verbs."""
    common = JSON, add_connection_options
    add_subcommands(
        parser,
        Subcommand("list", _list, "show all cursors", "", *common),
        Subcommand("show", _show, "show a cursor", "billing", NAME, *common),
        Subcommand(
            "move",
            _move,
            "move a cursor; the program that uses it must begin again",
            "billing @2026-01-31T12:00",
            *(NAME, PLACE, *common),
        ),
        Subcommand(
            "remove",
            _remove,
            "remove a cursor; a program that begins with it begins anew",
            "billing",
            *(NAME, *common),
        ),
    )


# ---- commands ----


def _list(options: argparse.Namespace) -> int:
    with connect_blocking(options) as connection:
        found = _cursors(connection)
    if options.json:
        print(json.dumps({"cursors": [_describe(each) for each in found.values()]}))
    else:
        for entry in found.values():
            _print(entry)
        if not found:
            say("there is no cursor: a program makes one by a subscription with start=Cursor(name)")
    return 0


def _show(options: argparse.Namespace) -> int:
    with connect_blocking(options) as connection:
        entry = _cursor(connection, options.name)
    return _show_entry(entry, options)


def _move(options: argparse.Namespace) -> int:
    _check_place(options.place)  # before it connects
    with connect_blocking(options) as connection:
        entry = _cursor(connection, options.name)
        place = _place(connection, entry.groups, options.place)
        moved = _put(connection, entry, place)
    return _show_entry(moved, options)


def _remove(options: argparse.Namespace) -> int:
    with connect_blocking(options) as connection:
        removed = _put(connection, _cursor(connection, options.name), None)
    if options.json:
        print(json.dumps({"removed": removed.name}))
    return 0


def _show_entry(entry: CursorEntry, options: argparse.Namespace) -> int:
    if options.json:
        print(json.dumps(_describe(entry)))
    else:
        _print(entry)
    return 0


def _describe(entry: CursorEntry) -> dict[str, Any]:
    position = position_text(entry.position)
    return {
        "name": entry.name,
        "groups": list(entry.groups),
        "position": position,
        "by": entry.by,
    }


def _print(entry: CursorEntry) -> None:
    groups = ",".join(entry.groups)
    print(f"{entry.name}  {groups}  {position_text(entry.position)}  by {entry.by}")


# ---- archives ----


def _ask(connection: BlockingConnection, frame: Frame, number: int) -> dict[MemberId, Frame]:
    """Ask the archives; return what they answer, once all have, or their time is over.

    Raises:
        NoArchive: none answers.
    """
    connection.multicast(ARCHIVES, encode(frame))
    found: dict[MemberId, Frame] = {}
    for sender, answer in reading.answers(connection, WAIT_S):
        if isinstance(answer, CursorAnswer | CursorList) and answer.number == number:
            found[sender] = answer
            if found.keys() >= set(answer.archives):
                break
    if not found:
        raise reading.NoArchive(
            f"no archive has answered in {WAIT_S:g} s; start one with groupcomm history serve"
        )
    return found


def _cursors(connection: BlockingConnection) -> dict[str, CursorEntry]:
    """Return all cursors that were not removed, by name."""
    found = _entries(connection)
    return {name: each for name, each in sorted(found.items()) if each.position is not None}


def _entries(connection: BlockingConnection) -> dict[str, CursorEntry]:
    entries: dict[str, CursorEntry] = {}
    for answer in _ask(connection, ListCursors(_LIST), _LIST).values():
        assert isinstance(answer, CursorList)
        for entry in answer.entries:
            merge_entry(entries, entry)
    return entries


def _cursor(connection: BlockingConnection, name: str) -> CursorEntry:
    found = _cursors(connection)
    if name not in found:
        raise NoCursor(
            f"there is no cursor {name}; groupcomm history cursors list shows those that there are"
        )
    return found[name]


def _put(connection: BlockingConnection, entry: CursorEntry, place: Position | None) -> CursorEntry:
    """Have all archives hold another place of a cursor.

    Raises:
        NoCursor: somebody else has changed the cursor meanwhile, or archives refuse the place.
        NoArchive: no archive answers.
    """
    wanted = msgspec.structs.replace(
        entry, generation=entry.generation + 1, position=place, by=connection.name
    )
    for answer in _ask(connection, PutCursor(_PUT, wanted), _PUT).values():
        assert isinstance(answer, CursorAnswer)
        if answer.refusal:
            raise NoCursor(answer.refusal)
        if answer.entry != wanted:
            by = "somebody" if answer.entry is None else answer.entry.by
            raise NoCursor(
                f"cursor {entry.name} was changed by {by} meanwhile; look at it, and try again"
            )
    return wanted


# ---- places ----


def _check_place(text: str) -> None:
    """Raise ConfigError if a text names no place to move to."""
    if text == "latest":
        raise ConfigError(f"PLACE is latest; it must be {PLACE_HELP}")
    if text != "now":
        try:
            reading.parse_start(text)
        except ConfigError:
            raise ConfigError(
                f"PLACE is {text}; it must be {PLACE_HELP}; {reading.TIME_HELP}"
            ) from None


def _place(connection: BlockingConnection, groups: tuple[str, ...], text: str) -> Position:
    """Return the place that a text names, in the history that archives of the groups have."""
    if text not in ("earliest", "now"):
        begin = reading.parse_start(text)
        if isinstance(begin, Position):
            return begin
        assert not isinstance(begin, Start)
        return reading.last_before(connection, groups, begin)
    connection.multicast(ARCHIVES, encode(Find(_FIND, groups)))
    intervals = [
        interval
        for _, frame in reading.answers(connection, reading.ANSWER_S)
        if isinstance(frame, Offer)
        for interval in frame.intervals
    ]
    if not intervals:
        raise reading.NoArchive(
            f"no archive of {', '.join(groups)} has answered; start one with groupcomm history"
            " serve"
        )
    if text == "earliest":
        return min(first for first, _ in intervals)
    return max(last for _, last in intervals)
