"""Access control: the rules and quotas of this daemon, applied to its local sessions.

Pure. Each daemon applies its rules to its own sessions. CONNECT carries the principal, so all
daemons know the principals of all sessions. A daemon can therefore tell when another one admits a
member that its own rules forbid. It does not undo that, as the tables of all must be equal.
"""

from collections import Counter, deque
from collections.abc import Mapping
from typing import Final

import attrs

from groupcomm.events import Refused
from groupcomm.groups.table import GroupTable, Member
from groupcomm.level import LEVELS
from groupcomm.metrics import metric
from groupcomm.security.access import Access, Verb, own_name
from groupcomm.security.quotas import Bound, Quotas
from groupcomm.session.daemon_session import DaemonSession
from groupcomm.wire.bundle import Bundle, BundleKind

MAX_KNOWN: Final = 256
"""The most lists of destinations of one session that are remembered as allowed."""

MAX_NEWS: Final = 64
"""The most lines for the log that wait for the shell."""

MAX_TOLD: Final = 256
"""The most pairs of principal and group about which the log says that other daemons admit them."""

MEMBER_HEAD_BYTES: Final = 9
"""The bytes of a member in a view, besides its name."""

_FRAGMENT = int(BundleKind.FRAGMENT)
_JOIN = int(BundleKind.JOIN)
_LINE = int(BundleKind.LINE)
_LEAVE = int(BundleKind.LEAVE)


@attrs.frozen(kw_only=True)
class AccessStatus:
    """The refusals by rules and quotas.

    Attributes:
        rules: the number of rules.
        bounds: the number of joins refused at a bound, by its key in ``clients.quotas``.
        foreign: joins at other daemons that these rules would have refused.
    """

    rules: int
    refused: Mapping[str, int] = metric(
        "requests_refused_total", "Requests of programs that rules have refused.", "verb"
    )
    bounds: Mapping[str, int]
    foreign: int


