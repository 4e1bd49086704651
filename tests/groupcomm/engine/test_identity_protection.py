"""Daemons with identities meet; who has the key alone, or was evicted, stays outside."""

import random
from contextlib import suppress
from typing import Final

import attrs
import pytest

from groupcomm.clocks.stamp import ViewId
from groupcomm.config.core import CoreConfig, Rekeying
from groupcomm.config.view import SAFE_PACKET_BYTES, Incarnation, Start, View
from groupcomm.engine.protection import MAX_FORGED, IdentityProtection
from groupcomm.errors import BadDatagram, ConfigError
from groupcomm.security.identity import DaemonCredentials, Roll, identity_fingerprint, public_of
from groupcomm.security.keys import KeyRing
from groupcomm.security.layout import Channel
from groupcomm.security.secret_sealing import DATAGRAM_BYTES, fill, unfill
from groupcomm.wire.hello import Hello
from groupcomm.wire.packet import PacketKind
from tests.groupcomm.engine.test_protection import refused, said

QUICK: Final = Rekeying(epoch_s=60.0, lifetime_s=1.0)
CONFIG: Final = CoreConfig(sites=(("a", "b", "c"),), suite=2, rekeying=QUICK)
KEYS: Final = KeyRing({1: bytes(32)}, 1)
CONTROL: Final = bytes((PacketKind.CONTROL,)) + bytes(80)
DATA: Final = bytes((PacketKind.DATA,)) + bytes(80)


def private(name: str) -> bytes:
    return random.Random(name).randbytes(32)


ROLL: Final = Roll({name: public_of(private(name)) for name in "abc"})


def gate(
    name: str, start: int = 1, *, signed_by: str = "", roll: Roll | None = None
) -> IdentityProtection:
    """Return the credentials of a daemon; or of an impostor with another's private key."""
    incarnation = Incarnation(start, 1000 * start + ord(name))
    signer = signed_by or name
    own = Roll({**ROLL.daemons, name: public_of(private(signer))}) if signed_by else roll or ROLL
    entropy = random.Random(f"{name}{start}{signed_by}").randbytes
    credentials = DaemonCredentials(private(signer), own, entropy)
    return IdentityProtection(
        CONFIG, Start(name=name, incarnation=incarnation), KEYS, 0.0, credentials
    )


def talk(gates: dict[str, IdentityProtection]) -> int:
    """Exchange hellos until no more come; return their number."""
    count = 0
    while hellos := [(g, hello) for g in gates.values() for hello in said(g)]:
        for _, (to, datagram) in hellos:
            count += 1
            if to in gates:
                with suppress(BadDatagram):  # some of the crossing introductions have no news
                    assert gates[to].open_untrusted(datagram) is None
    return count


def met(*names: str) -> dict[str, IdentityProtection]:
    gates = {name: gate(name) for name in names}
    for sender in gates.values():
        datagram = sender.seal(None, CONTROL)
        for receiver in gates.values():
            if receiver is not sender:
                with suppress(BadDatagram):
                    receiver.open_untrusted(datagram)
        talk(gates)
    return gates


def view_of(gates: dict[str, IdentityProtection], number: int = 1) -> View:
    ids = [Start(name=n, incarnation=g._own).daemon for n, g in sorted(gates.items())]
    rings = (tuple(range(len(ids))),)
    return View(id=ViewId(number, ids[0].name, 1), daemons=tuple(ids), rings=rings)


def begin(gates: dict[str, IdentityProtection], number: int = 1) -> None:
    view = view_of(gates, number)
    for each in gates.values():
        each.begin_view(view)
        each.begin_step(each.now)
    talk(gates)


def hears(receiver: IdentityProtection, sender: IdentityProtection) -> bool:
    """Return whether it opens the other's seals, on every channel that carries packets."""
    for packet in (CONTROL, DATA, bytes((PacketKind.LINK,)) + bytes(80)):
        try:
            opened = receiver.open_untrusted(sender.seal(None, packet))
        except BadDatagram:
            return False
        assert opened is not None
        assert opened.packet == packet
    return True


