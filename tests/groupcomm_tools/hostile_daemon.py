"""A daemon whose every name and text a terminal would obey, or nobody would see."""

import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from groupcomm.clocks.stamp import Position, ViewId
from groupcomm.events import Cause, DaemonView, GroupView, MemberId
from groupcomm.level import ServiceLevel
from groupcomm.session.daemon_frames import encode_answer, encode_delivery, encode_view
from groupcomm.session.daemon_session import DaemonSession, SessionLimits
from groupcomm.session.requests import Alive, Bye, Hello, Query, Request, Submit
from groupcomm.wire.bundle import BundleKind, encode_body
from tests.groupcomm.wire.payloads import encode_messages

HOSTILE: Final = "x\x1b[2J\u202ey\u2066\u200b\u2028\x9b1mz"

_ME: Final = MemberId("#ann#a", 1)
_OTHER: Final = MemberId(f"#{HOSTILE}#a", 2)
_LIMIT: Final = 60_000
_DATAGRAMS: Final = dict.fromkeys(("sent", "received", "not_sent", "foreign", "stale"), 0)


def status() -> dict[str, Any]:
    """Return its status."""
    return {
        **{"daemon": HOSTILE, "pid": 1, "restarts": 1, "uptime_s": 1.0, "state": "operational"},
        **{"view": HOSTILE, "daemons": [HOSTILE], "rings": [[HOSTILE]], "links": []},
        **{"majority": True, "ring": None, "connections": 1, "connections_refused": 1},
        **{"refused": {HOSTILE: 1}, "messages": dict.fromkeys(_MESSAGES, 0)},
        "peers": [{"name": f"{HOSTILE}2", "heard_s": None, "left": False, "clock_ahead_s": None}],
        "datagrams": {**_DATAGRAMS, "rejected": {HOSTILE: 3}, "buffer_bytes": 1, "dropped": 0},
        "sessions": [
            {
                **{"user": HOSTILE, "principal": f"cert:{HOSTILE}", "connection": 1},
                **{"output_bytes": 0, "backlog_bytes": 0, "dropped": 0},
            }
        ],
    }


_MESSAGES: Final = ("taken", "taken_bytes", "delivered", "delivered_bytes")
_MEMBERS: Final = {
    "members": [HOSTILE],
    "since": {HOSTILE: {"time": HOSTILE, "view": HOSTILE}},
    "principals": {HOSTILE: HOSTILE},
}
_ANSWERS: Final = {"groups": {"groups": {HOSTILE: 1}}, "members": _MEMBERS}


class HostileSession:
    """One connection to it."""

    def __init__(self, end: socket.socket) -> None:
        self._end = end
        self._session = DaemonSession(_ME.connection, limits=SessionLimits())
        self._view = DaemonView(id=ViewId(1, HOSTILE, 5), daemons=(HOSTILE,), majority=True)

    def serve(self) -> None:
        """Carry out requests, until the end."""
        with self._end:
            while data := self._end.recv(65_536):
                for request in self._session.receive(data):
                    self._carry_out(request)
                self._end.sendall(b"".join(self._session.pop_output(1 << 20)))
                if self._session.closed:
                    return

    def _carry_out(self, request: Request) -> None:
        session = self._session
        match request:
            case Hello():
                session.connect(_ME.name)
                session.welcome(_LIMIT, self._view)
            case Query(text=text):
                answer = status() if text == "status" else _ANSWERS.get(text.split()[0])
                session.push(encode_answer(json.dumps(answer or {"error": HOSTILE}).encode()))
            case Submit(bundle=bundle) if bundle.kind == BundleKind.JOIN:
                self._join(bundle.groups[0])
            case Bye():
                session.close(-1, f"goodbye\n{HOSTILE}")
            case Submit() | Alive():
                pass

    def _join(self, group: str) -> None:
        place = Position(self._view.id, 1, 0, 0, 0)
        both = (_ME, _OTHER)
        view = GroupView(
            group=group, id=place, members=both, cause=Cause.JOIN, changed=(_ME,), vs_set=both,
            own=True,
        )  # fmt: skip
        self._session.push(encode_view(view))
        data = encode_messages([(0, f"{HOSTILE}\nAGREED     #boss#a stop".encode())])
        body = encode_body(BundleKind.MESSAGES, ServiceLevel.AGREED, 0, 1, (group,), data)
        self._session.push(*encode_delivery(_OTHER.name, 2, (2, 0, 0), body))


@contextmanager
def hostile_daemon(folder: Path) -> Iterator[str]:
    """Run it beside the block; yield the address at which it listens."""
    path = folder / "hostile.sock"
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        listener.bind(str(path))
        listener.listen()
        thread = threading.Thread(target=_listen, args=(listener,))
        thread.start()
        try:
            yield str(path)
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            thread.join()


def _listen(listener: socket.socket) -> None:
    while True:
        try:
            end, _ = listener.accept()
        except OSError:
            return  # the socket was closed
        HostileSession(end).serve()
