"""The state machines of ready objects: dict, counter, queue and semaphore. Pure.

Values are encoded by the program that sets them, and decoded by those that read them, so that all
replicas stay equal whatever types their programs expect. A command that cannot be read changes
nothing: a member of the group may have another object, or a later release.
"""

from abc import ABC, abstractmethod
from typing import Any, ClassVar, Generic, TypeAlias, TypeVar
from weakref import WeakSet

import msgspec

from groupcomm.errors import LocalProtocolError
from groupcomm.events import MemberId

State = TypeVar("State", bound=msgspec.Struct)

encode = msgspec.msgpack.encode


class Put(msgspec.Struct, array_like=True, frozen=True):
    """Set the value of a key, or remove it with None; only at this version if one is given."""

    key: str
    value: bytes | None
    version: int | None


class Add(msgspec.Struct, array_like=True, frozen=True):
    """Add to the counter."""

    number: int


class Append(msgspec.Struct, array_like=True, frozen=True, tag="append"):
    """Put a value behind all others."""

    value: bytes


class RemoveFirst(msgspec.Struct, array_like=True, frozen=True, tag="remove"):
    """Remove the first value."""


class Acquire(msgspec.Struct, array_like=True, frozen=True, tag="acquire"):
    """Wait for a permit; fewer than `permits` others may be held then."""

    request: int
    permits: int


class Release(msgspec.Struct, array_like=True, frozen=True, tag="release"):
    """Give a permit back, or stop to wait for it."""

    request: int


class Machine(ABC, Generic[State]):
    """A state machine of one object; see `replica.StateMachine`.

    Attributes:
        state: the state.
        what: the name of the object, for errors.
    """

    what: ClassVar[str]

    def __init__(self, state: State, commands: Any) -> None:
        """Begin with the state before all commands, which have one type, or one of a union."""
        self.state = state
        self._states = msgspec.msgpack.Decoder(type(state))
        self._commands = msgspec.msgpack.Decoder(commands)

    def apply(self, command: bytes, sender: MemberId) -> object:
        """Carry out a command; None if it cannot be read."""
        try:
            found = self._commands.decode(command)
        except msgspec.MsgspecError:
            return None
        return self.carry_out(found, sender)

    @abstractmethod
    def carry_out(self, command: Any, sender: MemberId) -> object:
        """Carry out a command that was read; return its result."""

    def members_changed(self, members: tuple[MemberId, ...]) -> None:
        """Note who is there: nothing belongs to a member, but of a semaphore."""

    def snapshot(self) -> bytes:
        """Return the whole state."""
        return encode((self.what, self.state))

    def restore(self, state: bytes) -> None:
        """Adopt the state of another replica."""
        try:
            what, found = msgspec.msgpack.decode(state, type=tuple[str, msgspec.Raw])
            if what == self.what:
                self.state = self._states.decode(found)
                return
        except msgspec.MsgspecError as error:
            what = str(error)
        raise LocalProtocolError(
            f"the state of the group is that of another object, {what}, and not of a {self.what}:"
            " choose another group"
        )


# ---- dict ----


class Entry(msgspec.Struct, array_like=True, frozen=True):
    """A value, encoded, and its version: the number of the change that set it, from 1."""

    value: bytes
    version: int


class DictState(msgspec.Struct, array_like=True):
    """The entries by key, and the number of changes."""

    version: int = 0
    entries: dict[str, Entry] = {}


class Changed:
    """The keys that have changed since somebody looked last, in the order of their changes."""

    __slots__ = ("__weakref__", "keys")

    def __init__(self) -> None:
        self.keys: dict[str, None] = {}


