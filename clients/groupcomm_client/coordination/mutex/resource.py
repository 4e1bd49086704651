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
from groupcomm_client.connection import Connection
from groupcomm_client.coordination.driving import Driver, driving
from groupcomm_client.coordination.mutex.form import Form
from groupcomm_client.coordination.mutex.mutex import Mutex, carry_out, make_form
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
    """Ask the resource to act while this program holds the mutex; return once that is sent."""
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
        used: the number of uses by holders.
        refused: the members that tried to use it without holding the mutex, in the order of the
            attempts.
    """

    def __init__(self, form: Form, on_use: Callable[[MemberId, bytes], None]) -> None:
        """Begin without uses.

        Args:
            form: a member that never requests the mutex.
            on_use: is called with the data that the holder sends.
        """
        self.used = 0
        self.refused: list[MemberId] = []
        self._form = form
        self._on_use = on_use

    def look(self, event: Received) -> None:
        """Check whether an event is a use, and by which member; called before the form handles
        it."""
        if not isinstance(event, Message) or event.position is None:
            return
        wanted = decode_use_untrusted(event.data)
        if wanted is None:
            return  # a message of the mutex's own form
        if self._form.queue[:1] == (event.sender,):
            self.used += 1
            self._on_use(event.sender, wanted.data)
        else:
            self.refused.append(event.sender)


@asynccontextmanager
async def keep_resource(
    connection: Connection,
    group: str,
    on_use: Callable[[MemberId, bytes], None],
    *,
    form: str = "acknowledged",
) -> AsyncIterator[Resource]:
    """Be the resource for the length of a block.

    Args:
        connection: a connection for this alone; nothing else may receive from it.
        group: the group of the mutex.
        on_use: is called with the data of each `use` and the holder that sent it, in the agreed
            order.
        form: the form of the mutex, ``agreed`` or ``acknowledged``.

    Raises:
        ConfigError: the form is another one; the queue of Lamport's form has no agreed order.
        SessionEnded: the session is over.
    """
    if form not in ORDERED_FORMS:
        raise ConfigError(f"form is {form!r}; a resource needs {' or '.join(ORDERED_FORMS)}")
    machine = make_form(form, connection.member, group)
    resource = Resource(machine, on_use)

    def accept(event: Received) -> None:
        resource.look(event)
        carry_out(driver, machine.handle(event))

    driver = Driver(connection, group, accept)
    async with driving(driver):
        yield resource
