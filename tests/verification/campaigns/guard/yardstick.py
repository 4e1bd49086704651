"""The present speed of the machine, by plain loops that nobody improves.

A benchmark's figures drift with the machine; their ratios to these do so much less. Loops run in as
many processes at once as a run of the benchmark keeps busy, so that other work on the machine slows
both.
"""

import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from typing import Final

LOOPS: Final = 2
LOOP_S: Final = 0.3
PINGS: Final = 100
PING_INTERVAL_S: Final = 0.005
CHUNK_BYTES: Final = 65_536
PING: Final = b"." * 100


def datagrams_per_s(size: int) -> float:
    """Send datagrams of this size to oneself and receive them, by all loops together."""
    return _all_loops("datagrams", size)


def chunks_per_s() -> float:
    """Chunks of 64 KiB through a unix socket to oneself, by all loops together."""
    return _all_loops("chunks", CHUNK_BYTES)


def ping_us() -> float:
    """Measure round trips between two processes over a unix socket; return the median."""
    ours, theirs = socket.socketpair()
    with ours, theirs, _started("echo", theirs.fileno(), passed=[theirs.fileno()]) as echo:
        theirs.close()
        took_s = []
        for _ in range(PINGS):
            time.sleep(PING_INTERVAL_S)
            began = time.perf_counter()
            ours.sendall(PING)
            ours.recv(CHUNK_BYTES)
            took_s.append(time.perf_counter() - began)
        ours.close()
        echo.wait()
    return statistics.median(took_s) * 1e6


def _all_loops(name: str, size: int) -> float:
    loops = [_started(name, size) for _ in range(LOOPS)]
    return sum(float(loop.communicate()[0]) for loop in loops)


def _started(name: str, argument: int, passed: Sequence[int] = ()) -> subprocess.Popen[str]:
    command = [
        sys.executable,
        "-m",
        "tests.verification.campaigns.guard.yardstick",
        name,
        str(argument),
    ]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, pass_fds=passed)


# ---- the child process ----


def _datagrams(size: int) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:
        one.bind(("127.0.0.1", 0))
        one.connect(one.getsockname())
        data = bytes(size)

        def step() -> None:
            one.send(data)
            one.recv(CHUNK_BYTES)

        _loop(step)


def _chunks(size: int) -> None:
    one, other = socket.socketpair()
    with one, other:
        data = bytes(size)

        def step() -> None:
            sent = one.send(data)
            while sent:
                sent -= len(other.recv(CHUNK_BYTES))

        _loop(step)


def _loop(step: Callable[[], None]) -> None:
    """Print the number of repetitions in a second."""
    count, began = 0, time.perf_counter()
    while (took_s := time.perf_counter() - began) < LOOP_S:
        for _ in range(32):
            step()
        count += 32
    print(count / took_s)


def _echo(number: int) -> None:
    with socket.socket(fileno=number) as theirs:
        while data := theirs.recv(CHUNK_BYTES):
            theirs.sendall(data)


if __name__ == "__main__":
    {"datagrams": _datagrams, "chunks": _chunks, "echo": _echo}[sys.argv[1]](int(sys.argv[2]))
