"""A daemon is admitted with its token once, whatever the network does, and nobody else is."""

import contextlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from groupcomm.config.roster import AddDaemon, RemoveDaemon
from groupcomm.errors import BadDatagram, ConfigError
from groupcomm.joining.asker import State
from groupcomm.joining.messages import (
    decode_answer_untrusted,
    decode_package_untrusted,
    decode_request_untrusted,
)
from groupcomm.joining.token import decode_token
from groupcomm.wire.joining import FIRST_BYTE, REQUEST_BYTES, decode_joining_untrusted
from tests.groupcomm.joining.world import FIRST, KEY, Host, Network, joiner, mover

OTHER = bytes(31) + b"o"


def test_a_daemon_with_a_token_gets_the_roster_and_the_keys() -> None:
    host = Host()
    token = host.invite("b")
    asked = joiner(decode_token(token.encode()))
    host.delay = 3
    network = Network(host)
    network.run(asked)
    assert asked.package is not None
    package = decode_package_untrusted(asked.package)
    assert package.keys is not None
    assert package.keys.keys == {1: KEY}
    assert package.roster == host.roster
    entry = host.roster.entry("b")
    assert entry is not None
    assert entry.addresses == ("10.0.0.9:4803",)
    assert not entry.counts
    assert {len(data) for _, data in network.sent} == {REQUEST_BYTES}


@settings(max_examples=30)
@given(
    loss=st.floats(0.0, 0.6),
    doubled=st.floats(0.0, 0.5),
    seed=st.integers(0, 2**32),
    many=st.integers(0, 60),
)
def test_losses_and_copies_change_nothing(
    loss: float, doubled: float, seed: int, many: int
) -> None:
    roster = FIRST
    for number in range(many):  # so that the package has several parts
        roster = roster.changed(
            AddDaemon(name=f"x{number}", site="main", addresses=("10.1.1.1:1",))
        )
    host = Host(FIRST, seed)
    host.roster = roster
    asked = joiner(host.invite("b"), seed=seed)
    Network(host, loss=loss, doubled=doubled, seed=seed).run(asked, until_s=300.0)
    assert asked.package == host.package()
    assert host.roster.number == many + 2  # invited, and admitted once


def test_a_token_admits_one_daemon_though_two_ask_at_two_daemons_at_once() -> None:
    host = Host(FIRST.changed(AddDaemon(name="c", site="main", addresses=("10.0.0.3:1",))))
    token = host.invite("b")
    askers = joiner(token), joiner(token, private=OTHER, seed=2, targets="c")
    Network(host).run(*askers)
    assert [each.package is not None for each in askers] == [True, False]
    assert askers[1].refusal is not None
    assert "used already" in askers[1].refusal


def test_a_daemon_that_was_killed_while_it_joined_asks_again_with_its_key() -> None:
    host = Host()
    token = host.invite("b")
    first, again = joiner(token), joiner(token, seed=2)
    network = Network(host)
    network.run(first)
    network.now = 0.0
    network.run(again)
    assert again.package == host.package()
    host.roster = host.roster.changed(RemoveDaemon("b"))
    late = joiner(token, seed=3)
    Network(host).run(late)
    assert late.refusal is not None
    assert late.package is None, "a removed one gets no key"


@pytest.mark.parametrize(
    ("name", "wait_s", "part"),
    [("x", 0, "the token is for daemon b"), ("b", 61, "expired")],
)
def test_a_wrong_name_and_an_old_token_are_told(name: str, wait_s: int, part: str) -> None:
    host = Host()
    asked = joiner(host.invite("b"), name=name)
    host.wall_s += wait_s
    Network(host).run(asked)
    assert asked.refusal is not None
    assert part in asked.refusal
    assert host.roster.entry("b") is None


def test_an_unknown_token_is_refused_with_a_proof_once_nobody_knows_it() -> None:
    host = Host()
    old = host.invite("b")
    token = host.invite("b")  # in place of the first one
    asked = joiner(old, targets="az")
    network = Network(host)
    network.run(asked)
    assert asked.refusal is not None
    assert "does not know this token" in asked.refusal
    assert network.now >= 2.0, "the silent daemon z may have known it"
    good = joiner(token, seed=2)
    Network(host).run(good)
    assert good.package is not None


def test_another_conversation_begins_when_the_daemon_that_is_asked_has_gone() -> None:
    host = Host(FIRST.changed(AddDaemon(name="c", site="main", addresses=("10.0.0.3:1",))))
    asked = joiner(host.invite("b"), targets="ac")
    host.delay = 5
    network = Network(host)
    network.run(asked, until_s=0.3)
    assert asked.state is State.ASKING
    del host.machines["a"]
    network.run(asked)
    assert asked.package == host.package()


# ---- a daemon that has moved ----


def test_a_daemon_that_has_moved_says_so_with_the_key() -> None:
    host = Host()
    asked = mover("a", "10.0.0.7:4803")
    Network(host).run(asked)
    assert asked.package == b""
    entry = host.roster.entry("a")
    assert entry is not None
    assert entry.addresses == ("10.0.0.7:4803",)


def test_nobody_moves_a_daemon_without_the_key_or_an_unknown_daemon() -> None:
    host = Host()
    for asked in (mover("a", "10.6.6.6:1", key=bytes(32)), mover("z", "10.6.6.6:1")):
        Network(host).run(asked, until_s=5.0)
        assert asked.package is None
    assert host.roster == FIRST


