"""Objects that daemons no longer need are freed at once: the cycle collector finds nothing."""

import gc
from collections import Counter

from groupcomm.level import LEVELS
from groupcomm.sim.cluster.cluster import Cluster
from groupcomm.sim.settings import plain_settings


def test_delivered_packets_leave_no_cycles() -> None:
    cluster = Cluster(plain_settings(daemons=3))
    clients = [cluster.connect(user, daemon) for daemon, user in enumerate("abc")]
    cluster.run(0.5)
    for client in clients:
        client.join("g")
        client.on_event = lambda event: None
    cluster.run(0.5)
    gc.collect()
    gc.disable()
    gc.set_debug(gc.DEBUG_SAVEALL)
    try:
        for client in clients:
            for level in LEVELS:
                client.multicast(["g"], bytes(500), level=level)
                cluster.run(0.05)
        cluster.run(2.0)
        gc.collect()
        found = Counter(type(each).__name__ for each in gc.garbage)
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.enable()
    assert not found & Counter({"Bundle": 1, "DataPacket": 1, "UnreliablePacket": 1}), found
