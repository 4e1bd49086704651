"""One trace out of many: by time, ends of daemons behind what their clients read, up to Quiet."""

from groupcomm.trace.events import Ask, Boot, Dview, Fail, Left, Quiet, Release, TraceEvent
from groupcomm.wire.bundle import BundleKind
from groupcomm_tools.traces.reading import merge

CLIENT = "#ann#a/7"


def connected(t: int, daemon: str) -> Release:
    """A daemon releases the connect of the client."""
    return Release(t, daemon, 0, 1, 1, 0, int(BundleKind.CONNECT), 4, CLIENT, 0, 0, 0, 1)


def times(*traces: list[TraceEvent]) -> list[tuple[str, int]]:
    return [(type(event).__name__, event.t) for event in merge(traces)]


def test_events_stand_in_the_order_of_their_times() -> None:
    a: list[TraceEvent] = [Boot(1, "a/1", "1.x"), Left(9, "a/1")]
    b: list[TraceEvent] = [Boot(4, "b/1", "1.y"), Left(5, "b/1")]
    assert times(b, a) == [("Boot", 1), ("Boot", 4), ("Left", 5), ("Left", 9)]


def test_a_daemon_ends_behind_what_its_clients_read() -> None:
    """Bytes that it wrote before it was killed stay in their sockets."""
    a: list[TraceEvent] = [Boot(1, "a/1", "1.x"), connected(3, "a/1")]
    b: list[TraceEvent] = [connected(4, "b/1"), Left(6, "b/1")]
    client: list[TraceEvent] = [Ask(2, CLIENT, "connect", "", 0), Dview(8, CLIENT, "v", (), None)]
    assert times(a, b, client, [Fail(5, "a/1")]) == [
        ("Boot", 1),
        ("Ask", 2),
        ("Release", 3),
        ("Release", 4),
        ("Left", 6),
        ("Dview", 8),
        ("Fail", 9),
    ]


def test_clients_of_the_next_start_do_not_hold_an_end_up() -> None:
    """They may ask to connect before it boots: its socket is there already."""
    daemon: list[TraceEvent] = [Boot(1, "a/1", "1.x"), Boot(7, "a/2", "2.x"), connected(8, "a/2")]
    client: list[TraceEvent] = [Ask(6, CLIENT, "connect", "", 0), Dview(9, CLIENT, "v", (), None)]
    assert times(daemon, client, [Fail(5, "a/1")])[1] == ("Fail", 5)


def test_what_the_killer_says_of_clients_holds_nothing_up() -> None:
    killer: list[TraceEvent] = [Ask(3, CLIENT, "crash", "", 0), Fail(4, "a/1"), Left(9, "b/1")]
    assert times([Boot(1, "a/1", "1.x")], killer)[2] == ("Fail", 4)


def test_nothing_follows_quiet() -> None:
    assert times([Boot(1, "a/1", "1.x"), Left(9, "a/1")], [Quiet(5)])[-1] == ("Quiet", 5)
