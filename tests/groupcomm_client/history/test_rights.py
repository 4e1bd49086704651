"""The rule read-history, with real daemons and an archive that is a real program."""

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from groupcomm.errors import AccessRefused
from groupcomm.events import Message, Refused
from groupcomm_client import TlsOptions
from groupcomm_client.blocking import BlockingConnection, connect
from groupcomm_client.history import EARLIEST, LATEST, CaughtUp
from groupcomm_client.history.frames import ARCHIVES, Find, Frame, decode_untrusted, encode
from groupcomm_client.history.refusals import Refusal
from groupcomm_tools.certificates import issue, make_authority
from groupcomm_tools.running_cluster import RunningCluster
from groupcommd.programs.local_users import unix_principal
from groupcommd.programs.token_file import add_token
from tests.groupcomm_client.history.archives import ArchiveProcess
from tests.groupcomm_client.kinds import PATIENCE_S
from tests.groupcomm_tools.shell import Shell

ME = unix_principal(os.geteuid())

RULES = f"""
access = [
    {{who = "{ME}", may = ["join", "send", "see-members", "unicast", "admin"], names = ["*"]}},
    {{who = "{ME}", groups = ["#*"], may = "unicast"}},
    {{who = "{ME}", groups = "open.*", may = "read-history"}},
    {{who = "cert:reader", groups = "*.book", may = "read-history"}},
]
"""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningCluster]:
    """A daemon with rules, and an archive of two groups, of which it may give one."""
    store: Path = tmp_path_factory.mktemp("archive") / "log"
    with (
        RunningCluster(1, settings=RULES) as running,
        ArchiveProcess(running.address("a"), store, ("open.book", "shut.book")) as archive,
    ):
        archive.until_live()
        yield running


def test_a_group_that_a_rule_opens_is_read(cluster: RunningCluster) -> None:
    with connect(cluster.address("a")) as connection:
        connection.multicast_ordered("open.book", b"1")
        with connection.subscribe("open.book", start=EARLIEST) as reading:
            while not isinstance(event := reading.receive(PATIENCE_S), Message):
                assert not isinstance(event, CaughtUp)
            assert event.data == b"1"


def test_other_groups_are_refused_and_live_events_are_not(cluster: RunningCluster) -> None:
    with connect(cluster.address("a")) as connection:
        for groups in (["shut.book"], ["open.book", "shut.book"]):
            with (
                pytest.raises(
                    AccessRefused, match=r"may not read the history of 'shut\.book'"
                ) as got,
                connection.subscribe(groups, start=EARLIEST) as reading,
            ):
                reading.receive(PATIENCE_S)
            assert got.value.verb == "read-history"
            assert got.value.principal == ME
        with connection.subscribe("shut.book", start=LATEST) as reading:
            assert isinstance(reading.receive(PATIENCE_S), CaughtUp)


def test_a_connection_that_resumes_is_notified(cluster: RunningCluster) -> None:
    with connect(cluster.address("a"), reconnect=True, resume=True) as connection:
        connection.join("shut.book")
        connection.awaited._session.stream.close()
        while not isinstance(event := connection.receive(PATIENCE_S), Refused):
            pass
        assert (event.verb, event.group) == ("read-history", "shut.book")


def test_commands_say_why(cluster: RunningCluster) -> None:
    shell = Shell(cluster.address("a"))
    words = ("sub", "shut.book", "--start", "earliest", "--until")
    for until in ("now", "@1769860800"):
        status, output, messages = shell.tell(*words, until)
        assert (status, output) == (1, "")
        assert "no rule of daemon a allows read-history" in messages


def test_a_daemon_tells_an_archive_who_may_read_what_it_may_read_itself(
    cluster: RunningCluster,
) -> None:
    def ask(*pairs: tuple[str, str]) -> list[bool]:
        found: list[bool] = connection.ask(f"read-history {json.dumps(pairs)}")["allowed"]
        return found

    with connect(cluster.address("a")) as connection:
        pairs = [("cert:reader", "open.book"), ("cert:reader", "open.x"), ("", "open.book")]
        assert ask(*pairs) == [True, False, False]
        with pytest.raises(AccessRefused, match=r"may not give the history of 'shut\.book'"):
            ask(("cert:reader", "shut.book"))
        for wrong in ("", "1", "[1]", '[["a"]]', "{"):
            assert "error" in connection.ask(f"read-history {wrong}")


WITHOUT_THE_VERB = f"""
access = [
    {{who = "{ME}", may = ["join", "send", "see-members", "admin"], names = ["*"]}},
    {{who = "*", groups = "#*", may = "unicast"}},
    {{who = "token:*", groups = "groupcomm.history", may = "send"}},
    {{who = "token:*", groups = "open.*", may = ["join", "see-members"]}},
]
"""


def test_archives_give_no_past_to_those_who_may_not_join(tmp_path: Path) -> None:
    ca, _ = make_authority(tmp_path, 1.0)
    certificate, key = issue(tmp_path, "a", ["127.0.0.1"], 1.0)
    secret = tmp_path / "reader.token"
    secret.write_text(add_token(tmp_path / "tokens", "reader"))
    clients = (
        f'tls = {{address = "127.0.0.1:0", certificate = "{certificate}", key = "{key}"}}\n'
        f'tokens = "{tmp_path}/tokens"\n'
    )
    groups = ("open.book", "shut.book")
    with (
        RunningCluster(1, settings=WITHOUT_THE_VERB, clients=clients) as cluster,
        ArchiveProcess(cluster.address("a"), tmp_path / "log", groups) as archive,
    ):
        archive.until_live()
        with connect(cluster.address("a")) as connection:
            for group in groups:
                connection.multicast_ordered(group, b"1")
        tls = TlsOptions(ca=ca, token=secret)
        with connect(cluster.tls_address("a"), tls=tls) as reader:
            found = [first_answer(reader, Find(n, (group,))) for n, group in enumerate(groups)]
    assert not isinstance(found[0], Refusal)
    assert found[1] == Refusal(1, "shut.book", "token:reader", "a")


def first_answer(reader: BlockingConnection, question: Frame) -> object:
    """Ask all archives as no library does, which would join first; return what one answers."""
    reader.multicast(ARCHIVES, encode(question))
    while not isinstance(event := reader.receive(PATIENCE_S), Message):
        assert event is not None
    return decode_untrusted(event.data)
