"""Events of groups from any place on, printed until enough have come: `groupcomm sub --start` and
`groupcomm history read`.

Each event comes with the place to go on from: the `--start` of the next run.
"""

import argparse
import json
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from functools import partial
from math import inf
from typing import TYPE_CHECKING, Any, Final

from groupcomm.clocks.stamp import Position, parse_position
from groupcomm.errors import ConfigError, GroupCommError, LocalProtocolError
from groupcomm.events import DaemonView, GroupView, MemberId, Message, Transition
from groupcomm.host.option_types import not_negative
from groupcomm.level import ServiceLevel
from groupcomm.names import check_group
from groupcomm_client.blocking import BlockingConnection
from groupcomm_client.deadlines import move_on_after
from groupcomm_client.history.cursor_client import First
from groupcomm_client.history.frames import (
    ARCHIVES,
    Find,
    Frame,
    Offer,
    Piece,
    Read,
    decode_untrusted,
    encode,
)
from groupcomm_client.history.gap_wait import GAP_WAIT_S
from groupcomm_client.history.given import EARLIEST, LATEST, CaughtUp, Compacted, Gap, Given
from groupcomm_client.history.live import MARK
from groupcomm_client.history.places import place_of
from groupcomm_client.history.refusals import Refusal
from groupcomm_client.history.subscriber import FIND_S
from groupcomm_tools.commands.connecting import connect_blocking
from groupcomm_tools.event_text import describe, position_text, print_event
from groupcomm_tools.terminal import say

if TYPE_CHECKING:
    from groupcomm_client.history.blocking import BlockingSubscription

START_HELP: Final = "earliest, latest, a POSITION that was printed, or @TIME"
UNTIL_HELP: Final = "now, a POSITION, or @TIME"

TIME_HELP: Final = "TIME is in ISO 8601, in UTC unless an offset follows, or in seconds since 1970"

ANSWER_S: Final = 1.0
"""The time in which archives answer what they hold."""

STORED_S: Final = 1.0
"""The time after which an archive has written what it received."""

PIECE_S: Final = 10.0
"""The time in which an archive finds a time in its store."""

LOOK_S: Final = 1.0
"""The time from one look at whether an archive is waited for to the next."""

ShowEvent = Callable[[Given, str | None], None]
"""A function that prints an event, and the place to go on from."""

_SHOWN_WITH_PLACE: Final = (Message, GroupView, DaemonView, Transition)


class NoArchive(GroupCommError):
    """No archive answers; the text says what to do."""


def add_end_options(parser: argparse.ArgumentParser) -> None:
    """Declare the options of a reading, besides its start and a count."""
    parser.add_argument(
        "--until", metavar="PLACE", help=f"end there: {UNTIL_HELP}; default: go on with live events"
    )
    parser.add_argument("--stable", action="store_true", help="only what all daemons hold")
    parser.add_argument(
        "--compacted",
        action="store_true",
        help="of what archives have compacted the last message of each key is enough",
    )
    parser.add_argument(
        "--gap-wait-s",
        type=not_negative,
        default=GAP_WAIT_S,
        metavar="S",
        help="wait for an archive that has been away for less than S seconds before a gap; 0: do"
        f" not ({GAP_WAIT_S:g})",
    )


def parse_start(text: str) -> First:
    """Return the start that a text names.

    Raises:
        ConfigError: the text names no place.
    """
    if text in ("earliest", "latest"):
        return EARLIEST if text == "earliest" else LATEST
    try:
        return _parse_place(text)
    except (ValueError, OverflowError, OSError):
        raise ConfigError(f"--start {text}: it must be {START_HELP}; {TIME_HELP}") from None


def parse_until(text: str | None) -> Position | datetime | None:
    """Return the end that a text names; None for ``now``, and without an end.

    Raises:
        ConfigError: the text names no place, or a time to come.
    """
    if text in (None, "now"):
        return None
    assert text is not None
    try:
        until = _parse_place(text)
    except (ValueError, OverflowError, OSError):
        raise ConfigError(f"--until {text}: it must be {UNTIL_HELP}; {TIME_HELP}") from None
    if isinstance(until, datetime) and until > datetime.now(UTC):
        raise ConfigError(f"--until {text} is still to come; --duration-s ends after a time")
    return until


def _parse_place(text: str) -> Position | datetime:
    return _parse_time(text[1:]) if text.startswith("@") else parse_position(text)


def _parse_time(text: str) -> datetime:
    try:
        return datetime.fromtimestamp(float(text), UTC)
    except ValueError:
        found = datetime.fromisoformat(text)
        return found if found.tzinfo is not None else found.replace(tzinfo=UTC)


# ---- reading ----


def run(options: argparse.Namespace, show: ShowEvent) -> int:
    """Print events until the count, the end or the duration is reached; return 0.

    Args:
        options: those of `events`, `duration_s`, `no_reconnect`, and where to connect.
        show: prints an event.

    Raises:
        ConfigError: `start` or `until` names no place.
        NoArchive: no archive answers.
    """
    groups = tuple(check_group(name) for name in options.groups)
    parse_start(options.start), parse_until(options.until)  # before it connects
    duration_s = inf if options.duration_s is None else options.duration_s
    with (
        connect_blocking(options, reconnect=not options.no_reconnect) as connection,
        move_on_after(duration_s),
        closing(events(connection, groups, options)) as found,
    ):
        for event, position in found:
            show(event, position_text(position))
    return 0


