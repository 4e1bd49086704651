"""Path MTU: the largest datagrams that the system says the paths to other daemons carry.

A connected socket knows the MTU of its route: that of the interface, or less once a router has
reported it (RFC 1191, RFC 8201; ip(7), IP_MTU). It sends nothing. Loopback has 65,536, and networks
with jumbo frames 9,000, without any setting.
"""

import socket
from collections.abc import Collection
from typing import Final

_IP_MTU: Final = 14
_IPV6_MTU: Final = 24
_HEADS: Final = {socket.AF_INET: 28, socket.AF_INET6: 48}
"""The bytes of the heads of IP and UDP."""

PER_CALL: Final = 32
"""Paths measured by one call, which takes some microseconds for each."""


class PathMtu:
    """What the paths to the daemons of a site carry, measured a few at a time."""

    def __init__(self) -> None:
        self._found: dict[tuple[str, int], int] = {}  # the latest measured last

    def measure(self, targets: Collection[tuple[str, int]]) -> int | None:
        """Measure some of the paths, those first that were not measured for longest.

        Returns:
            The bytes of the largest datagram that all of them carry, as far as is known; None if
            nothing is.
        """
        known = self._found
        self._found = {at: known[at] for at in known if at in targets}
        new = [at for at in targets if at not in known]
        for target in [*new, *self._found][:PER_CALL]:
            self._found.pop(target, None)
            found = datagram_bytes(target)
            if found is not None:
                self._found[target] = found
        return min(self._found.values(), default=None)


def datagram_bytes(target: tuple[str, int]) -> int | None:
    """Return the bytes of the largest datagram that a path carries in one piece, as is known here.

    None: there is no way to the address, or the system does not say.
    """
    family = socket.AF_INET6 if ":" in target[0] else socket.AF_INET
    level, option = (
        (socket.IPPROTO_IPV6, _IPV6_MTU)
        if family == socket.AF_INET6
        else (socket.IPPROTO_IP, _IP_MTU)
    )
    try:
        with socket.socket(family, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK) as probe:
            probe.connect(target)
            return probe.getsockopt(level, option) - _HEADS[family]
    except OSError:
        return None
