"""Three programs at three daemons agree on one order, although a fifth of all datagrams is lost."""

from groupcomm.events import Message, Ordered
from groupcomm.level import ServiceLevel
from groupcomm.sim.cluster.cluster import Cluster
from groupcomm.sim.faults.faults import Faults
from groupcomm.sim.settings import plain_settings

GROUP = "prices"


def main() -> None:
    cluster = Cluster(plain_settings(daemons=3, seed=1, faults=Faults(loss=0.2)))
    traders = [cluster.connect(user, daemon) for daemon, user in enumerate(("ann", "bob", "cem"))]
    cluster.run(0.5)  # virtual seconds, which take no time
    for trader in traders:
        trader.join(GROUP)
    cluster.run(0.5)

    for trader in traders:
        for price in (10, 20):
            data = f"{trader.user} bids {price}".encode()
            trader.multicast([GROUP], data, level=ServiceLevel.AGREED, ordered=price == 20)
    cluster.run(1.0)

    for trader in traders:
        print(f"{trader.user}, at daemon {cluster.view.daemons[trader.daemon].name}, received:")
        for event in trader.events:
            if isinstance(event, Message):
                print(f"    {event.data.decode()}")
            elif isinstance(event, Ordered):
                print(f"    (nothing can come before my message {event.number} any more)")


if __name__ == "__main__":
    main()
