"""Packets that do not arrive though tokens do: whose they are, and when the view ends."""

from groupcomm.config.core import Timing
from groupcomm.ring.reception import LACKING_TIMEOUTS, LACKING_VISITS, Reception
from groupcomm.ring.token_handling import first_token
from groupcomm.stream.stream import Stream
from groupcomm.wire.data import DataPacket
from groupcomm.wire.token import Token
from tests.groupcomm.ring.harness import Daemon, make_view

TIMING = Timing()
LIMIT_S = LACKING_TIMEOUTS * TIMING.token_timeout_s
MEMBERS = (4, 6, 9)
STEP_S = LIMIT_S / (2 * LACKING_VISITS)


def packet(number: int) -> DataPacket:
    return DataPacket(ring=0, number=number, time=number, daemon=4, previous=number - 1, bundles=[])


def token_with(*held: int) -> Token:
    """Return a token whose rows say up to which number each daemon of the ring holds all."""
    token = first_token(0, MEMBERS, hop=1, clock=1, streams=[Stream(0, 0)])
    for row, number in zip(token.rows, held, strict=True):
        row.held = [number]
    return token


def lacking(*, known: int = 1) -> tuple[Stream, Reception]:
    """Return a stream of which all packets up to a number are missing, and the watch over it."""
    stream = Stream(0, 0)
    stream.learn(known)
    return stream, Reception(MEMBERS, 6, [stream], TIMING)


def visit(
    reception: Reception,
    token: Token,
    since: float,
    until: float,
    entered: frozenset[int] = frozenset(),
) -> None:
    """Have the token come again and again."""
    now = since
    while now <= until:
        reception.on_token(token, entered, now)
        now += STEP_S


def test_a_holder_whose_packet_does_not_come_is_not_received() -> None:
    _, reception = lacking()
    token = token_with(1, 0, 0)
    visit(reception, token, 0.0, LIMIT_S - STEP_S)
    assert not reception.overdue
    visit(reception, token, LIMIT_S, LIMIT_S + STEP_S)
    assert reception.overdue
    assert reception.not_received(LIMIT_S) == {4}


def test_all_holders_are_meant_and_no_other_daemon() -> None:
    _, reception = lacking()
    visit(reception, token_with(1, 0, 3), 0.0, LIMIT_S + STEP_S)
    assert reception.not_received(LIMIT_S) == {4, 9}


def test_a_packet_that_comes_ends_the_wait_for_it() -> None:
    stream, reception = lacking(known=2)
    token = token_with(2, 0, 0)
    visit(reception, token, 0.0, LIMIT_S - STEP_S)
    stream.accept(packet(1))
    assert reception.not_received(LIMIT_S) == set(), "also before the next visit"
    visit(reception, token, LIMIT_S, 2 * LIMIT_S - 2 * STEP_S)
    assert not reception.overdue, "the next packet has its own time"
    visit(reception, token, 2 * LIMIT_S, 2 * LIMIT_S + 2 * STEP_S)
    assert reception.overdue


def test_a_daemon_that_has_got_the_packet_late_gets_its_own_time_to_answer() -> None:
    _, reception = lacking()
    visit(reception, token_with(1, 0, 0), 0.0, LIMIT_S - STEP_S)
    visit(reception, token_with(1, 0, 1), LIMIT_S, LIMIT_S + STEP_S)
    assert reception.not_received(LIMIT_S + STEP_S) == {4}


def test_few_visits_of_the_token_show_nothing() -> None:
    """The daemon stood still, or the network did."""
    _, reception = lacking()
    for count in range(LACKING_VISITS // 2 - 1):
        reception.on_token(token_with(1, 0, 0), frozenset(), count * LIMIT_S)
    assert not reception.overdue
    assert reception.not_received(count * LIMIT_S) == set()


def test_a_packet_that_nobody_holds_is_nobodys_fault() -> None:
    """Other rings have numbered it, or a slow client keeps its holders from saying so."""
    _, reception = lacking()
    visit(reception, token_with(0, 0, 0), 0.0, 3 * LIMIT_S)
    assert not reception.overdue
    assert reception.not_received(3 * LIMIT_S) == set()


def test_at_the_end_of_a_view_half_the_time_is_enough() -> None:
    _, reception = lacking()
    visit(reception, token_with(1, 0, 0), 0.0, LIMIT_S / 2 + STEP_S)
    assert reception.not_received(LIMIT_S / 2 - STEP_S) == set()
    assert reception.not_received(LIMIT_S / 2 + STEP_S) == {4}
    assert not reception.overdue


def test_the_ring_is_not_to_blame_for_packets_that_a_link_brings_here() -> None:
    _, reception = lacking()
    visit(reception, token_with(1, 0, 1), 0.0, LIMIT_S - STEP_S)
    visit(reception, token_with(1, 0, 1), LIMIT_S, 3 * LIMIT_S, frozenset({0}))
    assert not reception.overdue
    assert reception.not_received(3 * LIMIT_S) == set()


def test_a_row_in_the_name_of_this_daemon_counts_for_nothing() -> None:
    """Another daemon has lied: this one knows what it holds."""
    _, reception = lacking()
    visit(reception, token_with(0, 1, 0), 0.0, 2 * LIMIT_S)
    assert not reception.overdue
    assert reception.not_received(2 * LIMIT_S) == set()


def test_a_daemon_that_holds_all_misses_nobody() -> None:
    stream, reception = lacking(known=0)
    visit(reception, token_with(0, 0, 0), 0.0, 2 * LIMIT_S)
    stream.accept(packet(1))
    visit(reception, token_with(1, 1, 1), 2 * LIMIT_S, 4 * LIMIT_S)
    assert not reception.overdue


def test_each_visit_of_the_token_counts_until_the_view_ends() -> None:
    daemon = Daemon(make_view((0, 1, 2)), 1)
    hop, now = 1, 0.0
    while now < LIMIT_S + 2 * STEP_S:
        token = first_token(0, (0, 1, 2), hop=hop, clock=1, streams=daemon.streams)
        token.last, token.rows[0].held = 1, [1]
        daemon.ring.on_token(token, now)
        daemon.step(now)
        assert daemon.ring.reception.overdue is (now >= LIMIT_S)
        hop, now = daemon.ring.last_hop + 3, now + STEP_S


def test_who_knows_of_no_packet_that_it_lacks_accuses_nobody() -> None:
    """Others may have heard more of another ring's packets, over a path that is shorter."""
    _, reception = lacking(known=0)
    visit(reception, token_with(5, 0, 5), 0.0, 2 * LIMIT_S)
    assert not reception.overdue
    assert reception.not_received(2 * LIMIT_S) == set()
