"""The web server: what passes, who is let in, and its bounds."""

import re
import signal
import ssl
import tracemalloc
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import attrs
import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st
from wsproto.utilities import ProtocolError

import groupcomm_client as gc
from groupcomm.errors import GroupCommError, RemoteProtocolError
from groupcomm_tools.certificates import issue, make_authority
from groupcomm_tools.running_cluster import RunningCluster
from groupcomm_tools.web import server, websocket
from groupcomm_tools.web.frames import decode_untrusted
from groupcomm_tools.web.http import HEAD_BYTES
from groupcomm_tools.web.server import WebOptions, WebServer
from groupcomm_tools.web.session import Daemon
from groupcommd.programs.token_file import add_token
from tests.groupcomm_tools.shell import NO_PAUSES, Shell, finish, tell
from tests.groupcomm_tools.web_client import PATIENCE_S, WebClient

RULES = """
[[access]]
who = "token:*"
may = ["join", "send"]
groups = "open*"

[[access]]
who = "unix:*"
may = ["join", "send", "unicast"]
names = "*"
"""


@attrs.frozen
class Plant:
    """A daemon with tokens and rules."""

    cluster: RunningCluster
    local: Daemon
    tls: Daemon
    token: str
    certificate: tuple[Path, Path]


@pytest.fixture(scope="module")
def plant(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Plant]:
    folder = tmp_path_factory.mktemp("web")
    ca, _ = make_authority(folder, 1.0)
    certificate, key = issue(folder, "press", ["127.0.0.1"], 1.0)
    token = add_token(folder / "tokens", "shop")
    clients = (
        f'tls = {{address = "127.0.0.1:0", certificate = "{certificate}", key = "{key}",'
        f' ca = "{ca}"}}\n'
        f'tokens = "{folder}/tokens"\n'
    )
    with RunningCluster(1, settings=NO_PAUSES + RULES, clients=clients) as cluster:
        local = Daemon(cluster.address("a"), None, wants_token=False)
        tls = Daemon(cluster.tls_address("a"), ca, wants_token=True)
        yield Plant(cluster, local, tls, token, issue(folder, "server", [], 1.0))


@attrs.frozen
class Opened:
    """A server that is open."""

    web: WebServer
    port: int
    closed: AsyncExitStack  # at the end

    async def until_ended(self, **counts: int) -> None:
        """Wait until so many connections have ended, by reason, and no others but in order."""
        found: dict[str, int] = {}
        with trio.fail_after(PATIENCE_S):
            while found != counts:
                await trio.sleep(0.005)
                found = {each: self.web.ended[each] for each in counts}

    async def stream(self) -> trio.SocketStream:
        """Return a connection without a handshake."""
        stream = await trio.open_tcp_stream("127.0.0.1", self.port)
        self.closed.push_async_callback(stream.aclose)
        return stream

    async def shaken(self, **headers: str) -> WebClient:
        """Return a client after its handshake, with headers in its request."""
        client = WebClient(await self.stream())
        await client.shake_hands(**headers)
        return client

    async def client(self, **words: Any) -> WebClient:
        """Return a client with a session."""
        client = await self.shaken()
        await client.ask("connect", **words)
        return client


@asynccontextmanager
async def opened(daemon: Daemon, **options: Any) -> AsyncIterator[Opened]:
    async with trio.open_nursery() as nursery:
        listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
        port = listeners[0].socket.getsockname()[1]
        origins = frozenset((f"http://127.0.0.1:{port}",))
        web = WebServer(WebOptions(daemon=daemon, origins=origins, **options), lambda *_: None)
        nursery.start_soon(trio.serve_listeners, web.serve, listeners)
        async with AsyncExitStack() as closed:
            yield Opened(web, port, closed)
        nursery.cancel_scope.cancel()


async def test_a_browser_joins_sends_receives_and_leaves(plant: Plant) -> None:
    async with opened(plant.local) as web, gc.connect(plant.local.address, user="bob") as bob:
        ann = await web.client(user="ann")
        view = (await ann.ask("join", group="chat"))["view"]
        assert view["members"] == ["#ann#a"]
        await bob.join("chat")
        assert [(await ann.next("group view"))["cause"] for _ in "ab"] == ["join", "join"]
        await bob.multicast("chat", b"hello \xff")
        told = await ann.next("message")
        assert (told["sender"], told["data"]) == ("#bob#a", b"hello \xff")
        assert told["position"]
        await ann.ask("multicast", b"hi", groups=["chat"], level="SAFE", type=7, self_discard=True)
        async for message in bob.messages():
            if message.data == b"hi":
                break
        assert (message.level.name, message.type, message.sender.name) == ("SAFE", 7, "#ann#a")
        await bob.multicast("chat", b"end")
        assert (await ann.next("message"))["data"] == b"end", "not its own"
        await ann.ask("leave", group="chat")
        with pytest.raises(GroupCommError, match="has not joined"):
            await ann.ask("leave", group="chat")
        await ann.stream.aclose()
        await bob.leave("chat")


