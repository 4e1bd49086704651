"""Senders whose window waits for other rings, where what these report of it is lost."""

import attrs
import pytest

from groupcomm.events import Message
from groupcomm.level import ServiceLevel
from groupcomm.ring.horizon_notices import HoldingsReport
from groupcomm.sim.settings import SMALL_WINDOWS, plain_settings
from tests.groupcomm.sim.checked_cluster import CheckedCluster, with_few_notices

MESSAGES = 2 * SMALL_WINDOWS.stream_packets + 20


@pytest.mark.parametrize("few_daemons", [0, 16])
def test_a_sender_goes_on_once_its_packets_are_forgotten(
    few_daemons: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No report follows then (simulator seed 971002 of twelve sites)."""
    plain = plain_settings(daemons=4, sites=4, delay_s=0.01)
    settings = attrs.evolve(plain, windows=SMALL_WINDOWS, few_daemons=few_daemons)
    checked = CheckedCluster(with_few_notices(settings))
    clients = checked.connect(4)
    checked.join("g", clients)
    monkeypatch.setattr(HoldingsReport, "pop_next", lambda *_: [])
    for number in range(MESSAGES):
        clients[0].multicast(["g"], bytes(1000) + b"%d" % number, level=ServiceLevel.FIFO)
    checked.cluster.run(2.5)
    for client in clients:
        assert sum(isinstance(event, Message) for event in client.events) == MESSAGES
    checked.finish()
