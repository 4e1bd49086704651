"""The stage of a scene: two programs that talk, beside those of the scene, at one daemon."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from itertools import count
from typing import Any, Final

from groupcomm.events import Message
from tests.groupcomm_client.calls.forms import Form, done

GROUP: Final = "g"
PATIENCE_S: Final = 20.0
MOMENT_S: Final = 0.005

_numbers: Final = count(1)


class Stage:
    """A stage; scenes add what they need as attributes.

    Attributes:
        form: the form of its programs.
        address: the address of the daemon.
        loop: the loop of the form.
        tasks: tasks that last as long as the stage.
        co: the module with coordination.
        ann, bob: connections of members of GROUP.
    """

    def __init__(self, form: Form, address: str) -> None:
        self.form = form
        self.address = address
        self.co = form.coordination

    def __getattr__(self, name: str) -> Any:  # what a scene adds
        raise AttributeError(name)

    def __setattr__(self, name: str, value: Any) -> None:
        object.__setattr__(self, name, value)

    def fresh(self) -> str:
        """Return the name of a group that nobody has used."""
        return f"group {next(_numbers)}"

    def connect(self, **options: Any) -> Any:
        """Open a connection."""
        return self.form.connect(self.address, **options)

    async def goes_on(self) -> None:
        """Send a message, and wait until both programs have it."""
        data = b"still here %d" % next(_numbers)
        await self.ann.multicast(GROUP, data)
        for each in (self.ann, self.bob):
            while True:
                event = await each.receive(PATIENCE_S)
                if isinstance(event, Message) and event.data == data:
                    break

    async def done(self, found: Any) -> Any:
        """Return the result of a call that waits in one form and not in another."""
        return await done(found)

    def start(self, call: Callable[[], Any]) -> None:
        """Make a call in a task that lasts as long as the stage."""

        async def make() -> None:
            await done(call())

        self.tasks.start(make)


@asynccontextmanager
async def stage(form: Form, address: str) -> AsyncIterator[Stage]:
    """Build a stage for the length of a block."""
    made = Stage(form, address)
    async with made.connect(user="ann") as made.ann, made.connect(user="bob") as made.bob:
        made.loop = form.bare(made.ann).loop
        for each in (made.ann, made.bob):
            await each.join(GROUP)
        async with made.loop.tasks() as made.tasks:
            yield made
