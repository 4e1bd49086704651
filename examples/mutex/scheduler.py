"""Why a central scheduler is not enough: it grants a later request before its own cause.

    python examples/mutex/scheduler.py

Ann asks the scheduler for the press, and then tells Bob that she has asked. Bob asks, too, because
of what she said: her request is a cause of his. But messages to the scheduler may overtake each
other, and the one that was lost and sent again comes last (Lamport 1978, section "Ordering the
events totally"). The network here is simulated; it loses a third of all datagrams.
"""

import sys
from collections.abc import Callable

from groupcomm.events import Event, Message
from groupcomm.level import ServiceLevel
from groupcomm.sim.cluster.clients import SimulatedClient
from groupcomm.sim.cluster.cluster import Cluster
from groupcomm.sim.faults.faults import Faults
from groupcomm.sim.settings import plain_settings

ROUNDS = 200
LEVELS = (ServiceLevel.RELIABLE, ServiceLevel.FIFO, ServiceLevel.CAUSAL, ServiceLevel.AGREED)


def on_message(client: SimulatedClient, react: Callable[[bytes], None]) -> None:
    def on_event(event: Event) -> None:
        if isinstance(event, Message):
            react(event.data)

    client.on_event = on_event


def unfair_grants(level: ServiceLevel, seed: int) -> int:
    """Return the number of rounds, of ROUNDS, in which Bob gets the press before Ann."""
    cluster = Cluster(plain_settings(daemons=3, seed=seed, faults=Faults(loss=0.33)))
    names = ("ann", "bob", "scheduler")
    ann, bob, scheduler = (cluster.connect(name, daemon) for daemon, name in enumerate(names))
    cluster.run(2.0)
    queue: list[bytes] = []
    on_message(scheduler, queue.append)
    on_message(bob, lambda data: send(bob, scheduler, b"bob" + data, level))
    for number in range(ROUNDS):
        send(ann, scheduler, b"ann%d" % number, level)
        send(ann, bob, b"%d" % number, level)
        cluster.run(0.03)
    cluster.run(5.0)
    assert len(queue) == 2 * ROUNDS, "a request was lost"
    return sum(queue.index(b"bob%d" % n) < queue.index(b"ann%d" % n) for n in range(ROUNDS))


def send(
    sender: SimulatedClient, receiver: SimulatedClient, data: bytes, level: ServiceLevel
) -> None:
    sender.multicast([receiver.name], data, level=level)


def main() -> int:
    seed = int(sys.argv[1]) if len(sys.argv) > 1 else 1
    print(f"Ann asks, tells Bob, and Bob asks because of it; {ROUNDS} times.")
    print("  requests are   granted in the wrong order")
    for level in LEVELS:
        print(f"  {level.name:<14} {unfair_grants(level, seed):>3}")
    print("What one request causes may come first, unless messages are CAUSAL or above.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
