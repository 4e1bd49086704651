"""Bundler: the output of a client, from messages to frames.

Consecutive small messages to the same groups, of the same level and flags, share a bundle while
they wait, up to the size of a packet, as a daemon's work for a bundle hardly depends on its size.
Nothing waits for more messages, as `pop` returns all there is. A message too large for one
bundle is cut into fragments while it is popped, so that it is in memory once. Everything
leaves in the order in which it was submitted.
"""

from bisect import bisect_right
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate
from typing import Final, TypeAlias

import msgspec

from groupcomm.errors import LocalProtocolError
from groupcomm.names import check_destination
from groupcomm.session.frames import bundle_bytes, encode_bundle_head
from groupcomm.wire.bundle import (
    BODY_HEAD_BYTES,
    MAX_GROUPS,
    BundleKind,
    encode_body_head,
    encode_groups,
)
from groupcomm.wire.messages import (
    FRAGMENT_HEAD_BYTES,
    MESSAGE_HEAD_BYTES,
    encode_fragment,
    message_parts,
)
from groupcomm.wire.packet import Raw

TARGET_BYTES: Final = 8
"""The bytes that the daemon adds to a bundle for each private name among its groups."""

_CACHED_GROUPS: Final = 4096
_CACHED_BYTES: Final = 512  # longer lists of groups are checked each time
_groups_cache: dict[tuple[str, ...], int] = {}

_MESSAGES: Final = int(BundleKind.MESSAGES)
_FRAGMENT: Final = int(BundleKind.FRAGMENT)
_ONLY_BYTES: Final = {bytes}


class Address(msgspec.Struct, eq=False):
    """The destinations and options of messages; only messages with equal ones share a bundle."""

    groups: tuple[str, ...]
    level: int
    flags: int
    ordered: bool


class _Shared(msgspec.Struct, eq=False):
    """Messages that share a bundle.

    Attributes:
        first: the number of the first message.
        count: the number of messages.
        room: the bytes left for further messages, heads included.
        size: the bytes of the messages, heads included.
        runs: consecutive messages of one type: the type, and the data of each message.
    """

    address: Address
    first: int
    room: int
    count: int = 0
    size: int = 0
    runs: list[tuple[int, list[bytes]]] = []

    def add(self, type_: int, messages: Sequence[bytes], size: int) -> None:
        """Add messages for which there is room: `size` bytes with their heads."""
        self.count += len(messages)
        self.room -= size
        self.size += size
        if self.runs and self.runs[-1][0] == type_:
            self.runs[-1][1].extend(messages)
        else:
            self.runs.append((type_, list(messages)))


