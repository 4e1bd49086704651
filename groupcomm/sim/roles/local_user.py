"""Another user of each host: he has no key and no right, and sends from the daemon's own address.

He cannot hear the network, but knows what is no secret: names, the cluster, the ports. What he can
connect to knows nobody who he is, so he is nobody there, whatever he says.
"""

from collections.abc import Callable, Sequence
from random import Random
from typing import Final

from groupcomm.config.view import Incarnation
from groupcomm.security.keys import KeyRing
from groupcomm.security.layout import HEAD_BYTES, SUITE_IDENTITIES, Channel, fixed_heads
from groupcomm.security.sealing import Sealer
from groupcomm.sim.host import Host
from groupcomm.sim.roles.attack import Stage, under_a_head
from groupcomm.sim.roles.keyholder import RingKeySealer
from groupcomm.sim.roles.programs import Programs
from groupcomm.wire.hello import Hello

AT_ONCE: Final = 60
SHORT: Final = (0, 1, HEAD_BYTES - 1, HEAD_BYTES, HEAD_BYTES + 5, HEAD_BYTES + 21)


class LocalUser(Programs):
    """Connects as nobody, and sends datagrams that he makes up."""

    PRINCIPAL = ""
    NAMES: Sequence[str] = ()

    def __init__(self, stage: Stage, rng: Random) -> None:
        super().__init__(stage, rng)
        self._keys = KeyRing({1: rng.randbytes(32)}, 1)

    def act(self) -> None:
        """Connect, talk, and send a burst of datagrams."""
        super().act()
        make: Callable[[Host], bytes] = self._rng.choice(
            (self._junk, self._headed, self._headed, self._sealed)
        )
        target = self._rng.choice(self._stage.hosts)
        for _ in range(self._rng.randint(1, AT_ONCE)):
            self._inject(target, make(target))

    def _somebody(self) -> tuple[int, Incarnation]:
        return self._rng.choice(list(self._numbers())), self._drawn_start()

    def _junk(self, _: Host) -> bytes:
        return self._rng.randbytes(self._rng.choice((*SHORT, self._rng.randrange(2000))))

    def _headed(self, _: Host) -> bytes:
        """A right head as far as one can know it, and no seal."""
        rng = self._rng
        suite = rng.choice((0, 1, 2, self._stage.settings.suite))
        number, start = self._somebody()
        heads = fixed_heads(suite, rng.choice((0, 1, 1, 2)), self._stage.cluster, number, start)
        counter = rng.choice((0, 1, rng.getrandbits(20), 2**63, 2**64 - 1))
        return under_a_head(rng.choice(heads), counter, rng.randbytes(rng.randrange(400)))

    def _sealed(self, target: Host) -> bytes:
        """What has a seal, by a key of his own."""
        kind = RingKeySealer if self._stage.settings.suite == SUITE_IDENTITIES else Sealer
        sealer = kind(self._keys, self._stage.cluster, *self._somebody())
        said = Hello(start=self._drawn_start(), asks=1).encode()
        return sealer.seal(said, self._rng.choice(list(Channel)))
