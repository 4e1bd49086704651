"""Connections to daemons that never authenticate; a process of its own.

Runs with COUNT and ADDRESSES (JSON) until the end of its input. Whatever is cut off is opened anew
at once. Prints {"opening"} once it has begun all, and {"established", "peak", "cut"} at the end:
the connections that daemons' systems had then, and at most, and the number that was cut off.
"""

import errno
import json
import resource
import select
import socket
import sys
from itertools import cycle, product
from typing import Final

SOURCES: Final = 16
"""Addresses to connect from: each has some 28,000 ports, and used ones are kept for a minute."""

SPARE_FILES: Final = 64
WAIT_S: Final = 0.1

_IP_BIND_ADDRESS_NO_PORT: Final = 24  # from <linux/in.h>; the connect chooses the port
_CUT: Final = select.EPOLLRDHUP | select.EPOLLHUP | select.EPOLLERR


class HalfOpen:
    """This number of connections, established or in progress.

    Attributes:
        established: the number of established ones.
        peak: the most that were ever established.
        cut: the number that the other side ended.
    """

    def __init__(self, count: int, targets: list[tuple[str, int]]) -> None:
        self._ways = cycle(product(targets, range(SOURCES)))
        self._epoll = select.epoll()
        self._open: dict[int, tuple[socket.socket, bool]] = {}
        self.established = self.peak = self.cut = 0
        for _ in range(count):
            self._add()

    def _add(self) -> None:
        target, source = next(self._ways)
        made = socket.socket(socket.AF_INET, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
        made.setsockopt(socket.IPPROTO_IP, _IP_BIND_ADDRESS_NO_PORT, 1)
        made.bind((f"127.0.0.{source + 2}", 0))
        status = made.connect_ex(target)
        if status not in (0, errno.EINPROGRESS):
            raise OSError(status, f"cannot connect to {target}")
        self._open[made.fileno()] = made, False
        self._epoll.register(made, select.EPOLLOUT | select.EPOLLET | _CUT)

    def turn(self) -> None:
        """Process events, and open connections that were cut off again."""
        for number, events in self._epoll.poll(WAIT_S):
            made, was_established = self._open[number]
            if events & _CUT:
                del self._open[number]
                made.close()
                self.established -= was_established
                self.cut += 1
                self._add()
            elif not was_established:
                self._open[number] = made, True
                self.established += 1
        self.peak = max(self.peak, self.established)


def main() -> int:
    _, count, addresses = sys.argv
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = min(hard, int(count) + SPARE_FILES)
    resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    targets = [
        (host, int(port)) for host, _, port in (a.rpartition(":") for a in json.loads(addresses))
    ]
    attack = HalfOpen(min(int(count), wanted - SPARE_FILES), targets)
    print(json.dumps({"opening": min(int(count), wanted - SPARE_FILES)}), flush=True)
    ended = select.poll()
    ended.register(sys.stdin.fileno(), select.POLLIN | select.POLLHUP)
    while not ended.poll(0):
        attack.turn()
    told = {"established": attack.established, "peak": attack.peak, "cut": attack.cut}
    print(json.dumps(told), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
