"""A replica of a dict, at one daemon for ever, and a writer of new keys.

Prints lines of JSON: {"at", "digest"} of all contents when a view begins, {"acknowledged"} and
{"unknown"} keys, {"current", "fellows"} when these change, {"contents"} at the end of its input.
"""

import argparse
import hashlib
import json
import os
import sys

import msgspec
import trio

from groupcomm.errors import SessionError
from groupcomm.events import MemberId
from groupcomm_client import connect
from groupcomm_client.coordination import OutcomeUnknown, Replicated, replicate
from groupcomm_client.coordination.object_machines import DictMachine, Put, encode

GROUP = "store"
RETRY_S = 0.05
MOST_WRITES = 1000


def tell(**what: object) -> None:
    os.write(1, json.dumps(what).encode() + b"\n")


class WatchedDict(DictMachine):
    """Tells a digest whenever a view of the group begins, as all replicas do at that place."""

    replica: Replicated | None = None

    def members_changed(self, members: tuple[MemberId, ...]) -> None:
        assert self.replica is not None
        digest = hashlib.sha256(self.snapshot()).hexdigest()
        tell(at=str(self.replica.replica.as_of), digest=digest, keys=len(self.state.entries))

    def contents(self) -> dict[str, str]:
        """The values by key."""
        found = self.state.entries
        return {key: msgspec.msgpack.decode(entry.value, type=str) for key, entry in found.items()}


class Writer:
    """Lives through sessions: a new replica for each.

    Attributes:
        store: the store of the present replica.
    """

    def __init__(self, options: argparse.Namespace) -> None:
        self._options = options
        self._keys = iter(range(10**9))
        self._stop = trio.Event()
        self.store = WatchedDict()

    async def run(self) -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._stay)
            async for line in trio.wrap_file(sys.stdin):
                if line == "stop\n":
                    self._stop.set()
            nursery.cancel_scope.cancel()
        tell(contents=self.store.contents())

    async def _stay(self) -> None:
        while True:
            try:
                await self._be_a_replica()
            except* SessionError:
                tell(current=False)
                await trio.sleep(RETRY_S)

    async def _be_a_replica(self) -> None:
        self.store = store = WatchedDict()
        async with (
            connect(self._options.address) as connection,
            replicate(connection, GROUP, store, replicas=self._options.replicas) as replica,
            trio.open_nursery() as nursery,
        ):
            store.replica = replica
            nursery.start_soon(self._watch, replica)
            nursery.start_soon(self._write, replica)
            await replica.driver.until(lambda: False)

    async def _watch(self, replica: Replicated) -> None:
        """Report the replicas with the same state, at each change."""

        def look() -> tuple[bool, list[str]]:
            return replica.is_current, sorted(map(str, replica.replica.holders))

        told: list[tuple[bool, list[str]]] = [(False, [])]
        while True:
            await replica.driver.until(lambda: look() != told[-1])
            told.append(look())
            tell(current=told[-1][0], fellows=told[-1][1])

    async def _write(self, replica: Replicated) -> None:
        limit, due = trio.CapacityLimiter(MOST_WRITES), trio.current_time()
        async with trio.open_nursery() as nursery:
            while not self._stop.is_set():
                due += 1 / self._options.rate
                await trio.sleep_until(due)
                if replica.is_current:
                    await limit.acquire_on_behalf_of(key := self._key())
                    nursery.start_soon(self._put, replica, key, limit)

    def _key(self) -> str:
        return f"{self._options.name}.{next(self._keys)}"

    async def _put(self, replica: Replicated, key: str, limit: trio.CapacityLimiter) -> None:
        try:
            await replica.submit(encode(Put(key, encode(key[::-1]), None)))
            tell(acknowledged=key)
        except OutcomeUnknown:
            tell(unknown=key)
        except SessionError:
            return  # the write was not sent
        finally:
            limit.release_on_behalf_of(key)


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--address", required=True)
    parser.add_argument("--replicas", type=int, required=True)
    parser.add_argument("--name", required=True)
    parser.add_argument("--rate", type=float, required=True)
    trio.run(Writer(parser.parse_args()).run)
    return 0


if __name__ == "__main__":
    sys.exit(main())