# ---- attackers ----


def test_a_copy_of_all_that_was_sent_gets_nothing_and_changes_nothing() -> None:
    """Also at a daemon that has restarted, and knows nothing of the conversation."""
    host = Host()
    token, moved = host.invite("b"), mover("a", "10.0.0.7:4803")
    network = Network(host)
    network.run(joiner(token))
    network.run(moved, until_s=120.0)
    host.roster = host.roster.changed(RemoveDaemon("b"))
    later = mover("a", "10.0.0.1:4803", seed=3)
    Network(host).run(later)
    before = host.roster
    host.start("a")
    answers = [host.machines["a"].answer(data, 200.0) for _, data in network.sent]
    assert host.roster == before
    assert KEY not in b"".join(each for each in answers if each)
    assert not any(each and each[1] == 5 for each in answers), "no request was processed"


class _Eavesdropper:
    """Knows the cluster's state: rosters, with public keys of tokens, but no key and no secret."""

    def __init__(self, host: Host, network: Network) -> None:
        self.read = b"".join([*(data for _, data in network.sent), *network.answers])
        self.roster = host.roster


def test_an_eavesdropper_reads_neither_keys_nor_names_nor_the_secret() -> None:
    host = Host()
    token = host.invite("secretive")
    network = Network(host)
    network.run(joiner(token))
    seen = _Eavesdropper(host, network)
    for secret in (KEY, token.secret, token.private, b"secretive", b"10.0.0.9"):
        assert secret not in seen.read
    assert token.secret not in repr(seen.roster).encode()
    assert token.private.hex() not in repr(seen.roster)


def test_a_host_without_the_key_of_the_cluster_is_not_believed() -> None:
    """It has read the state of a daemon, and so knows the public key of the token."""
    host = Host()
    token = host.invite("b")

    class Impostor(Host):
        def cluster_private(self, key_id: int) -> bytes | None:
            return bytes(32)

    impostor = Impostor(host.roster)
    asked = joiner(token)
    Network(impostor).run(asked, until_s=5.0)
    assert asked.package is None
    assert asked.refusal is None


@settings(max_examples=60)
@given(at=st.integers(0, REQUEST_BYTES - 1), bit=st.integers(0, 7), seed=st.integers(0, 9))
def test_a_changed_datagram_admits_nobody_with_other_words(at: int, bit: int, seed: int) -> None:
    host = Host(seed=seed)
    asked = joiner(host.invite("b"), seed=seed)
    now = 0.0
    while asked.state is not State.OVER and now < 3.0:
        for target, data in asked.step(now):
            wrong = bytearray(data)
            wrong[at] ^= 1 << bit
            host.machines[target].answer(bytes(wrong), now)
        now += 0.05
    entry = host.roster.entry("b")
    assert entry is None or entry.addresses == ("10.0.0.9:4803",)


def test_requests_of_strangers_are_limited() -> None:
    host = Host()
    asked = joiner(host.invite("b"))
    token = host.invite("c")
    machine, answered = host.machines["a"], 0
    for seed in range(200):
        wrong = joiner(host.invite("b"), seed=seed)
        host.invite("b")
        answered += any(machine.answer(data, 0.0) for _, data in wrong.step(0.0))
    assert answered == 8
    good = joiner(token, seed=5)
    Network(host).run(good, until_s=0.6)
    assert good.package is not None, "those with an invitation have a limit of their own"
    assert asked.package is None


# ---- bytes ----


@given(st.binary(max_size=80), st.integers(0, 6), st.booleans())
def test_datagrams_of_anybody_decode_or_are_refused(data: bytes, kind: int, long: bool) -> None:
    raw = bytes((FIRST_BYTE, kind)) + data
    if long:
        raw = raw.ljust(REQUEST_BYTES, b"\0")
    with contextlib.suppress(BadDatagram):
        assert decode_joining_untrusted(raw).encode() == raw
    host = Host()
    host.machines["a"].answer(raw, 0.0)
    joiner(host.invite("b")).receive("a", raw, 0.0)


@given(st.binary(max_size=200))
def test_messages_of_anybody_decode_or_are_refused(data: bytes) -> None:
    for decode in (
        decode_request_untrusted,
        decode_answer_untrusted,
        decode_package_untrusted,
    ):
        with contextlib.suppress(BadDatagram):
            assert decode(data) is not None


@given(at=st.integers(0, 200), to=st.sampled_from("aB7-_ =é"))
def test_a_mistyped_token_is_found_out(at: int, to: str) -> None:
    text = Host().invite("b").encode()
    wrong = text[: at % len(text)] + to + text[at % len(text) + 1 :]
    try:
        found = decode_token(wrong)
    except ConfigError as error:
        assert str(error).startswith("the token is damaged")  # noqa: PT017
    else:
        assert found.encode() == text


def test_a_host_that_cannot_decide_is_left_for_another_one() -> None:
    """It may be in a part of the cluster without a majority."""
    host = Host(FIRST.changed(AddDaemon(name="c", site="main", addresses=("10.0.0.3:1",))))
    host.delay = 18
    asked = joiner(host.invite("b"), targets="ac")
    network = Network(host)
    network.run(asked)
    assert asked.package is not None
    assert {target for target, data in network.sent if data[1] == 4} == {"a", "c"}