def test_two_that_have_met_hear_each_other_on_every_channel() -> None:
    gates = met("a", "b")
    assert hears(gates["a"], gates["b"])
    assert hears(gates["b"], gates["a"])
    assert talk(gates) == 0


def test_hellos_are_no_longer_than_what_brings_them_about() -> None:
    a, b = gate("a"), gate("b")
    for size in (54, 100, 250, 400):
        datagram = a.seal(None, CONTROL[:1] + bytes(size - 1))
        assert refused(b, datagram) == "unproven"
        for _, hello in said(b):
            assert len(hello) == DATAGRAM_BYTES <= len(datagram)
        b.now += 1.0


@pytest.mark.parametrize("size", [1, 54, 200, 258, 259, 260, 1150])
def test_filling_changes_nothing(size: int) -> None:
    packet = CONTROL[:1] + random.Random(size).randbytes(size - 1)
    assert unfill(fill(packet)) == packet
    assert len(fill(packet)) >= min(size, 259)
    assert unfill(b"") == b""


def test_a_safe_packet_passes_a_path_of_1280_bytes_sealed_twice() -> None:
    sealed = gate("a").seal("b", CONTROL[:1] + bytes(SAFE_PACKET_BYTES - 1))
    assert len(sealed) + 40 + 8 <= 1280  # 48 bytes are the headers of IPv6 and UDP


def test_the_key_alone_lets_nobody_in() -> None:
    """A thief of the key file pretends to be c, with an identity of his own."""
    gates = met("a", "b")
    thief = gate("c", signed_by="thief")
    assert refused(gates["a"], thief.seal(None, CONTROL)) == "unproven", "it is asked who it is"
    (_, challenge) = said(gates["a"])[0]
    assert thief.open_untrusted(challenge) is None
    for to, hello in said(thief):
        assert to == "a"
        assert refused(gates["a"], hello) == "identity"
    assert refused(gates["a"], thief.seal(None, DATA)) == "unproven"
    assert refused(thief, gates["a"].seal(None, CONTROL)) == "unproven", "and reads nothing"
    assert refused(thief, gates["a"].seal(None, DATA)) == "unproven"


def test_a_signed_hello_is_good_for_one_datagram() -> None:
    """Whoever has the key seals it anew, under another counter, or for somebody else."""
    a, b = gate("a"), gate("b")
    assert refused(b, a.seal(None, CONTROL)) == "unproven"
    (_, hello) = said(b)[0]
    number = b._sealer.counter(Channel.HELLO)
    packet = a._opener.open_untrusted(hello).packet
    b._sealer._lanes[Channel.HELLO].counter = number + 5
    again = b._sealer.seal_hello(packet, next(n for n, name in b._names.items() if name == "a"), 1)
    assert refused(a, again) == "identity"
    b._sealer._lanes[Channel.HELLO].counter = number - 1
    assert a.open_untrusted(hello) is None, "itself it is good"


def test_who_forges_many_signatures_is_not_looked_at_for_long() -> None:
    a, thief = gate("a"), gate("c", signed_by="thief")
    a_number = next(n for n, name in a._names.items() if name == "a")
    reasons = []
    for _ in range(2 * MAX_FORGED):
        thief._send_hello((a_number, a._own), thief._with_counters(Hello(start=a._own, asks=1)), 1)
        (_, forged) = said(thief)[0]
        with pytest.raises(BadDatagram) as caught:
            a.open_untrusted(forged)
        reasons.append(str(caught.value))
    assert sum("too many" in text for text in reasons) == MAX_FORGED


