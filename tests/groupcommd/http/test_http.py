"""HTTP: the admitted users, the answers, and the bounds on rude clients."""

import base64
import json
import logging
from collections.abc import Callable, Iterable, Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, Final

import pytest
import trio
import trio.testing
from prometheus_client.openmetrics.parser import text_string_to_metric_families
from prometheus_client.parser import text_string_to_metric_families as parse_plain

from groupcomm.level import ServiceLevel
from groupcomm_client import connect as connect_program
from groupcommd.http import events as events_module
from groupcommd.http import overview as overview_module
from groupcommd.http import server as server_module
from groupcommd.http.connection import MAX_HEAD_BYTES
from groupcommd.http.gate import is_own_name, read_authorization_untrusted
from groupcommd.http.metrics import METRICS
from groupcommd.http.snapshot import Snapshot
from groupcommd.http.source import ANSWER_S
from groupcommd.http.work_share import BURST_S, SHARE, WorkShare
from groupcommd.programs.token_file import add_token
from tests.groupcommd.http.browser import OPEN, ask, connect, read_answer, request
from tests.groupcommd.virtual import virtual_clock, virtual_daemons

PARSE: Final[Callable[[str], Iterable[Any]]] = text_string_to_metric_families
PARSE_PLAIN: Final[Callable[[str], Iterable[Any]]] = parse_plain
TCP = '[http]\nlisten = "127.0.0.1:0"\n'


@pytest.fixture
def autojump_clock() -> trio.testing.MockClock:
    return virtual_clock()


