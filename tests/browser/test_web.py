"""`groupcomm web` with a real browser, beside Python and `groupcomm chat`."""

import re
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from groupcomm.events import Message
from groupcomm_client.blocking import BlockingConnection, connect
from groupcomm_tools.running_cluster import RunningCluster
from tests.groupcomm_tools.shell import Shell, finish

if TYPE_CHECKING:
    from playwright.sync_api import Browser

ROOT = Path(__file__).parent.parent.parent
PAGE = ROOT / "examples" / "browser_chat" / "chat.html"


@pytest.fixture
def cluster() -> Iterator[RunningCluster]:
    with RunningCluster(3, relay=True) as made:
        yield made


@contextmanager
def web(address: str) -> Iterator[str]:
    """Run the server; return its address."""
    server = Shell(address).start("web", "--listen", "127.0.0.1:0", "--page", str(PAGE))
    assert server.stderr is not None
    try:
        yield re.findall(r"ws://(127.0.0.1:\d+)/", server.stderr.readline())[0]
    finally:
        server.send_signal(signal.SIGTERM)
        finish(server)


def until_said(connection: BlockingConnection, text: bytes) -> Message:
    while True:
        event = connection.receive(20)
        if isinstance(event, Message) and event.data == text:
            return event


@pytest.mark.long
def test_a_page_chats_with_python_and_a_terminal_through_views(
    browser: "Browser", cluster: RunningCluster
) -> None:
    complaints: list[str] = []
    with (
        web(cluster.address("a")) as where,
        connect(cluster.address("b"), user="py") as python,
    ):
        python.join("room")
        terminal = Shell(cluster.address("c")).start("chat", "room", "--user", "tty")
        page = browser.new_page()
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.set_default_timeout(20_000)
        page.goto(f"http://{where}/?user=web")

        def shows(text: str) -> None:
            page.wait_for_function("text => document.body.innerText.includes(text)", arg=text)

        def say(text: str) -> None:
            page.fill("#text", text)
            page.press("#text", "Enter")
            shows(f"#web#a: {text}")

        page.wait_for_selector("#text:enabled")
        say("hello from the page")
        assert until_said(python, b"hello from the page").sender.name == "#web#a"
        python.multicast("room", "grüße <b>".encode())
        shows("#py#b: grüße <b>")
        assert terminal.stdin is not None
        terminal.stdin.write("from a terminal\n")
        terminal.stdin.flush()
        shows("#tty#c: from a terminal")
        cluster.partition("ab", "c")
        shows("daemons: a, b\n")
        page.wait_for_function("!document.querySelector('#members').innerText.includes('tty')")
        say("without c")
        until_said(python, b"without c")
        cluster.heal()
        page.wait_for_function("document.querySelector('#members').innerText.includes('tty')")
        say("together")
        until_said(python, b"together")
        python.multicast("room", b"end")
        shows("#py#b: end")
        told = [line for line in page.inner_text("#lines").splitlines() if line.startswith("#")]
        output, _ = finish(terminal)
        assert [line.split("] ")[1] for line in output.splitlines() if "] " in line] == [
            line for line in told if "without c" not in line
        ], "the terminal saw the same, but for what was said while it was away"
        cluster.kill("a")
        shows("Load the page again")
        page.close()
    assert not complaints
