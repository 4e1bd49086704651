"""The gate: what this daemon seals, and what it opens.

Only daemons of the cluster get in. Whether a start of a daemon is over, and whether a packet is of
the present view, is for others to say.
"""

from groupcomm.config.core import CoreConfig
from groupcomm.config.start import Start
from groupcomm.names import cluster_number, daemon_number
from groupcomm.security.keys import KeyRing
from groupcomm.security.sealing import Opener, Sealer


class Gate:
    """Sealing and opening for one start of one daemon.

    Attributes:
        open_untrusted: of the Opener, see there.
        forget: a start of a daemon is over; its datagrams may still come, and cost a new key then.
    """

    __slots__ = ("_numbers", "_sealer", "forget", "open_untrusted")

    def __init__(self, config: CoreConfig, start: Start, keys: KeyRing | None) -> None:
        own, cluster = start.daemon, cluster_number(config.cluster)
        self._sealer = Sealer(
            config.suite, keys, cluster, own.number, own.incarnation, config.starts.datagram
        )
        opener = Opener(config.suite, keys, cluster, (own.number, own.incarnation))
        self.open_untrusted = opener.open_untrusted
        self.forget = opener.forget
        self._numbers = {name: daemon_number(name) for name in config.daemons}

    def seal(self, destination: str | None, packet: bytes) -> bytes:
        """A datagram for a daemon, by its name, or for all that hear it."""
        return self._sealer.seal(packet, None if destination is None else self._number(destination))

    def _number(self, name: str) -> int:
        number = self._numbers.get(name)
        if number is None:
            number = self._numbers[name] = daemon_number(name)
        return number
