"""A switch in user space, whose wires delay and lose frames: for systems without netem.

Each node gets a TAP device, and this process moves the frames between them: all of them alike,
whatever they carry, so TCP meets delay and loss as UDP does. A frame that waits keeps its place.

Run by `tests.verification.campaigns.peers.nodes`: prints ``ready``, and ends with its input.
"""

import argparse
import fcntl
import heapq
import os
import selectors
import struct
import subprocess
import sys
import time
from collections.abc import Sequence
from random import Random
from typing import Final

import attrs

TUNSETIFF: Final = 0x400454CA
IFF_TAP: Final = 0x0002
IFF_NO_PI: Final = 0x1000
HEAD_BYTES: Final = 14
"""Destination, source and kind of a frame of Ethernet."""

BURST: Final = 64
"""Frames of one node before others have their turn."""


@attrs.frozen(kw_only=True)
class Wire:
    """The delay and loss of frames.

    Attributes:
        delay_s: the delay of one way.
        jitter_s: the most additional delay.
        loss: the probability that a frame is lost, 0 to 1.
        seed: the seed of all chances.
    """

    delay_s: float = 0.0
    jitter_s: float = 0.0
    loss: float = 0.0
    seed: int = 1


@attrs.define
class Switch:
    """The destinations of frames; without I/O.

    Attributes:
        wire: the delay and loss of frames.
        ports: the number of ports.
    """

    wire: Wire
    ports: int
    _rng: Random = attrs.field(init=False)
    _known: dict[bytes, int] = attrs.field(init=False, factory=dict)  # links by source address
    _waiting: list[tuple[float, int, int, bytes]] = attrs.field(init=False, factory=list)
    _latest_s: dict[tuple[int, int], float] = attrs.field(init=False, factory=dict)
    _count: int = attrs.field(init=False, default=0)

    def __attrs_post_init__(self) -> None:
        self._rng = Random(self.wire.seed)

    def accept(self, now_s: float, port: int, frame: bytes) -> None:
        """Pass a frame from a port to the port of its destination, or to all others."""
        if len(frame) < HEAD_BYTES:
            return
        self._known[frame[6:12]] = port
        known = self._known.get(frame[:6])
        for target in range(self.ports) if known is None else (known,):
            if target == port or self._rng.random() < self.wire.loss:
                continue
            way = (port, target)
            extra_s = self._rng.random() * self.wire.jitter_s if self.wire.jitter_s else 0.0
            at_s = max(now_s + self.wire.delay_s + extra_s, self._latest_s.get(way, 0.0))
            self._latest_s[way] = at_s
            self._count += 1
            heapq.heappush(self._waiting, (at_s, self._count, target, frame))

    def pop(self, now_s: float) -> list[tuple[int, bytes]]:
        """Return the frames that arrive by now, each with its port."""
        found = []
        while self._waiting and self._waiting[0][0] <= now_s:
            _, _, target, frame = heapq.heappop(self._waiting)
            found.append((target, frame))
        return found

    @property
    def deadline_s(self) -> float | None:
        """When the next frame arrives; None if none waits."""
        return self._waiting[0][0] if self._waiting else None


def open_tap(name: str) -> int:
    """Return a TAP device in this process's namespace."""
    device = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(device, TUNSETIFF, struct.pack("16sH", name.encode(), IFF_TAP | IFF_NO_PI))
    return device


def plug(name: str, holder: int, address: str, mtu: int) -> None:
    """Move a device into a namespace, as eth0."""
    at_node = ("nsenter", f"--target={holder}", "--net")
    for command in (
        ["ip", "link", "set", name, "netns", str(holder)],
        [*at_node, "ip", "link", "set", name, "name", "eth0", "mtu", str(mtu)],
        [*at_node, "ip", "addr", "add", f"{address}/24", "dev", "eth0"],
        [*at_node, "ip", "link", "set", "eth0", "up"],
    ):
        subprocess.run(command, check=True)


def run(switch: Switch, taps: Sequence[int]) -> None:
    """Move frames until the input ends."""
    with selectors.DefaultSelector() as selector:
        for port, tap in enumerate(taps):
            selector.register(tap, selectors.EVENT_READ, port)
        selector.register(sys.stdin, selectors.EVENT_READ, None)
        while True:
            deadline_s = switch.deadline_s
            wait_s = None if deadline_s is None else max(0.0, deadline_s - time.monotonic())
            for key, _ in selector.select(wait_s):
                if key.data is None:
                    return
                _read(switch, taps[key.data], key.data)
            for target, frame in switch.pop(time.monotonic()):
                _write(taps[target], frame)


def _read(switch: Switch, tap: int, port: int) -> None:
    for _ in range(BURST):
        try:
            frame = os.read(tap, 65_536)
        except OSError:  # there is no more frame, or the cable is out
            return
        switch.accept(time.monotonic(), port, frame)


def _write(tap: int, frame: bytes) -> None:
    try:
        os.write(tap, frame)
    except OSError:
        return  # the frame is lost: the cable is out, or the node does not keep up


def main() -> int:
    """Be the switch; return the exit status."""
    parser = argparse.ArgumentParser(prog="tests.verification.campaigns.wire", description=__doc__)
    parser.add_argument("nodes", nargs="+", metavar="PID=ADDRESS", help="namespaces")
    parser.add_argument("--mtu", type=int, default=1500)
    for name in ("delay-s", "jitter-s", "loss"):
        parser.add_argument(f"--{name}", type=float, default=0.0)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    wire = Wire(
        delay_s=options.delay_s, jitter_s=options.jitter_s, loss=options.loss, seed=options.seed
    )
    taps = []
    for port, node in enumerate(options.nodes):
        holder, _, address = node.partition("=")
        name = f"gc{os.getpid()}-{port}"
        taps.append(open_tap(name))
        plug(name, int(holder), address, options.mtu)
    print("ready", flush=True)
    run(Switch(wire, len(taps)), taps)
    return 0


if __name__ == "__main__":
    sys.exit(main())
