"""Two daemons with keys meet; strangers do not."""

from typing import Final

import pytest

from groupcomm.config.core import CoreConfig, Rekeying
from groupcomm.config.view import Incarnation, Start
from groupcomm.engine.protection import (
    ERASE_S,
    Outgoing,
    PlainProtection,
    SealedProtection,
    make_protection,
)
from groupcomm.errors import BadDatagram, ConfigError
from groupcomm.names import daemon_number
from groupcomm.security.keys import KeyRing
from groupcomm.security.layout import HEAD_BYTES, Channel
from groupcomm.security.opening import Opener
from groupcomm.wire.hello import Hello
from groupcomm.wire.packet import PacketKind
from tests.groupcomm.wire.packets import CODECS, KEY, Codec

CONFIG: Final = CoreConfig(sites=(("a", "b", "c"),))
LONG: Final = bytes((PacketKind.CONTROL,)) + bytes(100)
OTHER_KEYS: Final = KeyRing({1: bytes(range(32))}, 1)


def gate(
    name: str, start: int = 1, *, keys: KeyRing | None = None, config: CoreConfig = CONFIG
) -> SealedProtection:
    incarnation = Incarnation(start, 1000 * start + ord(name))
    keys = keys or KeyRing({1: bytes(32)}, 1)
    return SealedProtection(config, Start(name=name, incarnation=incarnation), keys, 0.0)


def refused(receiver: SealedProtection | PlainProtection, datagram: bytes) -> str:
    with pytest.raises(BadDatagram) as caught:
        receiver.open_untrusted(datagram)
    return caught.value.reason


def said(one: SealedProtection) -> list[Outgoing]:
    out: list[Outgoing] = []
    one.pop_hellos(out)
    return out


def meet(one: SealedProtection, other: SealedProtection) -> None:
    """One has sent something; hellos go to and fro until nothing is said any more."""
    assert refused(other, one.seal(None, LONG)) == "unproven"
    turns = [other, one]
    while hellos := said(turns[0]):
        for _, datagram in hellos:
            assert turns[1].open_untrusted(datagram) is None
        turns.reverse()


def test_two_that_have_met_hear_each_other() -> None:
    a, b = gate("a"), gate("b")
    old = [a.seal(None, LONG), b.seal("a", LONG)]
    meet(a, b)
    for sender, receiver in ((a, b), (b, a)):
        opened = receiver.open_untrusted(sender.seal(None, LONG))
        assert opened is not None
        assert opened.packet == LONG
        assert receiver.missing_key is None
    assert [refused(b, old[0]), refused(a, old[1])] == ["replay", "replay"]


def test_two_know_each_other_after_one_way_there_and_back() -> None:
    a, b = gate("a"), gate("b")
    assert refused(b, a.seal(None, LONG)) == "unproven"
    out: list[Outgoing] = []
    assert not b.pop_hellos(out)
    assert a.open_untrusted(out.pop()[1]) is None
    assert a.pop_hellos(out), "b is proven to a, and a has told b"
    assert b.open_untrusted(out.pop()[1]) is None
    assert b.pop_hellos(out), "a is proven to b"
    assert out == []
    assert not b.pop_hellos([]), "they meet once"


def test_what_is_said_is_no_longer_than_what_came_and_goes_to_the_configured_daemon() -> None:
    a, b = gate("a"), gate("b")
    for size in range(1, 120):
        datagram = a.seal(None, LONG[:size])
        assert refused(b, datagram) == "unproven"
        assert all(to == "a" and len(hello) <= len(datagram) for to, hello in said(b))


@pytest.mark.parametrize("codec", CODECS, ids=lambda codec: codec.kind.name)
def test_unauthenticated_bytes_get_no_answer(codec: Codec) -> None:
    """Joins, tokens, leaves, hellos: of a wrong key, another cluster, a daemon not listed."""
    receiver = gate("b")
    meet(gate("c"), receiver)
    packet = codec.example.encode(KEY)
    wrong_key = gate("a", keys=OTHER_KEYS).seal("b", packet)
    unknown_key = gate("a", keys=KeyRing({2: bytes(32)}, 2)).seal("b", packet)
    elsewhere = gate("a", config=CoreConfig(cluster="other", sites=CONFIG.sites)).seal("b", packet)
    unlisted = gate("z").seal("b", packet)
    sealed = gate("a").seal("b", packet)
    flipped = sealed[:-1] + bytes((sealed[-1] ^ 1,))
    reasons = [
        refused(receiver, datagram)
        for datagram in (wrong_key, unknown_key, elsewhere, unlisted, flipped, packet)
    ]
    assert reasons[:5] == ["tag", "key", "cluster", "unlisted", "tag"]
    assert reasons[5] in {"short", "version", "suite"}
    assert said(receiver) == []


