"""Conversations: what one daemon answers to the frames of its clients, step by step.

The daemon is alone in its view, and its clock stands still: so all its answers are the same each
time. Each client writes raw bytes; what the daemon has for the clients is read after each step.
"""

from collections.abc import Callable
from typing import Any, Final

from groupcomm.engine import ClientBytes, ClientGone, ClientOpened, QuestionAnswered
from groupcomm.errors import BadDatagram
from groupcomm.level import ServiceLevel
from groupcomm.session.frames import (
    CLIENT_FRAME_BYTES,
    DAEMON_FRAME_BYTES,
    FrameReader,
    encode_bye,
    encode_hello,
    encode_query,
)
from groupcomm.wire.bundle import SELF_DISCARD, BundleKind, encode_body
from groupcomm.wire.messages import encode_fragment
from tests.groupcomm.engine.clients import PLENTY, Clients
from tests.protocol.families import Fields, plain
from tests.protocol.session_vectors import bundle, messages, read_client, read_daemon

AGREED, SAFE, FIFO = ServiceLevel.AGREED, ServiceLevel.SAFE, ServiceLevel.FIFO
Step = Fields


class Stage:
    """One daemon and its clients; what they write and get is recorded as steps."""

    def __init__(self) -> None:
        self._clients = Clients()
        self._connections: dict[str, int] = {}
        self.steps: list[Step] = []

    def write(self, client: str, raw: bytes) -> None:
        """Have a client write bytes, on a new stream if it has none."""
        if client not in self._connections:
            number = self._connections[client] = self._clients.core.next_connection()
            self._clients.step(ClientOpened(number, f"unix:{client}"))
        self.steps.append({"client": client, "writes": raw.hex(), "frame": frame_of(raw)})
        self._clients.step(ClientBytes(self._connections[client], raw))
        for number, _ in self._pop_questions():
            self._clients.step(QuestionAnswered(number, b'{"members": []}'))
        self._read()

    def end_stream(self, client: str) -> None:
        """Have the stream of a client end."""
        self.steps.append({"client": client, "ends": True})
        self._clients.step(ClientGone(self._connections.pop(client)))
        self._read()

    def _pop_questions(self) -> list[tuple[int, str]]:
        found = list(self._clients.questions)
        self._clients.questions.clear()
        return found

    def _read(self) -> None:
        for client, number in self._connections.items():
            raw = b"".join(self._clients.core.pop_output(number, PLENTY))
            for frame in FrameReader(DAEMON_FRAME_BYTES).feed(raw):
                whole = len(frame).to_bytes(4, "big") + frame
                told = plain(read_daemon(whole)[0])
                self.steps.append({"client": client, "gets": whole.hex(), "frame": told})


def frame_of(raw: bytes) -> Any:
    """Return the fields of what a client writes; the reason if it does not decode."""
    try:
        frames = list(FrameReader(CLIENT_FRAME_BYTES).feed(raw))
        told = [plain(read_client(len(frame).to_bytes(4, "big") + frame)[0]) for frame in frames]
    except BadDatagram as error:
        return f"does not decode: {error.reason}"
    return told[0] if len(told) == 1 else told


def replay(steps: list[Step]) -> list[Step]:
    """Have the daemon answer what the clients of some steps write; return all steps anew."""
    stage = Stage()
    for step in steps:
        if "writes" in step:
            stage.write(step["client"], bytes.fromhex(step["writes"]))
        elif "ends" in step:
            stage.end_stream(step["client"])
    return stage.steps


def join(number: int, group: str = "news") -> bytes:
    """Return the BUNDLE of a join."""
    return bundle(encode_body(BundleKind.JOIN, AGREED, 0, number, (group,), b""))


def leave(number: int, group: str = "news") -> bytes:
    """Return the BUNDLE of a leave."""
    return bundle(encode_body(BundleKind.LEAVE, AGREED, 0, number, (group,), b""))


def say(
    number: int, data: bytes, *, level: int = AGREED, to: str = "news", flags: int = 0
) -> bytes:
    """Return the BUNDLE of one message."""
    return bundle(
        encode_body(BundleKind.MESSAGES, level, flags, number, (to,), messages((1, data)))
    )


def part(number: int, index: int, count: int, data: bytes, total: int) -> bytes:
    """Return the BUNDLE of a fragment."""
    payload = encode_fragment(1, total, data)
    return bundle(
        encode_body(BundleKind.FRAGMENT, FIFO, 0, number, ("news",), payload, index, count)
    )


