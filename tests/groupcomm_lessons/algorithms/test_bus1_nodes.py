"""bus1's nodes: destruction, handles and announcements, by rule and beside a model."""

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule

from groupcomm.errors import LocalProtocolError
from groupcomm_lessons.algorithms.bus1.multicast import Blocking, Multicast, State, What
from groupcomm_lessons.algorithms.bus1.nodes import (
    Destroyed,
    Ended,
    Fate,
    Node,
    Peer,
    Received,
    Sending,
    Sent,
)


def until(multicast: Multicast[Sent | Ended], what: What) -> None:
    """Do its steps up to this one."""
    while multicast.ready[0].what is not what:
        multicast.do(multicast.ready[0])


def give(node: Node, *peers: Peer) -> None:
    """Have its owner give handles of a node to others, through a node of theirs."""
    for peer in peers:
        address = peer.node()
        address.register(node.owner)
        node.owner.handles.add(address)
        node.owner.send(b"handle", [address], [node]).finish()
        assert peer.pop() == Received(b"handle", (address,), (node,))


def three() -> tuple[Peer, Peer, Peer, Node]:
    """An owner, two that hold a handle of its node, and the node."""
    owner, one, other = Peer(0), Peer(1, clock=3), Peer(2, clock=6)
    node = owner.node()
    give(node, one, other)
    return owner, one, other, node


def addressed(owner: Peer, sender: Peer) -> Node:
    """A node that the sender, too, may send to."""
    node = owner.node()
    give(node, sender)
    return node


def test_a_message_ordered_before_the_destruction_is_delivered() -> None:
    owner, one, _, node = three()
    message = one.send(b"m", [node])
    until(message, What.SYNCHRONISE)
    owner.destroy(node).finish()
    message.finish()
    assert owner.pop() == Received(b"m", (node,), ())
    assert owner.pop() == Destroyed(node)


def test_a_message_ordered_after_the_destruction_is_refused() -> None:
    owner, one, _, node = three()
    message = one.send(b"m", [node])
    until(message, What.TICK)
    destruction = owner.destroy(node)
    until(destruction, What.SYNCHRONISE)
    message.finish()
    destruction.finish()
    assert message.stamp is not None
    assert node.destroyed is not None
    # Both transactions read the same clocks, so the one with the higher id comes later.
    assert message.stamp > node.destroyed
    assert owner.pop() == Destroyed(node)
    assert owner.pop() is None


def test_a_message_is_refused_by_the_dead_only() -> None:
    owner, one, other, node = three()
    living = addressed(other, one)
    owner.destroy(node).finish()
    one.send(b"m", [node, living]).finish()
    assert owner.pop() == Destroyed(node)
    assert owner.pop() is None
    assert other.pop() == Destroyed(node)
    assert other.pop() == Received(b"m", (living,), ())


def test_the_destruction_is_announced_to_all_holders_in_order() -> None:
    owner, one, other, node = three()
    before, after = addressed(one, owner), addressed(one, other)
    owner.send(b"before", [before]).finish()
    owner.destroy(node).finish()
    other.send(b"after", [after]).finish()
    assert one.pop() == Received(b"before", (before,), ())
    assert one.pop() == Destroyed(node)
    assert one.pop() == Received(b"after", (after,), ())
    assert other.pop() == owner.pop() == Destroyed(node)
    for peer in (owner, one, other):
        with pytest.raises(LocalProtocolError, match="has no handle of 1 of these nodes"):
            peer.send(b"m", [node])


def test_a_handle_passed_while_it_dies_is_installed_and_its_announcement_follows() -> None:
    """The receiver was no holder when the destruction began."""
    owner, one, _, node = three()
    stranger = Peer(3, clock=20)
    address = addressed(stranger, one)
    destruction = owner.destroy(node)
    until(destruction, What.TICK)
    one.send(b"take this", [address], [node]).finish()
    assert stranger.pop() == Received(b"take this", (address,), (node,))
    assert node in stranger.handles
    destruction.finish()
    assert stranger.pop() == Destroyed(node)
    assert node not in stranger.handles