async def test_faults_of_a_browser_are_told_to_it(plant: Plant) -> None:
    async with opened(plant.local) as web:
        ann = await web.client(user="ann")
        with pytest.raises(GroupCommError, match="open already"):
            await ann.ask("connect")
        with pytest.raises(GroupCommError, match="a session of user 'ann' already"):
            await web.client(user="ann")
        with pytest.raises(GroupCommError, match="start soon: it must be earliest"):
            await web.client(groups=["chat"], start="soon")
        with pytest.raises(GroupCommError, match="it must be 0 to 65535"):
            await ann.ask("multicast", b"", groups=["chat"], type=65_536)
        assert (await ann.ask("join", group="still-open"))["re"]
        nobody = attrs.evolve(plant.local, address="/nowhere.sock")
    async with opened(nobody) as web:
        with pytest.raises(GroupCommError, match="try again later"):
            await web.client()
        await web.until_ended(daemon=1)


async def test_each_browser_has_the_rights_of_its_own_token(plant: Plant) -> None:
    async with opened(plant.tls) as web:
        for told in ({}, {"token": "shop:wrong"}):
            with pytest.raises(GroupCommError, match="token"):
                await web.client(**told)
        shop = await web.client(token=plant.token)
        await shop.ask("join", group="open")
        with pytest.raises(GroupCommError, match="token:shop may not join 'closed'"):
            await shop.ask("join", group="closed")
        cookie = {"cookie": f"other=1; groupcomm_token={plant.token}"}
        page = await web.shaken(origin=f"http://127.0.0.1:{web.port}", **cookie)
        assert "#a" in (await page.ask("connect"))["name"]
        program = await web.shaken(**cookie)
        with pytest.raises(GroupCommError, match="needs a token"):
            await program.ask("connect")


