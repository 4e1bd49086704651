"""A receiver of the benchmark, a process of its own: it checks every message.

Prints {"ready"}; then, once all senders have ended or its input says so, what it has seen.
"""

import gc
import json
import sys
import time
import zlib
from typing import Any

import cattrs
import trio

from groupcomm.events import MemberId, Message
from groupcomm_client.connecting import connect
from groupcomm_client.connection import Connection
from groupcomm_client.conversation import Received
from groupcomm_tools.bench.content import Account, Content, read_timed
from groupcomm_tools.bench.plan import GROUP, Plan
from groupcomm_tools.bench.sender import DATA, END, TIMED


class Receiver:
    """One receiver, from its start to its figures.

    Args:
        plan: of the run.
    """

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._indices: dict[str, int] = {}
        self._accounts = [Account(Content(index, plan.size)) for index in range(plan.senders)]
        self._known: dict[MemberId, int] = {}
        self._timed = [0] * plan.senders  # number of the next one
        self._wrong_timed = 0
        self._delays: list[tuple[int, int]] = []  # when it came, and after how long, ns
        self._counts: list[tuple[int, int]] = []  # when, and how many had come
        self._order = 0
        self._ended = 0

    def expect(self, senders: list[str]) -> None:
        """Learn the private names of the senders, in the order of their numbers."""
        self._indices = {name: index for index, name in enumerate(senders)}

    def take(self, batch: list[Received]) -> None:
        """Check what has come."""
        now = time.monotonic_ns()
        messages = [event for event in batch if type(event) is Message]
        done = 0
        for at, other in [(at, m) for at, m in enumerate(messages) if m.type != DATA]:
            self._take_data(messages[done:at])
            done = at + 1
            if other.type == TIMED:
                self._take_timed(self._index(other.sender), other.data, now)
            elif other.type == END:
                self._ended += 1
        self._take_data(messages[done:])
        self._counts.append((now, sum(account.got for account in self._accounts)))

    def _take_data(self, messages: list[Message]) -> None:
        senders = {message.sender for message in messages}
        for sender in senders:
            index = self._index(sender)
            if len(senders) == 1:
                self._accounts[index].take([message.data for message in messages])
                self._order = zlib.crc32(bytes((index,)) * len(messages), self._order)
                return
            self._accounts[index].take([m.data for m in messages if m.sender == sender])
        order = bytes([self._known[message.sender] for message in messages])
        self._order = zlib.crc32(order, self._order)

    def _index(self, sender: MemberId) -> int:
        """Its number."""
        if sender not in self._known:
            self._known[sender] = self._indices[sender.name]
        return self._known[sender]

    def _take_timed(self, index: int, data: bytes, now: int) -> None:
        sent_at, number = read_timed(data)
        self._delays.append((now, now - sent_at))
        self._wrong_timed += number != self._timed[index]
        self._timed[index] = number + 1

    @property
    def has_ended(self) -> bool:
        """Whether all senders have said that they send no more."""
        return self._ended == len(self._accounts)

    def report(self) -> dict[str, Any]:
        """All that was seen."""
        return {
            "accounts": [
                account.report(timed)
                for account, timed in zip(self._accounts, self._timed, strict=True)
            ],
            "wrong_timed": self._wrong_timed,
            "order": self._order,
            "counts": self._thinned(),
            "delays": self._delays,
        }

    def _thinned(self) -> list[tuple[int, int]]:
        """Counts, a few hundred a second."""
        kept: list[tuple[int, int]] = []
        for at, count in self._counts:
            if not kept or at - kept[-1][0] > 2_000_000 or at == self._counts[-1][0]:
                kept.append((at, count))
        return kept


async def _receive(connection: Connection, receiver: Receiver) -> None:
    while not receiver.has_ended:
        receiver.take(await connection.receive_batch())


async def _run(address: str, plan: Plan) -> None:
    receiver = Receiver(plan)
    async with connect(address) as connection, connection.group(GROUP):
        print(json.dumps({"ready": connection.name}), flush=True)
        lines = trio.wrap_file(sys.stdin)
        receiver.expect(json.loads(await lines.readline()))
        gc.freeze()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_finish, nursery.cancel_scope)
            await _receive(connection, receiver)
            nursery.cancel_scope.cancel()
        print(json.dumps(receiver.report()), flush=True)


async def _finish(scope: trio.CancelScope) -> None:
    """A line, or the end of the input: what has not come by now is lost."""
    await trio.lowlevel.wait_readable(sys.stdin.fileno())
    scope.cancel()


def main() -> int:
    """Run with ADDRESS PLAN, the last one as JSON."""
    _, address, plan = sys.argv
    trio.run(_run, address, cattrs.structure(json.loads(plan), Plan))
    return 0


if __name__ == "__main__":
    sys.exit(main())
