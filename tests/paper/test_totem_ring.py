"""The rules of Totem's ring, on machines without a network.

Source: Amir, Moser, Melliar-Smith, Agarwal, Ciarfella, "The Totem Single-Ring Ordering and
Membership Protocol", ACM TOCS 13(4), 1995: its total ordering protocol (the fields seq, aru and rtr
of the token, token retransmission, agreed and safe delivery) and its flow control mechanism (fcc).
The paper's seq is `last` here, its token_seq `hop`, its rtr list `requests`, its fcc `burst`; the
least number in a column of the token's rows takes the place of its aru.
"""

from attrs import evolve

from groupcomm.config.core import CoreConfig, Windows
from groupcomm.ring.states import TokenState
from groupcomm.wire.data import decode_data_untrusted
from groupcomm.wire.packet import PacketKind
from tests.groupcomm.ring.harness import AT_ONCE, Daemon, kinds, target_of_token, token_in, trio

Sent = list[tuple[int, bytes]]


def data_of(sent: Sent) -> Sent:
    return [item for item in sent if item[1][0] == PacketKind.DATA]


def token_of(sent: Sent) -> Sent:
    return [item for item in sent if item[1][0] == PacketKind.TOKEN]


def numbers_of(sent: Sent) -> list[int]:
    return [decode_data_untrusted(packet).number for _, packet in data_of(sent)]


def first_burst(count: int = 1) -> tuple[Daemon, Daemon, Daemon, Sent]:
    """Return a ring of three, and the packets of its first daemon for `count` messages."""
    a, b, c = trio()
    a.step(0.0)
    a.submit(count=count, size=1000)
    return a, b, c, a.step(0.0)


def test_ordering_only_the_holder_numbers_and_each_number_is_the_next_after_seq() -> None:
    """Total ordering protocol: seq of the token is raised by one for each new message."""
    a, b, _, first = first_burst(2)
    b.submit(count=2, size=1000)
    assert data_of(b.step(0.0)) == [], "without the token nothing is numbered"
    b.hear(first, 0.0)
    second = b.step(0.0)
    assert (numbers_of(first), numbers_of(second)) == ([1, 2], [3, 4])
    assert (token_in(first).last, token_in(second).last) == (2, 4)
    assert a.ring.state is TokenState.AWAY


def test_ordering_each_pass_raises_token_seq_and_a_token_that_is_not_newer_is_ignored() -> None:
    """Total ordering protocol: token_seq tells redundant copies of the token apart."""
    _, b, _, first = first_burst()
    b.hear(first, 0.0)
    second = b.step(0.0)
    assert token_in(second).hop == token_in(first).hop + 1
    b.hear(token_of(first), 0.0)
    assert token_of(b.step(0.0)) == []
    assert b.ring.duplicate_tokens == 1


def test_token_retransmission_the_token_is_sent_again_until_it_is_known_to_be_received() -> None:
    """Token retransmission: another token or a message with a higher number is the proof."""
    a, b, _, first = first_burst()
    again = a.step(a.ring.deadline)
    assert again == token_of(first), "the same token to the same daemon"
    b.hear(first, 0.0)
    b.submit()
    a.hear(data_of(b.step(0.0)), 0.0)
    a.step(0.1)
    assert a.ring.monitor.token_retransmissions == 1, "a message of a later holder ends it"


def test_gaps_what_is_missing_enters_the_requests_and_whoever_holds_it_sends_it_again() -> None:
    """Retransmission requests: rtr names missing numbers; a holder sends them, and removes them.

    As in the Accelerated Ring a number is requested once the token before showed that it exists.
    """
    a, b, c, first = first_burst(3)
    lost = data_of(first)[1]
    b.hear([item for item in first if item != lost], 0.0)
    c.hear(first[:3] + b.step(0.0), 0.0)
    a.hear(c.step(0.0), 0.0)
    b.hear(a.step(0.0), 0.0)
    asked = b.step(0.0)
    assert token_in(asked).requests == [(0, 2, 2)]
    c.hear(asked, 0.0)
    answer = c.step(0.0)
    assert data_of(answer)[0][1] == lost[1], "not only its sender may answer"
    assert token_in(answer).requests == []
    b.hear(data_of(answer), 0.0)
    assert b.own.held == 3


