"""Seats: what the desk keeps of each session."""

from groupcomm.events import MemberId
from groupcomm.session.daemon import DaemonSession
from groupcomm.wire.bundle import Bundle, BundleKind
from groupcomm.wire.raw import Raw

_FRAGMENT = BundleKind.FRAGMENT


class Seat:
    """One session and how far it has come."""

    __slots__ = (
        "allowed",
        "early",
        "expelled",
        "gone",
        "groups",
        "leaving",
        "member",
        "numbered",
        "ordered",
        "principal",
        "refused",
        "session",
        "takes_refusals",
        "targets",
        "told_principal",
        "user",
        "welcomed",
    )

    def __init__(self, session: DaemonSession, principal: str = "") -> None:
        self.session = session
        self.principal = principal
        self.user = ""
        self.member: MemberId | None = None  # since its CONNECT waits for a number
        self.welcomed = False  # its CONNECT is ordered
        self.leaving = False  # its DISCONNECT waits for a number
        self.gone = False  # its stream has ended
        self.early: list[tuple[tuple[Raw, ...], bool]] = []  # frames delivered before the welcome
        self.targets: tuple[int, ...] = ()  # whom the private names of its last message mean
        self.ordered: set[int] = set()  # messages whose positions it waits for
        self.takes_refusals = False  # it understands REFUSED frames
        self.told_principal: str | None = None  # the sender's, of the last delivery; if it asked
        self.allowed: set[tuple[str, ...]] = set()  # destinations that the rules allow
        self.refused = 0  # the message in fragments that they did not allow
        self.groups: set[str] = set()  # joined, or asked to
        self.expelled: set[str] = set()  # had to leave
        self.numbered: list[Bundle] = []  # fragments of the message whose last one has no number

    @property
    def hears(self) -> bool:
        """Whether it is to be told of views: it was admitted, and has not ended."""
        return self.welcomed and not self.gone and not self.session.closed

    def is_numbered(self, bundle: Bundle) -> bool:
        """A bundle of its has its number; True if the session waits for the position."""
        self.session.backlog_bytes -= bundle.size
        if bundle.kind == _FRAGMENT:
            self.numbered.append(bundle)
            if bundle.index < bundle.count - 1:
                return False
            self.numbered.clear()
        return bundle.message in self.ordered

    def take_back(self) -> list[Bundle]:
        """The bundles of a message that has numbers only in part: it needs new ones as a whole."""
        bundles, self.numbered = self.numbered, []
        for bundle in bundles:
            bundle.given = False
            self.session.backlog_bytes += bundle.size
        return bundles
