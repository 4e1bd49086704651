"""The work on a token that needs nothing but the token and the streams."""

from groupcomm.stream.ranges import merge_ranges
from groupcomm.stream.stream import Stream
from groupcomm.wire.data import DataPacket
from groupcomm.wire.token import Row, Token

Request = tuple[int, int, int]
"""(ring of the stream, first number, last number), asked for by somebody in the token."""


def first_token(
    ring: int, members: tuple[int, ...], *, hop: int, clock: int, streams: list[Stream]
) -> Token:
    """The token with which a view's ring starts, at its lowest daemon."""
    held = [stream.held for stream in streams]
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


def answer_requests(
    requests: list[Request], streams: list[Stream], budget: int
) -> tuple[list[DataPacket], list[Request]]:
    """Find what is asked for and held here.

    Args:
        requests: as they stand in the token.
        streams: all streams of the view, by ring.
        budget: bytes to retransmit at most; what does not fit stays asked for.

    Returns:
        The packets to multicast, and the requests that remain for others.
    """
    answers: list[DataPacket] = []
    remaining: list[Request] = []
    for ring, first, last in requests:
        stream = streams[ring]
        packets = stream.packets
        unmet = 0  # first number of the current run that stays asked for
        for number in range(max(first, stream.forgotten + 1), min(last, stream.known) + 1):
            packet = packets.get(number)
            if packet is not None and budget > 0:
                answers.append(packet)
                budget -= len(packet.raw)
                if unmet:
                    remaining.append((ring, unmet, number - 1))
                    unmet = 0
            else:
                unmet = unmet or number
        if unmet:
            remaining.append((ring, unmet, min(last, stream.known)))
    return answers, remaining


def add_requests(token: Token, ring: int, ranges: list[tuple[int, int]], room: int) -> None:
    """Ask for ranges of a stream in the token, on top of what others ask for.

    What is beyond `room` requests is asked for at a later visit.
    """
    if not ranges:
        return
    same = [(first, last) for asked, first, last in token.requests if asked == ring]
    others = [request for request in token.requests if request[0] != ring]
    united = [(ring, first, last) for first, last in merge_ranges(same + ranges)]
    token.requests = (others + united)[:room]


def queue_wishes(token: Token, wanted: list[int], me: int) -> None:
    """Queue in the token those who asked here; the holder's own wish is fulfilled."""
    queue = token.wanted + [daemon for daemon in wanted if daemon not in token.wanted]
    token.wanted = [daemon for daemon in queue if daemon != me]
    wanted.clear()


def least_frontier(token: Token) -> int:
    """The frontier of the ring: the least that its daemons have written into the token."""
    return min([row.frontier for row in token.rows])


def held_by_ring(token: Token, ring: int) -> int:
    """Up to where every daemon of the token's ring holds a ring's stream."""
    return min([row.held[ring] for row in token.rows])