def test_a_handle_passed_after_the_destruction_is_invalid() -> None:
    """Though its sender has not heard of it, and the receivers' clocks are far behind."""
    owner, one, _, node = three()
    stranger = Peer(3)
    address = addressed(stranger, one)
    owner.queue.synchronise(50)
    destruction = owner.destroy(node)
    until(destruction, What.SYNCHRONISE)
    assert node.destroyed is not None
    message = one.send(b"take this", [address], [node])
    message.finish()
    assert message.stamp is not None
    assert message.stamp > node.destroyed
    assert stranger.pop() == Received(b"take this", (address,), (None,))
    destruction.finish()
    assert stranger.pop() is None


def test_a_node_is_destroyed_once_by_its_owner() -> None:
    owner, one, _, node = three()
    with pytest.raises(LocalProtocolError, match="peer 1 cannot destroy a node of peer 0"):
        one.destroy(node)
    owner.destroy(node)
    with pytest.raises(LocalProtocolError, match="is being destroyed, or was"):
        owner.destroy(node)


def test_a_message_to_a_node_needs_its_block() -> None:
    _, one, _, node = three()
    with pytest.raises(LocalProtocolError, match="messages to nodes need blocks"):
        one.send(b"m", [node], blocking=Blocking.NONE)


def test_the_sender_learns_the_fate_of_its_message_at_each_node() -> None:
    owner, one, other, node = three()
    living = addressed(other, one)
    sending = one.send(b"m", [node, living])
    assert set(sending.fates.values()) == {Fate.PENDING}
    owner.destroy(node).finish()
    sending.finish()
    assert sending.fates == {node: Fate.REFUSED, living: Fate.DELIVERED}


def test_the_fate_at_a_dying_node_is_certain_when_its_owner_is_synchronised() -> None:
    """The order decides, not who began: the destruction has begun, and comes later."""
    owner, one, _, node = three()
    destruction = owner.destroy(node)
    until(destruction, What.TICK)
    sending = one.send(b"m", [node])
    until(sending, What.SYNCHRONISE)
    assert sending.fates == {node: Fate.PENDING}
    sending.do(sending.ready[0])
    assert sending.fates == {node: Fate.DELIVERED}
    destruction.finish()
    assert sending.fates == {node: Fate.DELIVERED}
    sending.finish()
    assert owner.pop() == Received(b"m", (node,), ())
    assert owner.pop() == Destroyed(node)


def test_a_destruction_that_ticks_before_the_owner_is_synchronised_may_come_first() -> None:
    owner, one, _, node = three()
    sending = one.send(b"m", [node])
    until(sending, What.TICK)
    destruction = owner.destroy(node)
    until(destruction, What.SYNCHRONISE)
    sending.do(sending.ready[0])  # the tick has the same value, and a higher id
    assert sending.fates == {node: Fate.PENDING}
    sending.finish()
    assert sending.fates == {node: Fate.REFUSED}
    destruction.finish()
    assert owner.pop() == Destroyed(node)
    assert owner.pop() is None


def test_a_sending_that_is_given_up_has_no_receiver() -> None:
    owner, one, other, node = three()
    sending = one.send(b"m", [node])
    until(sending, What.SYNCHRONISE)
    sending.abort()
    assert sending.fates == {node: Fate.ABORTED}
    assert sending.ready == []
    other.send(b"next", [node]).finish()
    assert owner.pop() == Received(b"next", (node,), ())


def test_a_destruction_can_be_given_up_until_it_has_its_stamp() -> None:
    owner, one, _, node = three()
    destruction = owner.destroy(node)
    until(destruction, What.TICK)
    destruction.abort()
    one.send(b"m", [node]).finish()
    assert owner.pop() == Received(b"m", (node,), ())
    with owner.destroy(node) as again:
        until(again, What.SYNCHRONISE)
        with pytest.raises(LocalProtocolError, match="destroyed from its stamp on; finish it"):
            again.abort()
    assert again.state is State.FINISHED
    assert one.pop() == Destroyed(node)