async def test_pages_of_other_origins_and_other_users_stay_out(
    plant: Plant, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened(plant.local) as web:
        for origin in ("http://evil.example", "null", f"http://evil.example:{web.port}"):
            page = await web.shaken(origin=origin)
            assert page.status == 403
        await web.until_ended(origin=3)
        monkeypatch.setattr("os.geteuid", lambda: 12345)  # the browser's user is another one then
        with pytest.raises((trio.BrokenResourceError, ProtocolError)):
            await web.client()
        await web.until_ended(user=1)


@pytest.mark.parametrize(
    ("told", "data"),
    [
        ({"do": "join", "group": "g"}, None),  # before connect
        ({"do": "connect"}, b"data"),
        ({"do": "connect", "id": -1}, None),
        ({"do": "connect", "more": 1}, None),
        ({"do": "quit"}, None),
        ({"do": "multicast", "groups": ["g"]}, None),
    ],
)
async def test_what_is_no_request_ends_the_connection(
    told: dict[str, Any], data: bytes | None, plant: Plant
) -> None:
    async with opened(plant.local) as web:
        client = await web.shaken()
        await client.send({"id": 1, **told}, data)
        assert (await client.receive())["closed"] == 1002
        await web.until_ended(protocol=1)


@given(frame=st.binary() | st.text())
def test_any_frame_is_a_request_or_refused(frame: str | bytes) -> None:
    with suppress(RemoteProtocolError):
        decode_untrusted(frame)


async def test_bytes_that_are_no_websocket_end_the_connection(plant: Plant) -> None:
    async with opened(plant.local) as web:
        client = await web.client()
        await client.stream.send_all(b"\xff" * 100)
        assert (await client.receive())["closed"] == 1002
        for sent in (b"\0\0\r\n\r\n", b"GET / HTTP/1.1\r\nHost: x\r\nX: " + b"a" * HEAD_BYTES):
            stream = await web.stream()
            await stream.send_all(sent)
            assert b"HTTP/1.1 4" in await stream.receive_some()
        await web.until_ended(protocol=1, http=2)


async def test_a_message_has_at_most_so_many_bytes_either_way(plant: Plant) -> None:
    async with opened(plant.local, message_bytes=1000) as web:
        ann = await web.client()
        await ann.ask("join", group="g")
        async with gc.connect(plant.local.address) as bob:
            await bob.multicast("g", bytes(1001))
            told = await ann.next("too large")
            assert (told["bytes"], "data" in told) == (1001, False)
        await ann.send({"id": 9, "do": "multicast", "groups": ["g"]}, bytes(5_000_000))
        assert (await ann.next("closed"))["closed"] == 1009
        await web.until_ended(large=1)


async def test_places_are_bounded_and_come_back(
    plant: Plant, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened(plant.local, connections=4) as web:
        first, *_ = [await web.client() for _ in range(4)]
        with pytest.raises((trio.BrokenResourceError, ProtocolError)):
            await web.client()
        await web.until_ended(full=1)
        await first.close()
        await web.until_ended(closed=1)
        await web.client()
    monkeypatch.setattr("ipaddress.IPv4Address.is_loopback", False)  # as if from another host
    async with opened(plant.local, connections=4) as web:
        await web.client()
        with pytest.raises((trio.BrokenResourceError, ProtocolError)):
            await web.client()
        await web.until_ended(network=1)


async def test_a_connection_may_read_history_and_go_on_with_what_comes(plant: Plant) -> None:
    async with opened(plant.local) as web, gc.connect(plant.local.address) as bob:
        reader = await web.client(groups=["news"], start="latest")
        await reader.next("group view")
        await bob.multicast("news", b"now")
        assert (await reader.next("message"))["data"] == b"now"
        for do in ("join", "leave"):
            with pytest.raises(GroupCommError, match="reads history"):
                await reader.ask(do, group="other")


async def test_who_begins_nothing_is_silent_or_does_not_read_is_left(
    plant: Plant, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "BEGIN_S", 0.1)
    monkeypatch.setattr(websocket, "SEND_S", 0.2)
    monkeypatch.setattr(websocket, "CLOSE_S", 0.1)
    async with opened(plant.local, message_bytes=10_000_000) as web:
        await web.shaken()
        await web.stream()
        await web.until_ended(late=2)
        monkeypatch.setattr(server, "BEGIN_S", PATIENCE_S)
        slow = await web.client()
        await slow.ask("join", group="g")
        await slow.send({"id": 9, "do": "multicast", "groups": ["g"]}, bytes(9_000_000))
        await web.until_ended(slow=1)
        monkeypatch.setattr(websocket, "PING_S", 0.5)
        lively, mute = await web.client(), await web.client()
        mute.pongs = False
        async with trio.open_nursery() as nursery:
            nursery.start_soon(lively.next, "nothing")
            assert (await mute.next("closed"))["closed"] == 1001
            await trio.sleep(0.2)
            nursery.cancel_scope.cancel()
        assert await lively.ask("join", group="g")
        await web.until_ended(silent=1, late=2)


@pytest.mark.long
async def test_a_session_lasts_longer_than_its_begin_may(
    plant: Plant, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "BEGIN_S", 3.0)
    async with opened(plant.local) as web:
        client = await web.client()
        await trio.sleep(3.5)
        assert await client.ask("join", group="g")


@pytest.mark.long
async def test_what_browsers_do_not_read_waits_at_the_daemon(
    plant: Plant, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(websocket, "SEND_S", 8.0)
    async with opened(plant.local) as web, gc.connect(plant.local.address) as bob:
        for _ in range(10):
            await (await web.client()).ask("join", group="g")
        tracemalloc.start()
        try:
            for _ in range(150):
                await bob.multicast("g", bytes(100_000))
                await trio.sleep(0.02)
            await web.until_ended(slow=10)
            assert tracemalloc.get_traced_memory()[1] < 10 * 4_000_000
        finally:
            tracemalloc.stop()


async def test_a_bound_of_the_daemon_is_told_to_the_browser_that_reaches_it() -> None:
    bound = "quotas = {session_groups = 2}\n"
    with RunningCluster(1, settings=NO_PAUSES, clients=bound) as cluster:
        async with opened(Daemon(cluster.address("a"), None, wants_token=False)) as web:
            ann, bob = await web.client(), await web.client()
            for group in ("one", "two"):
                await ann.ask("join", group=group)
            with pytest.raises(GroupCommError, match="session_groups"):
                await ann.ask("join", group="three")
            await bob.ask("join", group="three")


async def test_the_end_of_the_daemon_is_told() -> None:
    with RunningCluster(1, settings=NO_PAUSES) as cluster:
        async with opened(Daemon(cluster.address("a"), None, wants_token=False)) as web:
            ann = await web.client()
            await trio.to_thread.run_sync(cluster.kill, "a")
            assert (await ann.next("ended"))["why"]
            assert (await ann.receive())["closed"] == 1001


async def test_page_module_and_metrics_are_files(plant: Plant, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    page.write_text("<p>hello")
    async with opened(plant.local, page=page) as web:
        await web.client()
        for path, found in (
            ("/", b"<p>hello"),
            ("/groupcomm.js", b"export async function connect"),
            ("/metrics", b"groupcomm_web_connections 2.0\n"),
            ("/nothing", b"404"),
        ):
            stream = await web.stream()
            await stream.send_all(f"GET {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
            assert found in b"".join([part async for part in stream])


@pytest.mark.parametrize("method", ["HEAD", "POST", "CONNECT", "OPTIONS", "PUT", "X"])
async def test_what_is_no_get_is_answered_and_ends_nothing_else(plant: Plant, method: str) -> None:
    async with opened(plant.local) as web:
        ann = await web.client()
        for version in ("1.0", "1.1"):
            stream = await web.stream()
            lines = (
                f"{method} /groupcomm.js HTTP/{version}\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc"
            )
            await stream.send_all(lines.encode())
            answer = b"".join([part async for part in stream])
            head, _, body = answer.partition(b"\r\n\r\n")
            assert head.startswith(b"HTTP/1.1 200" if method == "HEAD" else b"HTTP/1.1 405"), answer
            assert (body == b"") == (method == "HEAD")
        assert await ann.ask("join", group="g")
        assert not web.web.ended["fault"]


async def test_a_fault_in_one_connection_ends_no_other_one(
    plant: Plant, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened(plant.local) as web:
        ann = await web.client()
        monkeypatch.setattr(server, "MODULE", None)
        stream = await web.stream()
        await stream.send_all(b"GET /groupcomm.js HTTP/1.1\r\nHost: x\r\n\r\n")
        await web.until_ended(fault=1)
        assert await ann.ask("join", group="g")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("--listen 0.0.0.0 --address /x.sock", "other hosts can reach it.*--address tls://"),
        ("--listen 0.0.0.0 --address tls://x", "would read tokens: give --certificate"),
        ("--address tls://x,/x.sock", "either all begin with tls://, or none does"),
        ("--listen nowhere", "--listen is 'nowhere'"),
        ("--certificate /dev/null", "--certificate /dev/null"),
    ],
)
def test_options_that_let_in_who_must_stay_out_are_refused(words: str, said: str) -> None:
    status, _, messages = tell("web", *words.split())
    assert status == 2
    assert re.search(said, messages)


def test_a_renewed_certificate_is_used_for_new_connections(tmp_path: Path) -> None:
    ca, _ = make_authority(tmp_path, 1.0)
    certificate, key = issue(tmp_path, "web", ["127.0.0.1"], 1.0)
    trusting = ssl.create_default_context(cafile=ca)

    async def number_of(port: int) -> bytes:
        plain = await trio.open_tcp_stream("127.0.0.1", port)
        async with trio.SSLStream(plain, trusting, server_hostname="127.0.0.1") as stream:
            client = WebClient(stream)
            await client.shake_hands(origin=f"https://127.0.0.1:{port}")
            await client.ask("connect")
            found = stream.getpeercert(binary_form=True)
            assert isinstance(found, bytes)
            return found

    with RunningCluster(1, settings=NO_PAUSES) as cluster:
        shell = Shell(cluster.address("a"))
        files = ("--certificate", str(certificate), "--key", str(key))
        command = shell.start("web", "--listen", "127.0.0.1:0", *files)
        assert command.stderr is not None
        port = int(re.findall(r"wss://127.0.0.1:(\d+)/", command.stderr.readline())[0])
        before = trio.run(number_of, port)
        certificate.write_text("half of it")
        assert "certificate: the one before stays in use" in command.stderr.readline()
        assert trio.run(number_of, port) == before
        renew_files(tmp_path, certificate, key)
        assert "certificate: new connections get the renewed one" in command.stderr.readline()
        assert trio.run(number_of, port) != before
        command.send_signal(signal.SIGTERM)
        finish(command)


def renew_files(folder: Path, certificate: Path, key: Path) -> None:
    """Issue another certificate into the same files, as tools that renew certificates do."""
    made, made_key = issue(folder, "again", ["127.0.0.1"], 1.0)
    key.write_bytes(made_key.read_bytes())
    certificate.write_bytes(made.read_bytes())


def test_the_command_serves_until_it_is_ended_and_lends_nobody_its_own_rights(
    plant: Plant,
) -> None:
    shell = Shell(plant.tls.address)
    certificate, key = map(str, plant.certificate)
    shell.environment |= {"GROUPCOMM_CERTIFICATE": certificate, "GROUPCOMM_KEY": key}
    command = shell.start("web", "--listen", "127.0.0.1:0", "--ca", str(plant.tls.ca))
    assert command.stderr is not None
    port = int(re.findall(r"ws://127.0.0.1:(\d+)/", command.stderr.readline())[0])

    async def come() -> None:
        async with await trio.open_tcp_stream("127.0.0.1", port) as stream:
            client = WebClient(stream)
            await client.shake_hands(origin=f"http://localhost:{port}")
            await client.ask("connect", token=plant.token)
            with pytest.raises(GroupCommError, match="token:shop may not join 'closed'"):
                await client.ask("join", group="closed")

    trio.run(come)
    command.send_signal(signal.SIGTERM)
    finish(command)
    assert command.returncode == 128 + signal.SIGTERM
