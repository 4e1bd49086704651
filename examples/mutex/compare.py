"""Messages and delay of the three forms of the mutex, measured on daemons of this host.

python examples/mutex/compare.py --programs 5 --rounds 100
"""

import argparse
import json
import statistics
import sys
import time
from collections.abc import Sequence
from contextlib import AsyncExitStack

import trio

import groupcomm_client as gc
from groupcomm.events import MemberId, Message
from groupcomm_client.coordination.driving import driving
from groupcomm_client.coordination.mutex import FORMS, Mutex
from groupcomm_client.coordination.mutex.contender import Contender
from groupcomm_client.coordination.mutex.form import Form, Send
from groupcomm_client.coordination.mutex.mutex import make_form
from groupcomm_client.coordination.rules import Rules
from groupcomm_client.events import Received
from groupcomm_tools.local_cluster import LocalCluster

DAEMONS = ("alfa", "bravo", "charlie")


class Counting:
    """A form whose messages are counted."""

    def __init__(self, form: Form) -> None:
        self.form = form
        self.multicasts = self.private = self.received = 0

    @property
    def breaks(self) -> int:
        return self.form.breaks

    @property
    def holds(self) -> bool:
        return self.form.holds

    @property
    def queue(self) -> tuple[MemberId, ...]:
        return self.form.queue

    def request(self) -> list[Send]:
        return self._counted(self.form.request())

    def release(self) -> list[Send]:
        return self._counted(self.form.release())

    def handle(self, event: Received) -> list[Send]:
        self.received += isinstance(event, Message)
        return self._counted(self.form.handle(event))

    def _counted(self, sends: list[Send]) -> list[Send]:
        private = sum(send.to is not None for send in sends)
        self.private += private
        self.multicasts += len(sends) - private
        return sends


async def measure(form: str, programs: int, rounds: int) -> dict[str, object]:
    """Measure one form: all programs take turns, first without and then with competition."""
    async with LocalCluster(DAEMONS) as cluster, AsyncExitStack() as stack:
        await cluster.settle(DAEMONS)
        forms: list[Counting] = []
        mutexes: list[Mutex] = []
        for number in range(programs):
            daemon = cluster[DAEMONS[number % len(DAEMONS)]]
            connection = await stack.enter_async_context(gc.connect(str(daemon.unix)))
            me = connection.member
            counting = Counting(make_form(form, me, "compare"))
            contender = Contender(counting, me, "compare", Rules(form, None))
            forms.append(counting)
            mutexes.append(Mutex(connection, "compare", lambda _, found=contender: found))  # type: ignore[misc]
            await stack.enter_async_context(driving(mutexes[-1].driver))
        for mutex in mutexes:  # all programs know each other once all have entered
            async with mutex:
                pass
        await trio.sleep(0.2)
        before = totals(forms)
        alone_ms = [await enter_ms(mutexes[n % programs]) for n in range(rounds)]
        await trio.sleep(0.2)  # the last releases have arrived everywhere
        after = totals(forms)
        handover_ms = await compete(mutexes, rounds)
    sent, private, received = ((b - a) / rounds for a, b in zip(before, after, strict=True))
    return {
        "form": form,
        "programs": programs,
        "multicasts": round(sent, 2),
        "private": round(private, 2),
        "received": round(received, 2),
        "alone_p50_ms": round(statistics.median(alone_ms), 3),
        "handover_p50_ms": round(statistics.median(handover_ms), 3),
    }


def totals(forms: list[Counting]) -> tuple[int, int, int]:
    return (
        sum(form.multicasts for form in forms),
        sum(form.private for form in forms),
        sum(form.received for form in forms),
    )


async def enter_ms(mutex: Mutex) -> float:
    """Return the milliseconds that an entry takes while no other program wants to enter."""
    asked = time.perf_counter()
    async with mutex:
        took_ms = (time.perf_counter() - asked) * 1000
    await trio.sleep(0.005)  # the release has left
    return took_ms


async def compete(mutexes: list[Mutex], rounds: int) -> list[float]:
    """Return the milliseconds from one program's leaving to the next one's entering, under
    competition.
    """
    left: list[float] = []
    gaps: list[float] = []

    async def enter(mutex: Mutex) -> None:
        for _ in range(rounds // len(mutexes)):
            async with mutex:
                if left:
                    gaps.append((time.perf_counter() - left[-1]) * 1000)
                left.append(time.perf_counter())

    async with trio.open_nursery() as nursery:
        for mutex in mutexes:
            nursery.start_soon(enter, mutex)
    return gaps


async def run(options: argparse.Namespace) -> int:
    rows = []
    for form in FORMS:
        rows.append(await measure(form, options.programs, options.rounds))
        if not options.json:
            if len(rows) == 1:
                print(
                    f"{options.programs} programs at {len(DAEMONS)} daemons, each time one enters:"
                )
                print("  form          multicasts  private  received  alone ms  handover ms")
            row = rows[-1]
            print(
                f"  {row['form']:<12} {row['multicasts']:>11} {row['private']:>8}"
                f" {row['received']:>9} {row['alone_p50_ms']:>9} {row['handover_p50_ms']:>12}"
            )
    if options.json:
        print(json.dumps({"forms": rows}))
    return 0


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Compare the forms of the mutex.")
    parser.add_argument("--programs", type=int, default=5, help="how many compete (5)")
    parser.add_argument("--rounds", type=int, default=200, help="how often one enters (200)")
    parser.add_argument("--json", action="store_true", help="one object with all rows")
    return gc.run(run, parser.parse_args(arguments))


if __name__ == "__main__":
    sys.exit(main())
