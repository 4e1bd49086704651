"""The ways from one peer to others, and what goes wrong there; in virtual time, and in real.

A minimum delay is for each datagram by itself: what is sent after it was made shorter overtakes.
All else is as on the paths between daemons (`network`, `path_faults`).
"""

from collections.abc import Callable

import attrs

from groupcomm.algorithms.direct.datagrams import Address
from groupcomm.algorithms.direct.events import Send
from groupcomm.algorithms.process import Name
from groupcomm.sim.faults import Faults
from groupcomm.sim.loop import Loop, microseconds, random_for
from groupcomm.sim.network import Path, Put
from groupcomm.sim.path_faults import PathFaults


@attrs.frozen(kw_only=True)
class Usual:
    """What a way is like while nothing goes wrong.

    Attributes:
        delay_s: one way.
        jitter_s: up to so much more, drawn anew for each burst.
        loss: the chance that a datagram is lost.
    """

    delay_s: float = 0.0
    jitter_s: float = 0.0
    loss: float = 0.0


class Way:
    """The way to one address, at whose end `deliver` takes what has come.

    Attributes:
        minimum_us: how late everything is made before it sets out.
    """

    def __init__(
        self, loop: Loop, seed: int, ends: str, deliver: Callable[[bytes], None], usual: Usual
    ) -> None:
        self._loop = loop
        self._rng = random_for(seed, f"way {ends}")
        self._deliver = deliver
        self.put: Put = self._put
        delay, jitter = microseconds(usual.delay_s), microseconds(usual.jitter_s)
        self._path = Path(loop, self._rng, delay, jitter, self, usual.loss)
        self._is_cut = False
        self.minimum_us = 0

    def send(self, datagram: bytes) -> None:
        """Put a datagram on its way."""
        if self.minimum_us:
            self._loop.at(self._loop.now + self.minimum_us, self._set_out, datagram)
        else:
            self._set_out(datagram)

    def _set_out(self, datagram: bytes) -> None:
        self._path.send(datagram)

    def _put(self, arrival: int, datagram: bytes) -> None:
        if arrival <= self._loop.now:
            self._deliver(datagram)
        else:
            self._loop.at(arrival, self._deliver, datagram)

    def suffer(self, faults: Faults | None) -> None:
        """Let faults act from now on; None ends them."""
        if self._path.faults is not None:
            self._path.faults.flush()
            self._path.faults = None
        if faults is not None:
            self._path.faults = PathFaults(self._loop, self._rng, faults, self._path.transfer)

    def cut(self) -> None:
        """From now on nothing passes, until `mend`."""
        if not self._is_cut:
            self._is_cut = True
            self._path.cut(1)

    def mend(self) -> None:
        """Everything passes again."""
        if self._is_cut:
            self._is_cut = False
            self._path.cut(-1)

    def hold(self, seconds: float) -> None:
        """Hold everything for so long, then let it go in order."""
        if self._path.faults is None:
            self.suffer(Faults())
        assert self._path.faults is not None
        self._path.faults.jam(self._loop.now + microseconds(seconds))


class Ways:
    """All ways from one peer; to those whose name is not known yet, by their address.

    Args:
        loop: the time.
        seed: of all chances.
        me: whose they are.
        deliver: takes (address, datagram) at the end of a way.
        usual: what all of them are like.
    """

    def __init__(
        self,
        loop: Loop,
        seed: int,
        me: Name,
        deliver: Callable[[Address, bytes], None],
        usual: Usual | None = None,
    ) -> None:
        self._loop = loop
        self._seed = seed
        self._me = me
        self._deliver = deliver
        self._usual = usual or Usual()
        self._found: dict[str, Way] = {}
        self._addresses: dict[str, Address] = {}

    def send(self, action: Send) -> None:
        """Put a datagram on its way."""
        end = action.to or action.address
        self._addresses[end] = action.address
        self.to(end).send(action.data)

    def to(self, end: str) -> Way:
        """The way to a peer of this name, or to an address."""
        if end not in self._found:
            ends = f"{self._me} {end}"
            arrive = self._arrive(end)
            self._found[end] = Way(self._loop, self._seed, ends, arrive, self._usual)
        return self._found[end]

    def _arrive(self, end: str) -> Callable[[bytes], None]:
        return lambda datagram: self._deliver(self._addresses[end], datagram)

    def set_minimum_delay(self, name: Name, seconds: float) -> None:
        """From now on make all datagrams to a peer so late."""
        self.to(name).minimum_us = microseconds(seconds)
