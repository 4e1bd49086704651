"""The ring: all orders over any channels, and a token that comes to rest."""

from hypothesis import given
from hypothesis import strategies as st

from groupcomm_lessons.algorithms.network import Network
from groupcomm_lessons.algorithms.token_ring import TokenRing
from tests.groupcomm_lessons.algorithms.schedules import assert_keeps, play, schedules


def ring(names: str) -> tuple[Network, dict[str, TokenRing]]:
    processes = {name: TokenRing(name, names) for name in names}
    return Network(processes.values()), processes


@given(schedules, st.integers(1, 4), st.booleans())
def test_it_keeps_all_orders(
    steps: list[tuple[int, int, int]], processes: int, multicasts: bool
) -> None:
    network = play(TokenRing, steps, processes=processes, multicasts=multicasts)
    assert_keeps(network, TokenRing.claims)
    assert not any(process.waiting for process in network.processes.values())


@given(schedules, st.integers(1, 4))
def test_there_is_one_token_and_it_comes_to_rest(
    steps: list[tuple[int, int, int]], processes: int
) -> None:
    network = play(TokenRing, steps, processes=processes)
    holders = [p for p in network.processes.values() if isinstance(p, TokenRing) and p.holds_token]
    assert len(holders) == 1


def test_who_holds_the_token_numbers_at_once() -> None:
    network, processes = ring("pqr")
    p1 = network.send("p", b"")
    assert network.history.delivered == {"p": [p1]}
    assert processes["p"].holds_token
    network.bring_all()
    assert network.packets == 2


def test_others_wait_for_the_token_which_then_rests_with_the_last_sender() -> None:
    network, processes = ring("pqr")
    r1 = network.send("r", b"")
    assert processes["r"].waiting == (r1,)
    network.bring_all()
    assert network.history.delivered == {name: [r1] for name in "pqr"}
    assert processes["r"].holds_token
    assert network.packets == 2 + 2 + 2, "two wishes, two passes, the message to two"


def test_a_wish_that_the_token_overtakes_wakes_it() -> None:
    """p passes the token to q, which has not heard of r's wish: it rests there until it does."""
    network, processes = ring("pqr")
    r1 = network.send("r", b"")
    to_p, to_q = network.under_way
    network.bring(to_p)
    (token,) = [packet for packet in network.under_way if packet is not to_q]
    network.bring(token)
    assert processes["q"].holds_token
    network.bring_all()
    assert network.history.delivered == {name: [r1] for name in "pqr"}


def test_a_wish_that_comes_late_does_not_undo_a_later_one() -> None:
    """p hears of r's second message before its first, which has its number by then."""
    network, processes = ring("pqr")

    def bring(channel: str, stamp: object) -> None:
        network.bring(
            next(e for e in network.ready if (e[0] + e[1], e[2:]) == (channel, (None, stamp)))
        )

    network.send("r", b"")
    network.send("q", b"")
    bring("rq", 1)
    bring("qp", 1)
    bring("pq", (0, (0, 0, 0)))
    bring("qr", (1, (0, 1, 0)))
    network.send("p", b"")
    bring("pr", 1)
    network.send("r", b"")
    bring("rp", 2)
    bring("rp", 1)
    bring("rp", (2, (0, 1, 1)))
    assert not processes["p"].holds_token
    network.bring_all()
    assert not network.history.missing


def test_the_order_of_numbers_is_that_of_the_token_and_not_of_the_sendings() -> None:
    network, _ = ring("pqr")
    r1, q1 = network.send("r", b""), network.send("q", b"")
    network.bring_all()
    assert network.history.delivered == {name: [q1, r1] for name in "pqr"}
