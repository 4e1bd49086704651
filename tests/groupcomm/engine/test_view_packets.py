"""Packets of one view at one daemon: where each of them goes, in this ring and between rings."""

from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any, Final, cast

import pytest

from groupcomm.config.view import RING
from groupcomm.engine import DaemonCore
from groupcomm.engine.counters import Counters
from groupcomm.engine.view import ViewState
from groupcomm.errors import ProtocolViolation
from groupcomm.level import ServiceLevel
from groupcomm.wire.bundle import Bundle
from groupcomm.wire.data import DataPacket, HeadersPacket, UnreliablePacket, decode_data_untrusted
from groupcomm.wire.horizon import HorizonNotice, horizon_packet
from groupcomm.wire.link import ResendRequest
from groupcomm.wire.packet import PacketKind
from groupcomm.wire.token import HeldNotice, RestNotice, Row, Token, TokenRequest
from tests.groupcomm.engine.lying_cluster import bundle
from tests.groupcomm.engine.test_shell import formed

AGREED, RELIABLE, SAFE = ServiceLevel.AGREED, ServiceLevel.RELIABLE, ServiceLevel.SAFE
OWN, OTHER = 0, 1
FELLOW, ME, REMOTE = 0, 1, 2
"""The daemons a and b of one ring, of which a has the first token, and c of the other one."""

NOW: Final = 1000.0


class Recorded:
    """A part of a view, any method of which keeps how it was called."""

    def __init__(self, name: str, log: list[tuple[Any, ...]], **values: Any) -> None:
        self._name, self._log = name, log
        self.answers: dict[str, Any] = {}
        self.__dict__.update(values)

    def __getattr__(self, method: str) -> Any:
        def call(*args: Any, **options: Any) -> Any:
            self._log.append((f"{self._name}.{method}", *args, *options.values()))
            return self.answers.get(method)

        return call


class Site:
    """The view of daemon a, with a recorder in the place of its ring, links and deferred headers.

    Attributes:
        log: the calls of these parts, and what was sent.
    """

    def __init__(self, core: DaemonCore) -> None:
        assert core.view is not None
        announcement = core._parts.carried_groups.announce(1000, core.view)
        here = core._parts, core.config, NOW
        self.state = state = ViewState(
            core.view, ME, announcement, *here, majority=True, rosters=[core.config.roster]
        )
        assert state.view.rings == ((FELLOW, ME), (REMOTE, 3))
        self.log: list[tuple[Any, ...]] = []
        log = self.log
        self.links = Recorded("links", log, deadline=NOW + 7)
        self.links.answers = {"forward": False, "step": []}
        self.deferred = Recorded("deferred", log, form_for_other_ring="form")
        self.deferred.answers = {"pop_ready": []}
        self.notices = SimpleNamespace(
            agreed_at=0.0,
            foreign_time=0,
            asked=False,
            issued=lambda *args, **_: log.append(("notices.issued", *args)),
        )
        self.flow = Recorded("flow", log, window=SimpleNamespace(repeated=0))
        self.ring = Recorded(
            "ring", log, notices=self.notices, flow=self.flow, deadline=NOW + 9, held_by_all=5
        )
        state._forwarding = cast(Any, self.links)
        state._deferred = cast(Any, self.deferred)
        state.ring = cast(Any, self.ring)
        state.counters = Counters()
        state.__dict__["send"] = lambda to, packet: log.append(("send", to, packet))
        state.__dict__["_send_data"] = lambda packet: log.append(("send", RING, packet.raw))
        log.clear()

    def packet(
        self,
        ring: int,
        daemon: int,
        *bundles: Bundle,
        after: int = 1,
        local_only: bool = False,
    ) -> DataPacket:
        """Return the next packet of a ring, as its daemon would make it."""
        state = self.state
        packet = DataPacket(
            ring=ring,
            number=state.streams[ring].held + after,
            time=state.clock.value + 10 * after,
            daemon=daemon,
            previous=state.delivery.order.chain_ends[daemon]
            if after == 1
            else state.streams[ring].held + after - 1,
            bundles=list(bundles) or [bundle(RELIABLE)],
            local_only=local_only,
        )
        packet.raw = packet.encode(state.key)
        return packet

    def receive(self, kind: PacketKind, raw: bytes, sender: int = FELLOW) -> list[tuple[Any, ...]]:
        """Receive a packet; return what was done with it."""
        self.log.clear()
        self.state.receive(kind, raw, self.state.view.daemons[sender].number, NOW)
        return list(self.log)

    def step(self) -> list[tuple[Any, ...]]:
        self.log.clear()
        self.state.step(NOW)
        return list(self.log)