def test_a_packet_on_a_channel_of_another_kind_is_refused() -> None:
    a, b = gate("a"), gate("b")
    meet(a, b)
    for kind in (0, PacketKind.DATA, PacketKind.ACK, PacketKind.HELLO, 200):
        datagram = a._sealer.seal(bytes((kind,)) + bytes(100), Channel.CONTROL)
        assert refused(b, datagram) == "channel"
    assert refused(b, a._sealer.seal(b"", Channel.CONTROL)) == "channel"


def test_what_is_for_others_or_was_moved_to_another_channel_gets_no_answer() -> None:
    """Replayed by a proven daemon, by an unproven one, and by the daemon itself."""
    a, b = gate("a"), gate("b")
    meet(a, b)
    for_c = a.seal("c", LONG)
    moved = [
        for_c[:HEAD_BYTES] + bytes((channel,)) + for_c[HEAD_BYTES + 1 :] for channel in range(256)
    ]
    for receiver in (b, gate("b", start=2)):
        assert {refused(receiver, datagram) for datagram in moved} == {"tag", "channel"}
        assert said(receiver) == []
    assert [refused(b, b.seal(to, LONG)) for to in ("a", None)] == ["own", "own"]
    assert said(b) == []


def test_after_a_restart_each_side_has_to_prove_itself_anew() -> None:
    a, b = gate("a"), gate("b")
    meet(a, b)
    recorded = [a.seal("b", LONG) for _ in range(3)]
    b = gate("b", start=2)
    assert {refused(b, datagram) for datagram in recorded} == {"unproven"}
    meet(a, b)
    assert {refused(b, datagram) for datagram in recorded} == {"replay"}
    new_a = gate("a", start=2)
    meet(new_a, b)
    assert {refused(b, datagram) for datagram in recorded} == {"replay"}


def test_a_hello_of_the_past_proves_nothing_to_a_restarted_daemon() -> None:
    """All hellos between two daemons, again, after both have restarted."""
    a, b = gate("a"), gate("b")
    refused(b, a.seal(None, LONG))
    challenge = said(b)[0][1]
    assert a.open_untrusted(challenge) is None
    answer = said(a)[0][1]
    new_a, new_b = gate("a", start=2), gate("b", start=2)
    assert refused(new_a, challenge) == "hello"
    assert refused(new_b, answer) == "hello"
    assert said(new_a) == said(new_b) == []
    assert refused(new_b, a.seal(None, LONG)) == "unproven"


# ---- keys that change ----


NEW: Final = bytes(range(32, 64))


def test_new_keys_open_and_seal_from_then_on() -> None:
    a, b = gate("a"), gate("b")
    meet(a, b)
    both = {1: bytes(32), 2: NEW}
    a.use_keys(KeyRing(both, 2))
    sealed = a.seal(None, LONG)
    assert refused(b, sealed) == "key"
    assert b.named_key == 2
    b.use_keys(KeyRing(both, 1))
    opened = b.open_untrusted(a.seal(None, LONG))
    assert opened is not None
    assert opened.packet == LONG
    assert a.open_untrusted(b.seal(None, LONG)) is not None, "the old key is there still"
    a.use_keys(KeyRing({2: NEW}, 2))
    assert refused(a, b.seal(None, LONG)) == "key"


def test_a_missing_key_that_a_daemon_provably_seals_with_is_known_until_it_is_there() -> None:
    a, b = gate("a"), gate("b")
    both = {1: bytes(32), 2: NEW}
    a.use_keys(KeyRing(both, 2))
    assert refused(a, b.seal(None, LONG)) == "unproven"
    for _, datagram in said(a):
        b.open_untrusted(datagram)
    assert b.missing_key == ("a", 2)
    b.use_keys(KeyRing({1: bytes(32), 3: NEW}, 1))
    assert b.missing_key == ("a", 2)
    b.use_keys(KeyRing(both, 1))
    assert b.missing_key is None


# ---- daemons that come and go ----


