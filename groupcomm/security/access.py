"""Access control: which principal may do what with which group.

Pure. A *principal* is who a session belongs to, as its daemon found out: ``unix:NAME``,
``cert:SAN``, ``token:NAME``, or ``local``. Rules allow: with one rule or more, what none of them
allows is refused. Without any, all who were let in may do everything; but what tells of others'
sessions is then for programs of the daemon's own host. Only ADMIN can be taken away, as the
daemon's own user has it without any rule.

Names and patterns are compared in Unicode's form NFC, so that names which look alike are decided
alike. In a pattern ``*`` stands for any characters, none included; everything else for itself.
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

LOCAL: Final = "local"
"""A program on this host that came by TCP without TLS: nobody knows more of it."""


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
        taken: what they may not do, whatever other rules allow; ADMIN or nothing.
    """

    who: tuple[str, ...]
    groups: tuple[str, ...]
    verbs: frozenset[Verb]
    taken: frozenset[Verb] = frozenset()

    def __attrs_post_init__(self) -> None:
        if self.taken - {Verb.ADMIN}:
            raise ConfigError(
                f"access: may_not has {min(self.taken - {Verb.ADMIN}).word!r}; only 'admin' can be"
                " taken away, as everything else is refused unless a rule allows it"
            )
        given = self.verbs or self.taken
        for what, values in (("who", self.who), ("groups", self.groups), ("may", given)):
            if not values:
                raise ConfigError(f"access: {what} is empty; a rule names at least one")
        for pattern in self.who + self.groups:
            if not pattern:
                raise ConfigError("access: a pattern is empty; * stands for everything")

    def allows(self, principal: str, verb: Verb, name: str) -> bool:
        """Whether this rule alone allows it; `principal` and `name` are in form NFC."""
        return (
            verb in self.verbs
            and any(_matches(pattern, principal) for pattern in self.who)
            and (verb is Verb.ADMIN or any(_matches(pattern, name) for pattern in self.groups))
        )

    def takes(self, principal: str, verb: Verb) -> bool:
        """Return whether this rule takes a verb from a principal, in form NFC."""
        return verb in self.taken and any(_matches(pattern, principal) for pattern in self.who)


@attrs.frozen
class Access:
    """All rules of a daemon; without any, nothing but ADMIN is restricted."""

    rules: tuple[Rule, ...] = ()

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
            return verb is not Verb.ADMIN or principal == LOCAL or principal.startswith("unix:")
        who, what = normal(principal), normal(name)
        if not who or self.takes_away(who, verb):
            return False
        return any(rule.allows(who, verb, what) for rule in self.rules)

    def takes_away(self, principal: str, verb: Verb) -> bool:
        """Return whether a rule takes a verb from a principal, whatever others allow."""
        who = normal(principal)
        return any(rule.takes(who, verb) for rule in self.rules)


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


def _matches(pattern: str, text: str) -> bool:
    return _compiled(pattern).fullmatch(text) is not None


@lru_cache(maxsize=4096)
def _compiled(pattern: str) -> re.Pattern[str]:
    """Runs of ``*`` count as one, so that no pattern takes long."""
    parts = re.split(r"\*+", normal(pattern))
    return re.compile(".*".join(map(re.escape, parts)), re.DOTALL)
