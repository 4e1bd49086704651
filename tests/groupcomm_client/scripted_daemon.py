"""A daemon's end of one connection, in the process of the test: real bytes, a step at a time."""

import json
import random
import socket
from collections import defaultdict
from typing import Final

from groupcomm.clocks.stamp import Position, ViewId
from groupcomm.errors import Code
from groupcomm.events import Cause, DaemonView, GroupView, MemberId, Message, Transition
from groupcomm.level import LEVELS, ServiceLevel
from groupcomm.session.daemon_frames import (
    encode_answer,
    encode_delivery,
    encode_ordered,
    encode_transition,
    encode_view,
    encode_view_id,
)
from groupcomm.session.daemon_session import DaemonSession, SessionLimits
from groupcomm.session.liveness import PeerWatch
from groupcomm.session.requests import Alive, Bye, Hello, Query, Request
from groupcomm.wire.bundle import (
    Bundle,
    BundleKind,
    body_payload,
    decode_body_untrusted,
    encode_body,
)
from groupcomm_client.events import Received
from tests.groupcomm.wire.payloads import decode_messages, encode_messages

ANN: Final = MemberId("#ann#a", 1)
BOB: Final = MemberId("#bob#b", 7)
BUNDLE_LIMIT: Final = 60_000
CHAT: Final = "chat"


class ScriptedDaemon:
    """Does what ann asks for at once, talks to her meanwhile, and moves bytes in crumbs.

    Args:
        end: the daemon's end of the connection; non-blocking.
        seed: the seed of all sizes.
        crumb_bytes: the most bytes that it writes at a step.
        gulp_bytes: the most bytes that it reads at a step.

    Attributes:
        told: the events that ann must receive, in this order.
        joined: the views that were the answers to her joins, by group.
        taken: numbers of her messages, as they came.
        places: the places of ordered messages, by number.
        heartbeats: the number of her heartbeats.
        gone: whether she has closed her end.
    """

    def __init__(self, end: socket.socket, *, seed: int, crumb_bytes: int, gulp_bytes: int) -> None:
        self.told: list[Received] = []
        self.joined: dict[str, list[GroupView]] = defaultdict(list)
        self.taken: list[int] = []
        self.places: dict[int, Position] = {}
        self.heartbeats = 0
        self.gone = False
        self._end = end
        self._random = random.Random(seed)
        self._crumb_bytes, self._gulp_bytes = crumb_bytes, gulp_bytes
        self._session = DaemonSession(ANN.connection, limits=SessionLimits())
        self._session.watch = PeerWatch(0.0, 0.0)  # so that her heartbeats are allowed
        self._view = ViewId(1, "a", 5)
        self._groups: dict[str, tuple[MemberId, ...]] = {CHAT: (BOB,)}
        self._time = self._count = 0
        self._unsent = b""

    def step(self) -> None:
        """Read some, write some; when there is nothing to write, tell something new."""
        if self.gone:
            return
        self._read()
        if not self._unsent:
            self._unsent = b"".join(self._session.pop_output(1 << 20))
        if not self._unsent and ANN in self._groups[CHAT]:
            self._chat()
            return
        try:
            sent = self._end.send(self._unsent[: self._random.randint(1, self._crumb_bytes)])
        except BlockingIOError:
            return
        except BrokenPipeError:
            self.gone = True
            return
        self._unsent = self._unsent[sent:]

    def _read(self) -> None:
        try:
            data = self._end.recv(self._random.randint(1, self._gulp_bytes))
        except BlockingIOError:
            return
        except ConnectionResetError:  # she has not read all
            data = b""
        self.gone = not data
        for request in self._session.receive(data):
            self._carry_out(request)

    # ---- what ann asks for ----

    def _carry_out(self, request: Request) -> None:
        match request:
            case Hello():
                view = DaemonView(id=self._view, daemons=("a", "b"), majority=True)
                self._session.connect(ANN.name)
                self._session.welcome(BUNDLE_LIMIT, view)
                self.told.append(view)
            case Query():
                self._session.push(encode_answer(json.dumps({"asked": request.text}).encode()))
            case Bye():
                self._session.close(Code.OK, "goodbye")
            case Alive():
                self.heartbeats += 1
            case _:
                self._session.backlog_bytes -= request.bundle.size
                self._take(request.bundle, request.ordered)

    def _take(self, bundle: Bundle, ordered: bool) -> None:
        if bundle.kind == BundleKind.MESSAGES:
            numbers = range(bundle.message, bundle.message + bundle.count)
            self.taken += numbers
            place = self._deliver(ANN, bytes(bundle.body))
            if ordered:
                self.places[bundle.message] = place
                self._session.push(encode_ordered(bundle.message, place))
            return
        (group,) = bundle.groups
        cause = Cause.JOIN if bundle.kind == BundleKind.JOIN else Cause.LEAVE
        view = self._change(group, ANN, cause)
        if cause is Cause.JOIN:
            self.joined[group].append(view)

    # ---- what ann is told ----

    def _next_place(self) -> Position:
        self._time += 1
        return Position(self._view, self._time, 0, 0, 0)

    def _deliver(self, sender: MemberId, body: bytes) -> Position:
        place = self._next_place()
        bundle = decode_body_untrusted(body)
        if ANN in self._groups.get(bundle.groups[0], ()):
            self._session.push(
                *encode_delivery(sender.name, sender.connection, (place.time, 0, 0), body)
            )
            parts = decode_messages(body_payload(body), bundle.count)
            self.told += (
                Message(
                    sender=sender,
                    number=bundle.message + index,
                    groups=bundle.groups,
                    level=LEVELS[bundle.level],
                    type=kind,
                    data=data,
                    bundle=place,
                    index=index,
                )
                for index, (kind, data) in enumerate(parts)
            )
        return place

    def _change(self, group: str, who: MemberId, cause: Cause) -> GroupView:
        others = tuple(member for member in self._groups.get(group, ()) if member != who)
        now = self._groups[group] = (*others, who) if cause is Cause.JOIN else others
        shown = GroupView(
            group=group,
            id=self._next_place(),
            members=now,
            cause=cause,
            changed=(who,),
            vs_set=others,
            own=who == ANN,
        )
        if who == ANN or ANN in now:
            self._session.push(encode_view(shown))
            self.told.append(shown)
        return shown

    def _chat(self) -> None:
        """Bob says something, comes or goes; or the daemons change."""
        choice = self._random.random()
        self._count += 1
        if choice < 0.8:
            parts = [(self._count, bytes(self._random.randint(0, 60))) for _ in range(2)]
            body = encode_body(
                BundleKind.MESSAGES,
                ServiceLevel.AGREED,
                0,
                2 * self._count,
                (CHAT,),
                encode_messages(parts),
                count=2,
            )
            self._deliver(BOB, body)
        elif choice < 0.95:
            comes = BOB not in self._groups[CHAT]
            self._change(CHAT, BOB, Cause.JOIN if comes else Cause.LEAVE)
        else:
            self._session.push(encode_transition())
            self.told.append(Transition(self._view))
            self._view = self._view._replace(counter=self._view.counter + 1)
            view = DaemonView(id=self._view, daemons=("a", "b"), majority=True)
            self._session.push(encode_view_id(view))
            self.told.append(view)
