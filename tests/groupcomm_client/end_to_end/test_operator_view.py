"""The operator of the daemons has their memory, in which no message of a secret group is."""

import random
from collections.abc import Iterator
from pathlib import Path

import trio

from groupcomm_client import connect
from groupcomm_client.end_to_end import SharedSecret
from groupcomm_tools.running_cluster import RunningCluster
from tests.groupcomm_client.end_to_end.test_daemons import Reader

OPEN, SEALED = b"said to everybody", b"said to members only"
MESSAGES = 200


def memory(pid: int) -> Iterator[bytes]:
    """Return all memory that a process can write to, including freed parts of its allocator."""
    maps = Path(f"/proc/{pid}/maps").read_text().splitlines()
    with Path(f"/proc/{pid}/mem").open("rb", buffering=0) as file:
        for line in maps:
            place, permissions, *_ = line.split()
            if permissions.startswith("rw") and "[v" not in line:
                start, end = (int(number, 16) for number in place.split("-"))
                file.seek(start)
                yield file.read(end - start)


def times(pid: int, text: bytes) -> int:
    return sum(part.count(text) for part in memory(pid))


async def test_daemons_have_nothing_of_what_members_say_in_their_memory() -> None:
    """The open group shows that the search finds what daemons have handled."""
    rng = random.Random(5)
    with RunningCluster("ab") as cluster:
        async with (
            connect(cluster.address("a"), user="ann") as ann,
            connect(cluster.address("b"), user="bob") as bob,
            trio.open_nursery() as nursery,
        ):
            for one in (ann, bob):
                await one.join("plan", secret=SharedSecret(b"s" * 32))
                await one.join("open")
            readers = Reader(ann, nursery), Reader(bob, nursery)
            for reader in readers:
                await reader.until_key({ann.member, bob.member})
            texts = [b"%b %b" % (SEALED, rng.randbytes(200)) for _ in range(MESSAGES)]
            news = [b"%b %b" % (OPEN, rng.randbytes(200)) for _ in range(MESSAGES)]
            for text, new in zip(texts, news, strict=True):
                await ann.multicast("plan", text)
                await ann.multicast("open", new)
            await readers[1].until_texts([*texts, *news])
            for name in "ab":  # processes of this one, which may read what they have
                assert times(cluster.pid(name), OPEN) > 0, "the search finds nothing"
                assert times(cluster.pid(name), SEALED) == 0
            nursery.cancel_scope.cancel()
