"""Access control: which principal may do what with which group.

Pure. A *principal* is who a session belongs to, as its daemon found out: ``unix:NAME``,
``uid:NUMBER``, ``cert:SAN`` or ``token:NAME``. Rules allow: with one rule or more, what none of
them allows is refused. Without any, all who were let in may do everything; but what tells of
others' sessions is then for programs of the daemon's own host. Only ADMIN can be taken away, as the
daemon's own user has it without any rule.

With rules a session may also not be called as it likes: a principal may use its own name and random
ones, and the names that a rule gives it. So the sender of a message is who its name says.

Names and patterns are compared in Unicode's form NFC, so that names which look alike are decided
alike. In a pattern ``*`` stands for any characters, none included; everything else for itself.

A name comes from whoever sends it, so no name may make a pattern slow. A regular expression tries
all ways to share a name out among the stars; but where stars stand for anything, the first place
that fits each literal part is as good as any later one. So each part is searched once, behind the
part before it, and nothing is ever tried again.
"""

import enum
import re
import unicodedata
from functools import lru_cache
from typing import Final

import attrs

from groupcomm.errors import ConfigError, LocalProtocolError
from groupcomm.names import check_destination

MAX_PRINCIPAL_BYTES: Final = 255

RESERVED: Final = ("sink.",)
"""User names that begin so are trusted by receivers: only a pattern that begins so gives them."""

_RANDOM_NAME: Final = re.compile("u[0-9a-f]{12}")
"""What a program is called that wants no name of its own; nobody takes it for somebody."""

MAX_KNOWN: Final = 1024
"""Principals whose rules are remembered."""


@attrs.frozen
class Pattern:
    """The literal parts of a pattern, between its stars.

    Attributes:
        first: what a text must begin with.
        middle: what must follow, in this order, wherever it stands.
        last: what the text must end with; None if the pattern has no star, and is `first` alone.
    """

    first: str
    middle: tuple[str, ...]
    last: str | None

    def matches(self, text: str) -> bool:
        """Return whether the whole text fits; each of its characters is passed once at most."""
        if self.last is None:
            return text == self.first
        at, end = len(self.first), len(text) - len(self.last)
        if at > end or not text.startswith(self.first) or not text.endswith(self.last):
            return False
        for part in self.middle:
            found = text.find(part, at, end)
            if found < 0:
                return False
            at = found + len(part)
        return True


def parse_pattern(text: str) -> Pattern:
    """Return the parts of a pattern as a rule has it."""
    first, *more = text.split("*")
    if not more:
        return Pattern(first, (), None)
    *middle, last = more
    return Pattern(first, tuple(part for part in middle if part), last)


class Verb(enum.IntEnum):
    """What is allowed or refused."""

    JOIN = 0  # be a member of a group
    SEND = 1  # multicast to a group
    SEE_MEMBERS = 2  # be told who else is in a group
    UNICAST = 3  # send to a private name
    ADMIN = 4  # be told more of the daemon than what is one's own

    @property
    def word(self) -> str:
        """As it is written in rules and errors."""
        return self.name.lower().replace("_", "-")


VERBS: Final = {verb.word: verb for verb in Verb}
_ON_GROUPS: Final = frozenset((Verb.JOIN, Verb.SEND, Verb.SEE_MEMBERS))


@attrs.frozen
class Rule:
    """What some principals may do with some groups.

    Attributes:
        who: patterns of principals.
        groups: patterns of groups' names; with UNICAST of private names; ADMIN has no group.
        verbs: what they may do.
        names: patterns of user names that their sessions may have.
        taken: what they may not do, whatever other rules allow; ADMIN or nothing.
    """

    who: tuple[str, ...]
    groups: tuple[str, ...]
    verbs: frozenset[Verb]
    names: tuple[str, ...] = ()
    taken: frozenset[Verb] = frozenset()

    def __attrs_post_init__(self) -> None:
        if self.taken - {Verb.ADMIN}:
            raise ConfigError(
                f"access: may_not has {min(self.taken - {Verb.ADMIN}).word!r}; only 'admin' can be"
                " taken away, as everything else is refused unless a rule allows it"
            )
        given = self.verbs or self.taken or self.names
        for what, values in (("who", self.who), ("groups", self.groups), ("may", given)):
            if not values:
                raise ConfigError(f"access: {what} is empty; a rule names at least one")
        for pattern in self.who + self.groups + self.names:
            if not pattern:
                raise ConfigError("access: a pattern is empty; * stands for everything")

    def allows(self, principal: str, verb: Verb, name: str) -> bool:
        """Whether this rule alone allows it; `principal` and `name` are in form NFC."""
        return self.is_for(principal) and self.covers(verb, name)

    def is_for(self, principal: str) -> bool:
        """Return whether it is about a principal."""
        return any(_matches(pattern, principal) for pattern in self.who)

    def covers(self, verb: Verb, name: str) -> bool:
        """Return whether those whom it is about may do this."""
        return verb in self.verbs and (
            verb is Verb.ADMIN or any(_matches(pattern, name) for pattern in self.groups)
        )

    def gives_name(self, name: str) -> bool:
        """Return whether those whom it is about may be called so; the name is in form NFC."""
        reserved = next((start for start in RESERVED if name.startswith(start)), "")
        return any(
            pattern.startswith(reserved) and _matches(pattern, name) for pattern in self.names
        )


