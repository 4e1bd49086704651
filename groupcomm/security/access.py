"""Access control: the rules for what principals may do with groups.

Pure. A *principal* is the owner of a session, as the daemon has authenticated it: ``unix:NAME``,
``uid:NUMBER``, ``cert:SAN`` or ``token:NAME``. Rules allow: with one rule or more, a request that
no rule allows is refused. Without any rule, every authenticated program may do everything, except
that only programs of the daemon's own host may ask about others' sessions. Only ADMIN can be taken
away, as the daemon's own user has it without any rule.

With rules a session may not have any name it likes: a principal may use its own name, random ones,
and the names that a rule gives it. So the name of a message's sender is true.

Names and patterns are compared in Unicode's form NFC, so that names which look alike are treated
alike. In a pattern ``*`` stands for any characters, none included; everything else for itself.

Anybody can send a name, so no name may make a pattern slow. A regular expression tries all ways to
divide a name among the stars; but as stars match anything, the first match of each literal part is
as good as any later one. So each part is searched once, after the part before it, without
backtracking.
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
"""Receivers trust user names with these prefixes: only a pattern with the prefix allows them."""

_RANDOM_NAME: Final = re.compile("u[0-9a-f]{12}|r[0-9]{1,4}-[0-9]{1,4}")
"""The name of a program that wants no name of its own; it cannot be mistaken for another one."""

MAX_KNOWN: Final = 1024
"""The number of principals whose rules are cached."""


@attrs.frozen
class Pattern:
    """The literal parts of a pattern, between its stars.

    Attributes:
        first: the required start of a text.
        middle: the parts that must follow in this order, anywhere.
        last: the required end of a text; None if the pattern has no star, and is `first` alone.
    """

    first: str
    middle: tuple[str, ...]
    last: str | None

    def matches(self, text: str) -> bool:
        """Return whether the whole text matches; each character is examined once at most."""
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
    """Parse a pattern as it is written in a rule."""
    first, *more = text.split("*")
    if not more:
        return Pattern(first, (), None)
    *middle, last = more
    return Pattern(first, tuple(part for part in middle if part), last)


class Verb(enum.IntEnum):
    """The kinds of requests that rules allow."""

    JOIN = 0  # become a member of a group
    SEND = 1  # multicast to a group
    SEE_MEMBERS = 2  # see the other members of a group
    UNICAST = 3  # send to a private name
    ADMIN = 4  # see more of the daemon than one's own sessions
    READ_HISTORY = 5  # get what was sent to a group in the past, from its archives

    @property
    def word(self) -> str:
        """Return the word for it in rules and errors."""
        return self.name.lower().replace("_", "-")


VERBS: Final = {verb.word: verb for verb in Verb}
_ON_GROUPS: Final = frozenset((Verb.JOIN, Verb.SEND, Verb.SEE_MEMBERS, Verb.READ_HISTORY))


@attrs.frozen
class Rule:
    """A rule: the requests about some groups that it allows to some principals.

    Attributes:
        who: patterns of the principals that the rule is about.
        groups: patterns of groups' names; for UNICAST of private names; ADMIN has no group.
        verbs: the kinds of requests that they may make.
        names: patterns of user names that their sessions may have.
        taken: the kinds of requests that they may not make, even if other rules allow it; ADMIN or
            nothing.
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
                raise ConfigError(f"access: {what} is empty; a rule must name at least one")
        for pattern in self.who + self.groups + self.names:
            if not pattern:
                raise ConfigError("access: a pattern is empty; write * for everything")

    def allows(self, principal: str, verb: Verb, name: str) -> bool:
        """Return whether this rule alone allows a request; `principal` and `name` are in NFC."""
        return self.is_for(principal) and self.covers(verb, name)

    def is_for(self, principal: str) -> bool:
        """Return whether the rule applies to a principal."""
        return any(_matches(pattern, principal) for pattern in self.who)

    def covers(self, verb: Verb, name: str) -> bool:
        """Return whether the rule allows a verb with a name to its principals."""
        return verb in self.verbs and (
            verb is Verb.ADMIN or any(_matches(pattern, name) for pattern in self.groups)
        )

    def gives_name(self, name: str) -> bool:
        """Return whether the rule allows a user name to its principals; the name is in NFC."""
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
        """Return whether there are rules, so that requests about groups must be checked."""
        return bool(self.rules)

    def may(self, principal: str, verb: Verb, name: str = "") -> bool:
        """Return whether a principal may do something with a group or a private name.

        Args:
            principal: the owner of the session; "" if it is unknown, which no rule allows anything.
            verb: the kind of request; ADMIN needs no name.
            name: any text that a client has sent; an invalid name is refused.
        """
        if verb is not Verb.ADMIN and not is_a_name_for(verb, name):
            return False
        if not self.rules:
            return verb is not Verb.ADMIN or is_of_this_host(principal)
        if self.takes_away(principal, verb):
            return False
        what = normal(name)
        return any(rule.covers(verb, what) for rule in self._rules_of(principal))

    def may_read_history(self, principal: str, group: str) -> bool:
        """Return whether archives may give a principal the history of a group.

        Who may join a group may read its past as well, unless a rule allows READ_HISTORY to
        somebody: then that needs a rule.
        """
        return self.may(principal, self.needed_for_history, group)

    @property
    def needed_for_history(self) -> Verb:
        """Return the verb whose rules say who may read history: JOIN until one mentions it."""
        mentioned = any(Verb.READ_HISTORY in rule.verbs for rule in self.rules)
        return Verb.READ_HISTORY if mentioned else Verb.JOIN

    def takes_away(self, principal: str, verb: Verb) -> bool:
        """Return whether a rule takes a verb from a principal, even if other rules allow it."""
        return any(verb in rule.taken for rule in self._rules_of(principal))

    def may_be_called(self, principal: str, name: str) -> bool:
        """Return whether a principal's session may have a user name.

        With rules it may have its own name, alone or followed by ``/`` and anything, a random one,
        and a name that a rule allows.
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
        """Return the rules that apply to a principal: for most principals, few or none."""
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
    """Return the name that belongs to a principal: ``ann`` for ``unix:ann``; "" if it has none."""
    kind, _, name = principal.partition(":")
    return "" if kind == "uid" else name


def is_a_name_for(verb: Verb, name: str) -> bool:
    """Return whether a name is valid for a group, or for UNICAST for a private name."""
    try:
        check_destination(name)
    except LocalProtocolError:
        return False
    return name.startswith("#") != (verb in _ON_GROUPS)


def normal(text: str) -> str:
    """Return a text in NFC, the form in which names are compared."""
    return text if text.isascii() else unicodedata.normalize("NFC", text)


@lru_cache(maxsize=4096)
def _parsed(pattern: str) -> Pattern:
    return parse_pattern(normal(pattern))


def _matches(pattern: str, text: str) -> bool:
    return _parsed(pattern).matches(text)
