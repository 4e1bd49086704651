"""Random schedules for answers: the senders and the next packets; the same for each seed."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from random import Random
from typing import NamedTuple

from groupcomm_lessons.algorithms.network import Network
from groupcomm_lessons.algorithms.process import Name, Process

Make = Callable[[Name, Sequence[Name]], Process]

SEND_SHARE = 0.35


class Move(NamedTuple):
    """A step of a schedule.

    Attributes:
        who: the process that sends or receives.
        message: the message that comes; "" if `who` sends.
    """

    who: Name
    message: str = ""

    def __str__(self) -> str:
        return f"{self.message} comes to {self.who}" if self.message else f"{self.who} sends"


def play(make: Make, names: str, moves: Iterable[Move]) -> Network:
    """Play a schedule, skipping impossible steps; then let all packets come, the oldest first."""
    network = Network(make(name, names) for name in names)
    for who, message in moves:
        if not message:
            network.send(who, b"")
        for packet in network.ready:
            if message and (packet.destination, str(packet.message)) == (who, message):
                network.bring(packet)
                break
    _rest(network)
    return network


def play_at_random(make: Make, names: str, seed: int, length: int = 12) -> Network:
    """Play random steps; then let all packets come, in random order."""
    rng, network = Random(seed), Network(make(name, names) for name in names)
    for _ in range(length):
        if not network.ready or rng.random() < SEND_SHARE:
            network.send(rng.choice(names), b"")
        else:
            network.bring(rng.choice(network.ready))
    while network.ready:
        network.bring(rng.choice(network.ready))
    return network


def schedules(names: str, seeds: int, length: int = 12) -> Iterator[list[Move]]:
    """Yield random schedules for algorithms that broadcast and have no packets but messages."""
    for seed in range(seeds):
        rng, count, moves = Random(seed), dict.fromkeys(names, 0), list[Move]()
        for _ in range(length):
            who, sender = rng.choice(names), rng.choice(names)
            if rng.random() < SEND_SHARE or not count[sender]:
                count[who] += 1
                moves.append(Move(who))
            else:
                moves.append(Move(who, f"{sender}{rng.randint(1, count[sender])}"))
        yield moves


def _rest(network: Network) -> None:
    while network.ready:
        network.bring(network.ready[0])
