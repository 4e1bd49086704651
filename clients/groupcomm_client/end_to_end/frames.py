"""The messages between members of a group with a secret, as bytes; docs/end-to-end.md has a table.

Every one of these messages begins with `SEALED` and its kind. In an encrypted message a `Head`
follows; messages that give and request keys are MessagePack, whose types msgspec checks.
"""

import enum
import struct
from hashlib import sha256
from typing import Final, NamedTuple, TypeVar

import msgspec

from groupcomm.events import GroupView, MemberId
from groupcomm.session.inbox import SEALED
from groupcomm_client.undecodable import UNDECODABLE


class Kind(enum.IntEnum):
    """The kind of a message; also the first four bytes of the nonce of an encrypted one."""

    DATA = 0  # a program's message at FIFO or above
    LOOSE = 1  # a program's message below FIFO
    DONE = 2  # all members have moved to this key
    REKEY = 3  # a member asks for another key
    READY = 4  # from a member to the giver
    KEY = 5  # from the giver to all


ID_BYTES: Final = 8
KEY_BYTES: Final = 32


class BadFrame(Exception):
    """Bytes that do not decode; the text says why."""


class Place(NamedTuple):
    """The place of a group view in the agreed order, by which a member sorts its views.

    It is only a part of the view's id: `Epoch` says exactly which view is meant.
    """

    counter: int
    time: int
    ring: int
    bundle: int


class Epoch(NamedTuple):
    """One view of a group, for which a key is valid.

    Attributes:
        place: its place among the views.
        digest: SHA-256 over group, id and members: members with the same digest were shown the same
            view.
    """

    place: Place
    digest: bytes


def epoch_of(view: GroupView) -> Epoch:
    """Return the epoch of a view."""
    at = view.id
    place = Place(at.view.counter, at.time, at.ring, at.bundle)
    return Epoch(place, sha256(text("view", view.group, at, view.members)).digest())


def text(*parts: object) -> bytes:
    """Return the text that proofs and keys are made over: equal bytes for equal parts only."""
    return msgspec.msgpack.encode(("groupcomm end-to-end v1", *parts))


class Head(NamedTuple):
    """The head of an encrypted message, which is authenticated with it.

    Attributes:
        kind: the kind of the message, one of the first four.
        place: the place of the view in which it was sent.
        key: the id of its key.
        number: its number among the messages of this sender, kind and key; from 1.
    """

    kind: int
    place: Place
    key: bytes
    number: int


_HEAD: Final = struct.Struct(f"!{len(SEALED)}sBQQHH{ID_BYTES}sQ")
_KEY_AND_NUMBER: Final = struct.Struct(f"!{ID_BYTES}sQ")
HEAD_BYTES: Final = _HEAD.size
_KEY_AT: Final = HEAD_BYTES - _KEY_AND_NUMBER.size
OVERHEAD_BYTES: Final = HEAD_BYTES + 16
"""The bytes by which an encrypted message is larger than its content."""


def kind_of(data: bytes) -> int:
    """Return the kind that a message claims; -1 if it claims none."""
    return data[len(SEALED)] if len(data) > len(SEALED) else -1


def encode_head(kind: int, place: Place, key: bytes, number: int) -> bytes:
    """Return a head as bytes; see `Head`."""
    return _HEAD.pack(SEALED, kind, *place, key, number)


def read_key_and_number_untrusted(data: bytes) -> tuple[bytes, int]:
    """Return the id of the key, and the number, from the head of an encrypted message.

    Raises:
        BadFrame: the message is too short.
    """
    if len(data) < OVERHEAD_BYTES:
        raise BadFrame("it is cut off")
    key, number = _KEY_AND_NUMBER.unpack_from(data, _KEY_AT)
    return key, number


def decode_head_untrusted(data: bytes) -> Head:
    """Return the head of an encrypted message.

    Raises:
        BadFrame: the message is too short.
    """
    if len(data) < OVERHEAD_BYTES:
        raise BadFrame("it is cut off")
    _, kind, counter, time, ring, bundle, key, number = _HEAD.unpack_from(data)
    return Head(kind, Place(counter, time, ring, bundle), key, number)


# ---- keys ----


class Ready(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A message to the giver: this member may have the next key, wrapped for this prekey.

    Attributes:
        group: the group's name.
        place: the place of the view in which it was sent.
        number: its number among the sender's for this group; from 1.
        again: whether the wrap for the present view cannot be unwrapped, so that it was changed.
        moved: the id of the key that its sender seals with from now on; empty for none.
        prekey: a public X25519 key, for one or a few wraps.
        proof: a proof by the sender's credentials, over `ready_text`.
    """

    group: str
    place: Place
    number: int
    again: bool
    moved: bytes
    prekey: bytes
    proof: bytes = b""


def ready_text(ready: Ready, sender: MemberId, giver: MemberId) -> bytes:
    """Return the text that the proof of a Ready is made over."""
    parts = (ready.group, ready.place, ready.number, ready.again, ready.moved, ready.prekey)
    return text("ready", *parts, sender, giver)


class Entry(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A key for one member.

    Attributes:
        at: the member's place in the view, from 0.
        ready: its Ready; without the proof if that tells others nothing.
        wrap: the key, encrypted for the member.
    """

    at: int
    ready: Ready
    wrap: bytes


class KeyFrame(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A key for members of a view; further frames with the same id may follow for others.

    Attributes:
        place, digest: the epoch.
        id: the random id of the key.
        first: whether it is the first with this id.
        ephemeral: a public X25519 key, made for this message alone.
        entries: one for each member that gets the key by this frame.
        proof: a proof by the sender's credentials, over `key_text`.
    """

    place: Place
    digest: bytes
    id: bytes
    first: bool
    ephemeral: bytes
    entries: tuple[Entry, ...]
    proof: bytes = b""


def key_text(frame: KeyFrame, giver: MemberId) -> bytes:
    """Return the text that the proof of a key frame is made over."""
    parts = (frame.place, frame.digest, frame.id, frame.first, frame.ephemeral, frame.entries)
    return text("key", *parts, giver)


def wrap_text(key: bytes, giver: MemberId, reader: MemberId, ready: Ready) -> bytes:
    """Return the text that a wrap is bound to, besides its epoch and the two keys."""
    return text("wrap", key, giver, reader, ready.number, ready.prekey)


_Frame = TypeVar("_Frame", Ready, KeyFrame)


def encode_frame(frame: Ready | KeyFrame) -> bytes:
    """Return a frame as bytes."""
    kind = Kind.READY if isinstance(frame, Ready) else Kind.KEY
    return b"%b%c%b" % (SEALED, kind, msgspec.msgpack.encode(frame))


def decode_frame_untrusted(data: bytes, kind: type[_Frame]) -> _Frame:
    """Return a Ready or a key frame.

    Raises:
        BadFrame: the bytes are neither.
    """
    try:
        frame = msgspec.msgpack.decode(memoryview(data)[len(SEALED) + 1 :], type=kind)
    except UNDECODABLE as error:
        raise BadFrame(f"it does not decode: {error}") from None
    readies = [frame] if isinstance(frame, Ready) else [one.ready for one in frame.entries]
    lengths = {len(ready.prekey) for ready in readies}
    if isinstance(frame, KeyFrame):
        lengths |= {len(frame.ephemeral), len(frame.digest)}
        if len(frame.id) != ID_BYTES:
            raise BadFrame(f"the id of its key has {len(frame.id)} bytes")
    if lengths - {KEY_BYTES}:
        raise BadFrame(f"a key in it has not {KEY_BYTES} bytes")
    return frame
