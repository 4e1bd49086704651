"""The runs on networks as clusters have them: three nodes, a bridge, and the MTU of Ethernet.

Each node is a network namespace; daemons have their default settings.
"""

from collections.abc import Iterator, Mapping
from typing import Final

import attrs

from groupcomm_tools.bench.plan import Plan
from tests.verification.campaigns.peers.corosync import Corosync
from tests.verification.campaigns.peers.ours import OnNetwork
from tests.verification.campaigns.peers.peer import Peer
from tests.verification.campaigns.peers.spread import Spread, SpreadInC

ETHERNET, JUMBO = 1_500, 9_000
"""Bytes that a packet of the network has at most."""

SIZES: Final = (100, 1_000, 8_000)
LARGE: Final = (100_000, 4_000_000)
"""Sizes that ours is measured with alone, as others do not carry them."""

IN_C: Final = "Spread, programs in C"
QUEUE_RATES: Final[Mapping[int, tuple[int, ...]]] = {
    100: (80_000, 400_000, 720_000),
    1_000: (12_000, 60_000, 100_000),
    8_000: (1_600, 8_000, 14_000),
}
"""Messages a second by their size: about 10, 50 and 90 % of the most that ours carries."""


def peers(name: str, mtu: int) -> dict[str, Peer]:
    """Return the systems on a network, by their names; `name` is that of ours."""
    found: dict[str, Peer] = {
        name: OnNetwork(name, mtu),
        IN_C: SpreadInC(mtu),
        "Spread": Spread(mtu),
        "Corosync": Corosync(mtu=mtu),
        "Corosync, encrypted": Corosync(mtu=mtu, crypto=True),
    }
    if mtu != ETHERNET:
        del found["Spread"], found["Corosync, encrypted"]
    return found


def at_rates(plan: Plan) -> Iterator[tuple[str, Plan]]:
    """Yield the loads whose delays are measured, by their names."""
    for size, rates in QUEUE_RATES.items():
        for rate in rates:
            name = f"{size:,} bytes, {rate:,} a second"
            yield name, attrs.evolve(plan, size=size, rate=float(rate))
