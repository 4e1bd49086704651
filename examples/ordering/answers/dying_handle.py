"""4.3 A handle that is passed on while its node dies, and one that is passed on too late."""

from collections.abc import Iterable

from examples.ordering.answers.answer import answer
from groupcomm_lessons.algorithms.bus1.multicast import What
from groupcomm_lessons.algorithms.bus1.nodes import Destroyed, Destruction, Node, Peer, Received


def scene() -> tuple[Peer, Peer, Node, Node]:
    """Return a holder of another peer's node, and a stranger to it with a node of its own."""
    owner, holder, stranger = Peer(0), Peer(1), Peer(2, clock=20)
    node, address = owner.node(), stranger.node()
    for handle in (node, address):
        handle.register(holder)
        holder.handles.add(handle)
    return holder, stranger, node, address


def until(destruction: Destruction, what: What) -> None:
    """Do the steps of a sending up to this one."""
    while destruction.ready[0].what is not what:
        destruction.do(destruction.ready[0])


def told(peer: Peer) -> str:
    """Return the items that a peer receives, in order."""
    words = []
    while (event := peer.pop()) is not None:
        match event:
            case Received(handles=(None,)):
                words.append("a message with an invalid handle")
            case Received():
                words.append("a message with the handle")
            case Destroyed():
                words.append("the end of the node")
    return ", then ".join(words)


@answer("4.3", "A handle that is passed on while its node dies, and one that is passed on too late")
def tell() -> Iterable[str]:
    for reached, when in ((What.TICK, "before"), (What.SYNCHRONISE, "after")):
        holder, stranger, node, address = scene()
        destruction = node.owner.destroy(node)
        until(destruction, reached)
        holder.send(b"take this", [address], [node]).finish()
        destruction.finish()
        yield f"passed on {when} the destruction's tick, the stranger receives {told(stranger)}"
