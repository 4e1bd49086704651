"""A group with a secret, case by case: who reads, who does not, and what a daemon may try."""

import json
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from groupcomm.errors import ConfigError, LocalProtocolError
from groupcomm.events import MemberId, Message
from groupcomm.host.key_file import write_key_file
from groupcomm.level import LEVELS, ServiceLevel
from groupcomm.session.inbox import SEALED
from groupcomm_archive.columns import EventBatch, to_rows
from groupcomm_client.end_to_end import (
    GroupSecret,
    KeyChanged,
    SharedSecret,
    TrustedKeys,
    Unreadable,
    Untrusted,
    read_public_keys,
)
from groupcomm_client.end_to_end.frames import Kind, kind_of
from groupcomm_tools.event_text import print_event
from tests.groupcomm_client.end_to_end.group_model import GROUP, GroupModel, Program

SECRET = SharedSecret(b"s" * 32)
FIFO, AGREED = ServiceLevel.FIFO, ServiceLevel.AGREED


def group_of(*credentials: GroupSecret | None) -> tuple[GroupModel, list[Program]]:
    """A world in which these have joined, and all has come to rest."""
    world = GroupModel(1, dict(enumerate(credentials)).get)
    programs = [world.join(0) for _ in credentials]
    world.settle()
    return world, programs


def untrusted(program: Program) -> list[MemberId]:
    return [event.member for event in program.got if isinstance(event, Untrusted)]


def unreadable(program: Program) -> list[Message]:
    return [event.message for event in program.got if isinstance(event, Unreadable)]


def whys(program: Program) -> str:
    return " ".join(event.why for event in program.got if isinstance(event, Unreadable))


def sealed_by(program: Program, level: ServiceLevel = AGREED) -> Message:
    """Return a program's messages, as they are in its outbox."""
    program.send(level)
    message = program.outbox[-1]
    assert message is not None
    return message


# ---- who reads ----


def test_a_member_without_the_secret_sees_that_there_is_something_and_is_notified_of() -> None:
    world, (ann, bob, spy) = group_of(SECRET, SECRET, None)
    text = ann.send(AGREED)
    world.settle()
    assert bob.texts() == [text]
    assert spy.texts() == []
    assert ann.member in [message.sender for message in unreadable(spy)]
    assert "join it again" in whys(spy)
    for program in (ann, bob):
        assert untrusted(program) == [spy.member]
        last = [event for event in program.got if isinstance(event, KeyChanged)][-1]
        assert (last.readers, last.others) == ((ann.member, bob.member), (spy.member,))


def test_the_oldest_member_without_the_secret_holds_up_the_key_once_only() -> None:
    world, (_, ann, bob, cem) = group_of(None, SECRET, SECRET, SECRET)
    assert all(program.may_send for program in (ann, bob, cem))
    before = world.now
    world.leave(ann)
    for _ in range(30):
        world.go_on(127)
    assert bob.may_send
    assert cem.may_send
    assert world.now == before, "the first one was waited for again"


def test_another_secret_reads_nothing_and_its_messages_are_not_believed() -> None:
    world, (ann, bob, eve) = group_of(SECRET, SECRET, SharedSecret(b"e" * 32))
    texts = [ann.send(AGREED), bob.send(FIFO)]
    lie = eve.send(AGREED)
    world.settle()
    assert sorted(bob.texts()) == sorted(t for t in texts if t)
    assert lie is not None
    assert eve.texts() == [lie]
    assert "has not shown that it knows the secret" in whys(ann)
    assert untrusted(ann) == [eve.member]


def test_what_is_not_sealed_is_not_believed() -> None:
    world, (ann, _) = group_of(SECRET, SECRET)
    stranger = world.join(0).member
    plain = Message(stranger, 1, (GROUP,), AGREED, 0, b"trust me", None)
    ann.sealing.receive(plain)
    assert b"trust me" not in ann.texts()
    assert "anybody may have sent it" in whys(ann)


def test_a_program_whose_key_is_not_trusted_by_one_member_makes_that_one_refuse() -> None:
    identities = [bytes([n]) * 32 for n in (1, 2, 3)]
    public = [TrustedKeys(one, ()).public for one in identities]
    all_, not_the_last = public, public[:2]
    trusts = [all_, not_the_last, all_]
    made = [TrustedKeys(*pair) for pair in zip(identities, trusts, strict=True)]
    world, (ann, bob, cem) = group_of(*made)
    assert ann.may_send
    with pytest.raises(LocalProtocolError, match=f"not trusted here: {public[2].hex()}"):
        bob.sealing.may_send([GROUP], [GROUP])
    text, other = ann.send(AGREED), cem.send(AGREED)
    world.settle()
    assert bob.texts() == [text], "who is trusted is read"
    assert public[2].hex() in whys(bob)
    assert ann.texts() == [text, other]


