"""Token handling: the work on a token that needs only the token and the streams.

Source: Amir, Moser, Melliar-Smith, Agarwal, Ciarfella, "The Totem Single-Ring Ordering and
Membership Protocol", ACM TOCS 13(4), 1995: retransmission requests in the token (its rtr list), and
the number up to which all daemons hold the stream (its aru). Unlike the paper, each daemon has a
row of its own in the token, and the least of a column takes the place of the aru.
"""

from typing import Final, NamedTuple

from groupcomm.config.versions import COLUMNS
from groupcomm.config.view import View
from groupcomm.stream.ranges import merge_ranges
from groupcomm.stream.stream import Gaps, Stream
from groupcomm.wire.data import DataPacket
from groupcomm.wire.token import MAX_REQUESTS, Row, Token, request_room

Request = tuple[int, int, int]
"""(ring of the stream, first number, last number): packets that some daemon asks for."""


AMPLE_REQUESTS: Final = 32
"""Where a token has room for this many requests its rows travel in full, as that is quicker."""


class TokenForm(NamedTuple):
    """The form of a ring's tokens.

    Attributes:
        room: the most requests in one.
        by_columns: whether their rows travel by columns (ring/far_columns.py), or in full.
        limit: the bytes that they fit, with columns always.
    """

    room: int
    by_columns: bool
    limit: int


def token_form(view: View, daemons: int, most_bytes: int) -> TokenForm:
    """Return the form of the tokens of a ring of so many daemons of a view, of so many bytes."""
    limit = min(view.token_limit, most_bytes)
    columns = len(view.rings) + view.reports_deliverable
    room = request_room(daemons, columns, limit)
    if room < AMPLE_REQUESTS and view.versions.features & COLUMNS:
        return TokenForm(MAX_REQUESTS, True, limit)
    return TokenForm(room, False, limit)


def first_token(
    ring: int,
    members: tuple[int, ...],
    *,
    hop: int,
    clock: int,
    streams: list[Stream],
    reports: bool = False,
) -> Token:
    """Return the token with which the ring of a view starts, at its lowest daemon.

    Args:
        ring, members: the ring, and its daemons.
        hop, clock, streams: as they are at the start.
        reports: whether rows tell what daemons can deliver.
    """
    held = [stream.held for stream in streams]
    if reports:
        held.append(held[ring])
    return Token(
        ring=ring,
        hop=hop,
        last=held[ring],
        last_sender=members[0],
        clock=clock,
        burst=0,
        rows=[Row(frontier=0, sent=0, held=list(held)) for _ in members],
        requests=[],
        wanted=[],
    )


IN_VAIN: Final = 3
"""A daemon that has answered a request at this many visits in a row leaves it to others once."""


def answer_requests(
    requests: list[Request],
    streams: list[Stream],
    budget: int,
    answered: dict[tuple[int, int], int],
) -> tuple[list[DataPacket], list[Request]]:
    """Find the requested packets that are held here.

    The next holder of the token answers first. If its datagrams are lost on the way to the daemon
    that asks, others have to answer as well: after a few answers in vain it leaves the request to
    them for one visit.

    Args:
        requests: the requests in the token.
        streams: all streams of the view, by ring.
        budget: the most bytes to retransmit; packets that do not fit stay requested.
        answered: the number of visits in a row at which packets were requested that are held here,
            by ring and number; it is updated.

    Returns:
        The packets to multicast, and the requests that remain for other daemons.
    """
    before = answered.copy()
    answered.clear()
    answers: list[DataPacket] = []
    remaining: list[Request] = []
    for ring, first, last in requests:
        stream = streams[ring]
        packets = stream.packets
        unmet = 0  # the first number of the current run that stays requested
        end = min(last, stream.early[-1] if stream.early else stream.held)  # none above is here
        for number in range(max(first, stream.forgotten + 1), end + 1):
            packet = packets.get(number)
            if packet is not None and budget > 0:
                times = before.get((ring, number), 0)
                answered[ring, number] = (times + 1) % (IN_VAIN + 1)
                if times == IN_VAIN:
                    packet = None
            if packet is not None and budget > 0:
                answers.append(packet)
                budget -= len(packet.raw)
                if unmet:
                    remaining.append((ring, unmet, number - 1))
                    unmet = 0
            else:
                unmet = unmet or number
        unmet = unmet or max(first, end + 1)
        if unmet <= min(last, stream.known):
            remaining.append((ring, unmet, min(last, stream.known)))
    return answers, remaining


def add_requests(token: Token, ring: int, ranges: list[tuple[int, int]], room: int) -> None:
    """Request ranges of a stream in the token, on top of the requests of others.

    Requests beyond `room` are made when the token is here again.
    """
    if not ranges:
        return
    same = [(first, last) for asked, first, last in token.requests if asked == ring]
    others = [request for request in token.requests if request[0] != ring]
    united = [(ring, first, last) for first, last in merge_ranges(same + ranges)]
    token.requests = (others + united)[:room]


def request_foreign(token: Token, missing: list[Gaps], now: float, room: int) -> None:
    """Request the packets of other streams that are due; those that a row says are held are near.

    Requests beyond `room` are made when the token is here again.
    """
    for gaps in missing:
        if gaps.deadline <= now:
            ring = gaps.stream.ring
            near = max(row.held[ring] for row in token.rows)
            add_requests(token, ring, gaps.pop_due(now, near), room)


def queue_wanted(token: Token, wanted: list[int], me: int) -> None:
    """Queue in the token the daemons that asked here for it; the holder's own wish is fulfilled."""
    queue = token.wanted + [daemon for daemon in wanted if daemon not in token.wanted]
    token.wanted = [daemon for daemon in queue if daemon != me]
    wanted.clear()
