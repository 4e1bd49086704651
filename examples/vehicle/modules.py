"""One module of the vehicle, as a program: it sends its kinds of messages and receives others.

The example itself runs it. It prints ``{"ready": ...}`` once it is a member of its groups, waits
for the time to begin, and reports at the end what it has sent and received.
"""

import argparse
import json
import sys
import time
from functools import partial
from typing import Any, Final

import trio

from examples.common.command import run
from examples.common.stage import tell, told
from examples.vehicle.cost_map import Copy, decode_untrusted
from examples.vehicle.sending import HEAD, Mapper, Window, send_kind
from examples.vehicle.table import BULK_MAP, END, LATE, MAP_DELTA, MAP_PIECE, WELCOME, Load, choose
from groupcomm.events import Cause, GroupView, Message
from groupcomm.level import ServiceLevel
from groupcomm_client import Connection, connect

DRAIN_S: Final = 15.0
"""The time after the end of sending by which all messages must have come."""

QUIET_S: Final = 0.3
"""The quiet time after the last word of all senders after which a module has all messages."""

MAP_TYPES: Final = (MAP_DELTA.type, MAP_PIECE.type, WELCOME)


class Inbox:
    """The messages that a module receives.

    Attributes:
        delays: for each kind and sender, pairs of number and one-way delay in microseconds.
        copy: its copy of the map, if it receives the map.
        ended: the senders that send no more, with their groups.
    """

    def __init__(self, load: Load, name: str) -> None:
        self._kinds = {kind.type: kind.name for kind in load.received_by(name)}
        self.delays: dict[str, dict[str, list[tuple[int, int]]]] = {}
        self.copy = Copy()
        self.ended: set[tuple[str, str]] = set()
        self.whole_at_ns: int | None = None

    def take(self, message: Message, now_ns: int) -> None:
        """Note a message; ignore types that this module does not receive."""
        if message.type == END:
            self.ended.add((message.sender.user, message.groups[0]))
            return
        takes_map = MAP_DELTA.type in self._kinds
        if message.type in MAP_TYPES and takes_map:
            self._update(message.data[HEAD.size :], now_ns)
        kind = self._kinds.get(message.type)
        if kind is not None:
            number, made_ns = HEAD.unpack_from(message.data)
            of_sender = self.delays.setdefault(kind, {})
            pairs = of_sender.setdefault(message.sender.user, [])
            pairs.append((number, (now_ns - made_ns) // 1000))

    def _update(self, data: bytes, now_ns: int) -> None:
        self.copy.apply(decode_untrusted(data))
        if self.whole_at_ns is None and self.copy.is_whole:
            self.whole_at_ns = now_ns


class Module:
    """One program at one daemon."""

    def __init__(self, name: str, connection: Connection, load: Load) -> None:
        self._name = name
        self._connection = connection
        self._load = load
        self._inbox = Inbox(load, name)
        self._mapper: Mapper | None = None
        self._newcomers: list[str] = []
        self._sent: dict[str, Any] = {}
        self._joined_map_ns = 0
        self._heard_at = 0.0
        self._expected = {
            (sender, kind.group) for kind in load.received_by(name) for sender in kind.senders
        }

    async def join(self) -> None:
        """Become a member of the groups of the kinds that it receives.

        The sender of the map joins its group, too, to see newcomers.
        """
        groups = {kind.group for kind in self._load.received_by(self._name)}
        groups |= {BULK_MAP for kind in self._load.sent_by(self._name) if kind.group == BULK_MAP}
        for group in sorted(groups):
            if (self._name, group) != (LATE, BULK_MAP):
                await self._connection.join(group)

    async def work(self, window: Window) -> dict[str, Any]:
        """Send and receive until the end; return the report."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._listen, window)
            async with trio.open_nursery() as senders:
                senders.start_soon(self._send_all, window)
                if self._name == LATE and MAP_DELTA.type in self._types():
                    senders.start_soon(self._join_late, window)
            drained = await self._drain(window)
            nursery.cancel_scope.cancel()
        return {
            "sent": self._sent,
            "received": self._inbox.delays,
            "drained": drained,
            **self._map(),
        }

    def _types(self) -> set[int]:
        return {kind.type for kind in self._load.received_by(self._name)}

    async def _send_all(self, window: Window) -> None:
        kinds = self._load.sent_by(self._name)
        async with trio.open_nursery() as nursery:
            if any(kind.group == BULK_MAP for kind in kinds):
                nursery.start_soon(self._send_map, window)
            for kind in kinds:
                if kind.group != BULK_MAP:
                    nursery.start_soon(self._send, kind.name, window)
        for group in sorted({kind.group for kind in kinds}):
            await self._connection.multicast(group, b"", level=ServiceLevel.AGREED, type=END)

    async def _send(self, name: str, window: Window) -> None:
        kind = next(kind for kind in self._load.kinds if kind.name == name)
        self._sent[name] = await send_kind(self._connection, kind, self._load, window)

    async def _send_map(self, window: Window) -> None:
        self._mapper = Mapper(self._connection, self._load, window, self._newcomers)
        self._sent.update(await self._mapper.run())

    async def _join_late(self, window: Window) -> None:
        await sleep_until_ns(window.middle_ns)
        self._joined_map_ns = time.monotonic_ns() + window.offset_ns
        await self._connection.join(BULK_MAP)

    async def _listen(self, window: Window) -> None:
        while True:
            events = await self._connection.receive_batch()
            now_ns = time.monotonic_ns() + window.offset_ns
            for event in events:
                if isinstance(event, Message):
                    self._inbox.take(event, now_ns)
                elif isinstance(event, GroupView):
                    self._greet(event)
            self._heard_at = trio.current_time()

    def _greet(self, view: GroupView) -> None:
        """Note newcomers, as the sender of the map; to a new sender, all members are new."""
        if view.group == BULK_MAP and view.cause is Cause.JOIN:
            who = view.members if view.own else view.changed
            me = self._connection.name
            self._newcomers += [member.name for member in who if member.name != me]

    async def _drain(self, window: Window) -> bool:
        """Wait until all messages have come; return False if they do not."""
        self._heard_at = trio.current_time()
        await sleep_until_ns(window.end_ns)
        with trio.move_on_after(DRAIN_S):
            while not self._expected <= self._inbox.ended:
                await trio.sleep(0.02)
            while trio.current_time() - self._heard_at < QUIET_S:
                await trio.sleep(0.02)
            return True
        return False

    def _map(self) -> dict[str, Any]:
        """Return the report on the map, of its sender and of its receivers."""
        if self._mapper is not None:
            original = self._mapper.original
            return {"map": [original.version, original.checksum]}
        if MAP_DELTA.type not in self._types():
            return {}
        copy, at_ns = self._inbox.copy, self._inbox.whole_at_ns
        whole = [copy.version, copy.checksum] if copy.is_whole else None
        found: dict[str, Any] = {"copy": whole, "gaps": copy.gaps}
        if self._joined_map_ns and at_ns is not None:
            found["late_whole_ms"] = round((at_ns - self._joined_map_ns) / 1e6, 1)
        return found


async def sleep_until_ns(when_ns: int) -> None:
    """Wait for a time of CLOCK_MONOTONIC."""
    await trio.sleep(max(0.0, (when_ns - time.monotonic_ns()) / 1e9))


async def live(options: argparse.Namespace) -> int:
    """Run as one module."""
    load = choose(**json.loads(options.load))
    async with connect(options.address, user=options.name) as connection:
        module = Module(options.name, connection, load)
        await module.join()
        tell({"ready": options.name})
        tell(await module.work(Window(**await told())))
    return 0


def main() -> int:
    """Run one module; return its exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--address", required=True, help="of its daemon")
    parser.add_argument("--name", required=True, help="of the module, as in the table")
    parser.add_argument("--load", required=True, help="arguments of table.choose, as JSON")
    options = parser.parse_args()
    return run(f"module {options.name}", partial(live, options))


if __name__ == "__main__":
    sys.exit(main())