@pytest.fixture(scope="module")
def core() -> DaemonCore:
    """Return a daemon in a view of two sites; the tests leave it as it is."""
    return formed("ab", "cd").cores["b"]


@pytest.fixture
def site(core: DaemonCore) -> Site:
    return Site(core)


# ---- packets with numbers ----


def test_a_packet_of_this_ring_goes_to_the_ring_and_on(site: Site) -> None:
    raw = site.packet(OWN, FELLOW).raw
    done = site.receive(PacketKind.DATA, raw)
    number = site.state.streams[OWN].held
    (on_packet, forward) = done
    assert (on_packet[0], on_packet[1].number, on_packet[2]) == ("ring.on_packet", number, NOW)
    assert forward == ("links.forward", OWN, number, raw)
    assert site.receive(PacketKind.DATA, raw) == []
    assert site.state.counters.duplicates == 1
    assert site.state._changed == set()


@pytest.mark.parametrize("into_ring", [False, True])
def test_a_packet_of_another_ring_goes_on_and_may_show_a_gap(site: Site, into_ring: bool) -> None:
    site.links.answers["forward"] = into_ring
    raw = site.packet(OTHER, REMOTE).raw
    number = site.state.streams[OTHER].held + 1
    sent = [("send", RING, raw)] * into_ring
    assert site.receive(PacketKind.DATA, raw) == [("links.forward", OTHER, number, raw), *sent]
    assert site.state._changed == {OTHER}
    assert site.receive(PacketKind.DATA, raw) == []


def test_a_packet_that_need_not_leave_its_ring_waits_for_its_header(site: Site) -> None:
    raw = site.packet(OWN, FELLOW, local_only=True).raw
    on_packet, local_only, deferred = site.receive(PacketKind.DATA, raw)
    assert on_packet[0] == "ring.on_packet"
    assert local_only == ("flow.note_local_only", site.state.streams[OWN].held)
    assert (deferred[0], deferred[1].raw) == ("deferred.defer", raw)
    whole = site.packet(OTHER, REMOTE, local_only=True).raw
    assert site.receive(PacketKind.DATA, whole) == [], "its header follows"
    assert site.state.streams[OTHER].held == number_of(whole) - 1


def number_of(raw: bytes) -> int:
    return decode_data_untrusted(raw).number


def test_an_own_packet_that_comes_back_counts_as_repeated(site: Site) -> None:
    raw = site.packet(OWN, ME).raw
    assert site.receive(PacketKind.DATA, raw) == []
    assert site.flow.window.repeated == len(raw)


def headers(packets: Iterable[DataPacket], key: bytes) -> bytes:
    """Return the headers of local-only packets, as one packet."""
    found = [decode_data_untrusted(packet.header()) for packet in packets]
    return HeadersPacket(packets=found).encode(key)


def test_headers_of_another_ring_stand_for_its_packets_and_go_on_together(site: Site) -> None:
    first, second = (site.packet(OTHER, REMOTE, after=after, local_only=True) for after in (1, 2))
    raw = headers((first, second), site.state.key)
    done = site.receive(PacketKind.HEADERS, raw)
    assert done == [("links.forward", OTHER, first.number, raw)]
    assert site.state.streams[OTHER].held == second.number
    assert site.state._changed == {OTHER}
    assert site.receive(PacketKind.HEADERS, raw) == [], "nothing in it is new"
    third = site.packet(OTHER, REMOTE, local_only=True)
    raw = headers((second, third), site.state.key)
    assert site.receive(PacketKind.HEADERS, raw) == [("links.forward", OTHER, second.number, raw)]


def test_headers_of_this_ring_are_for_others_and_wrong_ones_are_refused(site: Site) -> None:
    own = site.packet(OWN, FELLOW, local_only=True)
    assert site.receive(PacketKind.HEADERS, headers((own,), site.state.key)) == []
    assert site.receive(PacketKind.DATA, own.header()) == []
    assert site.state.streams[OWN].held == own.number - 1
    wrong = site.packet(OTHER, FELLOW, local_only=True)
    with pytest.raises(ProtocolViolation, match="daemon 0 is not in ring 1"):
        site.receive(PacketKind.HEADERS, headers((wrong,), site.state.key))


