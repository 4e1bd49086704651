"""Daemons with identities meet; who has the key alone, or was evicted, stays outside."""

import random
from contextlib import suppress
from typing import Final

import attrs
import pytest

from groupcomm.clocks.stamp import ViewId
from groupcomm.config.core import CoreConfig, Rekeying
from groupcomm.config.roster import Roster, RosterEntry
from groupcomm.config.view import SAFE_PACKET_BYTES, Incarnation, Start, View
from groupcomm.engine.backlog import Backlog, Submitter
from groupcomm.engine.counters import Counters
from groupcomm.engine.keys import KeyManager
from groupcomm.engine.protection import (
    MAX_FORGED,
    NOTICE_S,
    NOTICES_BURST,
    IdentityProtection,
)
from groupcomm.errors import BadDatagram, ConfigError
from groupcomm.names import daemon_number
from groupcomm.security.identity import DaemonCredentials, Roll, identity_fingerprint, public_of
from groupcomm.security.keys import KeyRing
from groupcomm.security.layout import HEAD_BYTES, SEAL_BYTES, Channel
from groupcomm.security.secret_sealing import DATAGRAM_BYTES, EPOCH_BITS, fill, unfill
from groupcomm.wire.eviction import EVICTION_BYTES, Eviction
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
        each.begin_step(QUICK.epoch_s)
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
        ((to, notice),) = said(gates[name])
        assert (to, len(notice)) == ("c", HEAD_BYTES + EVICTION_BYTES + SEAL_BYTES)
    again = gate("c", 2)
    assert refused(gates["a"], again.seal(None, CONTROL)) == "identity"


GONE: Final = ROLL.without([identity_fingerprint(ROLL.daemons["c"])])


def notice_of(
    member: IdentityProtection, evicted: IdentityProtection, packet: bytes = CONTROL
) -> bytes | None:
    """Return what a member sends to an evicted daemon, if anything; nothing else may happen."""
    assert refused(member, evicted.seal(None, packet)) == "identity"
    out = said(member)
    assert [to for to, _ in out] == ["c"] * len(out)
    return out[0][1] if out else None


def test_who_was_evicted_is_told_so_and_nothing_else() -> None:
    gates = met("a", "b")
    a = gates["a"]
    a.use_roll(GONE)
    a.use_daemons(("a", "b"), ("c",), 7)
    c = gate("c", 2)
    notice = notice_of(a, c)
    assert notice is not None
    assert len(notice) < DATAGRAM_BYTES <= len(c.seal(None, CONTROL)), "no more than has come"
    assert c.eviction is None
    assert c.open_untrusted(notice) is None
    assert said(c) == [], "it answers nothing"
    told = Eviction(start=c._own, public=ROLL.daemons["c"], roster=7, removed=True)
    assert c.eviction == ("a", told)
    assert not hears(a, c)
    assert not hears(c, a)
    assert notice_of(a, c) is None, "it was told less than a second ago"
    a.begin_step(a.now + NOTICE_S)
    assert notice_of(a, c) is not None


def test_an_introduction_of_who_was_evicted_is_answered_by_a_notice() -> None:
    gates = met("a", "c")
    a, c = gates["a"], gates["c"]
    assert refused(c, gate("a", 2).seal(None, CONTROL)) == "unproven"
    ((_, challenge),) = said(c)
    later = gate("a", 2, roll=GONE)
    assert refused(later, challenge) == "identity"
    ((to, notice),) = said(later)
    assert (to, c.open_untrusted(notice)) == ("c", None)
    first = Eviction(start=c._own, public=ROLL.daemons["c"], roster=0, removed=False)
    assert c.eviction == ("a", first), "no roster was agreed on there"
    assert a.eviction is None


