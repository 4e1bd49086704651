"""2.3 How the stamps of Schiper, Eggli and Sandoz grow with the group."""

from collections.abc import Iterable
from random import Random

from examples.ordering.answers.answer import answer
from groupcomm_lessons.algorithms.network import Network
from groupcomm_lessons.algorithms.schiper_eggli_sandoz import SchiperEggliSandoz


def last_stamp_bytes(processes: int, unicasts: int, *, partners: int) -> int:
    """Return the bytes of the last stamp of many unicasts, each to one of some partners."""
    names = [f"p{number:02}" for number in range(processes)]
    network, rng = Network(SchiperEggliSandoz(name, names) for name in names), Random(1)
    stamp = 0
    for _ in range(unicasts):
        at, before = rng.randrange(processes), network.stamp_bytes
        network.send(names[at], b"", [names[(at + rng.randint(1, partners)) % processes]])
        stamp = network.stamp_bytes - before
        network.bring_all()
    return stamp


@answer("2.3", "How the stamps of Schiper, Eggli and Sandoz grow with the group")
def tell() -> Iterable[str]:
    for processes in (4, 8, 16):
        everybody = last_stamp_bytes(processes, 300, partners=processes - 1)
        neighbour = last_stamp_bytes(processes, 300, partners=1)
        full = 12 * processes  # name and count of each: a vector
        yield (
            f"{processes} processes: {everybody} bytes, {neighbour} if each sends to its neighbour"
            f" only; {everybody / full:.1f} vectors of {full}"
        )
