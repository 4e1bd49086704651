"""The reports about links that lose large packets: log, status, doctor."""

import logging
import re
from math import inf

import pytest

from groupcomm.engine import Status
from groupcomm.link.path_mtu import CLOSE_BYTES, RAISE_S
from groupcomm.security.layout import HEAD_BYTES
from groupcomm.wire.link import LINK_BYTES
from groupcomm_tools.commands.status import way_text
from groupcommd.host.bounded_log import BoundedLog
from groupcommd.operators.assessment import DaemonAnswers, check_ways
from groupcommd.operators.logs import LogWatch
from groupcommd.operators.status import ways
from tests.groupcomm.sim.test_lost_links import Sites
from tests.groupcomm.sim.test_narrow_links import narrow, narrow_links

CHECKSUM_BYTES = 4


def told(sites: Sites) -> Status:
    """Return the first daemon's present status."""
    daemon = sites.cluster.daemons[0]
    return daemon.core.status(daemon.clock.monotonic(sites.cluster.loop.now))


def test_a_link_that_loses_large_packets_is_named_once_and_again_when_it_is_mended(
    caplog: pytest.LogCaptureFixture,
) -> None:
    largest = HEAD_BYTES + CHECKSUM_BYTES + LINK_BYTES + 1200
    sites = Sites(narrow_links(largest))
    sites.cluster.run(5.0)
    watch = LogWatch(BoundedLog(lambda: 0.0))
    found = ways(told(sites))
    assert len(found) == 2
    for way in found:
        assert 1200 - CLOSE_BYTES <= way["packet_bytes"] <= 1200
        assert (way["of_bytes"], way["narrow"]) == (1340, True)
        assert way["sent"] > way["lost"] >= 0
        assert way["round_trip_ms"] > 0
        assert re.fullmatch(
            r"to \w+: round trip \d+\.\d ms, \d+ packets sent, \d+ of them lost, 0 dropped,"
            r" \d+ bytes to send",
            way_text(way),
        )
    findings = check_ways(DaemonAnswers({}, {"ways": found}, {}))
    assert [finding.check for finding in findings] == ["links", "links"]
    assert found[0]["to"] in findings[0].text
    assert f"packet_bytes of the link to {found[0]['packet_bytes']}" in findings[0].remedy
    with caplog.at_level(logging.INFO, logger="groupcommd"):
        watch.check(told(sites), ())
        watch.check(told(sites), ())
        assert [record.levelname for record in caplog.records] == ["WARNING", "WARNING"]
        assert "go in fragments" in caplog.text
        narrow(sites.cluster, inf)
        sites.cluster.run(RAISE_S)
        watch.check(told(sites), ())
        assert [record.levelname for record in caplog.records][2:] == ["INFO", "INFO"]
    (finding,) = check_ways(DaemonAnswers({}, {"ways": ways(told(sites))}, {}))
    assert "packets of all sizes pass" in finding.text