async def test_health_and_status_and_metrics_of_a_cluster(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    async with virtual_daemons(tmp_path, "abc", head=TCP) as daemons:
        at = daemons["a"].http
        async with connect_program(str(daemons["a"].unix), user="ann") as program:
            await program.join("chat")
            await program.multicast("chat", b"hello", level=ServiceLevel.AGREED)
            await program.receive_batch()
            assert (await ask(at, "/livez")).body == b"alive\n"
            told = await ask(at, "/readyz?majority")
            assert told.status == 200
            assert told.body == b"ready: a view of 3 daemons, with a majority\n", "no daemon's name"
            found = (await ask(at, "/status.json")).json
            assert (found["daemon"], found["daemons"]) == ("a", ["a", "b", "c"])
            told = await ask(at, "/metrics", Accept="text/html, */*;q=0.1")
            assert told.headers["content-type"].startswith("text/plain; version=0.0.4")
            assert "# EOF" not in told.body.decode()
            plain = {
                sample.name
                for family in PARSE_PLAIN(told.body.decode())
                for sample in family.samples
            }
            told = await ask(at, "/metrics", Accept=f"{OPEN};version=1.0.0,text/plain;q=0.5")
            assert told.headers["content-type"].startswith(OPEN)
            families = list(PARSE(told.body.decode()))
            samples = {
                (sample.name, *sample.labels.values()): sample.value
                for family in families
                for sample in family.samples
            }
            assert plain == {name for name, *_ in samples}
            assert samples["groupcomm_view_daemons",] == 3
            assert samples["groupcomm_daemon_in_view", "c"] == 1
            assert samples["groupcomm_sessions",] == 1
            assert samples["groupcomm_group_members",] == 1
            assert samples["groupcomm_messages_total", "sent", "agreed"] == 1
            assert samples["groupcomm_delivery_delay_seconds_count", "agreed"] >= 1
            assert samples["groupcomm_view_change_seconds_count",] >= 1
            assert samples["groupcomm_token_visits_total",] >= 1
            assert samples["groupcomm_info", "groupcomm", "a", samples_version(samples)] == 1
            assert {family.documentation for family in families} == {m.help for m in METRICS}
            daemons.network.cut |= {"b", "c"}
            await daemons.settle("a", 30.0)
            assert (await ask(at, "/readyz")).status == 200
            told = await ask(at, "/readyz?majority")
            assert told.status == 503
            assert b"without a majority" in told.body


def samples_version(samples: dict[tuple[str, ...], float]) -> str:
    return next(key[3] for key in samples if key[0] == "groupcomm_info")


async def test_one_connection_asks_again_and_again_and_only_reads(tmp_path: Path) -> None:
    async with virtual_daemons(tmp_path, "a", head=TCP) as daemons:
        at = daemons["a"].http
        async with await connect(at) as stream:
            await stream.send_all(request("/livez") + request("/readyz"))  # in one piece
            assert (await read_answer(stream)).body == b"alive\n"
            assert (await read_answer(stream)).status == 200
            await stream.send_all(request("/metrics", "HEAD"))
            told = await read_answer(stream, head_only=True)
            assert (told.status, told.body) == (200, b"")
            await stream.send_all(request("/livez", Connection="close"))
            assert (await read_answer(stream)).status == 200
            assert await stream.receive_some() == b""
        for method in ("POST", "PUT", "DELETE", "OPTIONS", "TRACE"):
            told = await ask(at, "/status.json", method)
            assert (told.status, told.headers["allow"]) == (405, "GET, HEAD")
        told = await ask(at, "/etc/passwd")
        assert told.status == 404
        assert told.headers["content-security-policy"].startswith("default-src 'none'")
        assert told.headers["x-content-type-options"] == "nosniff"


async def test_pages_of_others_learn_nothing_by_the_browser_of_an_admitted_user(
    tmp_path: Path,
) -> None:
    async with virtual_daemons(tmp_path, "a", head=TCP) as daemons:
        at = daemons["a"].http
        for path in ("/", "/status.json", "/metrics"):
            assert (await ask(at, path, Host="evil.example:4805")).status == 421
            assert (await ask(at, path, Sec_Fetch_Site="cross-site")).status == 403
            link = {"Sec_Fetch_Site": "cross-site", "Sec_Fetch_Mode": "navigate"}
            assert (await ask(at, path, **link)).status == 200
            assert (await ask(at, path, Host="localhost:4805")).status == 200


@pytest.mark.parametrize("host", ["127.0.0.1", "127.0.0.1:80", "[::1]", "[::1]:80", "LocalHost:1"])
def test_addresses_and_localhost_name_the_daemon(host: str) -> None:
    assert is_own_name(host.encode())


@pytest.mark.parametrize("host", ["", "a.example", "127.0.0.1.a.example", "[::1", "\xff", "1:2:3"])
def test_other_names_do_not(host: str) -> None:
    assert not is_own_name(host.encode("latin-1")) or host == "[::1"


async def test_who_is_not_admitted_needs_a_token(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tokens = tmp_path / "http.tokens"
    token = add_token(tokens, "prometheus")
    head = f'[http]\nlisten = "127.0.0.1:0"\ntokens = "{tokens}"\n'
    monkeypatch.setattr(server_module, "tcp_user", lambda _: 12345)  # another user asks
    async with virtual_daemons(tmp_path, "a", head=head) as daemons:
        at = daemons["a"].http
        assert (await ask(at, "/livez")).status == 200
        assert (await ask(at, "/readyz")).status == 200
        told = await ask(at, "/metrics")
        assert told.status == 401
        assert told.headers["www-authenticate"].startswith("Basic ")
        assert (await ask(at, "/metrics", Authorization=f"Bearer {token}x")).status == 401
        assert (await ask(at, "/metrics", Authorization=f"Bearer {token}")).status == 200
        basic = base64.b64encode(token.encode()).decode()
        name = {"Host": "plant.example"}  # another site's page has no token
        assert (await ask(at, "/metrics", Authorization=f"Basic {basic}", **name)).status == 200


async def test_rules_say_who_sees_what_a_daemon_knows(tmp_path: Path) -> None:
    tokens = tmp_path / "http.tokens"
    one, other = (add_token(tokens, name) for name in ("one", "other"))
    head = f'[http]\nlisten = "unix:{tmp_path}/h/http.sock"\ntokens = "{tokens}"\n'
    rules = '[[access]]\nwho = "token:one"\nmay = "admin"\n'
    async with virtual_daemons(tmp_path, "a", rules, head=head) as daemons:
        at = daemons["a"].http
        assert (await ask(at, "/metrics", Host="any.example")).status == 421
        assert (await ask(at, "/metrics")).status == 200, "its own user"
        assert (await ask(at, "/metrics", Authorization=f"Bearer {one}")).status == 200
        told = await ask(at, "/metrics", Authorization=f"Bearer {other}")
        assert told.status == 403, "with rules, what they do not allow is forbidden"
        assert b"token:other may not see this" in told.body


def test_authorizations_of_any_bytes_are_tokens_or_none() -> None:
    assert read_authorization_untrusted(b"Bearer a:b") == "a:b"
    assert read_authorization_untrusted(b"basic YTpi") == "a:b"
    for value in (b"", b"Basic", b"Basic \xff", b"Basic YQ", b"Digest x", b"Bearer " + b"x" * 999):
        assert read_authorization_untrusted(value) in (None, ""), value


# ---- rude ones ----


@pytest.mark.parametrize(
    ("data", "status"),
    [
        (b"\x16\x03\x01\x00\x05hello\r\n\r\n", 400),
        (b"GET /livez HTTP/1.1\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: x\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nX: " + b"y" * (MAX_HEAD_BYTES + 1), 431),
        (b"GET /" + b"y" * 3000 + b" HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", 404),
        (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 405),
    ],
)
async def test_what_is_no_request_is_refused(data: bytes, status: int, tmp_path: Path) -> None:
    async with virtual_daemons(tmp_path, "a", head=TCP) as daemons:
        async with await connect(daemons["a"].http) as stream:
            await stream.send_all(data)
            assert (await read_answer(stream)).status == status
        assert (await ask(daemons["a"].http, "/livez")).status == 200


async def test_a_body_is_not_read(tmp_path: Path) -> None:
    async with virtual_daemons(tmp_path, "a", head=TCP) as daemons:
        stream = await connect(daemons["a"].http)
        await stream.send_all(request("/livez", Content_Length="10000000"))
        told = await read_answer(stream)
        assert (told.status, told.headers["connection"]) == (200, "close")
        assert await stream.receive_some() == b""
        await stream.aclose()


async def test_who_is_slow_is_cut_off_and_who_says_nothing_makes_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, autojump_clock: trio.testing.MockClock
) -> None:
    monkeypatch.setattr(server_module, "MAX_CONNECTIONS", 8)
    async with virtual_daemons(tmp_path, "a", head=TCP) as daemons:
        at = daemons["a"].http
        async with await connect(at) as slow:
            for letter in b"GET /livez HT":  # one byte each second
                await slow.send_all(bytes([letter]))
                await trio.sleep(1.0)
                with trio.move_on_after(0.01):
                    if await slow.receive_some() == b"":
                        break
            else:
                raise AssertionError("it was not cut off")
        silent = [await connect(at) for _ in range(20)]
        assert (await ask(at, "/livez")).status == 200
        counts = daemons["a"].http_server.counts()
        assert counts["connections"] <= 8
        assert counts["refused"].keys() & {"full", "slow"}
        for each in silent:
            await each.aclose()


async def test_an_error_of_an_answer_ends_no_daemon(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async with virtual_daemons(tmp_path, "a", head=TCP) as daemons:

        def broken(_: object) -> list[bytes]:
            raise LookupError("on purpose")

        daemons["a"].supply.makers["status"] = broken
        with caplog.at_level(logging.CRITICAL):
            assert (await ask(daemons["a"].http, "/status.json")).status == 500
        assert (await ask(daemons["a"].http, "/metrics")).status == 200


async def test_who_lives_says_so_and_whose_loop_stands_still_does_not(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    async with virtual_daemons(tmp_path, "a", head=TCP) as daemons:
        assert (await ask(daemons["a"].http, "/livez")).status == 200
        async with daemons["a"].supply._share:  # the daemon's loop seems to do nothing else
            await trio.sleep(1.0)
            told = await ask(daemons["a"].http, "/livez")
            assert (told.status, told.body) == (
                503,
                b"the daemon has not answered for %g s\n" % ANSWER_S,
            )
        await trio.sleep(1.0)
        assert (await ask(daemons["a"].http, "/livez")).status == 200


async def test_work_is_done_in_turn_and_takes_its_share_at_most(
    autojump_clock: trio.testing.MockClock,
) -> None:
    time_s = 0.0
    share = WorkShare(lambda: time_s)
    ended: list[int] = []

    async def work(number: int) -> None:
        nonlocal time_s
        async with share:
            time_s += 0.01
            ended.append(number)

    begin = trio.current_time()
    async with trio.open_nursery() as nursery:
        for number in range(20):
            nursery.start_soon(work, number)
    assert sorted(ended) == list(range(20))
    assert share.used_s == pytest.approx(0.2)
    assert trio.current_time() - begin >= (0.19 - BURST_S) / SHARE - 0.01


# ---- events ----


async def test_news_wait_for_nothing_and_others_wait_the_longer(
    autojump_clock: trio.testing.MockClock,
) -> None:
    time_s = 0.0
    share = WorkShare(lambda: time_s)
    async with share:
        time_s += 0.1
    began = trio.current_time()
    with share.urgent():
        time_s += 0.1
    assert trio.current_time() == began
    async with share:
        assert trio.current_time() - began >= (0.2 - BURST_S) / SHARE - 0.01
    assert share.used_s == pytest.approx(0.2)


async def next_event(stream: trio.abc.ReceiveStream) -> Any:
    """Return the next event of a stream whose head was read."""
    data = b""
    while not data.endswith(b"\n\n\r\n"):
        more = await stream.receive_some(65536)
        assert more, "the stream has ended"
        data += more
    return json.loads(data.split(b"data: ")[-1].partition(b"\n")[0])


async def test_who_watches_is_told_of_each_view(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    async with virtual_daemons(tmp_path, "abc", head=TCP) as daemons:
        stream = await connect(daemons["a"].http)
        await stream.send_all(request("/events"))
        told = await read_answer(stream)
        assert told.headers["content-type"] == "text/event-stream"
        first = await next_event(stream)
        assert [daemon["in_view"] for daemon in first["sites"][0]["daemons"]] == [True] * 3
        assert first["views"][0]["daemons"] == ["a", "b", "c"]
        assert {finding["check"] for finding in first["findings"]} >= {"view", "disk", "clocks"}
        daemons.network.cut |= {"c"}
        while len((found := await next_event(stream))["views"][0]["daemons"]) == 3:
            continue
        assert found["views"][0]["left"] == ["c"]
        assert found["findings"][0]["grade"] == "problem"
        await stream.aclose()


async def test_an_event_looks_at_few_groups_at_a_time_and_shows_the_largest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, autojump_clock: trio.testing.MockClock
) -> None:
    monkeypatch.setattr(overview_module, "GROUPS_A_PIECE", 2)
    monkeypatch.setattr(overview_module, "MAX_GROUPS", 3)
    async with virtual_daemons(tmp_path, "a", head=TCP) as daemons, AsyncExitStack() as stack:
        unix, makers = str(daemons["a"].unix), daemons["a"].supply.makers
        for groups in ("bcdef", "bdf", "bf"):
            program = await stack.enter_async_context(connect_program(unix))
            for group in groups:
                await program.join(group)
        pieces, make = list[bytes](), makers["events"]

        def counted(snapshot: Snapshot) -> Iterator[bytes]:
            for piece in make(snapshot):
                pieces.append(piece)
                yield piece

        makers["events"] = counted
        stream = await connect(daemons["a"].http)
        await stream.send_all(request("/events"))
        await read_answer(stream)
        found = await next_event(stream)
        shown = {each["name"]: (each["count"], len(each["members"])) for each in found["groups"]}
        assert shown == {"f": (3, 3), "b": (3, 3), "d": (2, 2)}
        assert found["group_count"] == 5
        assert [bool(piece) for piece in pieces[:4]] == [False, False, False, True]
        await stream.aclose()


async def test_many_streams_get_events_less_often(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, autojump_clock: trio.testing.MockClock
) -> None:
    monkeypatch.setattr(events_module, "WRITES_PER_S", 0.2)  # one is many: an event in 5 s
    async with virtual_daemons(tmp_path, "abc", head=TCP) as daemons:
        stream = await connect(daemons["a"].http)
        await stream.send_all(request("/events"))
        await read_answer(stream)
        for _ in range(2):  # the event of the answer, and the event before it
            await next_event(stream)
        began = trio.current_time()
        await next_event(stream)
        assert trio.current_time() >= began + 4.9
        await stream.aclose()


async def test_streams_that_are_too_many_or_do_not_read_are_refused_or_closed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, autojump_clock: trio.testing.MockClock
) -> None:
    monkeypatch.setattr(events_module, "MAX_STREAMS", 1)
    async with virtual_daemons(tmp_path, "a", head=TCP) as daemons:
        daemons["a"].supply.makers["events"] = lambda _: [b"x" * 1_000_000]
        stream = await connect(daemons["a"].http)
        await stream.send_all(request("/events"))
        await read_answer(stream)
        assert (await ask(daemons["a"].http, "/events", "HEAD")).status == 503
        with trio.fail_after(60):
            while len(daemons["a"].http_server.streams):
                await trio.sleep(1.0)
        assert (await ask(daemons["a"].http, "/livez")).status == 200
        await stream.aclose()
