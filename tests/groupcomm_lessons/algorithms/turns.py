"""Schedules in which processes take turns, so that no two messages are concurrent."""

from collections.abc import Sequence

from groupcomm_lessons.algorithms.history import History
from groupcomm_lessons.algorithms.network import Network
from groupcomm_lessons.algorithms.process import Message, Packet
from tests.groupcomm_lessons.algorithms.schedules import NAMES, Make


def play_in_turn(make: Make, steps: Sequence[tuple[int, int, int]]) -> Network:
    """Play as `play` does, for three; a sender that lacks a sent message does not send."""
    names = NAMES[:3]
    network = Network(make(name, names) for name in names)
    for what, which, _ in steps:
        sender = names[which % 3]
        up_to_date = len(network.history.delivered.get(sender, ())) == len(network.history.sent)
        if not what and up_to_date:
            network.send(sender, b"")
        elif ready := network.ready:
            network.bring(ready[which % len(ready)])
    for _, which, _ in steps:
        if ready := network.ready:
            network.bring(ready[which % len(ready)])
    network.bring_all()
    return network


def are_concurrent(history: History, one: Message, other: Message) -> bool:
    """Return whether neither may have caused the other; from definitions, not from stamps."""
    apart = one not in history.causes(other) and other not in history.causes(one)
    return apart and one != other


def concurrent_pairs(history: History) -> list[tuple[Message, Message]]:
    """All pairs of messages that are concurrent, each pair once."""
    return [
        (one, other)
        for at, one in enumerate(history.sent)
        for other in history.sent[:at]
        if are_concurrent(history, one, other)
    ]


def beside_a_buffered_message(make: Make) -> tuple[Network, Packet]:
    """Play: at s a message of q waits for p's; a concurrent one of r is in flight to s."""
    network = Network(make(name, "pqrs") for name in "pqrs")
    network.send("p", b"")
    for packet in network.under_way[:2]:
        network.bring(packet)
    network.send("q", b"")
    network.send("r", b"")
    q_to_s, r_to_s = (
        next(each for each in network.under_way if each[:2] == (name, "s")) for name in "qr"
    )
    network.bring(q_to_s)
    return network, r_to_s
