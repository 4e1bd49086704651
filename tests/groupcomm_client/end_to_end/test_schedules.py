"""Whatever happens to a group: its members read the messages of their views, and nobody else."""

from collections.abc import Callable
from random import Random
from typing import ClassVar
from unittest.mock import patch

import pytest
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from hypothesis import given
from hypothesis import strategies as st

from groupcomm.events import GroupView, Message
from groupcomm.level import LEVELS, ServiceLevel
from groupcomm_client.end_to_end import GroupSecret, SharedSecret, TrustedKeys, Unreadable, keys
from groupcomm_client.end_to_end.frames import decode_head_untrusted
from groupcomm_client.end_to_end.keys import GroupKey, NotGenuine
from tests.examples import examples
from tests.groupcomm_client.end_to_end.group_model import GROUP, MARKER, GroupModel, Program, Sent

SECRET = SharedSecret(b"s" * 32)
IDENTITIES = [number.to_bytes(32) for number in range(1, 41)]
PUBLIC = [TrustedKeys(identity, ()).public for identity in IDENTITIES]
MOST = 12  # the most programs in all


def shared(number: int) -> GroupSecret:
    return SECRET


def trusted(number: int) -> GroupSecret:
    return TrustedKeys(IDENTITIES[number], PUBLIC)


class Recorded:
    """AES-GCM that notes each key with each nonce that encrypts."""

    used: ClassVar[set[tuple[bytes, bytes]]] = set()

    def __init__(self, key: bytes) -> None:
        self._key, self._real = key, AESGCM(key)

    def encrypt(self, nonce: bytes, data: bytes, beside: bytes) -> bytes:
        assert (self._key, nonce) not in self.used, "a nonce was used twice"
        self.used.add((self._key, nonce))
        return self._real.encrypt(nonce, data, beside)

    def decrypt(self, nonce: bytes, data: bytes, beside: bytes) -> bytes:
        return self._real.decrypt(nonce, data, beside)


WEIGHTS = {
    "send": 6,
    "number": 8,
    "deliver": 16,
    "join": 2,
    "leave": 1,
    "crash": 1,
    "part": 1,
    "merge": 1,
    "time": 1,
    "rekey": 1,
    "go on": 12,
}
STEPS = st.lists(
    st.tuples(st.sampled_from(sorted(WEIGHTS)), st.integers(0, 99), st.integers(0, 99)),
    max_size=80,
)


def many_steps(seed: int) -> list[tuple[str, int, int]]:
    rng = Random(seed)
    names = rng.choices([*WEIGHTS], [*WEIGHTS.values()], k=400)
    return [(name, rng.randrange(100), rng.randrange(100)) for name in names]


def do(world: GroupModel, what: str, one: int, two: int) -> None:
    alive = world.alive()
    if what == "join" or not alive:
        if len(world.everybody) < MOST:
            world.join(one)
        return
    component, program = alive[one % len(alive)]
    actions: dict[str, Callable[[], object]] = {
        "send": lambda: program.send(LEVELS[two % len(LEVELS)]),
        "number": lambda: world.number(component, program),
        "deliver": lambda: world.deliver(component, program, two),
        "go on": lambda: world.go_on(two),
        "leave": lambda: world.leave(program),
        "crash": lambda: world.crash(component, program),
        "part": lambda: world.part(component, two),
        "merge": world.merge,
        "time": lambda: world.pass_time((0.011, 0.5, 2.5)[two % 3]),
        "rekey": lambda: program.may_send and program.sealing.rekey(GROUP),
    }
    actions[what]()


def check_what_was_given(world: GroupModel, program: Program) -> None:
    """Each message once, by who has sent it; and told of those that could not be read."""
    texts = program.texts()
    lost = [event.message for event in program.got if isinstance(event, Unreadable)]
    for message in program.taken:
        waits = program.sealing._holding  # messages of a crashed program
        assert waits or message in lost or world.text_of(message) in texts, "a message vanished"
    assert len(set(texts)) == len(texts), "a message was given twice"
    for event in program.got:
        if isinstance(event, Message):
            sent = world.sent[event.data]
            assert (event.sender, event.level) == (sent.sender, sent.level)
            assert program.member in sent.view.members, "it was sent before this member came"
        elif isinstance(event, Unreadable):
            check_unreadable(world, program, event)


def check_unreadable(world: GroupModel, program: Program, event: Unreadable) -> None:
    message = event.message
    text = world.text_of(message)
    if text is not None:  # otherwise it is about keys, and no message is lost with it
        sent = world.sent[text]
        if program.member in sent.readers and not have_parted(program, sent, message):
            # Its key was lost with those who were parted from this program, came too late, or, of
            # messages that may be late, has been erased meanwhile.
            key = decode_head_untrusted(message.data).key
            assert sent.level < ServiceLevel.CAUSAL
            late = "has not come in" in event.why and message not in program.readable
            assert key not in program.secrets or late or sent.level == ServiceLevel.UNRELIABLE


def have_parted(program: Program, sent: Sent, message: Message) -> bool:
    """Return whether a program was without the sender between the view of a message and it."""
    views = [event for event in program.got if isinstance(event, GroupView)]
    return any(sent.sender not in view.members for view in views if view.id > sent.view.id)


def check_secrecy(world: GroupModel) -> None:
    """With all keys that it ever had a program reads no message of views that it was not in."""
    assert not any(MARKER in data for data in world.wire)
    for text, sealed in world.sealed.items():
        for program in world.everybody:
            if program.member not in world.sent[text].view.members:
                assert not any(opens(key, sealed) for key in program.secrets.values())


def opens(key: GroupKey, message: Message) -> bool:
    """Return whether a message opens with a key, whatever key it names."""
    salts = {message.sender: key.salts.get(message.sender, bytes(32))}
    trial = GroupKey(key.id, key.epoch, key.giver, salts, {}, key.secret)
    head = decode_head_untrusted(message.data)
    beside = bytes((message.level, 0, 0))
    try:
        trial.open(message.sender, head.kind, head.number, message.data, beside)
    except NotGenuine:
        return False
    return True


def run(make: Callable[[int], GroupSecret], steps: list[tuple[str, int, int]]) -> None:
    Recorded.used = set()
    with patch.object(keys, "AESGCM", Recorded):
        world = GroupModel(1, make)
        for step in steps:
            do(world, *step)
        world.settle()
        for program in world.everybody:
            check_what_was_given(world, program)
        check_secrecy(world)
        check_the_end(world)


@pytest.mark.parametrize("make", [shared, trusted])
@examples(25)
@given(steps=STEPS)
def test_members_read_what_is_sent_in_their_views_and_nobody_else(
    make: Callable[[int], GroupSecret], steps: list[tuple[str, int, int]]
) -> None:
    run(make, steps)


@examples(15)
@given(seed=st.integers(0, 2**32))
def test_the_same_for_long_schedules(seed: int) -> None:
    run(shared, many_steps(seed))


def check_the_end(world: GroupModel) -> None:
    """Once nothing happens any more, all that are left have one key, and read each other."""
    component = world.components[0]
    members = [one for one in component.programs if one.member in component.members]
    texts = []
    for level in LEVELS:
        for program in members:
            if program.leaves:
                continue  # its leave was lost when it was separated from the others
            assert program.may_send
            text = program.send(level)
            assert text is not None
            texts.append(text)
    world.settle()
    for program in members:
        assert set(texts) <= set(program.texts())
        agreement = program.sealing._agreements[GROUP]
        assert len(agreement.keys.all()) == 1, "old keys are not erased"
