"""Unauthorised programs: they send every kind of frame, and daemons allow them nothing.

Each connection is a program of its own, with bytes that no library would write. The answers of
daemons are checked: a program gets a name that it may have, and learns of no messages and of no
groups.
"""

import struct
from collections.abc import Callable, Sequence
from functools import partial
from random import Random
from typing import Final

from groupcomm.errors import BadDatagram
from groupcomm.events import DaemonView, Transition
from groupcomm.level import LEVELS, ServiceLevel
from groupcomm.names import private_name
from groupcomm.session.daemon_frames import decode_view_id_untrusted, decode_welcome_untrusted
from groupcomm.session.frames import (
    DAEMON_FRAME_BYTES,
    FrameKind,
    FrameReader,
    encode_bundle_head,
    encode_bye,
    encode_hello,
    encode_query,
)
from groupcomm.sim.cluster.connections import Pipe
from groupcomm.sim.virtual_time import SECOND
from groupcomm.sim.workload import GROUPS
from groupcomm.trace.recorders import SessionTrace
from groupcomm.wire.bundle import BundleKind, encode_body
from groupcomm.wire.messages import encode_fragment, message_parts
from tests.verification.simulation.attackers.attack import Attack, AttackContext

RUDE: Final = "token:rude"
OWN_NAMES: Final = ("rude", "rude/1", "rude/chat")
USERS: Final = 8
"""The run's own programs are called user0 to user7."""

MOST_OPEN: Final = 12
MOST_AT_ONCE: Final = 60
"""The most frames of one act."""

BESIDE: Final = ("", "sink.0000", "unix:polite", "user0/x", "polite", "root", "ann", "daemon")
TOLD: Final = frozenset(
    (
        FrameKind.WELCOME,
        FrameKind.VIEWID,
        FrameKind.TRANSITION,
        FrameKind.ORIGINS,
        FrameKind.CLOSED,
        FrameKind.ANSWER,
        FrameKind.REFUSED,
        FrameKind.DAEMON_ALIVE,
        FrameKind.ACCEPTED,
    )
)
"""The kinds of frames about the program itself and the daemons, but about no other program."""

_AGREED: Final = int(ServiceLevel.AGREED)
_GROUPS: Final = (*GROUPS, "", "x", "#", "g" * 255, "g" * 300, "\x00", "*")


class RogueProgram:
    """The connection of an unauthorised program.

    Args:
        trace: records the views that it is told, which daemons owe to every program they admit.
        principal: the owner of the program.
        may_be_called: the names that it may have.
        breach: is called with each breach.
    """

    def __init__(
        self,
        trace: SessionTrace,
        principal: str,
        may_be_called: Sequence[str],
        breach: Callable[[str], None],
    ) -> None:
        self.principal = principal
        self._trace = trace
        self.alive = False
        self.is_open = False
        self.received_kinds: list[int] = []
        self.message = 1
        self._names = may_be_called
        self._breach = breach
        self._reader = FrameReader(DAEMON_FRAME_BYTES)
        self._view: DaemonView | None = None
        self._waiting = bytearray()
        self._up: Pipe | None = None
        self._down: Pipe | None = None

    # ---- calls of the connection ----

    def attach(self, up: Pipe, down: Pipe, connection: int) -> None:
        """Accept the connection."""
        self._up, self._down, self.alive = up, down, True

    def flush(self) -> None:
        """Write waiting output, as far as there is room."""
        while self._waiting and self._up is not None and (room := self._up.room()):
            self._up.write(bytes(self._waiting[:room]))
            del self._waiting[:room]

    def receive(self, data: bytes) -> None:
        """Check the output of the daemon."""
        try:
            for frame in self._reader.feed(data):
                self._check(frame)
        except BadDatagram as error:
            self._breach(f"a daemon's frames do not decode: {error}")

    def _check(self, frame: bytes) -> None:
        kind = frame[0]
        self.received_kinds.append(kind)
        if kind not in TOLD:
            self._breach(
                f"{self.principal or 'nobody'} gets a frame of kind {FrameKind(kind).name}"
            )
        elif kind == FrameKind.WELCOME:
            member = decode_welcome_untrusted(frame).member
            name = member.user
            self.is_open = True
            self._trace.identity = str(member)
            if name not in self._names and not name.startswith("u0000"):
                self._breach(f"{self.principal or 'nobody'} gets the name {name!r}")
        elif kind == FrameKind.VIEWID:
            self._view = decode_view_id_untrusted(frame)
            self._trace.received(self._view)
        elif kind == FrameKind.TRANSITION:
            assert self._view is not None
            self._trace.received(Transition(view=self._view.id))
        elif kind == FrameKind.CLOSED:
            self.is_open = False

    def ended(self) -> None:
        """Note that the connection has ended."""
        self.alive = self.is_open = False
        if self._down is not None:
            self._down.break_off()

    # ---- acts ----

    def write(self, data: bytes) -> None:
        """Send bytes, once there is room for them."""
        if self.alive and len(self._waiting) < 1_000_000:
            self._waiting += data
            self.flush()

    def set_reading(self, reading: bool) -> None:
        """Read, or stop reading."""
        if self.alive and self._down is not None:
            self._down.set_reading(reading)

    def hang_up(self) -> None:
        """Close the connection."""
        if self.alive and self._up is not None:
            self._up.close()
            self.ended()

    def say_goodbye(self) -> None:
        """End the session in order."""
        if self.is_open:
            self.write(encode_bye())


