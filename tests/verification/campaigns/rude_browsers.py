"""Rude peers at `groupcomm web`: what no browser sends, in pieces, at the wrong time, cut off.

    python -m tests.verification.campaigns rude_browsers --conversations 2000 --seed 7

Each conversation is a request of HTTP and frames of WebSockets, most of them nearly right, some
changed, of which the answers may be read or not. Meanwhile a polite browser sends messages and must
get each answer. No conversation may cause a fault of the server, which its counts tell, and the
seed repeats all of them. Prints a line of JSON.
"""

import json
import struct
import time
from argparse import Namespace
from collections import Counter
from random import Random
from typing import Any, Final

import trio

from groupcomm_tools.running_cluster import RunningCluster
from groupcomm_tools.web.server import WebOptions, WebServer
from groupcomm_tools.web.session import Daemon
from tests.groupcomm_tools.web_client import WebClient
from tests.verification.campaigns.runner import Found, campaign, option

AT_ONCE: Final = 12
WAIT_S: Final = (0.01, 0.05, 0.3)
"""How long an answer is waited for; then the connection is cut off."""

HANDSHAKE: Final = (
    b"GET / HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n"
)
HEADS: Final = (
    b"GET /groupcomm.js HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\n\r\n",
    b"HEAD /metrics HTTP/1.0\r\n\r\n",
    b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n",
    b"CONNECT x:1 HTTP/1.1\r\nHost: x:1\r\n\r\n",
    HANDSHAKE,
)
REQUESTS: Final[tuple[dict[str, Any], ...]] = (
    {"do": "connect"},
    {"do": "connect", "user": "x" * 300},
    {"do": "connect", "groups": ["g"], "start": "latest"},
    {"do": "connect", "groups": ["g"], "start": "@99999999999999999999"},
    {"do": "join", "group": "g"},
    {"do": "join", "group": "\ud800"},
    {"do": "leave", "group": "g"},
)


class RudePeer:
    """Draws what a rude peer sends.

    Args:
        rng: draws it.
    """

    def __init__(self, rng: Random) -> None:
        self._rng = rng

    def conversation(self) -> bytes:
        """Return the bytes of one connection."""
        rng = self._rng
        sent = HANDSHAKE if rng.random() < 0.7 else self._changed(rng.choice(HEADS))
        return sent + b"".join(self._frame() for _ in range(rng.randrange(6)))

    def _frame(self) -> bytes:
        rng = self._rng
        kind = rng.random()
        if kind < 0.6:
            text = json.dumps({"id": rng.randrange(9), **rng.choice(REQUESTS)}).encode()
            frame = self._packed(1, self._changed(text))
        elif kind < 0.8:
            head = json.dumps({"do": "multicast", "id": 3, "groups": ["g"]}).encode()
            data = struct.pack("!H", len(head)) + head + rng.randbytes(rng.randrange(200))
            frame = self._packed(2, self._changed(data))
        else:
            frame = self._packed(rng.randrange(16), rng.randbytes(rng.randrange(130)))
        return self._changed(frame) if rng.random() < 0.2 else frame

    def _packed(self, opcode: int, data: bytes) -> bytes:
        """Return a frame of RFC 6455, section 5.2; some are not masked, some not the last part."""
        rng = self._rng
        masked = 0x80 if rng.random() < 0.9 else 0
        size = len(data)
        short = size < 126
        lengths = bytes([masked | size]) if short else struct.pack("!BH", masked | 126, size)
        key = rng.randbytes(4)
        body = key + bytes(each ^ key[at % 4] for at, each in enumerate(data)) if masked else data
        return bytes([(rng.random() < 0.9) << 7 | opcode]) + lengths + body

    def _changed(self, data: bytes) -> bytes:
        """Return bytes with some changes, or none."""
        rng, changed = self._rng, bytearray(data)
        for _ in range(rng.choice((0, 0, 0, 1, 3, 10))):
            at = rng.randrange(len(changed) + 1)
            end = at + rng.randrange(8)
            changed[at:end] = rng.choice((b"", rng.randbytes(rng.randrange(8)), changed[at:]))
        return bytes(changed)


async def _be_rude(port: int, rng: Random, count: int) -> None:
    peer = RudePeer(rng)
    for _ in range(count):
        sent = peer.conversation()
        piece = rng.choice((len(sent), len(sent) // 5)) + 1
        try:
            async with await trio.open_tcp_stream("127.0.0.1", port) as stream:
                with trio.move_on_after(rng.choice(WAIT_S)):
                    for at in range(0, len(sent), piece):
                        await stream.send_all(sent[at : at + piece])
                        await trio.sleep(0)
                    while await stream.receive_some(65_536):
                        pass
        except (OSError, trio.BrokenResourceError):
            continue  # the server has cut it off


async def _be_polite(client: WebClient, delays: list[float]) -> None:
    await client.ask("join", group="polite")
    while True:
        begun = time.monotonic()
        await client.ask("multicast", b"hello", groups=["polite"])
        delays.append(time.monotonic() - begun)
        await trio.sleep(0.02)


async def play(address: str, conversations: int, seed: int) -> Found:
    """Run everything; return the counts, what faults there were, and the polite one's delays."""
    faults: list[str] = []

    def say(reason: str, text: str) -> None:
        if reason == "fault":
            faults.append(text)

    listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
    port = listeners[0].socket.getsockname()[1]
    origins = frozenset((f"http://127.0.0.1:{port}",))
    daemon = Daemon(address, None, wants_token=False)
    web = WebServer(WebOptions(daemon=daemon, origins=origins), say)
    delays: list[float] = []
    async with trio.open_nursery() as nursery:
        nursery.start_soon(trio.serve_listeners, web.serve, listeners)
        async with await trio.open_tcp_stream("127.0.0.1", port) as stream:
            client = WebClient(stream)
            await client.shake_hands()
            await client.ask("connect", user="polite")
            async with trio.open_nursery() as polite:
                polite.start_soon(_be_polite, client, delays)
                async with trio.open_nursery() as rude:
                    for number in range(AT_ONCE):
                        rng = Random(f"{seed} {number}")
                        rude.start_soon(_be_rude, port, rng, conversations // AT_ONCE)
                polite.cancel_scope.cancel()
        nursery.cancel_scope.cancel()
    delays.sort()
    return {
        "accepted": web.counts["accepted"],
        "ended": Counter(web.ended),
        "answers": len(delays),
        "p99_ms": round(1000 * delays[len(delays) * 99 // 100], 1),
        "violations": faults,
    }


@campaign(option("conversations", 2000), option("seed", 7))
def run(options: Namespace) -> Found:
    """Run it at a daemon."""
    with RunningCluster(1) as cluster:
        return trio.run(play, cluster.address("a"), options.conversations, options.seed)
