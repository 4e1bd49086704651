"""Junk at the UDP ports of daemons, at a rate; a process of its own.

Prints {"kinds"}, and {"sent", "refused"} at the end of its input. Kinds take turns, and daemons do.
Each datagram is one call, as junk of many hosts comes one by one: bursts that the system cuts and
joins again would be cheaper for both sides.
"""

import json
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from itertools import cycle, islice
from pathlib import Path
from random import Random
from typing import Final

from tests.verification.campaigns.burner import wait_for_end
from tests.verification.campaigns.junk_made import KINDS, Address, junk, read_captured, spoofed

POOL: Final = 256
"""Different datagrams of each kind for each daemon; then they begin anew."""

TICK_S: Final = 0.001
OWED_S: Final = 0.05
"""The longest time for which a sender that was held up catches up."""


def pool(captured: dict[Address, list[bytes]], rng: Random) -> list[tuple[Address, str, bytes]]:
    """Return the datagrams to send, in turn; without captured ones random bytes alone."""
    kinds = KINDS if all(captured.values()) else KINDS[:1]
    return [
        (target, kind, junk(kind, real[at % len(real)] if real else b"", rng))
        for at in range(POOL)
        for kind in kinds
        for target, real in captured.items()
    ]


class Flood:
    """Sends a pool again and again.

    Attributes:
        sent: the number of sent datagrams.
        refused: the number of datagrams that the system did not accept.
    """

    def __init__(self, calls: Iterator[tuple[Callable[[bytes], int], bytes]], rate: float) -> None:
        self._calls = calls
        self._rate = rate
        self.sent = self.refused = 0

    def run(self, ended: threading.Event) -> None:
        """Send until the end of the input."""
        owed, last = 0.0, time.monotonic()
        while not ended.is_set():
            time.sleep(TICK_S)
            now = time.monotonic()
            owed = min(owed + (now - last) * self._rate, OWED_S * self._rate)
            last = now
            self._send(int(owed))
            owed -= int(owed)

    def _send(self, count: int) -> None:
        self.sent += count
        for call, datagram in islice(self._calls, count):
            try:
                call(datagram)
            except OSError:
                self.refused += 1


def own(target: Address) -> Callable[[bytes], int]:
    """Sends to a daemon from a port of this process."""
    out = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    out.connect(target)
    return out.send


def as_another(source: Address, target: Address) -> Callable[[bytes], int]:
    """Sends to a daemon as another daemon does; only root may.

    Raises:
        PermissionError: it may not.
    """
    out = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW)
    return lambda data: out.sendto(spoofed(source, target, data), target)


def main() -> int:
    """Run with RATE, FILE, as `write_captured` writes it, and whether to pretend to be daemons."""
    _, rate, file, pretends = sys.argv
    captured = read_captured(Path(file))
    datagrams = pool(captured, Random(1))
    targets = list(captured)
    if pretends == "True":
        calls = {to: as_another(targets[at - 1], to) for at, to in enumerate(targets)}
    else:
        calls = {to: own(to) for to in targets}
    ended = threading.Event()
    threading.Thread(target=wait_for_end, args=(ended,), daemon=True).start()
    print(json.dumps({"kinds": sorted({kind for _, kind, _ in datagrams})}), flush=True)
    flood = Flood(cycle([(calls[target], data) for target, _, data in datagrams]), float(rate))
    flood.run(ended)
    print(json.dumps({"sent": flood.sent, "refused": flood.refused}), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