def bundle(
    kind: int,
    message: int,
    groups: tuple[str, ...],
    payload: bytes,
    *,
    level: int = _AGREED,
    index: int = 0,
    count: int = 1,
) -> bytes:
    """Return a frame with a bundle."""
    body = encode_body(kind, level, 0, message, groups, payload, index, count)
    return encode_bundle_head(len(body), False) + body


class RogueProgramsAttack(Attack):
    """An attack by unauthorised programs with many connections, one program at each daemon."""

    PRINCIPAL = RUDE
    NAMES: Sequence[str] = OWN_NAMES

    def __init__(self, stage: AttackContext, rng: Random) -> None:
        super().__init__(stage, rng)
        self._open: list[RogueProgram] = []
        self.welcomed = 0
        self.refused = 0

    def on_settle(self) -> None:
        """Stop: each act notifies programs, so the cluster would never settle."""
        self.stop()
        for rude in self._open:
            rude.set_reading(True)

    def act(self) -> None:
        """Connect, do something with a connection or two, or disconnect."""
        self._open = [rude for rude in self._open if rude.alive]
        if len(self._open) < MOST_OPEN:
            for _ in range(self._rng.choice((1, 1, 2, 6))):
                self._connect()
        for _ in range(3):
            open_ones = [rude for rude in self._open if rude.is_open] or self._open
            if open_ones:
                self._act_with(self._rng.choice(open_ones))

    def _connect(self) -> None:
        hosts = [host for host in self._stage.hosts if host.is_up]
        if not hosts:
            return
        trace = SessionTrace(self._stage.loop, self._stage.record)
        rude = RogueProgram(trace, self.PRINCIPAL, self.NAMES, self._breach)
        host = self._rng.choice(hosts)
        words = self._first_words()
        host.accept(rude)
        self._open.append(rude)
        for data in words:
            rude.write(data)

    def _first_words(self) -> Sequence[bytes]:
        """Return a greeting with an own name or another's, or bytes that are no greeting."""
        rng, lot = self._rng, self._rng.random()
        if lot < 0.5:
            name = rng.choice((*OWN_NAMES, f"u{rng.getrandbits(32):012x}"))
        elif lot < 0.85:
            name = rng.choice((f"user{rng.randrange(USERS)}", *BESIDE))
        else:
            return rng.choice(
                ((), (b"\x00",), (rng.randbytes(200),), (encode_query("status"),), (bytes(4096),))
            )
        asks = rng.choice((0, 2, 7, 2**32 - 1))
        greeting = encode_hello(name, asks, rng.choice(("", "", "token")))
        return (greeting, *([encode_query("status")] if rng.random() < 0.2 else []))

    def _act_with(self, rude: RogueProgram) -> None:
        act = self._rng.choice(
            (
                self._send,
                self._send,
                self._send_privately,
                self._send_privately,
                self._flood,
                self._flood,
                self._join,
                self._join,
                self._fragments,
                self._speak_as_a_daemon,
                self._talk_nonsense,
                self._stop_reading,
                self._go,
            )
        )
        act(rude)

    # ---- frames ----

    def _flood(self, rude: RogueProgram) -> None:
        """Send the same frame again and again, as fast as it is read."""
        make: Callable[[int], bytes] = self._rng.choice(
            (
                lambda _: encode_query("status"),
                partial(self._frame, BundleKind.JOIN),
                partial(self._frame, BundleKind.LEAVE),
                self._message,
                self._private,
            )
        )
        rude.write(b"".join(self._counted(rude, make) for _ in range(MOST_AT_ONCE)))

    def _counted(self, rude: RogueProgram, make: Callable[[int], bytes]) -> bytes:
        frame = make(rude.message)
        rude.message += frame[4] != FrameKind.QUERY
        return frame

    def _frame(self, kind: int, message: int) -> bytes:
        return bundle(kind, message, (self._rng.choice(GROUPS),), b"")

    def _message(self, message: int) -> bytes:
        rng = self._rng
        groups = tuple(rng.sample(GROUPS, rng.randint(1, len(GROUPS))))
        level = int(rng.choice(LEVELS))
        return bundle(
            BundleKind.MESSAGES,
            message,
            groups,
            message_parts([(0, [b"rude"])])[0] + b"rude",
            level=level,
        )

    def _private(self, message: int) -> bytes:
        rng = self._rng
        daemon = rng.choice(self._stage.hosts).name
        name = private_name(f"user{rng.randrange(USERS)}", daemon)
        level = int(rng.choice(LEVELS))
        payload = b"".join(message_parts([(0, [b"rude"])]))
        return bundle(BundleKind.MESSAGES, message, (name,), payload, level=level)

    def _send(self, rude: RogueProgram) -> None:
        rude.write(self._counted(rude, self._message))

    def _send_privately(self, rude: RogueProgram) -> None:
        rude.write(self._counted(rude, self._private))

    def _join(self, rude: RogueProgram) -> None:
        kind = self._rng.choice((BundleKind.JOIN, BundleKind.JOIN, BundleKind.LEAVE))
        rude.write(self._counted(rude, partial(self._frame, kind)))

    def _fragments(self, rude: RogueProgram) -> None:
        """Send a message in fragments, all of them or not; a join may come between them."""
        rng, count = self._rng, self._rng.randint(2, 4)
        part = encode_fragment(0, 40 * count, bytes(40))
        groups = (rng.choice(GROUPS),)
        for index in range(rng.randint(1, count)):
            rude.write(
                bundle(BundleKind.FRAGMENT, rude.message, groups, part, index=index, count=count)
            )
        rude.message += 1

    def _speak_as_a_daemon(self, rude: RogueProgram) -> None:
        """Send kinds of bundles and frames that only daemons send."""
        rng = self._rng
        kind = rng.choice([kind for kind in BundleKind if kind not in (0, 1)])
        group = (rng.choice(GROUPS),)
        frames = (
            bundle(kind, rng.choice((0, rude.message)), rng.choice(((), group)), rng.randbytes(30)),
            struct.pack("!IB", 1, rng.choice(list(FrameKind))),
            encode_hello("user0", 7),
        )
        rude.write(rng.choice(frames))

    def _talk_nonsense(self, rude: RogueProgram) -> None:
        rng = self._rng
        wrong = bytearray(self._counted(rude, self._message))
        wrong[rng.randrange(4, len(wrong))] ^= 1 << rng.randrange(8)
        name = rng.choice(_GROUPS)
        frames = (
            bytes(wrong),
            bytes(wrong[: rng.randrange(1, len(wrong))]),
            struct.pack("!I", rng.choice((0, 2**20, 2**32 - 1))),
            rng.randbytes(rng.randint(1, 300)),
            encode_query("\x00" * rng.randint(0, 2000)),
            b"" if len(name.encode()) > 255 else bundle(3, rude.message, (name,), b""),
        )
        rude.write(rng.choice(frames))

    def _stop_reading(self, rude: RogueProgram) -> None:
        """Send much, and read none of the answers for a while."""
        rude.set_reading(False)
        self._flood(rude)
        loop = self._stage.loop
        until = loop.now + self._rng.randrange(2 * SECOND)
        loop.at(until, lambda _: rude.set_reading(True))

    def _go(self, rude: RogueProgram) -> None:
        if self._rng.random() < 0.5:
            rude.say_goodbye()
        else:
            rude.hang_up()
