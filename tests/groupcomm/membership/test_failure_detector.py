"""The daemons that a daemon knows, and those to which it passes messages on."""

import msgspec

from groupcomm.config.core import CoreConfig
from groupcomm.config.view import Incarnation, Start
from groupcomm.membership.failure_detector import MAX_STRANGERS, FailureDetector
from groupcomm.membership.flood import Flood
from groupcomm.membership.peer import PeerDaemon
from groupcomm.membership.reservation import Reservation
from groupcomm.names import daemon_number
from groupcomm.wire.membership import Beacon, Commit, ControlKind, Proposal
from tests.groupcomm.membership.stage import FIRST, PLENTY, join_of

CONFIG = CoreConfig(sites=(("a",), ("b",), ("c",), ("d",)))
START = Start(name="b", incarnation=Incarnation(1, 1))
NOW = 10.0
_ANY = ControlKind.JOIN


def detector() -> FailureDetector:
    disk = Reservation(0, PLENTY, int, 0.0)
    return FailureDetector(CONFIG, START, Flood(CONFIG, START), disk, lambda *_: None, lambda: 0)


def heard(one: FailureDetector, name: str, at: float, *hears: PeerDaemon) -> PeerDaemon:
    """A daemon whose beacon came, with those that it hears."""
    peer = one.on_heard(daemon_number(name), Incarnation(1, 1), at)
    assert peer is not None
    peer.heard_at = peer.beacon_at = at
    row = tuple(sorted(other.key for other in hears))
    peer.beacon = Beacon(0, bytes(16), row, bytes(16), 0, 1, 0, FIRST)
    return peer


def test_a_message_is_passed_on_to_those_that_are_heard_and_do_not_hear_its_origin() -> None:
    one = detector()
    origin = heard(one, "a", NOW)
    assert one.pass_on_targets(origin, origin.number, _ANY, NOW) == [], (
        "c and d may not even be there"
    )
    there = heard(one, "c", NOW)
    assert one.pass_on_targets(origin, origin.number, _ANY, NOW) == [there.number]
    assert one.pass_on_targets(origin, there.number, _ANY, NOW) == [], "it has it from there"
    assert one.pass_on_targets(origin, origin.number, _ANY, NOW + 1.0) == [], "not heard any more"
    heard(one, "c", NOW, origin)
    assert one.pass_on_targets(origin, origin.number, _ANY, NOW) == [], (
        "it says that it hears the origin"
    )


def test_a_join_that_is_repeated_after_its_commit_says_nothing_of_the_present() -> None:
    """Simulator seed 432, 4 sites: its sender lacked a commit that all took it to hear itself."""
    one = detector()
    origin, there = heard(one, "a", NOW), heard(one, "c", NOW)
    past = msgspec.structs.replace(join_of("c", 7), heard=(origin.key,))
    assert there.note_join(past, NOW)
    assert not there.note_join(past, NOW + 0.5)
    there.heard_at = NOW + 1.5
    assert one.pass_on_targets(origin, origin.number, _ANY, NOW + 0.6) == [], (
        "it gathers, and still says so"
    )
    there.commit = Commit(7, Proposal(()), False, False, ())
    assert not there.note_join(past, NOW + 1.5)
    assert one.pass_on_targets(origin, origin.number, _ANY, NOW + 1.5) == [there.number]


def test_only_so_many_are_kept_that_are_not_listed() -> None:
    one = detector()
    for number in range(2 * MAX_STRANGERS):
        one.on_heard(number, Incarnation(1, 1), 0.0)
    assert len(one.peers) <= MAX_STRANGERS + len(one.listed)
    for number in one.listed:
        assert one.on_heard(number, Incarnation(1, 1), 0.0) is not None