class _Large:
    """A message in fragments of `part` bytes; `index` is the next one of `count`."""

    __slots__ = ("address", "count", "data", "index", "number", "part", "type")

    def __init__(self, address: Address, number: int, type_: int, data: bytes, part: int) -> None:
        self.address = address
        self.number = number
        self.type = type_
        self.data = data
        self.part = part
        self.index = 0
        self.count = -(-len(data) // part)


_Item: TypeAlias = _Shared | _Large | bytes


class Bundler:
    """The queue of a client's output.

    Attributes:
        bundle_limit: the most bytes of a body, with TARGET_BYTES for each private name, if its
            names leave room; 0 until it is known.
        pending_bytes: the bytes that wait: messages with their heads, and other frames.
    """

    __slots__ = ("_items", "_open", "bundle_limit", "pending_bytes")

    def __init__(self) -> None:
        self.bundle_limit = 0
        self.pending_bytes = 0
        self._items: deque[_Item] = deque()
        self._open: _Shared | None = None  # the last item, if further messages fit

    def end_bundle(self) -> None:
        """Begin a new bundle with the next message."""
        self._open = None

    def add_frame(self, frame: bytes) -> None:
        """Queue a whole frame."""
        self._open = None
        self._items.append(frame)
        self.pending_bytes += len(frame)

    def add_message(
        self,
        number: int,
        type_: int,
        data: bytes,
        groups: tuple[str, ...],
        level: int,
        flags: int,
        ordered: bool,
    ) -> None:
        """Queue a message.

        Raises:
            LocalProtocolError: a name is invalid, or the names leave no room for data.
        """
        size = MESSAGE_HEAD_BYTES + len(data)
        shared = self._open
        if shared is not None and size <= shared.room:
            address = shared.address
            if (
                groups == address.groups
                and level == address.level
                and flags == address.flags
                and not ordered
            ):
                shared.add(type_, (data,), size)
                self.pending_bytes += size
                return
        self._start(number, type_, data, Address(groups, level, flags, ordered))

    def add_more(self, type_: int, messages: Sequence[bytes], start: int) -> int:
        """Queue further messages in the bundle of the last one, with its destinations and options.

        Args:
            type_: the type of all messages.
            messages: the messages; those from `start` on are queued, up to the first that is not
                bytes.
            start: an index into `messages`.

        Returns:
            The number of messages that were queued; there may be room for more.
        """
        shared = self._open
        if shared is None or type(messages[start]) is not bytes:
            return 0
        most = shared.room // (MESSAGE_HEAD_BYTES + len(messages[start]))
        some = messages[start : start + most]
        if set(map(type, some)) != _ONLY_BYTES:
            return 0
        count, size = _fitting([*map(len, some)], shared.room)
        if count:
            shared.add(type_, some if count == most else some[:count], size)
            self.pending_bytes += size
        return count

    def _start(self, number: int, type_: int, data: bytes, address: Address) -> None:
        """Begin a new bundle, or the fragments of a large message."""
        heads = BODY_HEAD_BYTES + names_bytes(address.groups)
        most = bundle_bytes(self.bundle_limit, heads)
        room = most - heads
        size = MESSAGE_HEAD_BYTES + len(data)
        if size > room:
            part = room - FRAGMENT_HEAD_BYTES
            if part < 1:
                raise LocalProtocolError(
                    f"the names of {len(address.groups)} groups need {heads} bytes of a bundle;"
                    f" the daemon takes bundles of {most}; name fewer groups at once"
                )
            self._open = None
            self._items.append(_Large(address, number, type_, data, part))
            self.pending_bytes += len(data)
            return
        shared = _Shared(address, number, room)
        shared.add(type_, (data,), size)
        self._items.append(shared)
        self._open = None if address.ordered else shared
        self.pending_bytes += size

    def pop(self, limit: int) -> bytes:
        """Remove and return whole frames, one at least if any waits, up to about `limit` bytes."""
        parts: list[Raw] = []
        items = self._items
        size = 0
        while items and size < limit:
            item = items[0]
            if type(item) is _Large:
                size += self._pop_fragment(item, parts)
                if item.index < item.count:
                    continue
            elif type(item) is _Shared:
                size += self._pop_shared(item, parts)
            else:
                assert type(item) is bytes
                parts.append(item)
                size += len(item)
                self.pending_bytes -= len(item)
            items.popleft()
        return b"".join(parts)

    def _pop_shared(self, shared: _Shared, parts: list[Raw]) -> int:
        if shared is self._open:
            self._open = None
        self.pending_bytes -= shared.size
        address = shared.address
        head = encode_body_head(
            _MESSAGES, address.level, address.flags, shared.first, address.groups, 0, shared.count
        )
        return _add_bundle(parts, (head, *message_parts(shared.runs)), address.ordered)

    def _pop_fragment(self, large: _Large, parts: list[Raw]) -> int:
        index = large.index
        large.index += 1
        data = memoryview(large.data)[index * large.part : large.index * large.part]
        self.pending_bytes -= len(data)
        address = large.address
        head = encode_body_head(
            _FRAGMENT,
            address.level,
            address.flags,
            large.number,
            address.groups,
            index,
            large.count,
        )
        body = head, encode_fragment(large.type, len(large.data), b""), data
        # The position of the last fragment is the position of the message.
        return _add_bundle(parts, body, address.ordered and large.index == large.count)


def _add_bundle(parts: list[Raw], body: Sequence[Raw], ordered: bool) -> int:
    size = sum(map(len, body))
    head = encode_bundle_head(size, ordered)
    parts.append(head)
    parts += body
    return len(head) + size


def _fitting(sizes: list[int], room: int) -> tuple[int, int]:
    """Return the number of messages of these sizes that fit, and their size with heads."""
    count = len(sizes)
    if sizes.count(sizes[0]) == count:
        each = MESSAGE_HEAD_BYTES + sizes[0]
        count = min(count, room // each)
        return count, count * each
    ends = [*accumulate(sizes, initial=0)]

    def size_of(first: int) -> int:
        return ends[first] + MESSAGE_HEAD_BYTES * first

    count = bisect_right(range(count + 1), room, key=size_of) - 1
    return count, size_of(count)


def names_bytes(groups: tuple[str, ...]) -> int:
    """Return the bytes that destinations need in a bundle, targets included; check new ones."""
    size = _groups_cache.get(groups)
    if size is None:
        if not groups:
            raise LocalProtocolError("a message has no destination; give one group at least")
        if len(groups) > MAX_GROUPS:
            raise LocalProtocolError(
                f"a message has {len(groups)} destinations; at most {MAX_GROUPS} are allowed"
            )
        privates = sum(check_destination(name)[0] == "#" for name in groups)
        size = len(encode_groups(groups)) + TARGET_BYTES * privates
        if size <= _CACHED_BYTES:
            if len(_groups_cache) >= _CACHED_GROUPS:
                _groups_cache.clear()
            _groups_cache[groups] = size
    return size


PART_BYTES: Final = 256 * 1024
"""The bytes of many messages that are queued before a write: about as many as a socket accepts."""


def in_parts(messages: Iterable[bytes]) -> Iterator[Sequence[bytes]]:
    """Yield messages in parts of about PART_BYTES; an error of the iterable follows the last part.

    So the iterable, which may wait, fail or send messages itself, does not run while messages are
    queued.

    Raises:
        LocalProtocolError: it is no iterable, or one of the messages has no length.
    """
    if isinstance(messages, list | tuple):
        yield from _cut(messages)
        return
    if not isinstance(messages, Iterable):
        raise LocalProtocolError(f"messages is {messages!r}; write an iterable of bytes")
    part: list[bytes] = []
    size = 0
    try:
        for data in messages:
            size += _size_of(data)
            part.append(data)
            if size >= PART_BYTES:
                yield part
                part, size = [], 0
    except Exception:
        yield part
        raise
    yield part


def _cut(messages: Sequence[bytes]) -> Iterator[Sequence[bytes]]:
    """Yield parts of a sequence, their lengths by the size of each part's first message."""
    at = 0
    while at < len(messages):
        count = max(1, PART_BYTES // _size_of(messages[at]))
        yield messages[at : at + count]
        at += count


def _size_of(data: bytes) -> int:
    """Return the bytes of a message with its head; raise LocalProtocolError if it has none."""
    try:
        return MESSAGE_HEAD_BYTES + len(data)
    except TypeError:
        raise LocalProtocolError(
            f"a message is of type {type(data).__name__}; write bytes"
        ) from None