# ---- the use of the agreed order ----


@pytest.mark.parametrize(
    ("ring", "daemon", "level", "hurried", "used", "foreign"),
    [
        (OTHER, REMOTE, AGREED, False, True, True),
        (OTHER, REMOTE, SAFE, False, True, True),
        (OTHER, REMOTE, RELIABLE, False, False, False),
        (OTHER, REMOTE, RELIABLE, True, True, True),
        (OWN, FELLOW, AGREED, False, True, False),
    ],
)
def test_notices_come_often_while_somebody_waits_for_the_agreed_order(
    site: Site,
    ring: int,
    daemon: int,
    level: ServiceLevel,
    hurried: bool,
    used: bool,
    foreign: bool,
) -> None:
    packet = site.packet(ring, daemon, bundle(level))
    if hurried:
        site.state.delivery.order.hurry(packet.time)
    site.receive(PacketKind.DATA, packet.raw)
    assert site.notices.agreed_at == (NOW if used else 0.0)
    assert site.notices.foreign_time == (packet.time if foreign else 0)


def test_the_latest_packet_of_other_rings_counts_not_the_last_to_come(site: Site) -> None:
    packet = site.packet(OTHER, REMOTE, bundle(AGREED))
    site.notices.foreign_time = packet.time + 1
    site.receive(PacketKind.DATA, packet.raw)
    assert site.notices.foreign_time == packet.time + 1


def test_own_packets_use_the_agreed_order_too(site: Site) -> None:
    packet = site.packet(OWN, ME, bundle(AGREED))
    site.state._now = NOW
    site.state.originate(packet)
    assert site.notices.agreed_at == NOW
    assert site.state.streams[OWN].held == packet.number


# ---- notices, requests, datagrams ----


def notice(site: Site, ring: int, **changes: Any) -> bytes:
    stream = site.state.streams[ring]
    right: dict[str, Any] = {
        "ring": ring,
        "horizon": site.state.clock.value + 1000,
        "upto": stream.held,
        "frontier": 0,
        "unsettled": False,
        "held": [(OWN, 3)] if ring == OTHER else [],
    }
    return horizon_packet(site.state.key, [HorizonNotice(**{**right, **changes}).encode()])


def names(done: list[tuple[Any, ...]]) -> list[str]:
    return [each[0] for each in done]


def test_a_notice_of_another_ring_says_what_it_holds_of_this_one(site: Site) -> None:
    done = site.receive(PacketKind.HORIZON, notice(site, OTHER))
    assert names(done) == ["flow.on_held_remotely", "links.forward_notice"]
    assert done[0][1:] == (OTHER, 3, NOW)
    assert not site.notices.asked
    assert site.state._changed == set(), "all that it names is here"
    site.receive(PacketKind.HORIZON, notice(site, OTHER, unsettled=True))
    assert site.notices.asked


def test_a_notice_that_names_a_missing_packet_shows_a_gap(site: Site) -> None:
    upto = site.state.streams[OTHER].held + 2
    site.receive(PacketKind.HORIZON, notice(site, OTHER, upto=upto))
    assert site.state.streams[OTHER].known == upto
    assert site.state._changed == {OTHER}


def test_a_notice_of_this_ring_needs_no_other_one(site: Site) -> None:
    raw = notice(site, OWN, horizon=site.state.clock.value)
    done = site.receive(PacketKind.HORIZON, raw)
    assert names(done)[0] == "notices.issued"
    assert done[0][1] == NOW


def test_a_request_to_send_again_goes_to_the_links(site: Site) -> None:
    request = ResendRequest(ring=OTHER, asker=FELLOW, ranges=[(1, 1)])
    ((name, given, form, now),) = site.receive(PacketKind.RESEND, request.encode(site.state.key))
    assert (name, form, now) == ("links.on_resend_request", "form", NOW)
    assert given.ranges == [(1, 1)]


def test_a_datagram_without_a_number_goes_on_without_one(site: Site) -> None:
    packet = UnreliablePacket(
        daemon=REMOTE, counter=2**20, bundles=[bundle(ServiceLevel.UNRELIABLE)]
    )
    raw = packet.encode(site.state.key)
    assert site.receive(PacketKind.UNRELIABLE, raw, REMOTE) == [("links.forward", OTHER, 0, raw)]
    assert site.receive(PacketKind.UNRELIABLE, raw, REMOTE) == []