def test_only_a_trusted_daemon_that_means_this_start_and_this_identity_is_believed() -> None:
    """A healthy daemon gets notices of a thief, for another start, of an earlier identity."""
    told = gate("a", roll=GONE)
    first, again = gate("c", 2), gate("c", 3)
    notice = notice_of(told, first)
    assert notice is not None
    assert refused(again, notice) == "hello", "it is for another start"
    thief = gate("a", 4, signed_by="thief", roll=GONE)
    thief.use_roll(GONE)
    forged = notice_of(thief, again)
    assert forged is not None
    assert refused(again, forged) == "identity", "the key file alone signs nothing"
    rebuilt = gate("c", 5, signed_by="rebuilt")
    stale = notice_of(gate("a", 6, roll=GONE), rebuilt)
    assert stale is not None
    assert refused(rebuilt, stale) == "identity", "it has another identity by now"
    knows = ROLL.without([identity_fingerprint(ROLL.daemons["b"])])
    informed = gate("c", 7, roll=knows)
    of_evicted = notice_of(gate("b", 2, roll=GONE), informed)
    assert of_evicted is not None
    assert refused(informed, of_evicted) == "identity", "its sender is evicted"
    assert all(each.eviction is None for each in (first, again, rebuilt, informed))


@pytest.mark.parametrize(
    ("number", "removed", "names", "counts"),
    [
        (7, False, "abc", True),
        (8, True, "abc", True),
        (6, False, "abc", False),  # the sender knows less than this daemon
        (7, True, "abc", False),  # this daemon's own roster of that number has it
        (8, True, "bc", False),  # the sender is no daemon of the cluster any more
    ],
)
def test_a_notice_counts_by_the_rosters_of_both(
    number: int, removed: bool, names: str, counts: bool
) -> None:
    member, c = gate("a", roll=GONE), gate("c", 2)
    member.use_daemons(("a", "b"), ("c",) if removed else (), number)
    entries = tuple(RosterEntry(name=name, site="hall") for name in names)
    roster = Roster(entries=entries, number=7)
    manager = KeyManager("c", c, KEYS, Submitter(Backlog()), Counters())
    assert manager.find_eviction(roster) is None
    if not removed:
        member.use_daemons(("a", "b", "c"), (), number)
    notice = notice_of(member, c)
    assert notice is not None
    c.open_untrusted(notice)
    assert (manager.find_eviction(roster) is not None) is counts


def test_few_notices_are_sent() -> None:
    names = [f"d{number}" for number in range(40)]
    roll = Roll({name: public_of(private(name)) for name in ("a", *names)})
    gone = Roll(roll.daemons, {roll.daemons[name]: name for name in names})
    config = attrs.evolve(CONFIG, sites=(("a", *names),))
    protections = {
        name: IdentityProtection(
            config,
            Start(name=name, incarnation=Incarnation(1, number + 1)),
            KEYS,
            0.0,
            DaemonCredentials(
                private(name), gone if name == "a" else roll, random.Random(name).randbytes
            ),
        )
        for number, name in enumerate(("a", *names))
    }
    a = protections["a"]
    for _ in range(2):
        for name in names:
            assert refused(a, protections[name].seal(None, CONTROL)) == "identity"
    assert len(said(a)) == NOTICES_BURST
    a.begin_step(a.now + 10)
    assert refused(a, protections["d3"].seal(None, DATA)) in ("identity", "unproven")
    assert said(a) == [], "it would be longer than what has brought it about"


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


# ---- what is under way, and who is waited for ----


def secret_that_seals(sender: IdentityProtection) -> int:
    """Return the number of the secret that the next datagram is sealed with, as it says itself."""
    epoch = sender.seal(None, DATA)[HEAD_BYTES + 1 : HEAD_BYTES + 5]
    return int.from_bytes(epoch, "big") >> EPOCH_BITS


def test_a_new_secret_seals_once_all_members_have_it_and_not_before() -> None:
    gates = met("a", "b")
    begin(gates)
    a = gates["a"]
    sealing = secret_that_seals(a)
    assert sealing == a._exchange.sealing
    view = view_of(gates, 2)
    for each in gates.values():
        each.begin_view(view)
    assert secret_that_seals(a) == sealing
    assert a.awaited == ["b"]
    for each in gates.values():
        each.begin_step(each.now)
    talk(gates)
    assert secret_that_seals(a) == sealing + 1
    assert a.awaited == []


def test_a_daemon_that_is_alone_waits_for_nobody() -> None:
    a = gate("a")
    before = secret_that_seals(a)
    a.begin_view(view_of({"a": a}))
    assert secret_that_seals(a) == before + 1


