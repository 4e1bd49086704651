"""A sender or a receiver of a peer, a process of its own, as the benchmark expects of ours.

Both read and print the same lines as ours. The sender is never more than a window ahead of the
slowest receiver, so that systems drop nothing that they cannot deliver: receivers write the number
of received messages into a file that all of them map, beside the measured system and at next to no
cost.
"""

import gc
import importlib
import json
import mmap
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import cattrs

from groupcomm_tools.bench.content import Content, Receipts, read_timed, timed
from groupcomm_tools.bench.plan import Plan
from groupcomm_tools.bench.programs import CHUNK_BYTES
from tests.verification.campaigns.peers.peer import Client

COUNTER_BYTES: Final = 8
_RETRY_S: Final = 0.0005
_THIN_NS: Final = 2_000_000


class Counters:
    """The number of messages of each receiver, in a file that all programs map."""

    def __init__(self, path: Path) -> None:
        with path.open("r+b") as file:
            self._numbers = memoryview(mmap.mmap(file.fileno(), 0)).cast("Q")

    def report(self, index: int, got: int) -> None:
        """Note the count of a receiver."""
        self._numbers[index] = got

    @property
    def least(self) -> int:
        """Return the count of the slowest receiver."""
        return min(self._numbers)


class Tally:
    """The messages of a receiver: data, or messages with the time; after the last one, END."""

    def __init__(self, plan: Plan) -> None:
        self._is_timed = plan.rate > 0
        self._end = end_of(plan)
        self._account = Receipts(Content(0, plan.size))
        self._timed = self._wrong_timed = 0
        self._delays: list[tuple[int, int]] = []  # time of arrival, and delay, ns
        self._counts: list[tuple[int, int]] = [(0, 0)]  # time, and number of messages
        self.has_ended = False

    @property
    def got(self) -> int:
        """Return the number of messages."""
        return self._account.got + self._timed

    def check(self, messages: list[bytes]) -> None:
        """Check the received messages."""
        now = time.monotonic_ns()
        if messages[-1] == self._end:
            self.has_ended = True
            messages = messages[:-1]
        if self._is_timed:
            self._check_timed(messages, now)
        else:
            self._account.check(messages)
            self._count(now)

    def _check_timed(self, messages: Sequence[bytes], now: int) -> None:
        for data in messages:
            sent_at, number = read_timed(data)
            self._delays.append((now, now - sent_at))
            self._wrong_timed += number != self._timed
            self._timed = number + 1

    def _count(self, now: int) -> None:
        if len(self._counts) > 1 and now - self._counts[-2][0] < _THIN_NS:
            self._counts[-1] = (now, self.got)
        else:
            self._counts.append((now, self.got))

    def report(self) -> dict[str, Any]:
        """Return all results."""
        return {
            "accounts": [self._account.report(self._timed)],
            "wrong_timed": self._wrong_timed,
            "order": 0,  # there is one sender
            "counts": self._counts,
            "delays": self._delays,
        }


class Said(threading.Event):
    """Set by the next line of the input, or its end."""

    def __init__(self) -> None:
        super().__init__()
        threading.Thread(target=self._wait, daemon=True).start()

    def _wait(self) -> None:
        sys.stdin.readline()
        self.set()


def end_of(plan: Plan) -> bytes:
    """Return the message after the last one."""
    return bytes(plan.size)


async def send(
    client: Client, plan: Plan, content: Content, counters: Counters, stop: threading.Event
) -> int:
    """Send as many messages as the receivers accept, until the order to stop; return their
    number."""
    sent = 0
    chunk = max(1, min(1024, CHUNK_BYTES // plan.size))
    window = client.window_bytes // plan.size
    while not stop.is_set():
        count = min(chunk, counters.least + window - sent)
        if count <= 0:
            await client.sleep(_RETRY_S)
            continue
        await client.send(content.many(sent, count))
        sent += count
    return sent


async def send_timed(client: Client, plan: Plan, stop: threading.Event) -> int:
    """Send messages with the time, at the rate of the plan; return their number."""
    sent, due = 0, time.monotonic()
    while not stop.is_set():
        await client.send([timed(time.monotonic_ns(), sent, plan.size)])
        sent += 1
        due += 1 / plan.rate
        await client.sleep(max(0.0, due - time.monotonic()))
    return sent


async def send_at(client: Client, plan: Plan, counters: Counters, stop: threading.Event) -> int:
    """Send messages with the time as `send_timed` does, several at once; return their number."""
    sent, began = 0, time.monotonic()
    window = client.window_bytes // plan.size
    while not stop.is_set():
        due = int((time.monotonic() - began) * plan.rate) - sent
        count = min(due, counters.least + window - sent)
        if count > 0:
            numbers = range(sent, sent + count)
            now_ns = time.monotonic_ns()
            await client.send([timed(now_ns, number, plan.size) for number in numbers])
            sent += count
        else:
            await client.sleep(_RETRY_S)
    return sent


async def run_sender(kind: type[Client], address: str, plan: Plan, counters: Counters) -> None:
    """Be a sender, from its first line to its last."""
    content = Content(0, plan.size)
    client = await kind.open(address, plan, sends=True)
    print(json.dumps({"ready": "sender"}), flush=True)
    sys.stdin.readline()
    stop, sent, sent_timed = Said(), 0, 0
    if plan.is_timed:
        sent_timed = await send_timed(client, plan, stop)
    elif plan.rate:
        sent_timed = await send_at(client, plan, counters, stop)
    else:
        sent = await send(client, plan, content, counters, stop)
    await client.send([end_of(plan)])
    print(json.dumps({"sent": sent, "timed": sent_timed}), flush=True)
    received = Said()
    while not received.is_set():
        await client.sleep(0.01)  # the client may still have to do


async def run_receiver(
    kind: type[Client], address: str, plan: Plan, counters: Counters, index: int
) -> None:
    """Be a receiver, from its first line to its last."""
    tally = Tally(plan)
    client = await kind.open(address, plan, sends=False)
    print(json.dumps({"ready": "receiver"}), flush=True)
    sys.stdin.readline()
    give_up = Said()
    gc.freeze()
    while not tally.has_ended and not give_up.is_set():
        if messages := await client.receive():
            tally.check(messages)
            counters.report(index, tally.got)
    print(json.dumps(tally.report()), flush=True)


def main() -> int:
    """Run with ROLE MODULE ADDRESS INDEX COUNTERS PLAN, the last one as JSON."""
    _, role, module, address, index, path, plan_text = sys.argv
    kind: type[Client] = importlib.import_module(module).CLIENT
    plan, counters = cattrs.structure(json.loads(plan_text), Plan), Counters(Path(path))
    if role == "sender":
        kind.run(run_sender(kind, address, plan, counters))
    else:
        kind.run(run_receiver(kind, address, plan, counters, int(index)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