def test_a_key_in_a_name_of_somebody_else_can_be_refused_by_a_function() -> None:
    identity = b"1" * 32

    def only_ann(member: object, key: bytes) -> bool:
        return str(member).startswith("#p0#")

    _, (ann, bob) = group_of(TrustedKeys(identity, only_ann), TrustedKeys(b"2" * 32, only_ann))
    assert untrusted(ann) == [bob.member]


# ---- what a daemon may try ----


def flip(data: bytes, at: int) -> bytes:
    return data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]


def test_no_bit_of_a_message_can_be_flipped() -> None:
    world, (ann, bob) = group_of(SECRET, SECRET)
    message = sealed_by(ann)
    for at in range(len(SEALED), len(message.data)):
        bob.sealing.receive(msgspec.structs.replace(message, data=flip(message.data, at)))
    assert bob.texts() == []
    for cut in range(len(SEALED), len(message.data)):
        bob.sealing.receive(msgspec.structs.replace(message, data=message.data[:cut]))
    assert bob.texts() == []
    world.pass_time(11.0)  # messages with another key or view were held until now
    assert bob.texts() == []
    bob.sealing.receive(message)
    assert len(bob.texts()) == 1, "what is genuine is still taken"


@pytest.mark.parametrize(
    "change",
    [
        lambda message, other: {"sender": other},
        lambda message, other: {"level": ServiceLevel.SAFE},
        lambda message, other: {"level": ServiceLevel.RELIABLE},
        lambda message, other: {"type": 7},
        lambda message, other: {"groups": (GROUP, "another")},
    ],
)
def test_nothing_about_a_message_can_be_changed(change: Callable[..., dict[str, object]]) -> None:
    _, (ann, bob) = group_of(SECRET, SECRET)
    message = sealed_by(ann)
    bob.sealing.receive(msgspec.structs.replace(message, **change(message, bob.member)))
    assert bob.texts() == []
    assert unreadable(bob)


@pytest.mark.parametrize("level", LEVELS)
def test_a_message_is_taken_once(level: ServiceLevel) -> None:
    _, (ann, bob) = group_of(SECRET, SECRET)
    messages = [sealed_by(ann, level) for _ in range(3)]
    for message in (*messages, *messages):
        bob.sealing.receive(message)
    assert len(bob.texts()) == 3
    assert whys(bob).count("repetition") == 3


def test_from_fifo_up_no_message_overtakes_one_of_its_sender() -> None:
    _, (ann, bob) = group_of(SECRET, SECRET)
    first, second = sealed_by(ann, FIFO), sealed_by(ann, AGREED)
    bob.sealing.receive(second)
    bob.sealing.receive(first)
    assert len(bob.texts()) == 1
    assert "after a later message of its sender" in whys(bob)


def test_keys_and_what_asks_for_them_can_be_neither_repeated_nor_changed() -> None:
    world, (ann, bob) = group_of(SECRET, SECRET)
    log = [entry.message for entry in world.components[0].log if entry.message is not None]
    about = [one for one in log if kind_of(one.data) in (Kind.KEY, Kind.READY)]
    assert {kind_of(one.data) for one in about} == {Kind.KEY, Kind.READY}
    before = [program.sealing._agreements[GROUP].keys.latest for program in (ann, bob)]
    for message in about:
        for program in (ann, bob):
            if program.is_for_me(message):
                program.sealing.receive(message)
                for at in range(len(SEALED) + 1, len(message.data)):
                    forged = msgspec.structs.replace(message, data=flip(message.data, at))
                    program.sealing.receive(forged)
    after = [program.sealing._agreements[GROUP].keys.latest for program in (ann, bob)]
    assert after == before
    text = ann.send(AGREED)
    world.settle()
    assert text in ann.texts()
    assert text in bob.texts()


def test_a_key_for_other_members_than_known_is_not_accepted() -> None:
    """A daemon shows ann a view without the spy, and bob one with it."""
    world, (ann, bob) = group_of(SECRET, SECRET)
    world.join(0)
    component = world.components[0]
    entry = component.log[-1]
    assert entry.view is not None
    bob.take(entry)
    shorter = entry.view.members[:2]
    fields = {name: getattr(entry.view, name) for name in type(entry.view).__struct_fields__}
    entry.view = type(entry.view)(**fields | {"members": shorter})
    ann.take(entry)
    key = next(one for one in ann.outbox if one is not None and kind_of(one.data) == Kind.KEY)
    bob.sealing.receive(key)
    assert "does not tell all programs the same" in whys(bob)
    assert not bob.may_send


# ---- what waits ----


