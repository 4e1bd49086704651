"""Another user of each host: admitted nowhere, with the host's own address, and without a key."""

from collections.abc import Callable, Sequence
from random import Random
from typing import Final

from groupcomm.config.view import Incarnation
from groupcomm.security.keys import KeyRing
from groupcomm.security.layout import HEAD_BYTES, SUITE_IDENTITIES, Channel, fixed_heads
from groupcomm.security.sealing import Sealer
from groupcomm.wire.hello import Hello
from tests.verification.simulation.attackers.attack import AttackContext, under_a_head
from tests.verification.simulation.attackers.keyholder import RingKeySealer
from tests.verification.simulation.attackers.programs import RogueProgramsAttack
from tests.verification.simulation.host import VerificationHost

AT_ONCE: Final = 60
SHORT: Final = (0, 1, HEAD_BYTES - 1, HEAD_BYTES, HEAD_BYTES + 5, HEAD_BYTES + 21)


class LocalUser(RogueProgramsAttack):
    """A local user that connects without rights, and sends invented datagrams."""

    PRINCIPAL = ""
    NAMES: Sequence[str] = ()

    def __init__(self, stage: AttackContext, rng: Random) -> None:
        super().__init__(stage, rng)
        self._keys = KeyRing({1: rng.randbytes(32)}, 1)

    def act(self) -> None:
        """Connect, talk, and send a burst of datagrams."""
        super().act()
        make: Callable[[VerificationHost], bytes] = self._rng.choice(
            (self._junk, self._headed, self._headed, self._sealed)
        )
        target = self._rng.choice(self._stage.hosts)
        for _ in range(self._rng.randint(1, AT_ONCE)):
            self._inject(target, make(target))

    def _somebody(self) -> tuple[int, Incarnation]:
        return self._rng.choice(list(self._numbers())), self._drawn_start()

    def _junk(self, _: VerificationHost) -> bytes:
        return self._rng.randbytes(self._rng.choice((*SHORT, self._rng.randrange(2000))))

    def _headed(self, _: VerificationHost) -> bytes:
        """Return a head that is right as far as outsiders can know it, and no seal."""
        rng = self._rng
        suite = rng.choice((0, 1, 2, self._stage.settings.suite))
        number, start = self._somebody()
        heads = fixed_heads(suite, rng.choice((0, 1, 1, 2)), self._stage.cluster, number, start)
        counter = rng.choice((0, 1, rng.getrandbits(20), 2**63, 2**64 - 1))
        return under_a_head(rng.choice(heads), counter, rng.randbytes(rng.randrange(400)))

    def _sealed(self, target: VerificationHost) -> bytes:
        """Return a datagram with a seal by a key of the attacker."""
        kind = RingKeySealer if self._stage.settings.suite == SUITE_IDENTITIES else Sealer
        sealer = kind(self._keys, self._stage.cluster, *self._somebody())
        said = Hello(start=self._drawn_start(), asks=1).encode()
        return sealer.seal(said, self._rng.choice(list(Channel)))
