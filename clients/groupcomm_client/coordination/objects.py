"""Ready replicated objects: a dict, a counter, a latch and a queue.

::

    async with connect() as connection, open_dict(connection, "prices", float) as prices:
        await prices.put("apple", 1.25)
        print(prices.get("apple"))

Each is a replicated state machine (`replicate`): changes are SAFE messages in one agreed order, and
reads are local. Each needs a connection and a group of its own.
"""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, Generic, Self, TypeVar, cast

import attrs
import msgspec

from groupcomm.errors import Code, LocalProtocolError, SessionEnded
from groupcomm_client.arguments import check_count
from groupcomm_client.connection import Connection
from groupcomm_client.coordination.object_machines import (
    Add,
    Append,
    Changed,
    CounterMachine,
    DictMachine,
    Machine,
    Put,
    QueueMachine,
    RemoveFirst,
    encode,
)
from groupcomm_client.coordination.replicated import Replicated, replicating

Value = TypeVar("Value")
Kind = TypeVar("Kind", bound=Machine[Any])


class ReadyObject(Generic[Kind]):
    """What all ready objects have.

    Attributes:
        replicated: the replica here.
        machine: its state machine.
    """

    def __init__(self, replicated: Replicated, machine: Kind) -> None:
        self.replicated = replicated
        self.machine = machine

    @property
    def is_current(self) -> bool:
        """Return whether the state here is that of the group, and enough replicas have it."""
        return self.replicated.is_current

    async def until_current(self) -> None:
        """Wait until the state here is that of the group, and enough replicas have it.

        Raises:
            SessionEnded: the session is over, and no other follows.
        """
        await self.replicated.until_current()

    async def _submit(self, command: msgspec.Struct) -> object:
        return await self.replicated.submit(encode(command))


class _Values(Generic[Value]):
    """Encodes and decodes values of one type."""

    def __init__(self, values: type[Value]) -> None:
        self._decoder = msgspec.msgpack.Decoder(values)
        self._name = getattr(values, "__name__", str(values))

    def encoded(self, value: Value) -> bytes:
        """Return a value for the group; raise LocalProtocolError if it cannot be sent."""
        try:
            data = encode(value)
            self._decoder.decode(data)
        except (msgspec.MsgspecError, TypeError, OverflowError, RecursionError) as error:
            raise LocalProtocolError(f"{value!r:.80} is no {self._name}: {error}") from None
        return data

    def decoded(self, data: bytes) -> Value:
        """Return a value of the group; raise LocalProtocolError if it is of another type."""
        try:
            return self._decoder.decode(data)
        except msgspec.MsgspecError as error:
            raise LocalProtocolError(
                f"a value that another program has put is no {self._name}: {error}; open it with"
                " the same type everywhere"
            ) from None


@attrs.frozen
class Versioned(Generic[Value]):
    """A value of a dict, and its version, which rises with each change of the dict, from 1."""

    value: Value
    version: int


class ReplicatedDict(ReadyObject[DictMachine], Generic[Value]):
    """A dict with keys of text; made by `open_dict`."""

    def __init__(self, replicated: Replicated, machine: DictMachine, values: type[Value]) -> None:
        super().__init__(replicated, machine)
        self._values = _Values(values)

    def get(self, key: str) -> Value | None:
        """Return the value of a key here; None without.

        Raises:
            LocalProtocolError: another program has put a value of another type.
        """
        found = self.entry(key)
        return None if found is None else found.value

    def entry(self, key: str) -> Versioned[Value] | None:
        """Return the value of a key with its version; None without. Raises as `get` does."""
        with self.replicated.driver.thread_lock:
            found = self.machine.state.entries.get(key)
        return (
            None if found is None else Versioned(self._values.decoded(found.value), found.version)
        )

    def copy(self) -> dict[str, Value]:
        """Return all values by key, as of one moment of the order. Raises as `get` does."""
        with self.replicated.driver.thread_lock:
            entries = dict(self.machine.state.entries)
        return {key: self._values.decoded(found.value) for key, found in entries.items()}

    async def put(self, key: str, value: Value, *, version: int | None = None) -> int | None:
        """Set the value of a key; return its version, None if nothing was changed.

        Args:
            key, value: the key, and a value of the type of the dict.
            version: the version that the key must have, 0 for a key that must not be there; None
                for any.

        Raises:
            LocalProtocolError: the value is of another type, or too large.
            OutcomeUnknown, SessionEnded: see `Replicated.submit`.
        """
        return await self._change(key, self._values.encoded(value), version)

    async def delete(self, key: str, *, version: int | None = None) -> int | None:
        """Remove a key, if it is there; return and raise as `put` does."""
        return await self._change(key, None, version)

    async def _change(self, key: str, value: bytes | None, version: int | None) -> int | None:
        if not isinstance(key, str):
            raise LocalProtocolError(f"the key is {key!r:.80}; write text")
        if version is not None:
            check_count("version", version, 0, 2**63 - 1)
        return cast("int | None", await self._submit(Put(key, value, version)))

    def watch(self) -> "DictWatch[Value]":
        """Return an iterator over changes from now on: the changed keys with their new values.

        A key that is gone has None. Changes that come while nobody waits come together, so what
        waits has each changed key once.
        """
        return DictWatch(self)


class DictWatch(Generic[Value]):
    """Changes of a dict; made by `ReplicatedDict.watch`. Ends in order with the session."""

    def __init__(self, watched: ReplicatedDict[Value]) -> None:
        self._watched = watched
        self._changed = Changed()
        with watched.replicated.driver.thread_lock:
            watched.machine.watches.add(self._changed)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Mapping[str, Value | None]:
        driver = self._watched.replicated.driver
        try:
            await driver.until(lambda: bool(self._changed.keys))
        except SessionEnded as error:
            if error.code == Code.OK:
                raise StopAsyncIteration from None
            raise
        with driver.thread_lock:
            keys, self._changed.keys = self._changed.keys, {}
        return {key: self._watched.get(key) for key in keys}


