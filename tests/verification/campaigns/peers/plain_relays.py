"""Bare relays and their programs without any library: a loop around epoll, and blocking sockets.

Beside `groupcomm_tools.bench.bare`, which does the same with trio, they show the cost of trio.
"""

import json
import select
import socket
import sys
import time
from typing import Final

from groupcomm_tools.bench.bare import HOST, READ_BYTES, UDP_BUFFER_BYTES, connect_relay
from groupcomm_tools.bench.content import read_timed, timed

MODULE: Final = "tests.verification.campaigns.peers.plain_relays"
GREETING: Final = b"!"


def relay(path: str, ports: list[int], index: int) -> None:
    """Relay until killed."""
    udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
    udp.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, UDP_BUFFER_BYTES)
    udp.bind((HOST, ports[index]))
    others = [(HOST, port) for at, port in enumerate(ports) if at != index]
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listener.bind(path)
    listener.listen()
    programs: dict[int, socket.socket] = {}
    with select.epoll() as poll:
        poll.register(udp, select.EPOLLIN)
        poll.register(listener, select.EPOLLIN)
        while True:
            for number, _ in poll.poll():
                if number == udp.fileno():
                    data = udp.recv(READ_BYTES)
                elif number == listener.fileno():
                    program, _ = listener.accept()
                    program.send(GREETING)
                    programs[program.fileno()] = program
                    poll.register(program, select.EPOLLIN)
                    continue
                else:
                    data = programs[number].recv(READ_BYTES)
                    if not data:
                        programs.pop(number).close()
                        continue
                    for other in others:
                        udp.sendto(data, other)
                for each, program in programs.items():
                    if each != number:
                        program.sendall(data)


def send(path: str, rate: float, count: int, size: int) -> None:
    """Send messages that carry the time."""
    with connect_relay(path) as connection:
        due = time.monotonic()
        for number in range(count):
            connection.send(timed(time.monotonic_ns(), number, size))
            due += 1 / rate
            time.sleep(max(0.0, due - time.monotonic()))


def receive(path: str, count: int, size: int) -> None:
    """Print the delays of messages, in microseconds."""
    with connect_relay(path) as connection:
        print("ready", flush=True)
        delays: list[float] = []
        rest = b""
        while len(delays) < count:
            data = connection.recv(READ_BYTES)
            now = time.monotonic_ns()
            rest += data
            while len(rest) >= size:
                delays.append((now - read_timed(rest)[0]) / 1000)
                rest = rest[size:]
        print(json.dumps(delays), flush=True)


def main() -> int:
    """Run one of the programs, like `groupcomm_tools.bench.bare`."""
    role, path, *words = sys.argv[1:]
    if role == "relay":
        relay(path, json.loads(words[1]), int(words[0]))
    elif role == "send":
        send(path, float(words[0]), int(words[1]), int(words[2]))
    else:
        receive(path, int(words[0]), int(words[1]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
