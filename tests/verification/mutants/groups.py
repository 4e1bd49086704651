"""Wrong ways to find recipients, and to put messages together."""

from collections.abc import Iterable

from groupcomm.config.view import View
from groupcomm.engine.sessions import LocalSessions
from groupcomm.events import MemberId, Message
from groupcomm.groups.audience import Audience
from groupcomm.groups.groups import Groups
from groupcomm.groups.table import Member
from groupcomm.session.daemon_session import DaemonSession
from groupcomm.session.reassembly import Reassembly
from groupcomm.session.requests import Submit
from groupcomm.wire.bundle import Bundle, BundleKind
from tests.verification.mutants.mutant import Right, mutant


@mutant((LocalSessions, "_order_control"))
def disconnect_overtakes(right: Right) -> Right:
    """A disconnect is put in front of the messages that its session has sent."""

    def order_control(self: LocalSessions, session: DaemonSession, kind: BundleKind) -> None:
        right(self, session, kind)
        if kind == BundleKind.DISCONNECT:
            *before, last = self.backlog.clear()
            self.backlog.extend([last, *before])

    return order_control


@mutant((Groups, "_disconnect"))
def ghost_in_group(right: Right) -> Right:
    """A session that disconnects stays a member of the group that it joined last."""

    def disconnect(self: Groups, member: Member, bundle: Bundle) -> None:
        if member.groups:
            member.groups.popitem()
        right(self, member, bundle)

    return disconnect


@mutant((LocalSessions, "_submit"))
def join_when_asked(right: Right) -> Right:
    """A join has its effect at the daemon as soon as a client asks for it."""

    def submit(self: LocalSessions, session: DaemonSession, request: Submit) -> None:
        right(self, session, request)
        bundle = request.bundle
        if bundle.kind == BundleKind.JOIN and self._table is not None:
            local = self._table.local.setdefault(bundle.groups[0], {})
            local[session.connection] = None

    return submit


@mutant((Groups, "_recipients"))
def once_per_group(right: Right) -> Right:
    """A message to several groups is delivered once for each of them."""

    def recipients(self: Groups, bundle: Bundle, daemon: int) -> Iterable[int]:
        found = list(right(self, bundle, daemon))
        lists = [self.table.local.get(group, {}) for group in bundle.groups]
        return [one for local in lists for one in found if one in local] if lists[1:] else found

    return recipients


@mutant((Groups, "_unite"))
def private_by_name(right: Right) -> Right:
    """A private message goes to the session that has the name at its delivery."""

    def unite(self: Groups, bundle: Bundle) -> dict[int, None]:
        names = [group for group in bundle.groups if group[0] == "#"]
        owners = [self.table.names.get(name) for name in names]
        targets = bundle.targets
        bundle.targets = tuple(owner.id.connection if owner else 0 for owner in owners)
        united: dict[int, None] = right(self, bundle)
        bundle.targets = targets
        return united

    return unite


@mutant((Reassembly, "_find"), (Reassembly, "_finish"))
def reassembly_by_sender(right_find: Right, right_finish: Right) -> tuple[Right, Right]:
    """A client keeps the fragments of a sender together, whatever message they belong to."""

    def find(self: Reassembly, member: MemberId, number: int, about: object) -> object:
        return right_find(self, member, 0, about)

    def finish(self: Reassembly, member: MemberId, number: int) -> Message:
        messages = self._senders[member].messages
        messages[number] = messages.pop(0)
        message: Message = right_finish(self, member, number)
        return message

    return find, finish


@mutant((Groups, "_recipients"))
def self_discard_ignored(right: Right) -> Right:
    """A sender gets its own messages in spite of SELF_DISCARD."""

    def recipients(self: Groups, bundle: Bundle, daemon: int) -> Iterable[int]:
        flags, bundle.flags = bundle.flags, 0
        found: Iterable[int] = right(self, bundle, daemon)
        bundle.flags = flags
        return found

    return recipients


@mutant((Groups, "_unite"), (Groups, "_is_there"))
def nobody_for_ever(unite: Right, is_there: Right) -> tuple[Right, Right]:
    """A name that the sender's daemon does not know is nobody's, whoever has it at delivery."""

    def known_alone(self: Groups, bundle: Bundle) -> dict[int, None]:
        targets, bundle.targets = bundle.targets, tuple(each or -1 for each in bundle.targets)
        united: dict[int, None] = unite(self, bundle)
        bundle.targets = targets
        united.pop(-1, None)
        return united

    def is_known(self: Groups, name: str, target: int) -> bool:
        return target > 0 and is_there(self, name, target)

    return known_alone, is_known


@mutant((Groups, "_bounce"))
def undeliverable_when_taken(right: Right) -> Right:
    """A private message's target is checked when its daemon accepts the message."""

    def bounce(self: Groups, bundle: Bundle) -> None:
        if not all(bundle.targets):
            right(self, bundle)

    return bounce


@mutant((Groups, "__init__"))
def unreliable_ends_others(right: Right) -> Right:
    """A newer UNRELIABLE message in fragments ends its sender's older ones of every level."""

    def init(self: Groups, view: View, me: int, audience: Audience) -> None:
        right(self, view, me, audience)
        self._open_unreliable = self._open

    return init


BUGS = (
    disconnect_overtakes,
    ghost_in_group,
    join_when_asked,
    nobody_for_ever,
    once_per_group,
    private_by_name,
    reassembly_by_sender,
    self_discard_ignored,
    undeliverable_when_taken,
    unreliable_ends_others,
)