class ReplicatedCounter(ReadyObject[CounterMachine]):
    """A whole number of 64 bits; made by `open_counter`."""

    @property
    def value(self) -> int:
        """Return the value here."""
        return self.machine.state.value

    async def add(self, number: int = 1) -> int:
        """Add a number; return the new value, or the old one if the new one has more than 64 bits.

        Raises:
            LocalProtocolError: it is no whole number.
            OutcomeUnknown, SessionEnded: see `Replicated.submit`.
        """
        if type(number) is not int or not -(2**63) <= number < 2**63:
            raise LocalProtocolError(f"the number is {number!r}; write one of 64 bits")
        return cast(int, await self._submit(Add(number)))

    async def until_changed(self, known: int) -> int:
        """Wait until the value here is another one than `known`; return it.

        Raises:
            SessionEnded: the session is over, and no other follows.
        """
        await self.replicated.driver.until(lambda: self.value != known)
        return self.value


class ReplicatedLatch(ReadyObject[CounterMachine]):
    """Opens once it was counted down often enough, and stays open; made by `open_latch`."""

    def __init__(self, replicated: Replicated, machine: CounterMachine, count: int) -> None:
        super().__init__(replicated, machine)
        self._count = count

    @property
    def remaining(self) -> int:
        """Return how often it is still to be counted down, as far as is known here."""
        return max(0, self._count - self.machine.state.value)

    async def count_down(self) -> int:
        """Count down by one; return what remains. Raises as `ReplicatedCounter.add` does."""
        return max(0, self._count - cast(int, await self._submit(Add(1))))

    async def until_open(self) -> None:
        """Wait until nothing remains.

        Raises:
            SessionEnded: the session is over, and no other follows.
        """
        await self.replicated.driver.until(lambda: not self.remaining)


class ReplicatedQueue(ReadyObject[QueueMachine], Generic[Value]):
    """A queue; made by `open_queue`.

    What `get` has returned is gone, even if its program ends at once: where each value must
    be handled, use `connection.work`.
    """

    def __init__(self, replicated: Replicated, machine: QueueMachine, values: type[Value]) -> None:
        super().__init__(replicated, machine)
        self._values = _Values(values)

    def __len__(self) -> int:
        """Return the number of values here."""
        return len(self.machine.state.values)

    async def put(self, value: Value) -> int:
        """Put a value behind all others; return their number then. Raises as `ReplicatedDict.put`
        does."""
        return cast(int, await self._submit(Append(self._values.encoded(value))))

    async def get(self) -> Value:
        """Wait for a value; remove and return the first. Of several programs one gets it.

        A call that is cancelled may have removed a value, which is lost then.

        Raises:
            LocalProtocolError: another program has put a value of another type; it is removed.
            OutcomeUnknown: whether a value was removed is unknown; see `Replicated.submit`.
            SessionEnded: the session is over, and no other follows.
        """
        while True:
            await self.replicated.driver.until(lambda: len(self) > 0)
            data = await self._submit(RemoveFirst())
            if data is not None:
                return self._values.decoded(cast(bytes, data))


# ---- their blocks ----


@asynccontextmanager
async def open_dict(
    connection: Connection, group: str, values: type[Value], *, replicas: int | None = None
) -> AsyncIterator[ReplicatedDict[Value]]:
    """Open a dict that all programs of a group share, for the length of a block.

    Args:
        connection: a connection for this alone; nothing else may receive from it.
        group: a group of all programs that open it, and of nobody else.
        values: the type of its values: what `msgspec` encodes, as `str`, `list[int]` or an attrs
            class; the same everywhere.
        replicas: the number of programs that open it, absent ones included; see `replicate`. None:
            it also waits where the daemons are known to be less than half of all.

    Raises:
        LocalProtocolError: the name of the group is invalid, or `replicas` is no number from 1.
        AccessRefused: the daemon's rules do not allow to join it, or no longer.
        StateUnavailable: no replica could give its state.
        SessionEnded: the session is over, and no other follows; also at the end of the block.
    """
    machine = DictMachine()
    async with replicating(connection, group, machine, replicas, needs_majority=True) as replicated:
        yield ReplicatedDict(replicated, machine, values)


@asynccontextmanager
async def open_counter(
    connection: Connection, group: str, *, replicas: int | None = None
) -> AsyncIterator[ReplicatedCounter]:
    """Open a counter, 0 at first; arguments and errors are those of `open_dict`."""
    machine = CounterMachine()
    async with replicating(connection, group, machine, replicas, needs_majority=True) as replicated:
        yield ReplicatedCounter(replicated, machine)


@asynccontextmanager
async def open_latch(
    connection: Connection, group: str, count: int, *, replicas: int | None = None
) -> AsyncIterator[ReplicatedLatch]:
    """Open a latch that is to be counted down `count` times; the rest is as for `open_dict`."""
    check_count("count", count)
    machine = CounterMachine()
    async with replicating(connection, group, machine, replicas, needs_majority=True) as replicated:
        yield ReplicatedLatch(replicated, machine, count)


@asynccontextmanager
async def open_queue(
    connection: Connection, group: str, values: type[Value], *, replicas: int | None = None
) -> AsyncIterator[ReplicatedQueue[Value]]:
    """Open a queue; arguments and errors are those of `open_dict`."""
    machine = QueueMachine()
    async with replicating(connection, group, machine, replicas, needs_majority=True) as replicated:
        yield ReplicatedQueue(replicated, machine, values)
