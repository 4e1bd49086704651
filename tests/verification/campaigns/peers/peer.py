"""The interface of a system that is measured beside ours: servers to start, and a client."""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, ClassVar, Final, Self

import attrs

from groupcomm_tools.bench.plan import Plan
from groupcomm_tools.bench.runs import Command

LISTEN_S: Final = 0.2
"""The longest time for which a client waits for messages."""


@attrs.frozen
class Servers:
    """Servers that run.

    Attributes:
        pids: their processes.
        commands: makes command lines of the receivers and the senders for a plan.
    """

    pids: Sequence[int]
    commands: Callable[[Plan], tuple[Sequence[Command], Sequence[Command]]]


class Peer(ABC):
    """A system that is measured.

    Attributes:
        name: its name in tables.
        family: the option that chooses it on the command line; empty if it is always measured.
        sending: the way in which its client gets many messages.
    """

    name: str
    family: str = ""
    sending: str

    def adapted(self, plan: Plan) -> Plan | None:
        """Return the plan as it applies to this system; None if it adds nothing."""
        return plan

    def missing(self) -> str:
        """Return the reason for which it cannot run here, and the remedy; empty if it can."""
        return ""

    @abstractmethod
    def open(self, plan: Plan) -> AbstractAsyncContextManager[Servers]:
        """Start its servers, as many as `plan.daemons`; they end with the block."""


class Client(ABC):
    """A connection of a sender or a receiver; messages have `plan.size` bytes.

    Its programs run under asyncio unless it says otherwise. Its calls may block: they have no
    other tasks.

    Attributes:
        window_bytes: the most bytes by which a sender may be ahead of the slowest receiver.
    """

    window_bytes: ClassVar[int] = 8 << 20

    @staticmethod
    def run(main: Coroutine[Any, Any, None]) -> None:
        """Run a program that uses it."""
        asyncio.run(main)

    @staticmethod
    async def sleep(seconds: float) -> None:
        """Let time pass, in such a program."""
        await asyncio.sleep(seconds)

    @classmethod
    @abstractmethod
    async def open(cls, address: str, plan: Plan, *, sends: bool) -> Self:
        """Connect: a receiver gets whatever is sent from now on, a sender reaches all receivers."""

    @abstractmethod
    async def send(self, messages: Sequence[bytes]) -> None:
        """Pass messages to the system, which sends them without a further call."""

    @abstractmethod
    async def receive(self) -> list[bytes]:
        """Return received messages, in order; none if none come within LISTEN_S."""