# ---- packets of the ring itself ----


def refused(site: Site, kind: PacketKind, raw: bytes) -> str:
    with pytest.raises(ProtocolViolation) as caught:
        site.receive(kind, raw)
    assert site.log == [], "nothing was done with it"
    return caught.value.reason


def token(site: Site, **changes: Any) -> bytes:
    right: dict[str, Any] = {
        "ring": OWN,
        "hop": 5,
        "last": 0,
        "last_sender": FELLOW,
        "clock": site.state.clock.value,
        "burst": 0,
        "rows": [Row(frontier=0, sent=0, held=[0, 0, 0]) for _ in (FELLOW, ME)],
        "requests": [],
        "wanted": [],
    }
    return Token(**{**right, **changes}).encode(site.state.key)


def test_a_token_is_checked_and_an_old_one_only_for_its_form(site: Site) -> None:
    site.ring.__dict__["last_hop"] = 4
    ((name, _, now),) = site.receive(PacketKind.TOKEN, token(site))
    assert (name, now) == ("ring.on_token", NOW)
    assert refused(site, PacketKind.TOKEN, token(site, ring=OTHER)) == "token"
    assert refused(site, PacketKind.TOKEN, token(site, burst=7)) == "token"
    for held in ([0, 0, 1], [1, 0, 0], [0, 0]):
        rows = [Row(frontier=0, sent=0, held=held) for _ in (FELLOW, ME)]
        assert refused(site, PacketKind.TOKEN, token(site, rows=rows)) == "token", held
    assert names(site.receive(PacketKind.TOKEN, token(site, burst=7, hop=4))) == ["ring.on_token"]


def test_a_rest_notice_is_checked_and_promises_a_horizon_and_a_frontier(site: Site) -> None:
    horizon = site.state.clock.value + 5
    right: dict[str, Any] = {
        "ring": OWN,
        "hop": 1,
        "holder": FELLOW,
        "last": 0,
        "horizon": horizon,
        "frontiers": [horizon - 1, site.state.blocks.least],
        "deliverable": 0,
    }

    def rest(**changes: Any) -> bytes:
        return RestNotice(**{**right, **changes}).encode(site.state.key)

    assert refused(site, PacketKind.REST, rest(frontiers=[0])) == "rest"
    assert refused(site, PacketKind.REST, rest(deliverable=None)) == "rest", "a number is missing"
    assert refused(site, PacketKind.REST, rest(deliverable=1)) == "rest", "it cannot deliver that"
    assert refused(site, PacketKind.REST, rest(holder=ME)) == "sender"
    assert site.receive(PacketKind.REST, rest(ring=OTHER, holder=REMOTE)) == []
    frontiers = site.state.delivery.order.frontiers
    frontiers.values[OWN] = 0
    assert names(site.receive(PacketKind.REST, rest())) == ["ring.on_rest"]
    assert site.state.delivery.order.blocks.values[OWN] == horizon
    assert frontiers.values[OWN] == right["frontiers"][1], "the least of them"


def test_what_a_daemon_holds_is_checked_and_goes_to_its_ring(site: Site) -> None:
    def held(**changes: Any) -> bytes:
        right = {"ring": OWN, "daemon": FELLOW, "held": 0, "frontier": 0}
        return HeldNotice(**{**right, **changes}).encode(site.state.key)

    assert names(site.receive(PacketKind.HELD, held())) == ["ring.on_held"]
    assert site.receive(PacketKind.HELD, held(ring=OTHER, daemon=REMOTE)) == []
    assert refused(site, PacketKind.HELD, held(daemon=REMOTE)) == "held"
    assert refused(site, PacketKind.HELD, held(daemon=ME)) == "sender"


def test_a_request_of_the_token_is_checked_and_goes_to_its_ring(site: Site) -> None:
    def request(**changes: Any) -> bytes:
        right = {"ring": OWN, "daemon": FELLOW, "hop": 1}
        return TokenRequest(**{**right, **changes}).encode(site.state.key)

    assert names(site.receive(PacketKind.REQUEST, request())) == ["ring.on_request"]
    assert site.receive(PacketKind.REQUEST, request(ring=OTHER, daemon=REMOTE)) == []
    assert refused(site, PacketKind.REQUEST, request(daemon=REMOTE)) == "request"
    assert refused(site, PacketKind.REQUEST, request(daemon=ME)) == "sender"