class AccessControl:
    """The rules and quotas that apply now.

    Attributes:
        rules: the rules.
        restricts: whether there are any; each message of a program asks.
        quotas: the limits of groups.
        table: the groups of the present view, or of the last one; None before the first.
        refusals: the number of refusals of each verb, by its word.
        bounds: the number of joins that each bound has refused, by its key.
        foreign_joins: the number of joins at other daemons that these rules would have refused.
        news: lines for the log, the oldest first.
    """

    __slots__ = (
        "_logged",
        "_memberships",
        "bounds",
        "foreign_joins",
        "news",
        "quotas",
        "refusals",
        "restricts",
        "rules",
        "table",
    )

    def __init__(self) -> None:
        self.rules = Access()
        self.restricts = False
        self.quotas = Quotas()
        self.table: GroupTable | None = None
        self.refusals: Counter[str] = Counter()
        self.bounds: Counter[str] = Counter()
        self.foreign_joins = 0
        self.news: deque[str] = deque(maxlen=MAX_NEWS)
        self._memberships: Counter[str] = Counter()  # groups by principal, with requested ones
        self._logged: set[tuple[str, str]] = set()

    def status(self) -> AccessStatus:
        """Return the refusals, for operators."""
        return AccessStatus(
            rules=len(self.rules.rules),
            refused=dict(self.refusals),
            bounds=dict(self.bounds),
            foreign=self.foreign_joins,
        )

    def find_refusal(self, session: DaemonSession, bundle: Bundle) -> Refused | None:
        """Return the refusal of a session's bundle; None if it may send to all destinations.

        A refusal without a verb means that the bundle is dropped without a word.
        """
        if bundle.kind == _LINE:
            return None  # who knows the id of a line may go on with it
        if bundle.kind == _JOIN:
            return self._find_join_refusal(session, bundle)
        if bundle.kind == _LEAVE:
            # Otherwise any session could make all daemons order its leaves.
            if bundle.groups[0] not in session.groups:
                return self._drop(session, bundle)
            self._forget(session, bundle.groups[0])
            return None
        if bundle.kind == _FRAGMENT and bundle.index:  # the first fragment was decided
            return self._drop(session, bundle) if session.refused == bundle.message else None
        if bundle.groups in session.allowed or not self.rules.restricts:
            return None
        for name in bundle.groups:
            verb = Verb.UNICAST if name[0] == "#" else Verb.SEND
            if not self.rules.may(session.principal, verb, name):
                return self._refuse(session, bundle, verb, name)
        if len(session.allowed) >= MAX_KNOWN:
            session.allowed.clear()
        session.allowed.add(bundle.groups)
        return None

    def _drop(self, session: DaemonSession, bundle: Bundle) -> Refused:
        """Return the silent refusal of a refused message's fragment, or of a leave of nothing."""
        return Refused(
            number=bundle.message, count=1, verb="", group="", principal=session.principal
        )

    def _find_join_refusal(self, session: DaemonSession, bundle: Bundle) -> Refused | None:
        (group,) = bundle.groups
        if not self.rules.may(session.principal, Verb.JOIN, group):
            return self._refuse(session, bundle, Verb.JOIN, group)
        if group not in session.groups:
            if bound := self._reached_bound(session, group):
                self.bounds[bound.key] += 1
                return self._refuse(session, bundle, Verb.JOIN, group, bound)
            session.groups.add(group)
            self._memberships[session.principal] += 1
        session.expelled.discard(group)
        return None

    def _reached_bound(self, session: DaemonSession, group: str) -> Bound:
        """Return the bound at which a session may not join one more group, this one."""
        quotas = self.quotas
        if self._memberships[session.principal] >= quotas.groups:
            return Bound.GROUPS
        if len(session.groups) >= quotas.session_groups:
            return Bound.SESSION_GROUPS
        groups = {} if self.table is None else self.table.groups
        members = groups.get(group)
        if members is None:
            return Bound.CLUSTER_GROUPS if len(groups) >= quotas.cluster_groups else Bound.NONE
        assert self.table is not None, "there is such a group"
        assert session.member is not None, "a session joins before its hello"
        names = self.table.name_bytes[group] + len(session.member.name.encode())
        size = names + MEMBER_HEAD_BYTES * (len(members) + 1)
        return Bound.VIEW_BYTES if size > quotas.view_bytes else Bound.NONE

    def _refuse(
        self,
        session: DaemonSession,
        bundle: Bundle,
        verb: Verb,
        name: str,
        bound: Bound = Bound.NONE,
    ) -> Refused:
        count = 1
        if bundle.kind == _FRAGMENT:
            session.refused = bundle.message
        else:
            count = bundle.count
        self.refusals[verb.word] += 1
        return Refused(
            number=bundle.message,
            count=count,
            verb=verb.word,
            group=name,
            principal=session.principal,
            level=LEVELS[bundle.level],
            bound=bound.key,
        )

    # ---- user names ----

    def why_name_refused(self, principal: str, user: str) -> str:
        """Return the reason why a principal's session may not have a user name; "" if it may."""
        if self.rules.may_be_called(principal, user):
            return ""
        self.refusals["name"] += 1
        own = own_name(principal)
        remedy = f"use {own!r} or {own + '/...'!r}, " if own else ""
        return (
            f"{principal or 'an unknown principal'} may not use the name {user!r} here:"
            f" {remedy}give no name, or have a rule of [[access]] at this daemon allow it by names"
        )

    # ---- members ----

    def set_rules(self, access: Access, quotas: Quotas) -> None:
        """Apply these rules and limits from now on."""
        self.rules, self.quotas = access, quotas
        self.restricts = access.restricts
        self._logged.clear()

    def expel(self, session: DaemonSession, group: str, bound: Bound = Bound.NONE) -> Refused:
        """Make a session leave a group that it may no longer be in; return the refusal for it.

        The reason is a rule, or with QUORUM that there is none, as it has asked for.
        """
        session.expelled.add(group)
        self._forget(session, group)
        if bound:
            self.bounds[bound.key] += 1
        else:
            self.refusals[Verb.JOIN.word] += 1
            self.news.append(
                f"{session.member} of {session.principal} was removed from {group!r}, as the rules"
                " of this daemon allow it no more"
            )
        return Refused(
            number=0,
            count=1,
            verb=Verb.JOIN.word,
            group=group,
            principal=session.principal,
            bound=bound.key,
        )

    def may_be_in(self, principal: str, group: str) -> bool:
        """Return whether a principal's sessions may be members of a group."""
        return not self.rules.restricts or self.rules.may(principal, Verb.JOIN, group)

    def note_foreign_member(self, member: Member, group: str) -> None:
        """Note that another daemon has a member that may not be one by these rules.

        The log names a principal and a group once until the rules change: a session that joins and
        leaves at a daemon with other rules must not fill the logs of all.
        """
        self.foreign_joins += 1
        if (member.principal, group) in self._logged or len(self._logged) >= MAX_TOLD:
            return
        self._logged.add((member.principal, group))
        whose = member.principal or "an unknown principal"
        self.news.append(
            f"{member.id} of {whose} is in {group!r}, which the rules of this daemon forbid: its"
            " daemon has other rules; give all daemons the same"
        )

    def _forget(self, session: DaemonSession, group: str) -> None:
        if group in session.groups:
            session.groups.remove(group)
            self._memberships[session.principal] -= 1

    def forget(self, session: DaemonSession) -> None:
        """Note that a session is over."""
        self._memberships[session.principal] -= len(session.groups)
        if not self._memberships[session.principal]:
            del self._memberships[session.principal]

    def may_see_members(self, session: DaemonSession, group: str) -> bool:
        """Return whether a session may see the other members of a group."""
        access = self.rules
        return not access.restricts or access.may(session.principal, Verb.SEE_MEMBERS, group)