def a_session(stage: Stage) -> None:
    stage.write("ann", encode_hello("ann", 2))
    stage.write("ann", join(1))
    stage.write("ann", say(2, b"hello"))
    stage.write("ann", leave(3))
    stage.write("ann", say(4, b"nobody hears this"))
    stage.write("ann", encode_bye())


def two_members(stage: Stage) -> None:
    for client in ("ann", "bob"):
        stage.write(client, encode_hello(client, 2))
        stage.write(client, join(1))
    stage.write("ann", say(2, b"for bob only", flags=SELF_DISCARD))
    stage.write("bob", say(2, b"an answer", to="#ann#a"))
    body = encode_body(BundleKind.MESSAGES, SAFE, 0, 3, ("news",), messages((1, b"when?")))
    stage.write("ann", bundle(body, ordered=True))
    stage.end_stream("bob")
    stage.write("ann", say(4, b"too late", to="#bob#a"))
    stage.write("ann", encode_query("members news"))


def fragments(stage: Stage) -> None:
    stage.write("ann", encode_hello("ann", 2))
    stage.write("ann", join(1))
    stage.write("ann", part(2, 0, 2, b"a long", 14))
    stage.write("ann", part(2, 1, 2, b" message", 14))
    stage.write("ann", part(3, 0, 2, b"given up", 99))
    stage.write("ann", say(4, b"a message in between"))


def everything_asked_for(stage: Stage) -> None:
    stage.write("ann", encode_hello("ann", 31))
    stage.write("ann", join(1))
    stage.write("ann", say(2, b"with its causes", level=ServiceLevel.CAUSAL))


def _ended_by(*frames: bytes) -> Callable[[Stage], None]:
    def play(stage: Stage) -> None:
        for frame in frames:
            stage.write("ann", frame)

    return play


def a_name_twice(stage: Stage) -> None:
    stage.write("ann", encode_hello("ann", 2))
    stage.write("other", encode_hello("ann", 2))


HELLO: Final = encode_hello("ann", 2)
CONVERSATIONS: Final[list[tuple[str, str, Callable[[Stage], None]]]] = [
    (
        "a session",
        "A client connects, joins, multicasts, receives, leaves and ends its session.",
        a_session,
    ),
    (
        "two members",
        "Private messages, a message whose position is asked for, a member that dies, a question.",
        two_members,
    ),
    (
        "fragments",
        "A message in two fragments, and one that is not completed in its turn.",
        fragments,
    ),
    (
        "all capabilities",
        "CAUSES, PRINCIPAL and ORIGINS come where they were asked for.",
        everything_asked_for,
    ),
    ("a name twice", "The daemon has a session of this user.", a_name_twice),
    ("another version", "A HELLO of version 2.", _ended_by(HELLO[:5] + b"\2" + HELLO[6:])),
    ("no hello", "The first frame is another one.", _ended_by(join(1))),
    (
        "a number is left out",
        "Messages are counted without gaps.",
        _ended_by(HELLO, join(1), say(3, b"")),
    ),
    ("broken bytes", "A body that does not decode.", _ended_by(HELLO, bundle(b"\0" * 20))),
    ("a frame of a daemon", "A client sends no WELCOME.", _ended_by(HELLO, b"\0\0\0\1\x10")),
    (
        "an early request",
        "Nothing but BYE may follow HELLO before WELCOME has come.",
        _ended_by(HELLO + join(1)),
    ),
    ("a body beyond the limit", "The WELCOME has named it.", _ended_by(HELLO, say(1, bytes(1500)))),
    (
        "ordered at FIFO",
        "Only AGREED and SAFE messages have a place to wait for.",
        _ended_by(
            HELLO,
            bundle(
                encode_body(BundleKind.MESSAGES, FIFO, 0, 1, ("news",), messages((1, b"x"))),
                ordered=True,
            ),
        ),
    ),
]


def content() -> Fields:
    """Return the content of the file of conversations."""
    found = []
    for name, about, play in CONVERSATIONS:
        stage = Stage()
        play(stage)
        found.append({"name": name, "description": about, "steps": stage.steps})
    return {
        "about": "Conversations of clients with daemon a, which is alone in its view. A step is"
        " what a client writes, the end of its stream, or one frame that the daemon has for it.",
        "conversations": found,
    }
