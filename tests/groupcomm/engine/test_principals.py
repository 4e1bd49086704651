"""User names are somebody's, and who asks is told whose session has sent a message."""

from groupcomm.engine import ProgramSettings
from groupcomm.errors import Code
from groupcomm.events import Closed, Message
from groupcomm.level import ServiceLevel
from groupcomm.security.access import Access, Rule, Verb
from tests.groupcomm.engine.cluster import Cluster, Program
from tests.groupcomm.engine.test_access_control import news, pair

__all__ = ["pair"]


def test_a_program_cannot_be_called_as_another_principal(pair: Cluster) -> None:
    """token:sensor greets as ann; messages to ann would reach it, and its own would seem ann's."""
    pair.step("a", [], [ProgramSettings(access=Access((Rule(("*",), ("*",), frozenset(Verb)),)))])
    thief = pair.connect("a", "ann", "token:sensor")
    pair.run(0.2)
    (closed,) = news(thief)
    assert isinstance(closed, Closed)
    assert closed.code == Code.REJECT_NAME
    assert (
        "token:sensor may not use the name 'ann' here: use 'sensor' or 'sensor/...'"
        in closed.reason
    )
    ann = pair.connect("a", "ann", "unix:ann")
    pair.run(0.2)
    assert not any(isinstance(event, Closed) for event in news(ann))
    assert pair.cores["a"].sessions.access_control.refusals["name"] == 1


def test_a_reload_ends_sessions_whose_names_are_no_longer_theirs(pair: Cluster) -> None:
    given = Rule(("token:boss",), ("*",), frozenset(), names=("line-1",))
    pair.step("a", [], [ProgramSettings(access=Access((given,)))])
    boss = pair.connect("a", "line-1", "token:boss")
    pair.run(0.2)
    assert not any(isinstance(event, Closed) for event in news(boss))
    pair.step("a", [], [ProgramSettings(access=Access((Rule(("x",), ("*",), frozenset(Verb)),)))])
    pair.run(0.2)
    (closed,) = [event for event in news(boss) if isinstance(event, Closed)]
    assert (closed.code, "'line-1'" in closed.reason) == (Code.REJECT_NAME, True)


def told(program: Program) -> list[tuple[bytes, str | None]]:
    return [(e.data, e.principal) for e in news(program) if isinstance(e, Message)]


def test_who_asks_learns_whose_session_has_sent_a_message(pair: Cluster) -> None:
    """At every level, from every daemon; nobody else is told, and a fragment is told once."""
    asks = pair.connect("a", "asks", "unix:boss", principals=True)
    other = pair.connect("a", "other", "unix:boss")
    senders = [
        pair.connect("a", "ann", "token:sensor"),
        pair.connect("b", "ann", "cert:robot"),
        pair.connect("b", "carl", ""),
    ]
    for receiver in (asks, other):
        receiver.session.join("g")
    pair.run(0.2)
    for level in ServiceLevel:
        for number, sender in enumerate(senders):
            sender.session.multicast("g", b"%d %d" % (level, number), level=level)
            pair.run(0.1)
    big = bytes(300_000)
    senders[1].session.multicast("g", big, level=ServiceLevel.AGREED)
    pair.run(0.5)
    whose = ["token:sensor", "cert:robot", ""]
    expected = [(b"%d %d" % (level, at), whose[at]) for level in ServiceLevel for at in range(3)]
    assert told(asks) == [*expected, (big, "cert:robot")]
    assert {principal for _, principal in told(other)} == {None}