def test_a_message_that_is_here_before_its_key_waits_and_so_do_those_behind_it() -> None:
    world, (ann, bob) = group_of(SECRET, SECRET)
    component = world.components[0]
    bob.sealing.rekey(GROUP)
    world.number(component, bob)
    for _ in range(3):  # the request and the key are for ann alone
        world.deliver(component, ann, 0)
        world.number(component, ann)
    text = ann.send(FIFO)
    sealed = ann.outbox.popleft()
    while sealed is not None and world.text_of(sealed) is None:
        sealed = ann.outbox.popleft()
    assert sealed is not None
    bob.sealing.receive(sealed)
    elsewhere = Message(ann.member, 99, ("open",), FIFO, 0, b"to another group", None)
    bob.sealing.receive(elsewhere)
    assert bob.texts() == []
    world.drain(component)
    assert bob.texts() == [text, b"to another group"]


def test_what_waits_too_long_is_given_as_unreadable() -> None:
    world, (ann, bob) = group_of(SECRET, SECRET)
    message = sealed_by(ann)
    later = message.data[:5] + b"\xff" * 28 + message.data[33:]  # the head of a later view
    bob.sealing.receive(msgspec.structs.replace(message, data=later))
    waiting = len(unreadable(bob))
    for _ in range(11):
        world.pass_time(1.0)
    assert len(unreadable(bob)) == waiting + 1
    assert "has not come in 10 s" in whys(bob)


# ---- what a program may not do ----


def test_a_message_to_a_group_with_a_secret_goes_there_alone() -> None:
    _, (ann, _) = group_of(SECRET, SECRET)
    with pytest.raises(LocalProtocolError, match="send the message to it alone"):
        ann.sealing.may_send([GROUP, "open"], [GROUP, "open"])
    assert ann.sealing.may_send(["open", "#bob#d"], [GROUP])


def test_nothing_goes_out_in_the_clear_behind_a_leave() -> None:
    world, (ann, _) = group_of(SECRET, SECRET)
    with pytest.raises(LocalProtocolError, match="join it again"):
        ann.sealing.may_send([GROUP], [])
    world.leave(ann)
    world.settle()
    with pytest.raises(LocalProtocolError, match="join it again"):
        ann.sealing.may_send([GROUP], [])
    with pytest.raises(LocalProtocolError, match="has not joined"):
        ann.sealing.rekey(GROUP)


def test_commands_tell_of_keys_and_of_what_is_unreadable(
    capsys: pytest.CaptureFixture[str],
) -> None:
    world, (ann, _, spy) = group_of(SECRET, SECRET, None)
    ann.send(AGREED)
    world.settle()
    for event in (*ann.got, spy.got[-1]):
        print_event(event, as_json=False)
    told = capsys.readouterr()
    assert "key of plan: read by #p0#d, #p1#d\n" in told.out
    assert "untrusted: #p2#d in plan: it has not shown" in told.err
    assert "unreadable: from #p0#d: it is sealed" in told.err
    for event in (*ann.got, spy.got[-1]):
        print_event(event, as_json=True)
    kinds = [json.loads(line)["event"] for line in capsys.readouterr().out.splitlines()]
    assert {"key", "untrusted", "unreadable"} <= set(kinds)


def test_a_recorder_without_the_secret_writes_what_daemons_have() -> None:
    world, (ann, _, recorder) = group_of(SECRET, SECRET, None)
    text = ann.send(AGREED)
    assert text is not None
    world.settle()
    sealed = [message.data for message in unreadable(recorder)]
    found = to_rows(
        [EventBatch(1, [event for event in recorder.got if isinstance(event, Unreadable)])]
    )
    assert found.column("data").to_pylist() == sealed
    assert world.sealed[text].data in sealed
    assert text not in b"".join(sealed)


def test_another_key_is_in_use_once_it_was_asked_for() -> None:
    world, (ann, bob) = group_of(SECRET, SECRET)
    before = ann.sealing._agreements[GROUP].keys.latest
    has_come = bob.sealing.rekey(GROUP)
    assert not has_come()
    world.settle()
    assert has_come()
    after = ann.sealing._agreements[GROUP].keys.latest
    assert before is not None
    assert after is not None
    assert after.secret != before.secret


def test_the_fate_of_messages_about_keys_is_not_the_programs() -> None:
    _, (_, bob) = group_of(SECRET, SECRET)
    assert bob.sealing.is_own(1)
    assert not bob.sealing.is_own(1000)


def test_secrets_and_keys_are_checked(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="has 3 bytes; it must have 32"):
        SharedSecret(b"abc")
    with pytest.raises(ConfigError, match="has 3 bytes"):
        TrustedKeys(b"abc", ())
    path = tmp_path / "keys"
    with pytest.raises(ConfigError, match="name a file of public keys"):
        read_public_keys(path)
    with pytest.raises(ConfigError, match="make it with groupcomm keygen"):
        SharedSecret.read(path)
    path.write_text(f"# those of the plant\n{'ab' * 32} ann\n\n")
    assert read_public_keys(path) == {b"\xab" * 32}
    path.write_text("ab ann\n")
    with pytest.raises(ConfigError, match="line 1: 'ab' is no public key"):
        read_public_keys(path)
    write_key_file(tmp_path / "plan.key")
    assert SharedSecret.read(tmp_path / "plan.key").prove(b"")