def test_only_daemons_of_the_present_roster_are_heard_and_the_former_ones() -> None:
    b = gate("b")
    b.use_daemons(("b", "c"))
    assert refused(b, gate("a").seal(None, LONG)) == "unlisted"
    assert refused(b, gate("c").seal(None, LONG)) == "unproven"
    b.use_daemons(("b", "c"), ("a",))
    assert refused(b, gate("a").seal(None, LONG)) == "unproven"
    b.use_daemons(("a",))
    assert refused(b, gate("b", start=2).seal(None, LONG)) == "unproven", "a clone is not ignored"


def test_a_start_that_is_over_is_the_first_to_make_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("groupcomm.security.opening.MAX_PEERS", 2)
    a, b, c = gate("a"), gate("b"), gate("c")
    meet(a, b)
    meet(c, b)
    b.forget_start(daemon_number("c"), Incarnation(1, 1000 + ord("c")))
    meet(gate("a", start=2), b)
    assert b.open_untrusted(a.seal(None, LONG)) is not None
    assert refused(b, c.seal(None, LONG)) == "unproven"


def test_a_daemon_that_asks_once_more_has_met_this_one_once_more() -> None:
    a, b = gate("a"), gate("b")
    meet(a, b)
    assert not b.pop_hellos([])
    a._send_hello((daemon_number("b"), b._own), a._with_counters(Hello(start=b._own, asks=9)), 1)
    assert b.open_untrusted(said(a)[0][1]) is None
    out: list[Outgoing] = []
    assert b.pop_hellos(out)
    assert [to for to, _ in out] == ["a"]


# ---- time ----


def test_an_epoch_ends_at_its_time_and_not_before() -> None:
    a = gate("a", config=CoreConfig(sites=CONFIG.sites, rekeying=Rekeying(epoch_s=60.5)))
    for now, epoch in ((60.0, 0), (60.4, 0), (60.5, 1), (120.9, 1), (121.0, 2)):
        a.begin_step(now)
        assert a._sealer.epoch == epoch


def test_an_epoch_that_a_count_has_ended_is_followed_by_a_whole_one() -> None:
    rekeying = Rekeying(epoch_s=60.0, epoch_packets=3)
    a = gate("a", config=CoreConfig(sites=CONFIG.sites, rekeying=rekeying))
    a.begin_step(50.0)
    for _ in range(4):
        a.seal(None, LONG)
    assert a._sealer.epoch == 1
    a.begin_step(109.0)
    assert a._sealer.epoch == 1
    a.begin_step(110.0)
    assert a._sealer.epoch == 2


def test_keys_that_must_be_erased_are_looked_for_in_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    looked_at: list[float] = []
    monkeypatch.setattr(Opener, "tick", lambda opener: looked_at.append(opener.now))
    a = gate("a")
    for quarter in range(17):
        a.begin_step(quarter / 4)
    assert looked_at == [0.0, 1.0, 2.0, 3.0, 4.0]
    assert ERASE_S == 1.0


# ---- suites ----


def test_without_keys_daemons_have_nothing_to_exchange() -> None:
    a = make_protection(CoreConfig(sites=CONFIG.sites, suite=0), start_of("a"), None, 0.0)
    out: list[Outgoing] = []
    a.begin_step(5.0)
    assert (a.hellos, a.met, a.pop_hellos(out), out) == ([], False, False, [])
    assert a.now == 0.0, "nothing depends on time"
    assert (a.missing_key, a.named_key, a.roll, a.awaited, a.eviction) == (
        None,
        None,
        None,
        [],
        None,
    )


def start_of(name: str) -> Start:
    return Start(name=name, incarnation=Incarnation(1, ord(name[0])))


@pytest.mark.parametrize("name", ["c", "later"], ids=["configured", "of a later roster"])
def test_what_is_for_one_daemon_is_for_no_other_one_also_without_keys(name: str) -> None:
    config = CoreConfig(sites=CONFIG.sites, suite=0)
    a, b, receiver = (PlainProtection(config, start_of(each)) for each in ("a", "b", name))
    datagram = a.seal(name, LONG)
    assert refused(b, datagram) == "tag"
    opened = receiver.open_untrusted(datagram)
    assert opened.packet == LONG


@pytest.mark.parametrize(
    ("suite", "reason"), [(2, "needs an identity"), (3, "must be 0 .* or 2 .identities.")]
)
def test_a_suite_that_lacks_something_is_refused(suite: int, reason: str) -> None:
    config = CoreConfig(sites=CONFIG.sites, suite=suite)
    with pytest.raises(ConfigError, match=reason):
        make_protection(config, start_of("a"), KeyRing({1: bytes(32)}, 1), 0.0)
