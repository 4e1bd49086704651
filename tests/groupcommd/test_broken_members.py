"""A daemon with a member that breaks the protocol: its log, `status` and `doctor`."""

import json
import logging
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing

from groupcomm.membership.trust import FEW
from groupcomm.wire.token import TokenRequest
from groupcommd.operators.assessment import DaemonAnswers, check_datagrams, check_other_daemons
from groupcommd.operators.findings import Grade
from groupcommd.operators.status import broken
from tests.groupcommd.virtual import Daemons, virtual_clock, virtual_daemons


@pytest.fixture
def autojump_clock() -> trio.testing.MockClock:
    return virtual_clock()


def lie(daemons: Daemons) -> None:
    """Have b ask for the token in the name of a."""
    core = daemons["b"].service.core
    assert core.view_state is not None
    request = TokenRequest(ring=0, daemon=0, hop=2).encode(core.view_state.key)
    core.sender.datagrams = []
    core.sender.send("a", request)
    daemons.network.carry("b", core.sender.datagrams)


def told(found: dict[str, Any]) -> DaemonAnswers:
    """Return the daemon's answers to the doctor, as far as these checks need them."""
    return DaemonAnswers({"datagrams": {"rejected": {}}}, found, {})


async def test_who_breaks_the_protocol_is_named_by_all_tools_and_left_out_for_a_while(
    autojump_clock: trio.testing.MockClock, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with virtual_daemons(tmp_path, "ab") as daemons:
        await daemons.settle("ab", 5.0)
        core = daemons["a"].service.core
        logging.getLogger("groupcommd").propagate = True
        with caplog.at_level(logging.INFO, "groupcommd"):
            caplog.clear()
            for _ in range(FEW):
                assert daemons["a"].members == "ab"
                lie(daemons)
                await trio.sleep(0.1)
            assert daemons["a"].members == "a"
            (found,) = broken(core.status(trio.current_time()))
            await trio.sleep(1.0)
            await daemons.settle("ab", 5.0)
            texts = [r.getMessage() for r in caplog.records if r.levelno >= logging.ERROR]
        assert len(texts) == 2, "not one for each packet"
        assert texts[0].startswith("protocol: b has broken the protocol (sender: ")
        assert texts[1].startswith("protocol: b is left out for 1 s")
        assert found["counts"] == {"sender": FEW}
        assert 0 < found["left_out_s"] <= 1.0
        (later,) = broken(core.status(trio.current_time()))
        assert json.loads(json.dumps(later))["left_out_s"] == 0
        datagrams = {"rejected": {}, "violations": dict(core.counters.violations), "not_sent": 0}
        for state, grade in ((found, Grade.PROBLEM), (later, Grade.WARNING)):
            (fellow,) = check_other_daemons(told({"broken": [state]}))
            assert (fellow.grade, fellow.text.split()[0]) == (grade, "b")
            assert fellow.remedy.startswith("restart b with the release that all others have")
        (seen,) = check_datagrams(told({"datagrams": datagrams, "rejected_senders": []}))
        assert (seen.grade, seen.text) == (
            Grade.WARNING,
            f"refused, against the protocol: {FEW} sender",
        )


def test_the_doctor_is_content_with_members_that_keep_to_the_protocol() -> None:
    (found,) = check_other_daemons(told({"broken": []}))
    assert found.grade is Grade.OK
