"""The groups of every daemon of a small view, fed the same ordered bundles; nothing goes wrong."""

from collections.abc import Callable, Iterable, Mapping

from groupcomm.clocks.stamp import Position, ViewId
from groupcomm.config.view import DaemonId, Incarnation, View
from groupcomm.events import GroupView, MemberId
from groupcomm.groups.changes import GroupChange
from groupcomm.groups.groups import Groups
from groupcomm.groups.table import Member
from groupcomm.level import ServiceLevel
from groupcomm.wire.bundle import (
    WITHOUT_VIEWS,
    Bundle,
    BundleKind,
    control_bundle,
    decode_body_untrusted,
    encode_body,
)
from groupcomm.wire.data import DataPacket
from groupcomm.wire.messages import encode_fragment
from tests.groupcomm.wire.payloads import encode_messages

VIEW = View(
    id=ViewId(1, "a", 1),
    daemons=tuple(DaemonId(name, Incarnation(1, 1)) for name in "ab"),
    rings=((0, 1),),
)


class Audience:
    """Notes what the sessions of one daemon are told, in order."""

    def __init__(self) -> None:
        self.delivered: list[tuple[int, int]] = []  # connection, message
        self.views: list[tuple[int, GroupView]] = []
        self.aborted: list[tuple[int, str, int]] = []  # connection, sender, message
        self.bounced: list[tuple[int, int, str]] = []  # connection, message, target
        self.origins: dict[str, int] = {}
        self.present: list[int] = []
        self.digests: list[int] = []
        self.joins: list[str] = []
        self.leaves: list[str] = []
        self.units = 0

    def came_from(self, origins: Callable[[], Mapping[str, int]]) -> None:
        self.origins = dict(origins())

    def may_deliver(self) -> bool:
        return True

    def go_on(self) -> bool:
        return True

    def deliver(self, connections: Iterable[int], bundle: Bundle, sender: MemberId) -> None:
        assert sender.connection == bundle.session
        self.delivered += [(connection, bundle.message) for connection in connections]

    def show_change(
        self, connections: Iterable[int], change: GroupChange, own: int | None = None
    ) -> None:
        self.views += [(connection, change.view()) for connection in connections]
        if own is not None:
            self.views.append((own, change.view(own=True)))

    def continue_groups(self, connection: int, start: Position) -> bool:
        return False

    def charge(self, units: int) -> None:
        self.units += units

    def abort(self, connections: Iterable[int], sender: MemberId, message: int) -> None:
        self.aborted += [(connection, sender.name, message) for connection in connections]

    def bounce(self, connection: int, message: int, target: str, position: Position) -> None:
        self.bounced.append((connection, message, target))

    def connected(self, connection: int, member: MemberId) -> None:
        self.present.append(connection)

    def disconnected(self, connection: int, member: MemberId) -> None:
        self.present.remove(connection)

    def joined(self, group: str) -> None:
        self.joins.append(group)

    def entered(self, member: Member, group: str) -> None:
        """See `Audience`."""

    def line_claimed(self, connection: int) -> None:
        """See `Audience`."""

    def line_granted(self, connection: int, time: int) -> None:
        """See `Audience`."""

    def line_taken(self, connection: int) -> None:
        """See `Audience`."""

    def left(self, group: str) -> None:
        self.leaves.append(group)

    def table_changed(self, position: Position, digest: int) -> None:
        self.digests.append(digest)


class Stage:
    """The daemons of a view, of one ring; sessions are named by daemon and connection number.

    Attributes:
        groups: per daemon.
        audience: per daemon.
        time: the stamp of the last bundle.
    """

    def __init__(self, view: View = VIEW) -> None:
        self.audience = [Audience() for _ in view.daemons]
        self.groups = [Groups(view, me, each) for me, each in enumerate(self.audience)]
        self.time = 0

    def place(self, daemon: int, bundle: Bundle) -> Bundle:
        """Give a bundle of a daemon the next place in the order."""
        self.time += 1
        bundle.packet = DataPacket(
            ring=0, number=self.time, time=self.time, daemon=daemon, previous=0, bundles=[bundle]
        )
        return bundle

    def release(self, daemon: int, bundle: Bundle) -> None:
        """Give a bundle the next place, and out at every daemon."""
        self.place(daemon, bundle)
        for groups in self.groups:
            groups.deliver(bundle)

    def connect(self, daemon: int, connection: int, user: str) -> None:
        bundle = control_bundle(BundleKind.CONNECT)
        bundle.address(connection, user, ())
        self.release(daemon, bundle)

    def disconnect(self, daemon: int, connection: int, user: str) -> None:
        bundle = control_bundle(BundleKind.DISCONNECT)
        bundle.address(connection, user, ())
        self.release(daemon, bundle)

    def change(
        self,
        kind: BundleKind,
        daemon: int,
        connection: int,
        user: str,
        group: str,
        flags: int = 0,
    ) -> None:
        """A join or a leave."""
        body = encode_body(kind, ServiceLevel.AGREED, flags, 1, (group,), b"")
        bundle = decode_body_untrusted(body)
        bundle.address(connection, user, ())
        self.release(daemon, bundle)

    def join(self, daemon: int, connection: int, user: str, group: str) -> None:
        self.change(BundleKind.JOIN, daemon, connection, user, group)

    def read(self, daemon: int, connection: int, user: str, group: str) -> None:
        """A join without views."""
        self.change(BundleKind.JOIN, daemon, connection, user, group, WITHOUT_VIEWS)

    def leave(self, daemon: int, connection: int, user: str, group: str) -> None:
        self.change(BundleKind.LEAVE, daemon, connection, user, group)


def messages(
    connection: int,
    user: str,
    *groups: str,
    level: ServiceLevel = ServiceLevel.AGREED,
    number: int = 1,
    count: int = 1,
    flags: int = 0,
    targets: tuple[int, ...] = (),
) -> Bundle:
    """Some small messages of a session."""
    payload = encode_messages([(0, b"x")] * count)
    body = encode_body(BundleKind.MESSAGES, level, flags, number, groups, payload, 0, count)
    bundle = decode_body_untrusted(body)
    bundle.address(connection, user, targets)
    return bundle


def fragment(
    connection: int,
    user: str,
    index: int,
    *groups: str,
    level: ServiceLevel = ServiceLevel.AGREED,
    number: int = 1,
    targets: tuple[int, ...] = (),
) -> Bundle:
    """One of three fragments of a message."""
    payload = encode_fragment(0, 3, b"x")
    body = encode_body(BundleKind.FRAGMENT, level, 0, number, groups, payload, index, 3)
    bundle = decode_body_untrusted(body)
    bundle.address(connection, user, targets)
    return bundle