def test_data_is_checked_against_the_view_and_numbers_of_this_ring_against_the_token(
    site: Site,
) -> None:
    assert refused(site, PacketKind.DATA, site.packet(OTHER, FELLOW).raw) == "data"
    site.state._plausibility = cast(Any, Recorded("plausibility", site.log))
    own, other = site.packet(OWN, FELLOW), site.packet(OTHER, REMOTE)
    header = site.packet(OTHER, REMOTE, after=2, local_only=True)
    checked = ("plausibility.check_given", own.number)
    assert site.receive(PacketKind.DATA, own.raw)[0] == checked
    assert names(site.receive(PacketKind.DATA, other.raw)) == ["links.forward"]
    raw = headers((header,), site.state.key)
    assert names(site.receive(PacketKind.HEADERS, raw)) == ["links.forward"]


def test_before_any_link_was_lost_all_links_of_the_view_are_used(site: Site) -> None:
    state = site.state
    assert state.use_delays((5,) * len(state.view.links), NOW)
    assert site.log == [("links.reroute", state.routes, NOW)]


# ---- steps, and what the ring has this daemon send ----


def test_gaps_are_looked_for_once_after_something_has_come(site: Site) -> None:
    updated: list[tuple[int, float]] = []
    for ring in (OWN, OTHER):
        stream = SimpleNamespace(ring=ring)
        gaps = SimpleNamespace(
            stream=stream, update=lambda now, ring=ring: updated.append((ring, now))
        )
        site.state._gaps.append(cast(Any, gaps))
    site.receive(PacketKind.DATA, site.packet(OTHER, REMOTE).raw)
    assert ("links.update_gaps", OTHER, NOW) in site.step()
    assert updated == [(OTHER, NOW)]
    assert "links.update_gaps" not in names(site.step())
    assert updated == [(OTHER, NOW)]


def test_a_step_sends_headers_that_are_ready_and_what_links_have_to_send(site: Site) -> None:
    site.deferred.answers["pop_ready"] = [(4, b"four"), (5, b"five")]
    site.links.answers["step"] = [(REMOTE, b"over the link")]
    done = site.step()
    assert ("ring.step", NOW) in done
    assert ("deferred.pop_ready", 5) in done, "up to what the whole ring holds"
    assert ("links.forward", OWN, 4, b"four") in done
    assert ("links.forward", OWN, 5, b"five") in done
    assert done[-1] == ("send", REMOTE, b"over the link")
    assert site.state.deadline == NOW + 7
    site.ring.__dict__["deadline"] = NOW + 3
    site.step()
    assert site.state.deadline == NOW + 3


def test_an_own_packet_goes_to_the_ring_and_towards_others_unless_it_stays(site: Site) -> None:
    packet, local = site.packet(OWN, ME), site.packet(OWN, ME, local_only=True)
    site.log.clear()
    site.state.publish(packet)
    assert site.log == [
        ("send", RING, packet.raw),
        ("links.forward", OWN, packet.number, packet.raw),
    ]
    site.log.clear()
    site.state.publish(local)
    assert site.log == [("send", RING, local.raw), ("deferred.defer", local)]


def test_a_packet_of_a_stranger_or_of_an_unknown_kind_is_refused(site: Site) -> None:
    raw = site.packet(OWN, FELLOW).raw
    with pytest.raises(ProtocolViolation, match="unknown or not in the view"):
        site.state.receive(PacketKind.DATA, raw, 77, NOW)
    with pytest.raises(ProtocolViolation, match="unknown or not in the view"):
        site.receive(cast(PacketKind, 200), raw)


def test_a_promise_of_this_ring_is_traced_and_counts_here(site: Site) -> None:
    told: list[tuple[int, int, int]] = []
    site.state._probe = cast(Any, SimpleNamespace(horizon=lambda *args: told.append(args)))
    value, held = site.state.clock.value + 100, site.state.streams[OWN].held
    site.state.promise(value, held)
    assert told == [(OWN, value, held)]
    assert site.state.delivery.order.blocks.values[OWN] == value