def test_a_view_changes_all_secrets_and_datagrams_under_way_are_still_opened() -> None:
    gates = met("a", "b", "c")
    begin(gates)
    assert hears(gates["b"], gates["a"])
    assert hears(gates["c"], gates["a"])
    late = gates["a"].seal(None, DATA)
    keys = gates["a"]._exchange.secret
    begin(gates, 2)
    assert gates["a"]._exchange.secret != keys
    for receiver in "bc":
        assert hears(gates[receiver], gates["a"])
        opened = gates[receiver].open_untrusted(late)
        assert opened is not None
        assert opened.packet == DATA


def test_old_secrets_are_erased_once_nothing_can_be_under_way() -> None:
    gates = met("a", "b")
    begin(gates)
    assert hears(gates["b"], gates["a"])
    late = [gates["a"].seal(None, DATA), gates["a"].seal(None, CONTROL)]
    begin(gates, 2)
    assert hears(gates["b"], gates["a"])
    for second in range(1, 6):
        gates["b"].begin_step(float(second))
    assert [refused(gates["b"], each) for each in late] == ["epoch", "epoch"]
    start = next(iter(gates["b"]._exchange._peers))
    assert list(gates["b"]._exchange._peers[start].secrets) == [3]


def test_an_epoch_ends_by_time_with_new_secrets() -> None:
    gates = met("a", "b")
    begin(gates)
    before = gates["a"]._exchange.secret
    for each in gates.values():
        each.begin_step(QUICK.epoch_s + 1)
    talk(gates)
    assert gates["a"]._exchange.secret != before
    assert hears(gates["b"], gates["a"])


def test_who_is_evicted_is_a_stranger_at_once() -> None:
    gates = met("a", "b", "c")
    begin(gates)
    assert hears(gates["a"], gates["c"])
    gone = ROLL.without([identity_fingerprint(ROLL.daemons["c"])])
    for name in "ab":
        gates[name].use_roll(gone)
        gates[name].begin_step(gates[name].now)
    talk({name: gates[name] for name in "ab"})
    assert hears(gates["a"], gates["b"])
    for name in "ab":
        assert not hears(gates["c"], gates[name])
        assert not hears(gates[name], gates["c"])
        assert refused(gates[name], gates["c"].seal(None, CONTROL)) == "identity"
        assert said(gates[name]) == []
    again = gate("c", 2)
    assert refused(gates["a"], again.seal(None, CONTROL)) == "identity"


def test_a_new_identity_under_the_old_name_is_let_in() -> None:
    gone = ROLL.without([identity_fingerprint(ROLL.daemons["c"])])
    renewed = Roll({**ROLL.daemons, "c": public_of(private("rebuilt"))}, gone.evicted)
    gates = met("a", "b")
    for each in gates.values():
        each.use_roll(renewed)
    gates["c"] = gate("c", 3, signed_by="rebuilt")
    assert refused(gates["a"], gates["c"].seal(None, CONTROL)) == "unproven"
    talk(gates)
    assert hears(gates["a"], gates["c"])
    assert hears(gates["c"], gates["a"])


def test_credentials_that_do_not_fit_are_refused() -> None:
    def start(credentials: DaemonCredentials, config: CoreConfig = CONFIG) -> None:
        IdentityProtection(
            config, Start(name="a", incarnation=Incarnation(1, 1)), KEYS, 0.0, credentials
        )

    good = DaemonCredentials(private("a"), ROLL, bytes)
    for wrong, text in (
        (attrs.evolve(good, private=private("b")), "another daemon's, or old"),
        (
            attrs.evolve(good, roll=Roll({"b": public_of(b"z" * 32)})),
            "a, c are not listed; add each",
        ),
        (
            attrs.evolve(good, roll=ROLL.without([identity_fingerprint(ROLL.daemons["a"])])),
            "was evicted",
        ),
    ):
        with pytest.raises(ConfigError, match=text):
            start(wrong)
    with pytest.raises(ConfigError, match="d are not listed;"):
        start(good, attrs.evolve(CONFIG, sites=(("a", "b", "c", "d"),)))
    with pytest.raises(ConfigError, match="have the same key"):
        Roll({"a": ROLL.daemons["a"], "b": ROLL.daemons["a"]})
