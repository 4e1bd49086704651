"""Any bytes at the door of HTTP: they end their connection at most, and cost a bounded time."""

import random
from pathlib import Path
from typing import Final

import pytest
import trio

from tests.groupcommd.http.browser import OPEN, ask, connect, request
from tests.groupcommd.virtual import virtual_daemons

TCP: Final = '[http]\nlisten = "127.0.0.1:0"\n'
GOOD: Final = (
    request("/livez"),
    request("/metrics", "HEAD"),
    request("/readyz?majority"),
    request("/status.json", Authorization="Basic YTpi"),
    request("/livez", Transfer_Encoding="chunked") + b"5\r\nhello\r\n0\r\n\r\n",
    request("/livez", Content_Length="5", Expect="100-continue") + b"hello",
)


def mutated(data: bytes, rng: random.Random) -> bytes:
    """Return requests with bits flipped, parts cut out, doubled or exchanged."""
    changed = bytearray(data + rng.choice(GOOD))
    for _ in range(rng.randint(1, 4)):
        at = rng.randrange(len(changed))
        match rng.randrange(5):
            case 0:
                changed[at] ^= 1 << rng.randrange(8)
            case 1:
                del changed[at : at + rng.randint(1, 20)]
            case 2:
                changed[at:at] = rng.randbytes(rng.randint(1, 20))
            case 3:
                changed[at:at] = changed[at : at + 40] * rng.randint(1, 50)
            case _:
                changed[at:at] = rng.choice((b"\r\n", b"\0", b":", b" ", b"\xff" * 9000))
        if not changed:
            break
    return bytes(changed)


@pytest.mark.parametrize("count", [25, pytest.param(2000, marks=pytest.mark.long)])
async def test_any_bytes_end_their_connection_at_most(count: int, tmp_path: Path) -> None:
    rng = random.Random(count)
    async with virtual_daemons(tmp_path, "a", head=TCP) as daemons:
        at = daemons["a"].http
        for _ in range(count):
            stream = await connect(at)
            try:
                await stream.send_all(mutated(rng.choice(GOOD), rng))
                with trio.move_on_after(0.002):
                    while await stream.receive_some(65536):
                        continue
            except trio.BrokenResourceError:
                continue  # the server closed it while it still sent
            finally:
                await stream.aclose()
        told = await ask(at, "/livez")
        assert told.status == 200
        counts = daemons["a"].http_server.counts()
        assert "500" not in counts["answered"]
        assert counts["refused"]["request"] > count // 10


async def test_many_connections_are_answered_in_turn_while_messages_pass(tmp_path: Path) -> None:
    async with virtual_daemons(tmp_path, "ab", head=TCP) as daemons:
        answered = 0

        async def flood() -> None:
            nonlocal answered
            async with await connect(daemons["a"].http) as stream:
                for _ in range(2):
                    await stream.send_all(request("/metrics", Accept=OPEN))
                    data = b""
                    while not data.endswith(b"# EOF\n"):
                        more = await stream.receive_some(65536)
                        assert more
                        data += more
                    answered += 1

        async with trio.open_nursery() as nursery:
            for _ in range(20):
                nursery.start_soon(flood)
        assert answered == 40
        assert daemons["a"].supply.answered < 20, "the daemon has told most of them the same"
        assert daemons["a"].members == "ab"
