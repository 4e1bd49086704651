"""What a user's first minutes ask of an installed wheel: a daemon, programs of three kinds, order.

    python -I program.py

It is run by the Python of a fresh environment, outside of the project's folder, so it imports
what the wheel has installed and nothing else.
"""

import asyncio
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import trio

import groupcomm_client as gc

WITHIN_S = 30.0
COUNT = 20


def main() -> None:
    """Send with trio and asyncio, and receive with threads; the order is the same for all."""
    with tempfile.TemporaryDirectory() as folder:
        socket = Path(folder) / "daemon.sock"
        command = Path(sys.executable).with_name("groupcommd")
        words = [command, "--unix", socket, "--port", "0", "--state-dir", Path(folder) / "state"]
        with subprocess.Popen([str(word) for word in words], cwd=folder) as daemon:
            try:
                until_there(socket, daemon)
                check(str(socket))
            finally:
                daemon.terminate()
        assert daemon.returncode == 0, f"the daemon ended with status {daemon.returncode}"
    print("ok")


def until_there(socket: Path, daemon: "subprocess.Popen[bytes]") -> None:
    """Wait until the daemon accepts programs."""
    limit = time.monotonic() + WITHIN_S
    while not socket.exists():
        assert daemon.poll() is None, f"the daemon ended with status {daemon.returncode}"
        assert time.monotonic() < limit, f"no daemon at {socket} after {WITHIN_S:g} s"
        time.sleep(0.05)


def check(address: str) -> None:
    """Have programs of all kinds send; raise AssertionError unless two members see one order."""
    with gc.blocking.connect(address) as first, gc.blocking.connect(address) as second:
        for each in (first, second):
            each.join("release")
        trio.run(send_with_trio, address)
        asyncio.run(send_with_asyncio(address))
        orders = [received(each) for each in (first, second)]
    assert orders[0] == orders[1], f"two orders: {orders}"
    assert len(orders[0]) == 2 * COUNT


async def send_with_trio(address: str) -> None:
    """Send half of the messages."""
    async with gc.connect(address) as connection:
        for number in range(COUNT):
            await connection.multicast("release", b"trio %d" % number, level=gc.ServiceLevel.AGREED)


async def send_with_asyncio(address: str) -> None:
    """Send the other half."""
    async with gc.aio.connect(address) as connection:
        for number in range(COUNT):
            await connection.multicast(
                "release", b"asyncio %d" % number, level=gc.ServiceLevel.SAFE
            )


def received(connection: gc.blocking.BlockingConnection) -> list[bytes]:
    """Return the data of all messages, in the order in which they came."""
    data: list[bytes] = []
    while len(data) < 2 * COUNT:
        event = connection.receive(timeout_s=WITHIN_S)
        if isinstance(event, gc.Message):
            data.append(event.data)
    return data


if __name__ == "__main__":
    os.environ.pop("PYTHONPATH", None)
    main()