@attrs.frozen
class Access:
    """All rules of a daemon; without any, nothing but ADMIN is restricted."""

    rules: tuple[Rule, ...] = ()
    _rules_for: dict[str, tuple[Rule, ...]] = attrs.field(
        factory=dict, init=False, eq=False, repr=False
    )

    @property
    def restricts(self) -> bool:
        """Whether there are rules, so that groups are to be looked at."""
        return bool(self.rules)

    def may(self, principal: str, verb: Verb, name: str = "") -> bool:
        """Whether a principal may do this with a group, or a private name, of this name.

        Args:
            principal: whose session it is; "" if nobody knows, which no rule allows anything.
            verb: what it wants; ADMIN needs no name.
            name: whatever bytes a client sent as text; a name that cannot be is refused.
        """
        if verb is not Verb.ADMIN and not is_a_name_for(verb, name):
            return False
        if not self.rules:
            return verb is not Verb.ADMIN or is_of_this_host(principal)
        if self.takes_away(principal, verb):
            return False
        what = normal(name)
        return any(rule.covers(verb, what) for rule in self._rules_of(principal))

    def takes_away(self, principal: str, verb: Verb) -> bool:
        """Return whether a rule takes a verb from a principal, whatever others allow."""
        return any(verb in rule.taken for rule in self._rules_of(principal))

    def may_be_called(self, principal: str, name: str) -> bool:
        """Return whether a principal's session may have a user name.

        With rules: its own name, alone or followed by ``/`` and anything; a random one; and what a
        rule gives it.
        """
        if not self.rules:
            return True
        who, name = normal(principal), normal(name)
        if not who:
            return False
        if _RANDOM_NAME.fullmatch(name):
            return True
        own = own_name(who)
        if own and not name.startswith(RESERVED) and (name == own or name.startswith(f"{own}/")):
            return True
        return any(rule.gives_name(name) for rule in self._rules_of(principal))

    def _rules_of(self, principal: str) -> tuple[Rule, ...]:
        """Return the rules that are about a principal: for most of them, few or none."""
        found = self._rules_for.get(principal)
        if found is None:
            who = normal(principal)
            found = tuple(rule for rule in self.rules if who and rule.is_for(who))
            if len(self._rules_for) >= MAX_KNOWN:
                self._rules_for.clear()
            self._rules_for[principal] = found
        return found


def is_of_this_host(principal: str) -> bool:
    """Return whether a principal's programs run on the daemon's own host."""
    return principal.startswith(("unix:", "uid:"))


def own_name(principal: str) -> str:
    """Return what a principal is called: ``ann`` for ``unix:ann``; "" for who has none."""
    kind, _, name = principal.partition(":")
    return "" if kind == "uid" else name


def is_a_name_for(verb: Verb, name: str) -> bool:
    """Whether there can be a group, for UNICAST a private name, of this name."""
    try:
        check_destination(name)
    except LocalProtocolError:
        return False
    return name.startswith("#") != (verb in _ON_GROUPS)


def normal(text: str) -> str:
    """A text in the form in which names are compared: NFC."""
    return text if text.isascii() else unicodedata.normalize("NFC", text)


@lru_cache(maxsize=4096)
def _parsed(pattern: str) -> Pattern:
    return parse_pattern(normal(pattern))


def _matches(pattern: str, text: str) -> bool:
    return _parsed(pattern).matches(text)
