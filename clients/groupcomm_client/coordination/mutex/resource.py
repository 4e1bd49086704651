"""The resource as a member of the group: it admits only the holder of the mutex.

Uses are AGREED messages, so the queue at the place of each use says which member holds the mutex. A
program that was cut off and still believes that it holds the mutex is refused: the resource does
not depend on any clock.
"""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Final

import msgspec

from groupcomm.errors import ConfigError
from groupcomm.events import MemberId, Message
from groupcomm_client.arguments import check_function
from groupcomm_client.basic_connection import BasicConnection
from groupcomm_client.connection import Connection
from groupcomm_client.coordination.driving import Driver, driving
from groupcomm_client.coordination.limits import check_data
from groupcomm_client.coordination.mutex.contender import Contender
from groupcomm_client.coordination.mutex.mutex import (
    DEFAULT_FORM,
    Mutex,
    carry_out,
    check_form,
    make_contender,
)
from groupcomm_client.events import Received
from groupcomm_client.undecodable import UNDECODABLE

ORDERED_FORMS: Final = ("agreed", "acknowledged")
"""The forms whose queue is the same at all members at each place of the order."""


class Use(msgspec.Struct, frozen=True, tag="use", array_like=True):
    """A message that asks the resource to do something; no form knows this message."""

    data: bytes


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(Use)


async def use(mutex: Mutex, data: bytes) -> None:
    """Ask the resource to act while this program holds the mutex; return once that is queued.

    Nobody says whether a resource was there and has accepted it.

    Raises:
        LocalProtocolError: the data are no bytes, or larger than MAX_DATA_BYTES, 64 MiB less 1 KiB.
        MutexLost: this program has lost the mutex in the block that it is in. The mutex is
            requested anew by then, so the resource could take the use for one of the next tenure.
    """
    check_data("the use", data)
    with mutex.driver.thread_lock:
        mutex.check_tenure()
        mutex.driver.send(_encoder.encode(Use(data)))


def decode_use_untrusted(data: bytes) -> Use | None:
    """Return the data of a use; None for any other message."""
    try:
        return _decoder.decode(data)
    except UNDECODABLE:
        return None


class Resource:
    """The resource as a member: it executes uses of the holder, and refuses others. Pure.

    Attributes:
        member: its side of the mutex in the present session.
        used: the number of uses by holders.
        refused: the members that tried to use it without holding the mutex, in the order of the
            attempts.
    """

    def __init__(self, member: Contender, on_use: Callable[[MemberId, bytes], None]) -> None:
        """Begin without uses.

        Args:
            member: a member that never requests the mutex.
            on_use: is called with the data that the holder sends.
        """
        self.used = 0
        self.refused: list[MemberId] = []
        self.member = member
        self._on_use = on_use

    def look(self, event: Received) -> None:
        """Check whether an event is a use, and by which member; called before the member handles
        it."""
        if not isinstance(event, Message) or event.position is None:
            return
        wanted = decode_use_untrusted(event.data)
        if wanted is None:
            return  # a message of the mutex's own form
        if self.member.queue[:1] == (event.sender,):
            self.used += 1
            self._on_use(event.sender, wanted.data)
        else:
            self.refused.append(event.sender)


class _ResourceParticipant:
    """What the driver of a resource tells it."""

    is_busy = False

    def __init__(self, resource: Resource, make: Callable[[BasicConnection], Contender]) -> None:
        self._resource = resource
        self._make = make
        self.driver: Driver | None = None

    def begin(self, session: BasicConnection) -> None:
        """See `Participant`."""
        self._resource.member = self._make(session)

    def accept(self, event: Received) -> None:
        """See `Participant`."""
        assert self.driver is not None, "it runs"
        self._resource.look(event)
        carry_out(self.driver, self._resource.member.handle(event))
        conflict = self._resource.member.conflict
        if conflict is not None:
            raise conflict

    def lose(self) -> None:
        """See `Participant`."""

    def changed(self) -> None:
        """See `Participant`."""


@asynccontextmanager
async def keep_resource(
    connection: Connection,
    group: str,
    on_use: Callable[[MemberId, bytes], None],
    *,
    form: str = DEFAULT_FORM,
    programs: int | None = None,
) -> AsyncIterator[Resource]:
    """Be the resource for the length of a block.

    Args:
        connection: a connection for this alone; nothing else may receive from it.
        group: the group of the mutex.
        on_use: is called with the data of each `use` and the holder that sent it, in the agreed
            order. Its error ends this block, as a use that has failed cannot be undone.
        form: the form of the mutex, ``agreed`` or ``acknowledged``.
        programs: see `join_mutex`.

    Raises:
        ConfigError: the form is another one; the queue of Lamport's form has no agreed order.
        LocalProtocolError: the name of the group is invalid, `programs` is no number from 1, or
            `on_use` no function.
        RulesDiffer: a program of the group has joined the mutex with another form or `programs`.
        AccessRefused: the daemon's rules do not allow to join the group, or no longer.
        SessionEnded: the session is over, and no other follows; also at the end of the block.
    """
    if form not in ORDERED_FORMS:
        raise ConfigError(f"form is {form!r}; a resource needs {' or '.join(ORDERED_FORMS)}")
    check_form(form, programs)
    check_function("on_use", on_use)

    def make(session: BasicConnection) -> Contender:
        return make_contender(form, session.member, group, programs, session.view)

    resource = Resource(make(connection), on_use)
    participant = _ResourceParticipant(resource, make)
    participant.driver = Driver(connection, group, participant)
    async with driving(participant.driver):
        yield resource
    participant.driver.check_ended()
