"""What is cut now, and until when."""

from groupcomm.sim.loop import Loop
from groupcomm.sim.network import Network, Pair


class Cuts:
    """Cuts paths for a while; cuts of the same path add up.

    Args:
        loop: virtual time.
        network: whose paths.
    """

    def __init__(self, loop: Loop, network: Network) -> None:
        self._loop = loop
        self._network = network
        self._cuts: dict[int, tuple[Pair, ...]] = {}
        self._count = 0

    def cut(self, pairs: tuple[Pair, ...], lasts_us: int) -> None:
        """Cut these paths for so long."""
        self._count += 1
        self._cuts[self._count] = pairs
        self._network.cut(pairs)
        self._loop.at(self._loop.now + lasts_us, self._mend, self._count)

    def _mend(self, cut: int) -> None:
        pairs = self._cuts.pop(cut, None)
        if pairs is not None:
            self._network.mend(pairs)

    def end(self) -> None:
        """Mend everything that is cut now."""
        for pairs in self._cuts.values():
            self._network.mend(pairs)
        self._cuts.clear()