class NodesMachine(RuleBasedStateMachine):
    """Peers that pass handles and destroy nodes, stopped anywhere.

    The model has one global lock: it lets the same messages through one by one, in the order of
    their stamps, and must give every peer the same events.
    """

    def __init__(self) -> None:
        super().__init__()
        self.peers = [Peer(at, clock=3 * at) for at in range(3)]
        self.nodes = [peer.node() for peer in self.peers]  # they last; all peers know them
        for peer in self.peers:
            peer.handles.update(self.nodes)
        self.mortal: list[Node] = []
        self.sendings: list[Multicast[Sent | Ended]] = []
        self.events: dict[Peer, list[object]] = {peer: [] for peer in self.peers}

    @rule(peer=st.integers(0, 2))
    def make(self, peer: int) -> None:
        self.mortal.append(self.peers[peer].node())

    @precondition(lambda self: self.mortal)
    @rule(data=st.data(), estimate=st.booleans())
    def send(self, data: st.DataObject, *, estimate: bool) -> None:
        node = data.draw(st.sampled_from(self.mortal))
        holders = [peer for peer in self.peers if node in peer.handles]
        if not holders:
            return
        to = list(data.draw(st.sets(st.integers(0, 2), min_size=1)))
        nodes = [self.nodes[at] for at in sorted(to)]
        if data.draw(st.booleans()):
            nodes.append(node)
        text = str(len(self.sendings)).encode()
        blocking = Blocking.AT_ESTIMATE if estimate else Blocking.AT_CLOCK
        sender = data.draw(st.sampled_from(holders))
        self.sendings.append(sender.send(text, nodes, [node], blocking))

    @precondition(lambda self: any(node.dying is None for node in self.mortal))
    @rule(data=st.data())
    def destroy(self, data: st.DataObject) -> None:
        node = data.draw(st.sampled_from([node for node in self.mortal if node.dying is None]))
        self.sendings.append(node.owner.destroy(node))

    @precondition(lambda self: any(not each.finished for each in self.sendings))
    @rule(data=st.data(), steps=st.integers(1, 8))
    def go_on(self, data: st.DataObject, steps: int) -> None:
        under_way = [each for each in self.sendings if not each.finished]
        multicast = data.draw(st.sampled_from(under_way))
        for _ in range(steps):
            if ready := multicast.ready:
                multicast.do(ready[data.draw(st.integers(0, 3)) % len(ready)])

    @precondition(lambda self: any(each.state is State.UNDER_WAY for each in self.sendings))
    @rule(data=st.data())
    def abort(self, data: st.DataObject) -> None:
        some = [each for each in self.sendings if each.state is State.UNDER_WAY]
        data.draw(st.sampled_from(some)).abort()

    @rule(peer=st.integers(0, 2))
    def take(self, peer: int) -> None:
        taken = self.peers[peer].pop()
        if taken is not None:
            self.events[self.peers[peer]].append(taken)

    def teardown(self) -> None:
        for each in self.sendings:
            each.finish()
        for peer in self.peers:
            self.events[peer] += iter(peer.pop, None)
        assert self.events == self.model()

    def model(self) -> dict[Peer, list[object]]:
        """The results of a bus with one global lock."""
        events: dict[Peer, list[object]] = {peer: [] for peer in self.peers}
        holders = {node: {node.owner} for node in self.mortal}
        ended: set[Node] = set()
        finished = [each for each in self.sendings if not each.aborted]
        for each in sorted(finished, key=lambda each: each.stamp or (0, 0)):
            item = each.item
            if isinstance(item, Ended):
                ended.add(item.node)
                for peer in holders[item.node]:
                    events[peer].append(Destroyed(item.node))
                continue
            handles = tuple(None if node in ended else node for node in item.handles)
            for peer in {node.owner for node in item.to}:
                to = tuple(node for node in item.to if node.owner is peer and node not in ended)
                assert isinstance(each, Sending)
                assert [each.fates[node] is Fate.DELIVERED for node in item.to] == [
                    node not in ended for node in item.to
                ]
                if to:
                    events[peer].append(Received(item.data, to, handles))
                    for node in item.handles:
                        holders[node].add(peer)
        return events


TestNodes = NodesMachine.TestCase
