"""A daemon tells what it has accepted: little, soon, and never a message that its crash loses."""

from random import Random

import pytest

from groupcomm.engine import ClientBytes
from groupcomm.engine.acceptance import SLOW_S, TELL_S, Acceptance
from groupcomm.events import Message
from groupcomm.level import LEVELS, ServiceLevel
from groupcomm.session.daemon_frames import decode_accepted_untrusted
from groupcomm.session.daemon_session import DaemonSession, SessionLimits
from groupcomm.session.frames import FrameKind, FrameReader
from groupcomm.sim.cluster.clients import SimulatedClient
from groupcomm.sim.cluster.cluster import Cluster
from groupcomm.sim.settings import plain_settings
from groupcomm.wire.bundle import Bundle, BundleKind, decode_body_untrusted, encode_body
from groupcomm.wire.packet import Raw
from tests.groupcomm.engine.clients import Clients
from tests.groupcomm.wire.payloads import encode_messages

AGREED, SAFE, UNRELIABLE = ServiceLevel.AGREED, ServiceLevel.SAFE, ServiceLevel.UNRELIABLE
ONE = 11


def bundle(message: int, count: int = 1) -> Bundle:
    payload = encode_messages([(0, b"x")] * count)
    made = decode_body_untrusted(
        encode_body(BundleKind.MESSAGES, AGREED, 0, message, ("g",), payload, count=count)
    )
    made.address(ONE, "ann", ())
    return made


class Told:
    """One session, and what it was told."""

    def __init__(self) -> None:
        self.acceptance = Acceptance()
        self.session = DaemonSession(ONE, limits=SessionLimits())
        self.session.backlog_bytes = 1  # something always waits
        self.numbers: list[int] = []

    def push(self, session: DaemonSession, frame: tuple[Raw, ...]) -> None:
        (read,) = FrameReader(100).feed(b"".join(frame))
        assert read[0] == FrameKind.ACCEPTED
        self.numbers.append(decode_accepted_untrusted(read))
        session.push(*frame)

    def tell(self, now: float) -> list[int]:
        if now >= self.acceptance.due:
            self.acceptance.tell(now, {ONE: self.session}, self.push)
        return self.numbers


def test_a_message_is_accepted_once_all_hold_its_packet() -> None:
    told = Told()
    told.acceptance.note_numbered(bundle(1, 3), 100)
    told.acceptance.note_numbered(bundle(4), 100)
    told.acceptance.note_numbered(bundle(5), 101)
    told.acceptance.settle(99, 0.0)
    assert told.tell(0.0) == []
    told.acceptance.settle(100, 0.0)
    assert told.tell(0.0) == [4]
    told.session.pop_output(1000)
    told.acceptance.settle(101, 1.0)
    assert told.tell(1.0) == [4, 5]
    assert not told.acceptance.unsettled


def test_what_is_accepted_in_a_moment_is_told_in_one_frame() -> None:
    told = Told()
    for number in range(1, 11):
        told.acceptance.note_numbered(bundle(number), number)
        told.acceptance.settle(number, 0.001 * number)
        told.session.pop_output(1000)
        told.tell(0.001 * number)
    assert told.numbers == [1]
    assert told.tell(0.001 + TELL_S) == [1, 10]


def test_a_client_that_does_not_read_has_one_frame_waiting() -> None:
    told = Told()
    for number in range(1, 100):
        told.acceptance.note_numbered(bundle(number), number)
        told.acceptance.settle(number, float(number))
        told.tell(float(number))
    assert told.numbers == [1]
    told.session.pop_output(1000)
    assert told.tell(99.0 + SLOW_S) == [1, 99], "what came meanwhile is not forgotten"


def test_a_message_in_fragments_is_accepted_with_its_last_one() -> None:
    clients = Clients()
    one = clients.connect("ann")
    client = clients.sessions[one]
    client.multicast("g", bytes(200_000), level=AGREED)
    seen, now = set(), 0.0
    while client.pending_bytes:
        now += TELL_S
        part = client.pop_output(1)  # one fragment
        clients.step_once(ClientBytes(one, part), now=now)
        clients.heard(one)
        seen.add(client.accepted)
    assert seen == {0, 1}
    assert client.accepted == 1


@pytest.mark.parametrize("level", LEVELS)
def test_a_daemon_that_is_alone_accepts_at_once(level: ServiceLevel) -> None:
    clients = Clients()
    one = clients.connect("ann")
    client = clients.sessions[one]
    assert client.accepted == 0, "it says that it will tell"
    number = client.multicast("g", b"x", level=level)
    clients.talk(one)
    clients.step_once(now=TELL_S)
    clients.heard(one)
    assert client.accepted == number


# ---- crashes ----

SENT_S = 0.004


def sent_until_a_crash(seed: int, level: ServiceLevel) -> tuple[SimulatedClient, set[int]]:
    """Have ann send until her daemon is killed; return her, and the messages that others got."""
    rng = Random(seed)
    cluster = Cluster(plain_settings(daemons=3, seed=seed))
    ann = cluster.connect("ann", 0, daemon_timeout_s=10.0)
    others = [cluster.connect(user, daemon) for user, daemon in (("bob", 1), ("eve", 2))]
    for each in (ann, *others):
        cluster.run(0.05)
        each.join("g")
    cluster.run(0.3)
    until = rng.uniform(0.05, 0.15)
    passed = 0.0
    while passed < until:
        for _ in range(rng.randint(1, 12)):
            ann.multicast(("g",), bytes(rng.randint(0, 3000)), level=level)
        passed += (step := rng.uniform(0.0, SENT_S))
        cluster.run(step)
    cluster.network.cut([(0, 1), (0, 2)])  # its last packets reach nobody
    for _ in range(20):
        ann.multicast(("g",), b"last", level=level)
        cluster.run(0.001)
    cluster.run(0.05)
    accepted = ann.accepted
    cluster.daemons[0].kill()
    cluster.run(1.5)
    assert ann.accepted == accepted
    got = [{event.number for event in each.events if isinstance(event, Message)} for each in others]
    assert got[0] == got[1]
    return ann, got[0]


@pytest.mark.parametrize("level", [level for level in LEVELS if level != UNRELIABLE])
@pytest.mark.parametrize(
    "seed", [0, *(pytest.param(seed, marks=pytest.mark.long) for seed in range(1, 9))]
)
def test_a_crash_loses_no_accepted_message(seed: int, level: ServiceLevel) -> None:
    ann, got = sent_until_a_crash(seed, level)
    assert 20 < ann.accepted < ann.last_sent
    assert got >= set(range(2, ann.accepted + 1)), "message 1 is the join"