class DictMachine(Machine[DictState]):
    """A dict.

    Attributes:
        watches: the changes for each who watches.
    """

    what = "dict"

    def __init__(self) -> None:
        super().__init__(DictState(), Put)
        self.watches: WeakSet[Changed] = WeakSet()

    def carry_out(self, command: Put, sender: MemberId) -> int | None:
        """Return the version of the change; None if the key has another version than asked for."""
        state = self.state
        before = state.entries.get(command.key)
        if command.version is not None and command.version != (before.version if before else 0):
            return None
        state.version += 1
        if command.value is None:
            state.entries.pop(command.key, None)
        else:
            state.entries[command.key] = Entry(command.value, state.version)
        self._note([command.key])
        return state.version

    def restore(self, state: bytes) -> None:
        """Adopt the state of another replica; what differs has changed."""
        before = self.state.entries
        super().restore(state)
        now = self.state.entries
        self._note([key for key in before | now if before.get(key) != now.get(key)])

    def _note(self, keys: list[str]) -> None:
        for each in self.watches:
            each.keys.update(dict.fromkeys(keys))


# ---- counter ----


class CounterState(msgspec.Struct, array_like=True):
    """The value."""

    value: int = 0


class CounterMachine(Machine[CounterState]):
    """A whole number to add to, within 64 bits: what would leave them changes nothing."""

    what = "counter"

    def __init__(self) -> None:
        super().__init__(CounterState(), Add)

    def carry_out(self, command: Add, sender: MemberId) -> int:
        """Return the new value."""
        value = self.state.value + command.number
        if -(2**63) <= value < 2**63:
            self.state.value = value
        return self.state.value


# ---- queue ----


class QueueState(msgspec.Struct, array_like=True):
    """The values, encoded, in their order."""

    values: list[bytes] = []


class QueueMachine(Machine[QueueState]):
    """A queue."""

    what = "queue"

    def __init__(self) -> None:
        super().__init__(QueueState(), Append | RemoveFirst)

    def carry_out(self, command: Append | RemoveFirst, sender: MemberId) -> int | bytes | None:
        """Return the new number of values, or the first value, which is removed: None without."""
        values = self.state.values
        if isinstance(command, Append):
            values.append(command.value)
            return len(values)
        return values.pop(0) if values else None


# ---- semaphore ----

Asker: TypeAlias = tuple[str, int, int]
"""The name and connection of a member, and the number of its request."""


class SemaphoreState(msgspec.Struct, array_like=True):
    """Who has a permit, by its token; who waits, in their order, for one of how many; and the
    last token."""

    holders: dict[int, Asker] = {}
    waiting: list[tuple[Asker, int]] = []
    token: int = 0


class SemaphoreMachine(Machine[SemaphoreState]):
    """Permits, given in the order in which they were asked for."""

    what = "semaphore"

    def __init__(self) -> None:
        super().__init__(SemaphoreState(), Acquire | Release)

    def token_of(self, asker: Asker) -> int | None:
        """Return the token of this request's permit; None if it has none."""
        return next((token for token, one in self.state.holders.items() if one == asker), None)

    def carry_out(self, command: Acquire | Release, sender: MemberId) -> bool:
        """Return whether a permit that is given back was held until now; True for others."""
        state, asker = self.state, (sender.name, sender.connection, command.request)
        if isinstance(command, Acquire):
            state.waiting.append((asker, command.permits))
            self._grant()
            return True
        token = self.token_of(asker)
        state.waiting = [one for one in state.waiting if one[0] != asker]
        if token is not None:
            del state.holders[token]
        self._grant()
        return token is not None

    def members_changed(self, members: tuple[MemberId, ...]) -> None:
        """Give the permits of members that have gone to those that wait."""
        there = {(member.name, member.connection) for member in members}
        state = self.state
        state.holders = {token: one for token, one in state.holders.items() if one[:2] in there}
        state.waiting = [one for one in state.waiting if one[0][:2] in there]
        self._grant()

    def _grant(self) -> None:
        state = self.state
        while state.waiting and len(state.holders) < state.waiting[0][1]:
            state.token += 1
            state.holders[state.token] = state.waiting.pop(0)[0]
