"""Wrong ways to translate between Spread's programs and a daemon."""

import itertools
from collections import defaultdict
from typing import Any

from groupcomm.session.daemon_frames import decode_delivery_untrusted
from groupcomm.session.spread import layout, session, views
from groupcomm.session.spread.session import SpreadSession
from groupcomm.wire.bundle import Bundle, decode_body_untrusted
from tests.verification.mutants.mutant import Right, mutant

MANY = 18
"""The groups with long names that fit into one packet."""


def _is_to_many(frame: bytes) -> bool:
    _, _, body = decode_delivery_untrusted(frame)
    return len(decode_body_untrusted(body).groups) > MANY


@mutant((SpreadSession, "_deliver"))
def messages_to_many_are_overtaken(right: Right) -> Right:
    """A message to many groups is delivered behind the next one of its receiver."""
    held: defaultdict[int, list[bytes]] = defaultdict(list)  # by the id of the session

    def deliver(self: SpreadSession, frame: bytes, told: list[bytes]) -> None:
        waiting = held[id(self)]
        if not waiting and _is_to_many(frame):
            waiting.append(bytes(frame))
            return
        for each in (frame, *waiting):
            right(self, each, told)
        waiting.clear()

    return deliver


@mutant((SpreadSession, "_deliver"))
def messages_to_many_are_lost(right: Right) -> Right:
    """Now and then one receiver does not get a message to many groups."""
    count = itertools.count(1)

    def deliver(self: SpreadSession, frame: bytes, told: list[bytes]) -> None:
        if not _is_to_many(frame) or next(count) % 20:
            right(self, frame, told)

    return deliver


@mutant((SpreadSession, "_send"))
def messages_to_many_go_in_parts(right: Right) -> Right:
    """A message to many groups is sent in parts, each to some of them."""

    def send(self: SpreadSession, sent: Any, messages: list[bytes]) -> None:
        for at in range(0, len(sent.groups), MANY):
            right(self, sent._replace(groups=sent.groups[at : at + MANY]), messages)

    return send


@mutant((session, "_type_bits"))
def marks_do_not_arrive(right: Right) -> Right:
    """The bits that programs set for their receivers are left out."""

    def type_bits(bundle: Bundle) -> int:
        return int(right(bundle)) & ~layout.MARKS

    return type_bits


@mutant((session, "encode_transitional"))
def transitions_are_not_told(_right: Right) -> Right:
    """A program is not told that members of its group are lost before the view without them."""
    return lambda _view: b""


@mutant((SpreadSession, "_change"))
def join_behind_a_leave_is_forgotten(right: Right) -> Right:
    """A program that leaves a group and joins it at once stays out."""
    left: dict[int, str] = {}  # by the id of the session

    def change(self: SpreadSession, kind: int, group: str) -> bool:
        if kind == layout.LEAVE:
            left[id(self)] = group
        elif left.pop(id(self), None) == group:
            return False
        return bool(right(self, kind, group))

    return change


@mutant((views, "_sets"))
def everybody_is_in_one_set(right: Right) -> Right:
    """All members of a view after a change of daemons are in one set, wherever they come from."""

    def sets(view: Any, members: list[Any], origins: Any) -> Any:
        return right(view, members, dict.fromkeys(origins, 0))

    return sets


BUGS = (
    everybody_is_in_one_set,
    join_behind_a_leave_is_forgotten,
    marks_do_not_arrive,
    messages_to_many_are_lost,
    messages_to_many_are_overtaken,
    messages_to_many_go_in_parts,
    transitions_are_not_told,
)
