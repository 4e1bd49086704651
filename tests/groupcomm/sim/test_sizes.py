"""From one daemon to thirty-two, from one group to a thousand, up to the largest message."""

from random import Random

import attrs
import pytest

from groupcomm.errors import LocalProtocolError
from groupcomm.events import Message
from groupcomm.level import LEVELS, ServiceLevel
from groupcomm.sim.cluster.clients import SimulatedClient
from groupcomm.sim.settings import plain_settings
from groupcomm.wire.messages import MAX_MESSAGE_BYTES
from tests.groupcomm.sim.checked_cluster import CheckedCluster


def messages(client: SimulatedClient) -> list[Message]:
    return [event for event in client.events if isinstance(event, Message)]


@pytest.mark.parametrize("daemons", [1, 2, 3, 5, 9, pytest.param(32, marks=pytest.mark.long)])
def test_clusters_of_every_size_agree(daemons: int) -> None:
    checked = CheckedCluster(plain_settings(daemons=daemons))
    members = checked.connect(daemons)
    checked.join("g", members)
    rng = Random(daemons)
    for count in range(18):
        rng.choice(members).multicast(["g"], b"data", level=LEVELS[count % 6])
        checked.cluster.run(0.03)
    checked.finish()
    agreed = [
        [event.position for event in messages(member) if event.level >= ServiceLevel.AGREED]
        for member in members
    ]
    assert agreed == [agreed[0]] * daemons
    assert len(agreed[0]) == 6


@pytest.mark.long
def test_a_thousand_groups_and_a_thousand_members() -> None:
    checked = CheckedCluster(plain_settings(daemons=5))
    members = checked.connect(1000)
    for number, member in enumerate(members):
        for place in range(2):
            member.join(f"group{(7 * number + 131 * place) % 1000}")
    checked.cluster.run(3.0)
    operation = checked.cluster.daemons[0].core.view_state
    assert operation is not None
    table = operation.delivery.groups.table
    assert (len(table.groups), len(table.sessions)) == (1000, 1000)
    rng = Random(1)
    for count in range(300):
        group = f"group{rng.randrange(1000)}"
        rng.choice(members).multicast([group], b"data", level=LEVELS[count % 6])
        checked.cluster.run(0.002)
    for member in rng.sample(members, 100):
        member.disconnect()
    checked.finish()
    assert len(table.sessions) == 900


@pytest.mark.long
def test_the_largest_message_arrives_whole_at_three_daemons() -> None:
    checked = CheckedCluster(attrs.evolve(plain_settings(daemons=3), packet_limit=60_000))
    members = checked.connect(3)
    for member in members:
        member.join("g")
    checked.cluster.run(1.0)
    data = Random(1).randbytes(MAX_MESSAGE_BYTES)
    with pytest.raises(LocalProtocolError, match="67108865 bytes"):
        members[0].multicast(["g"], data + b"!", level=ServiceLevel.AGREED)
    members[0].multicast(["g"], data, level=ServiceLevel.AGREED)
    checked.finish()
    for member in members:
        (message,) = messages(member)
        assert message.data == data