def events(
    connection: BlockingConnection, groups: tuple[str, ...], options: argparse.Namespace
) -> Generator[tuple[Given, Position | None], None, None]:
    """Subscribe; yield each event, and the place up to which everything was given with it.

    Args:
        connection: a connection that nothing else reads.
        groups: the groups to subscribe to.
        options: `start`, `until`, `stable`, `compacted`, `gap_wait_s`, and `count`, which is None
            for no limit.

    Raises:
        ConfigError: `until` is a place that has not come.
    """
    start, until = parse_start(options.start), parse_until(options.until)
    if isinstance(until, datetime):
        until = last_before(connection, groups, until)
    elif until is not None:
        _check_has_come(connection, until)
    ways = {"stable": options.stable, "compacted": options.compacted}
    wait_s = options.gap_wait_s
    with connection.subscribe(groups, start=start, gap_wait_s=wait_s, **ways) as subscription:
        left = inf if options.count is None else options.count
        while left > 0:
            with _archive_needed():
                event = _receive(subscription)
            place, position = place_of(event), subscription.position
            if until is not None and place is not None and place > until:
                return
            yield event, position
            left -= isinstance(event, Message)
            if options.until == "now" and isinstance(event, CaughtUp):
                return
            if until is not None and position is not None and position >= until:
                return


def _check_has_come(connection: BlockingConnection, until: Position) -> None:
    """Raise ConfigError if a place is behind that of a message which is sent now."""
    connection.multicast(connection.name, MARK, level=ServiceLevel.SAFE)
    for message in messages(connection, PIECE_S):
        if message.sender == connection.member and message.data == MARK:
            if message.position is not None and until > message.position:
                raise ConfigError(
                    f"--until {position_text(until)} is still to come, or is a place of another"
                    " cluster; --duration-s ends after a time"
                )
            return


def _receive(subscription: "BlockingSubscription") -> Given:
    """Return the next event; say so if it must wait for an archive, or for the first answer."""
    is_said = False
    while True:
        try:
            return subscription.receive(None if is_said else LOOK_S)
        except TimeoutError:
            is_said = subscription.waits_for_archive or subscription.misses_archive
            if is_said:
                say(
                    "no archive has answered yet: start one with groupcomm history serve, or begin"
                    " with --start latest"
                    if subscription.misses_archive
                    else "no archive that answers has what comes next: waiting for one that may"
                    " come back (--gap-wait-s)"
                )


@contextmanager
def _archive_needed() -> Iterator[None]:
    try:
        yield
    except LocalProtocolError as error:  # the request is right; there is nobody to answer it
        raise NoArchive(str(error)) from None


def print_given(event: Given, next_start: str | None, *, as_json: bool, with_groups: bool) -> None:
    """Print an event with the place to go on from; where the reading stands goes to standard error
    unless JSON is asked for.
    """
    if as_json:
        found = {**_describe(event), "next_start": next_start}
        print(json.dumps(found, ensure_ascii=False), flush=True)
    elif isinstance(event, CaughtUp | Gap | Compacted):
        say(str(event))
    else:
        if isinstance(event, _SHOWN_WITH_PLACE):
            print(next_start or "-", end=" ")
        print_event(event, as_json=False, with_groups=with_groups)


def print_for(options: argparse.Namespace) -> ShowEvent:
    """Return the function that prints an event as the options say."""
    return partial(print_given, as_json=options.json, with_groups=len(options.groups) > 1)


def _describe(event: Given) -> dict[str, Any]:
    if isinstance(event, CaughtUp):
        return {"event": "caught up", "position": position_text(event.position)}
    if isinstance(event, Gap | Compacted):
        after, upto = position_text(event.after), position_text(event.upto)
        name = "gap" if isinstance(event, Gap) else "compacted"
        return {"event": name, "after": after, "upto": upto}
    return describe(event)


# ---- times ----


def last_before(
    connection: BlockingConnection, groups: tuple[str, ...], moment: datetime
) -> Position:
    """Return the last place with events that an archive received before a time.

    A subscription that starts at this time begins behind this place.

    Raises:
        NoArchive: no archive answers.
        AccessRefused: the rules of the archives' daemons do not allow it.
    """
    time.sleep(max(0.0, moment.timestamp() + STORED_S - time.time()))
    connection.multicast(ARCHIVES, encode(Find(1, groups)))
    offers, refusal = {}, None
    for sender, frame in answers(connection, FIND_S):
        if isinstance(frame, Offer) and frame.intervals:
            offers[sender] = frame
        elif isinstance(frame, Refusal):
            refusal = frame
    if refusal is not None and not offers:
        raise refusal.error
    if offers:
        archive = min(offers, key=lambda each: offers[each].intervals[0])
        since_us = int(moment.timestamp() * 1_000_000)
        connection.multicast(archive.name, encode(Read(2, groups, None, since_us, 1)))
        for sender, frame in answers(connection, PIECE_S):
            if sender == archive and isinstance(frame, Piece):
                return frame.after
    raise NoArchive(
        f"no archive of {', '.join(groups)} has answered; start one with groupcomm history serve"
    )


def answers(connection: BlockingConnection, within_s: float) -> Iterator[tuple[MemberId, Frame]]:
    """Yield what archives answer to subscribers in some seconds, and who does."""
    for message in messages(connection, within_s):
        frame = decode_untrusted(message.data)
        if frame is not None:
            yield message.sender, frame


def messages(connection: BlockingConnection, within_s: float) -> Iterator[Message]:
    """Yield the messages of some seconds."""
    until = time.monotonic() + within_s
    while (left := until - time.monotonic()) > 0:
        try:
            event = connection.receive(left)
        except TimeoutError:
            return
        if isinstance(event, Message):
            yield event
