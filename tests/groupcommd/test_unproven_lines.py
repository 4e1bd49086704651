"""The log about datagrams that prove nothing: one line for each cause, and no advice."""

import logging
import struct
from pathlib import Path
from typing import Any

import attrs
import pytest
import trio
import trio.testing

from groupcomm.host.key_file import write_key_file
from groupcommd.network.junk import MANY_PER_S
from groupcommd.operators.assessment import DaemonAnswers, check_datagrams
from groupcommd.operators.findings import Grade
from groupcommd.operators.logs import JUNK_LOGGED_S
from tests.groupcommd.virtual import Daemons, virtual_clock, virtual_daemons

KEY_ID_AT = 3
ADVICE = ("groupcomm keys", "copy", "bring", "find out", "mend")


@pytest.fixture
def autojump_clock() -> trio.testing.MockClock:
    return virtual_clock()


async def captured(daemons: Daemons) -> bytes:
    """A datagram that daemon b sends."""
    found: list[bytes] = []
    carry = daemons.network.carry

    def carry_and_copy(source: str, transmissions: Any) -> None:
        found.extend(datagram for _, datagram in transmissions if source == "b")
        carry(source, transmissions)

    daemons.network.carry = carry_and_copy  # type: ignore[method-assign]
    while not found:
        await trio.sleep(0.01)
    return found[0]


async def test_a_stranger_makes_one_line_for_each_cause_and_gives_no_advice(
    autojump_clock: trio.testing.MockClock, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    write_key_file(tmp_path / "plant.key")
    head = f'key_file = "{tmp_path / "plant.key"}"'
    async with virtual_daemons(tmp_path, "ab", head=head) as daemons:
        real, end = await captured(daemons), daemons.network.ends["a"]
        logging.getLogger("groupcommd").propagate = True
        with caplog.at_level(logging.INFO, "groupcommd"):
            caplog.clear()
            for key_id in range(2, 10):
                named = struct.pack("!H", key_id)
                end.arrive([real[:KEY_ID_AT] + named + real[KEY_ID_AT + 2 :]])
                await trio.sleep(1.0)
            for _ in range(2):  # the junk begins and ends twice
                end.arrive([b"junk"] * (MANY_PER_S + 1))
                await trio.sleep(2.5)
            texts = [record.getMessage() for record in caplog.records]
        assert daemons["a"].members == "ab"
        assert daemons["a"].service.core.counters.rejected["key"] == 8
    assert [text.split(",")[0].split(":")[0] for text in texts] == [
        f"datagrams that name a key which is not in {tmp_path / 'plant.key'}",
        "junk",
        "junk",
    ]
    assert texts[-1] == "junk: no more than usual"
    assert not [text for text in texts for advice in ADVICE if advice in text]


async def test_junk_that_goes_on_is_reported_again_after_an_hour(
    autojump_clock: trio.testing.MockClock, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with virtual_daemons(tmp_path, "a") as daemons:
        watch = daemons["a"].service._watch
        core = daemons["a"].service.core
        with caplog.at_level(logging.INFO, "groupcommd"):
            caplog.clear()
            now = 0.0
            while now < 2.5 * JUNK_LOGGED_S:
                core.counters.rejected["tag"] += MANY_PER_S + 1
                status = core.status(trio.current_time())
                assert watch.check_junk(attrs.evolve(status, at=now), 0)
                assert not watch.check_junk(attrs.evolve(status, at=now + 1.0), 0)
                now += 100.0
            warnings = [r for r in caplog.records if r.levelno >= logging.WARNING]
        assert len(warnings) == 3


def told(daemons: list[str], **rejected: int) -> DaemonAnswers:
    datagrams = {"rejected": rejected, "violations": {}, "not_sent": 0, "received": 9}
    before = {"datagrams": {**datagrams, "rejected": {}}}
    later = {
        "configured": ["a", "b"],
        "daemons": daemons,
        "datagrams": datagrams,
        "rejected_senders": [],
    }
    return DaemonAnswers(before, later, {})


def test_the_doctor_has_a_remedy_for_a_stranger_only_if_a_daemon_is_missing() -> None:
    (stranger,) = check_datagrams(told(["a", "b"], key=3))
    assert (stranger.grade, stranger.remedy) == (Grade.WARNING, "none: they were dropped")
    assert "anybody can send such" in stranger.text
    (missing,) = check_datagrams(told(["a"], key=3))
    assert missing.grade is Grade.PROBLEM
    assert missing.remedy.startswith("if b sent them: copy another host's key file")
    (proved,) = check_datagrams(told(["a", "b"], unlisted=1))
    assert proved.grade is Grade.PROBLEM
    assert "list all daemons at all hosts" in proved.remedy