def test_a_member_that_is_over_is_waited_for_no_longer_and_not_heard() -> None:
    gates = met("a", "b")
    begin(gates)
    a, b = gates["a"], gates["b"]
    before = secret_that_seals(a)
    a.begin_view(view_of(gates, 2))
    assert a.awaited == ["b"]
    a.forget_start(daemon_number("b"), b._own)
    assert a.awaited == []
    assert secret_that_seals(a) == before + 1
    assert not hears(a, b)


def test_a_start_that_is_over_is_the_first_to_make_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("groupcomm.security.opening.MAX_PEERS", 2)
    gates = met("a", "b", "c")
    a = gates["a"]
    assert hears(a, gates["b"])
    a.forget_start(daemon_number("c"), gates["c"]._own)
    later = {"a": a, "b": gate("b", 2)}
    with suppress(BadDatagram):
        a.open_untrusted(later["b"].seal(None, CONTROL))
    talk(later)
    assert hears(a, later["b"])
    assert hears(a, gates["b"]), "it is not said to be over"


def test_a_member_that_never_answers_is_waited_for_a_while_only() -> None:
    gates = met("a", "b")
    begin(gates)
    a = gates["a"]
    before = secret_that_seals(a)
    a.begin_view(view_of(gates, 2))
    step = 0
    while a.awaited:
        step += 1
        assert step < 1000
        assert secret_that_seals(a) == before
        a.begin_step(step / 50)
        said(a)
    assert secret_that_seals(a) == before + 1


def test_an_evicted_daemon_cannot_open_the_next_datagram_of_the_only_other_one() -> None:
    gates = met("a", "c")
    begin(gates)
    a = gates["a"]
    before = secret_that_seals(a)
    a.use_roll(GONE)
    assert secret_that_seals(a) == before + 1


def test_two_with_identities_meet_once() -> None:
    a, b = gate("a"), gate("b")
    assert refused(b, a.seal(None, CONTROL)) == "unproven"
    times = {"a": 0, "b": 0}
    turns = [("b", b, a), ("a", a, b)]
    for _ in range(8):
        name, speaker, listener = turns[0]
        out: list[tuple[str | None, bytes]] = []
        times[name] += speaker.pop_hellos(out)
        for _, hello in out:
            with suppress(BadDatagram):
                listener.open_untrusted(hello)
        turns.reverse()
    assert times == {"a": 1, "b": 1}


def test_a_signed_hello_counts_once() -> None:
    gates = met("a", "b")
    a, b = gates["a"], gates["b"]
    hello = b._with_counters(Hello(start=a._own))
    b._send_hello((daemon_number("a"), a._own), hello, 1)
    ((_, datagram),) = said(b)
    assert a.open_untrusted(datagram) is None
    assert refused(a, datagram) == "replay"


def test_a_datagram_that_is_shorter_than_an_introduction_gets_none(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A thief of the key file does not pad what he seals."""
    a, b = gate("a"), gate("b")
    monkeypatch.setattr("groupcomm.security.secret_sealing.LEAST_CONTROL_BYTES", 0)
    for size, hellos in ((99, 0), (DATAGRAM_BYTES, 1)):
        datagram = a.seal(None, CONTROL[:1] + bytes(size - 1))
        assert (len(datagram) >= DATAGRAM_BYTES) == bool(hellos)
        assert refused(b, datagram) == "unproven"
        assert len(said(b)) == hellos


def test_of_two_notices_the_one_with_the_later_roster_counts() -> None:
    c = gate("c", 2)
    told: list[tuple[str, int]] = []
    for sender, number in (("a", 7), ("b", 6), ("b", 7), ("a", 8), ("b", 7)):
        member = gate(sender, 10 + len(told), roll=GONE)
        member.use_daemons(("a", "b", "c"), (), number)
        notice = notice_of(member, c)
        assert notice is not None
        c.open_untrusted(notice)
        assert c.eviction is not None
        told.append((c.eviction[0], c.eviction[1].roster))
    assert told == [("a", 7), ("a", 7), ("b", 7), ("a", 8), ("a", 8)]


def test_with_identities_too_only_daemons_of_the_present_roster_are_heard() -> None:
    b = gate("b")
    b.use_daemons(("b", "c"))
    assert refused(b, gate("a").seal(None, CONTROL)) == "unlisted"
    assert refused(b, gate("c").seal(None, CONTROL)) == "unproven"
