"""The cost of groups with secrets: a view change by members, and messages of 100 bytes.

python -m tests.groupcomm_client.end_to_end.bench_end_to_end
"""

import argparse
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from random import Random

import trio

from groupcomm.clocks.stamp import Position, ViewId
from groupcomm.events import Cause, GroupView, MemberId, Message
from groupcomm.level import ServiceLevel
from groupcomm_client import connect
from groupcomm_client.end_to_end import GroupSecret, SharedSecret, TrustedKeys
from groupcomm_client.end_to_end.agreement import Agreement, ToGroup, ToMember
from groupcomm_client.end_to_end.frames import KeyFrame, Ready, decode_frame_untrusted
from groupcomm_tools.local_cluster import LocalCluster

GROUP = "plan"
SECRET = SharedSecret(b"s" * 32)
ROUNDS = 7
MESSAGES = 100_000
BYTES = 100


# ---- a view change ----


def measure_views(count: int, make: Callable[[int], GroupSecret]) -> tuple[float, float, int]:
    """Seconds of who gives the key, seconds of one that takes it, and bytes of the message."""
    members = tuple(MemberId(f"#program{number}#daemon", number) for number in range(count))
    view = GroupView(
        group=GROUP,
        id=Position(ViewId(1, "d", 1), 0, 0, 0, 0),
        members=members,
        cause=Cause.NETWORK,
        changed=(),
        vs_set=members,
        own=False,
    )
    random = Random(1).randbytes
    giver = Agreement(view, members[0], make(0), random)
    giver.change_view(view, 0.0)
    others = [Agreement(view, one, make(at), random) for at, one in enumerate(members[1:], 1)]
    readies = []
    for other in others:
        [asking] = other.change_view(view, 0.0)
        assert isinstance(asking, ToMember)
        readies.append((other.me, decode_frame_untrusted(asking.data, Ready)))
    for member, ready in readies[:-1]:
        giver.ready_received(member, ready, 0.0)
    began = time.perf_counter()
    [action] = giver.ready_received(*readies[-1], 0.0)
    gives_s = time.perf_counter() - began
    assert isinstance(action, ToGroup)
    began = time.perf_counter()
    others[-1].key_received(members[0], decode_frame_untrusted(action.data, KeyFrame), 0.0)
    takes_s = time.perf_counter() - began
    return gives_s, takes_s, len(action.data)


def tell_views() -> None:
    identities = [os.urandom(32) for _ in range(1000)]
    public = [TrustedKeys(one, ()).public for one in identities]
    trusts = frozenset(public)
    kinds: dict[str, Callable[[int], GroupSecret]] = {
        "shared secret": lambda _: SECRET,
        "trusted keys": lambda number: TrustedKeys(identities[number], trusts),
    }
    print("| members | proof | giver, ms | each other, ms | message, bytes |")
    print("|---|---|---|---|---|")
    for count in (10, 100, 1000):
        for name, make in kinds.items():
            found = [measure_views(count, make) for _ in range(ROUNDS)]
            gives, takes, size = (statistics.median(column) for column in zip(*found, strict=True))
            print(f"| {count} | {name} | {gives * 1e3:.1f} | {takes * 1e3:.1f} | {size:.0f} |")


# ---- messages ----


async def receive(address: str, *, sealed: bool) -> None:
    """Run a member, and print the number of messages a second that come."""
    async with connect(address, user="receiver") as connection:
        await connection.join(GROUP, secret=SECRET if sealed else None)
        print("here", flush=True)
        count, began = 0, 0.0
        while count < MESSAGES:
            batch = await connection.receive_batch()
            found = sum(isinstance(event, Message) for event in batch)
            if found and not count:
                began = time.perf_counter()
            count += found
        print(round(count / (time.perf_counter() - began)), flush=True)


async def send(cluster: LocalCluster, *, sealed: bool) -> float:
    command = [sys.executable, "-m", "tests.groupcomm_client.end_to_end.bench_end_to_end"]
    command += ["--receive", str(cluster["b"].unix), *(["--sealed"] if sealed else [])]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as receiver:
        assert receiver.stdout is not None
        await trio.to_thread.run_sync(receiver.stdout.readline)
        async with connect(str(cluster["a"].unix), user="sender") as connection:
            await connection.join(GROUP, secret=SECRET if sealed else None)
            data = [b"x" * BYTES] * MESSAGES
            level = ServiceLevel.AGREED
            await connection.multicast_many(GROUP, data, level=level, self_discard=True)
            return float(await trio.to_thread.run_sync(receiver.stdout.readline))


async def tell_messages() -> None:
    async with LocalCluster("ab", "timing = {token_timeout_s = 5.0}") as cluster:
        await cluster.settle("ab")
        found: dict[bool, list[float]] = {False: [], True: []}
        for _ in range(ROUNDS):
            for sealed, rates in found.items():
                rates.append(await send(cluster, sealed=sealed))
    plain, secret = (statistics.median(found[kind]) for kind in (False, True))
    for kind, name in ((False, "plain"), (True, "sealed")):
        print(name, " ".join(f"{rate:.0f}" for rate in sorted(found[kind])))
    print(f"messages of {BYTES} bytes a second: {plain:.0f} plain, {secret:.0f} sealed")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--receive", type=Path)
    parser.add_argument("--sealed", action="store_true")
    options = parser.parse_args()
    if options.receive is not None:
        trio.run(lambda: receive(str(options.receive), sealed=options.sealed))
        return
    tell_views()
    trio.run(tell_messages)


if __name__ == "__main__":
    main()