def test_gaps_a_request_that_the_holder_cannot_answer_stays_in_the_token() -> None:
    """Retransmission requests: numbers that were not retransmitted stay in rtr for others."""
    _, _, c, first = first_burst()
    token = token_in(first)
    token.requests = [(0, 1, 1)]  # from b, say; c has no reason yet to ask itself
    c.hear([(2, token.encode(bytes(16)))], 0.0)
    passed = c.step(0.0)
    assert data_of(passed) == []
    assert token_in(passed).requests == [(0, 1, 1)]


def test_aru_no_daemon_counts_a_number_as_held_by_all_before_each_has_said_so() -> None:
    """All-received-up-to: aru is the lowest number up to which each daemon holds all."""
    _, b, c, first = first_burst(2)
    b.hear(token_of(first), 0.0)  # b does not get the two messages
    second = b.step(0.0)
    assert token_in(second).held_by_all(0) == 0
    c.hear(data_of(first) + second, 0.0)
    third = c.step(0.0)
    assert [row.held[0] for row in token_in(third).rows] == [2, 0, 2]
    assert token_in(third).held_by_all(0) == 0, "b lacks them, though c holds them"
    assert c.ring.held_by_all == 0


def test_safe_delivery_needs_a_second_round_that_shows_that_each_daemon_holds_the_message() -> None:
    """Safe delivery: a message is safe once aru has been at its number in two rotations in turn.

    Here the least frontier in the token takes the place of aru: each daemon writes its own.
    """
    a, b, c, first = first_burst()
    time = decode_data_untrusted(data_of(first)[0][1]).time
    b.hear(first, 0.0)
    second = b.step(0.0)
    c.hear(data_of(first) + second, 0.0)
    assert min(row.frontier for row in token_in(second).rows) < time, "c has not written yet"
    third = c.step(0.0)
    assert max(a.frontiers, default=0) < time
    a.hear(third, 0.0)
    a.step(0.0)
    assert a.frontiers[-1] >= time, "all three have written, and a is the first to know"
    assert max(b.frontiers, default=0) < time, "b learns it by the next round only, or at rest"


def test_flow_control_a_holder_sends_no_more_than_its_window_and_what_the_round_leaves() -> None:
    """Flow control: a visit is limited by its window, and by the ring's window less fcc."""
    windows = Windows(visit_bytes=5000, ring_bytes=8000)
    a, b, _ = trio(evolve(AT_ONCE, windows=windows))
    a.step(0.0)
    a.submit(count=50, size=1000)
    first = a.step(0.0)
    assert kinds(first).count(PacketKind.DATA) == 5
    assert token_in(first).burst == sum(len(packet) for _, packet in data_of(first))
    b.submit(count=50, size=1000)
    b.hear(first, 0.0)
    assert kinds(b.step(0.0)).count(PacketKind.DATA) == 4, "its share of 8,000 bytes"


def test_flow_control_a_rotation_later_the_holders_own_messages_no_longer_count() -> None:
    """Flow control: each holder subtracts from fcc its packets of the previous round."""
    a, b, c, first = first_burst(3)
    b.hear(first, 0.0)
    c.hear(data_of(first) + b.step(0.0), 0.0)
    third = c.step(0.0)
    assert token_in(third).burst == token_in(first).burst > 0
    a.submit(count=1, size=1000)
    a.hear(third, 0.0)
    again = a.step(0.0)
    assert token_in(again).burst == sum(len(packet) for _, packet in data_of(again))


def test_token_loss_is_noticed_after_the_token_timeout_and_not_before() -> None:
    """Token loss timeout: a daemon that hears of no token for that long counts it as lost."""
    _, b, _, first = first_burst()
    b.hear(first, 0.0)
    assert target_of_token(b.step(0.0)) == 2
    timeout_s = CoreConfig().timing.token_timeout_s
    b.step(0.99 * timeout_s)
    assert b.ring.monitor.token_losses == 0
    b.step(timeout_s)
    assert b.ring.monitor.token_losses == 1
