"""The floor of the delays: relays with the same hops as daemons, on trio, without any protocol.

A sender writes messages to its relay over a unix socket. The relay passes each message to the
programs beside it and, as a datagram, to the other relays, which pass it to their programs. Nothing
is numbered, stored, repaired, ordered or encrypted, so no design that does more can be faster.
"""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from contextlib import AsyncExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import trio

from groupcomm.errors import GroupCommError
from groupcomm.host.parent import end_with_parent
from groupcomm_tools.bench.content import read_timed, timed
from groupcomm_tools.bench.plan import Plan
from groupcomm_tools.local_cluster import free_ports

MODULE: Final = "groupcomm_tools.bench.bare"
READ_BYTES: Final = 60_000
"""Bytes read at once; they continue in one datagram."""

UDP_BUFFER_BYTES: Final = 4 << 20
HOST: Final = "127.0.0.1"
_START_S: Final = 15.0
_GREETING: Final = b"!"


class BareRelay:
    """One relay, which takes the place of a daemon.

    Args:
        ports: the UDP ports of all relays.
        index: the index of this relay.
    """

    def __init__(self, ports: list[int], index: int) -> None:
        self._udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
        self._udp.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, UDP_BUFFER_BYTES)
        self._udp.bind((HOST, ports[index]))
        self._others = [(HOST, port) for at, port in enumerate(ports) if at != index]
        self._programs: list[socket.socket] = []

    async def run(self, path: str) -> None:
        """Relay until cancelled."""
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        listener.bind(path)
        listener.listen()
        listener.setblocking(False)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._serve_udp)
            while True:
                await trio.lowlevel.wait_readable(listener)
                program, _ = listener.accept()
                program.send(_GREETING)
                program.setblocking(False)
                self._programs.append(program)
                nursery.start_soon(self._serve_program, program)

    async def _serve_udp(self) -> None:
        while True:
            await trio.lowlevel.wait_readable(self._udp)
            try:
                while True:
                    await self._write_to_programs(self._udp.recv(READ_BYTES))
            except BlockingIOError:
                continue

    async def _serve_program(self, program: socket.socket) -> None:
        while True:
            await trio.lowlevel.wait_readable(program)
            data = program.recv(READ_BYTES)
            if not data:
                self._programs.remove(program)
                return
            for other in self._others:
                self._udp.sendto(data, other)
            await self._write_to_programs(data, program)

    async def _write_to_programs(self, data: bytes, sender: socket.socket | None = None) -> None:
        """Write data to all programs beside; wait for slow ones, so there may be only one
        sender.
        """
        for program in [each for each in self._programs if each is not sender]:
            sent = 0
            while sent < len(data):
                try:
                    sent += program.send(data[sent:] if sent else data)
                except BlockingIOError:
                    await trio.lowlevel.wait_writable(program)


def connect_relay(path: str) -> socket.socket:
    """Return a connection to a relay, which from now on passes every message to it."""
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    connection.connect(path)
    connection.recv(len(_GREETING))
    return connection


def relay_command(
    paths: list[str], ports: list[int], index: int, module: str = MODULE
) -> list[str]:
    """Return the command line of a relay.

    Args:
        paths: unix sockets of all relays.
        ports: the UDP ports of all relays.
        index: the index of this relay.
        module: the module to run.
    """
    words = ["relay", paths[index], str(index), json.dumps(ports)]
    return [sys.executable, "-m", module, *words]


async def _send(path: str, rate: float, count: int, size: int) -> None:
    with connect_relay(path) as connection:
        due = trio.current_time()
        for number in range(count):
            connection.send(timed(time.monotonic_ns(), number, size))
            due += 1 / rate
            await trio.sleep_until(due)


async def _receive(path: str, count: int, size: int) -> None:
    with connect_relay(path) as connection:
        connection.setblocking(False)
        print("ready", flush=True)
        delays: list[float] = []
        rest = b""
        with trio.move_on_after(_START_S + count):
            while len(delays) < count:
                await trio.lowlevel.wait_readable(connection)
                now = time.monotonic_ns()
                rest += connection.recv(READ_BYTES)
                while len(rest) >= size:
                    delays.append((now - read_timed(rest)[0]) / 1000)
                    rest = rest[size:]
        print(json.dumps(delays), flush=True)


async def floor_us(plan: Plan, relays: str = MODULE, programs: str = MODULE) -> list[float]:
    """Return the one-way delays of a plan's messages through bare relays: microseconds, sorted.

    There are as many relays as the plan has daemons, with one receiver at each, on unix sockets.

    Args:
        plan: parameters of the run.
        relays: module that runs as the relays.
        programs: module that runs as the sender and the receivers.

    Raises:
        GroupCommError: messages were lost.
    """
    count = max(1, int(plan.rate * plan.duration_s))
    command = [sys.executable, "-m", programs]
    ports = free_ports(HOST, plan.daemons)
    with TemporaryDirectory(prefix="groupcomm-") as folder:
        paths = [str(Path(folder) / f"{index}.sock") for index in range(plan.daemons)]
        async with AsyncExitStack() as stack:
            for index in range(plan.daemons):
                relay = subprocess.Popen(relay_command(paths, ports, index, relays))
                stack.callback(_end, relay)
            with trio.fail_after(_START_S):
                while not all(map(os.path.exists, paths)):
                    await trio.sleep(0.01)
            receivers = []
            for path in paths:
                words = ["receive", path, str(count), str(plan.size)]
                process = subprocess.Popen([*command, *words], stdout=subprocess.PIPE, text=True)
                stack.callback(_end, process)
                assert process.stdout is not None
                await trio.to_thread.run_sync(process.stdout.readline)
                receivers.append(process)
            words = ["send", paths[0], str(plan.rate), str(count), str(plan.size)]
            await trio.run_process([*command, *words])
            spoken = [
                (await trio.to_thread.run_sync(lambda p=process: p.communicate()))[0]  # type: ignore[misc]
                for process in receivers
            ]
    delays = sorted(delay for line in spoken for delay in json.loads(line))
    if len(delays) < count * plan.daemons:
        raise GroupCommError(f"bare relays lost {count * plan.daemons - len(delays)} messages")
    return delays


def _end(process: subprocess.Popen[Any]) -> None:
    process.kill()
    process.wait()
    if process.stdout is not None:
        process.stdout.close()


def main() -> int:
    """Run one of the programs, which the command line names."""
    role, path, *words = sys.argv[1:]
    if role != "send":  # it ends by itself, and a thread that ends earlier has started it
        end_with_parent(signal.SIGKILL)
    if role == "relay":
        trio.run(BareRelay(json.loads(words[1]), int(words[0])).run, path)
    elif role == "send":
        trio.run(_send, path, float(words[0]), int(words[1]), int(words[2]))
    else:
        trio.run(_receive, path, int(words[0]), int(words[1]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
