"""The guard: what sessions of this daemon may do, by its rules and quotas.

Pure. Each daemon keeps the rules for its own sessions. Principals come with CONNECT, so all daemons
know whose sessions the others have, and can tell when another one let somebody join who may not by
their own rules; they do not undo it, as the tables of all must be equal.
"""

from collections import Counter, deque
from typing import Final

import msgspec

from groupcomm.events import GroupView, MemberId, Refused
from groupcomm.groups.table import Member
from groupcomm.level import LEVELS
from groupcomm.security.access import Access, Verb, own_name
from groupcomm.session.daemon_session import DaemonSession
from groupcomm.wire.bundle import Bundle, BundleKind

MAX_KNOWN: Final = 256
"""Lists of destinations of one session that were found to be allowed."""

MAX_NEWS: Final = 64
"""Lines for the log that wait for the shell."""

MAX_TOLD: Final = 256
"""Principals in groups of which the log has told that other daemons let them in; of no more."""

_FRAGMENT = int(BundleKind.FRAGMENT)
_JOIN = int(BundleKind.JOIN)
_LEAVE = int(BundleKind.LEAVE)


class Guard:
    """What is allowed now.

    Attributes:
        access: the rules.
        most_groups: of each principal; None for any number.
        refused: how often each verb was refused, by its word.
        foreign: how many joins at other daemons these rules would have refused.
        news: what the log should say, the oldest first.
    """

    __slots__ = ("_memberships", "_told", "access", "foreign", "most_groups", "news", "refused")

    def __init__(self) -> None:
        self.access = Access()
        self.most_groups: int | None = None
        self.refused: Counter[str] = Counter()
        self.foreign = 0
        self.news: deque[str] = deque(maxlen=MAX_NEWS)
        self._memberships: Counter[str] = Counter()  # of principals, with those asked for
        self._told: set[tuple[str, str]] = set()

    def judge(self, session: DaemonSession, bundle: Bundle) -> Refused | None:
        """Whether a session may submit a bundle, decided for each of its destinations.

        What is dropped without a word has no verb.
        """
        if bundle.kind == _JOIN:
            return self._judge_join(session, bundle)
        if bundle.kind == _LEAVE:
            if bundle.groups[0] not in session.groups:  # else anybody could have others order these
                return self._drop(session, bundle)
            self._forget(session, bundle.groups[0])
            return None
        if bundle.kind == _FRAGMENT and bundle.index:  # as it was decided when it began
            return self._drop(session, bundle) if session.refused == bundle.message else None
        if bundle.groups in session.allowed or not self.access.restricts:
            return None
        for name in bundle.groups:
            verb = Verb.UNICAST if name[0] == "#" else Verb.SEND
            if not self.access.may(session.principal, verb, name):
                return self._refuse(session, bundle, verb, name)
        if len(session.allowed) >= MAX_KNOWN:
            session.allowed.clear()
        session.allowed.add(bundle.groups)
        return None

    def _drop(self, session: DaemonSession, bundle: Bundle) -> Refused:
        """A fragment of a message that was refused, or a leave of nothing; nobody is told."""
        return Refused(
            number=bundle.message, count=1, verb="", group="", principal=session.principal
        )

    def _judge_join(self, session: DaemonSession, bundle: Bundle) -> Refused | None:
        (group,) = bundle.groups
        if not self.access.may(session.principal, Verb.JOIN, group):
            return self._refuse(session, bundle, Verb.JOIN, group)
        most, already = self.most_groups, group in session.groups
        if most is not None and not already and self._memberships[session.principal] >= most:
            return self._refuse(session, bundle, Verb.JOIN, group, quota=True)
        if not already:
            session.groups.add(group)
            self._memberships[session.principal] += 1
        session.expelled.discard(group)
        return None

    def _refuse(
        self, session: DaemonSession, bundle: Bundle, verb: Verb, name: str, *, quota: bool = False
    ) -> Refused:
        count = 1
        if bundle.kind == _FRAGMENT:
            session.refused = bundle.message
        else:
            count = bundle.count
        self.refused[verb.word] += 1
        return Refused(
            number=bundle.message,
            count=count,
            verb=verb.word,
            group=name,
            principal=session.principal,
            level=LEVELS[bundle.level],
            quota=quota,
        )

    # ---- user names ----

    def why_not_called(self, principal: str, user: str) -> str:
        """Return why a principal's session may not have a user name; "" if it may."""
        if self.access.may_be_called(principal, user):
            return ""
        self.refused["name"] += 1
        own = own_name(principal)
        remedy = f"be {own!r} or {own + '/...'!r}, " if own else ""
        return (
            f"{principal or 'nobody known'} may not be called {user!r} here: {remedy}give no name,"
            " or have a rule of [[access]] at this daemon give it by names"
        )

    # ---- members ----

    def govern(self, access: Access, most_groups: int | None) -> None:
        """These rules hold from now on."""
        self.access, self.most_groups = access, most_groups
        self._told.clear()

    def expel(self, session: DaemonSession, group: str) -> Refused:
        """A session may not be in a group any more, and has to leave it."""
        session.expelled.add(group)
        self._forget(session, group)
        self.refused[Verb.JOIN.word] += 1
        self.news.append(f"{session.member}, {session.principal}, may not be in {group!r} any more")
        return Refused(
            number=0, count=1, verb=Verb.JOIN.word, group=group, principal=session.principal
        )

    def may_be_in(self, principal: str, group: str) -> bool:
        """Whether a principal's sessions may be members of a group."""
        return not self.access.restricts or self.access.may(principal, Verb.JOIN, group)

    def note_foreign(self, member: Member, group: str) -> None:
        """Another daemon has a member that may not be one by these rules.

        The log tells of a principal and a group once until the rules change: whoever joins and
        leaves at a daemon with other rules shall not fill the logs of all.
        """
        self.foreign += 1
        if (member.principal, group) in self._told or len(self._told) >= MAX_TOLD:
            return
        self._told.add((member.principal, group))
        whose = member.principal or "nobody known"
        self.news.append(
            f"{member.id}, {whose}, is in {group!r}, which the rules of this daemon forbid: its"
            " daemon has others"
        )

    def _forget(self, session: DaemonSession, group: str) -> None:
        if group in session.groups:
            session.groups.remove(group)
            self._memberships[session.principal] -= 1

    def forget(self, session: DaemonSession) -> None:
        """A session is over."""
        self._memberships[session.principal] -= len(session.groups)
        if not self._memberships[session.principal]:
            del self._memberships[session.principal]

    def may_see(self, session: DaemonSession, group: str) -> bool:
        """Whether a session is told who else is in a group."""
        access = self.access
        return not access.restricts or access.may(session.principal, Verb.SEE_MEMBERS, group)


def alone(view: GroupView, me: MemberId | None) -> GroupView:
    """A view of a group as somebody is told of it who may not see its members."""
    return msgspec.structs.replace(
        view,
        members=tuple(member for member in view.members if member == me),
        changed=tuple(member for member in view.changed if member == me),
        vs_set=tuple(member for member in view.vs_set if member == me),
    )
