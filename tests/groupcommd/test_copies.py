"""Copies of a daemon at other addresses: when they are reported, and when not."""

import logging
from pathlib import Path

import pytest
import trio

from groupcomm.config.view import Incarnation
from groupcomm.host.addresses import Address
from groupcomm.names import cluster_number, daemon_number
from groupcomm.security.layout import COUNTER, SUITE_AES_GCM, fixed_heads
from groupcomm_client import connect
from groupcomm_tools.local_cluster import LocalCluster
from groupcommd.config.config_file import read_config
from groupcommd.config.daemon_config import DaemonConfig
from groupcommd.operators.assessment import DaemonAnswers, check_copies
from groupcommd.operators.copies import LASTS_S, LOGGED_S, MAX_COPIES, Copies
from groupcommd.operators.mismatches import FRESH_S, LOOK_S
from tests.groupcommd.test_restored_state import cloned

ELSEWHERE = Address("10.0.0.9", 4803)
B_ITSELF = Address("127.0.0.1", 4902)


@pytest.fixture
def config(tmp_path: Path) -> DaemonConfig:
    file = tmp_path / "plant.toml"
    file.write_text(
        "insecure = true\n"
        '[sites.main.daemons]\na = "127.0.0.1:4901"\nb = "127.0.0.1:4902"\nc = "127.0.0.1:4903"\n'
    )
    return read_config(file, name="a", state_dir=tmp_path)


class From:
    """All datagrams come from one address."""

    def __init__(self, address: Address) -> None:
        self.address = address

    def source_of(self, index: int) -> Address:
        assert index == 1
        return self.address


def note(
    copies: Copies,
    now: float,
    *,
    name: str = "b",
    address: Address = ELSEWHERE,
    reason: str = "unproven",
    heard: str = "abc",
) -> None:
    start = cluster_number("groupcomm"), daemon_number(name), Incarnation(3, 7)
    datagram = fixed_heads(SUITE_AES_GCM, 1, *start)[0] + COUNTER.pack(1) + b"sealed"
    copies.note([(datagram, reason)], [b"good", datagram], From(address), lambda: set(heard), now)


def note_for(copies: Copies, begin: float, seconds: float, **told: str) -> None:
    for tick in range(int(seconds) + 1):
        note(copies, begin + tick, **told)  # type: ignore[arg-type]


def test_a_copy_is_logged_once_it_has_gone_on_for_a_while_and_then_each_hour(
    config: DaemonConfig, caplog: pytest.LogCaptureFixture
) -> None:
    copies = Copies(lambda: config)
    with caplog.at_level(logging.WARNING, "groupcommd"):
        note_for(copies, 0.0, LASTS_S - 1)
        assert not caplog.messages
        assert copies.report(LASTS_S - 1) == []
        note_for(copies, LASTS_S, LOGGED_S + LASTS_S)
    first, again = caplog.messages
    assert first == again
    assert first.startswith(
        "a second daemon that calls itself b sends from 10.0.0.9:4803, and b itself is heard at"
        " 127.0.0.1:4902: if that host is a copy of the other one, stop its daemon"
    )
    now = LOGGED_S + 2 * LASTS_S
    assert copies.report(now) == [
        {"name": "b", "address": "10.0.0.9:4803", "listed": "127.0.0.1:4902", "seen_s": 0.0}
    ]
    assert copies.report(now + FRESH_S + 1) == []


@pytest.mark.parametrize(
    "otherwise",
    [
        {"address": B_ITSELF},  # its own address: it has just started
        {"reason": "replay"},
        {"name": "z"},  # not listed, which has a line of its own
        {"heard": "ac"},  # perhaps it has only moved
    ],
)
def test_other_datagrams_show_no_copy(
    config: DaemonConfig, caplog: pytest.LogCaptureFixture, otherwise: dict[str, str]
) -> None:
    copies = Copies(lambda: config)
    with caplog.at_level(logging.WARNING, "groupcommd"):
        note_for(copies, 0.0, 3 * LASTS_S, **otherwise)
    assert not caplog.messages
    assert copies.report(3 * LASTS_S) == []


def test_a_few_now_and_then_are_no_copy(config: DaemonConfig) -> None:
    copies = Copies(lambda: config)
    for now in range(0, 200, int(2 * FRESH_S)):
        note(copies, float(now))
        assert copies.report(now) == []


def test_what_is_kept_is_bounded(config: DaemonConfig) -> None:
    copies = Copies(lambda: config)
    for place in range(2 * MAX_COPIES):
        note(copies, 2 * LOOK_S * place, address=Address("10.0.0.9", 1000 + place))
    assert len(copies._found) == MAX_COPIES


def test_the_doctor_has_a_remedy_for_a_copy() -> None:
    copy = {"name": "b", "address": "10.0.0.9:4803", "listed": "127.0.0.1:4902", "seen_s": 0.1}
    (found,) = check_copies(DaemonAnswers({}, {"copies": [copy]}, {}))
    assert "calls itself b sends from 10.0.0.9:4803" in found.text
    assert "stop its daemon" in found.remedy
    assert list(check_copies(DaemonAnswers({}, {}, {}))) == []


@pytest.mark.long
async def test_the_others_report_a_clone_of_a_host_at_another_address() -> None:
    async with LocalCluster("abc") as cluster:
        await cluster.settle("abc")
        async with cloned(cluster, "a") as clone:
            with trio.fail_after(60):
                while not all(
                    any(line.get("copy") == "a" for line in cluster[name].lines()) for name in "bc"
                ):
                    await trio.sleep(0.05)
            assert clone.running
            async with connect(str(cluster["b"].unix)) as connection:
                (copy,) = (await connection.ask("status"))["copies"]
        assert (copy["name"], copy["address"] == copy["listed"]) == ("a", False)
        assert not any("copy" in line for line in cluster["a"].lines())
