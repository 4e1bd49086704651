"""The roles of attackers: their names, what each has, and where it can be played.

``nothing`` is the fault ``attacker`` (outsiders.py), made certain. The others are in this folder.
"""

from random import Random
from typing import Final

from groupcomm.config.core import Rekeying
from groupcomm.errors import ConfigError
from groupcomm.security.access import Access, Rule, Verb

NOTHING: Final = "nothing"
RING_KEY: Final = "ring-key"
EVICTED: Final = "evicted"
PROGRAM: Final = "program"
USER: Final = "user"
JOINER: Final = "joiner"
CROWD: Final = "crowd"
FREE_SENDER: Final = "free-sender"

ROLES: Final = {
    NOTHING: "hears and sends everything, without a key",
    RING_KEY: "has the ring's key file, but no identity",
    EVICTED: "has everything that a daemon had when it was evicted",
    PROGRAM: "was admitted by a daemon whose rules allow it nothing",
    USER: "is another user of each host, which sends from its addresses and is admitted nowhere",
    JOINER: "has programs that may join groups of some names",
    CROWD: "has many programs that may join one group, see its members and send to it",
    FREE_SENDER: "has programs that may send to groups without members",
}

FOR_SUITE_2: Final = frozenset((RING_KEY, EVICTED))
"""The roles for suite 2 only: without identities, the ring's key makes one every daemon."""

ENTITLED: Final = {
    JOINER: Rule(("token:joiner",), ("x.*",), frozenset((Verb.JOIN,))),
    CROWD: Rule(
        ("token:crowd",), ("x.crowd",), frozenset((Verb.JOIN, Verb.SEND, Verb.SEE_MEMBERS))
    ),
    FREE_SENDER: Rule(("token:free-sender",), ("x.*",), frozenset((Verb.SEND,))),
}
"""The roles of programs with a small right, and the right."""

UNITS_US: Final = (6, 300)
"""The choices for the time of a unit of work, where such programs cause work."""

FOR_SEALS: Final = frozenset((NOTHING, USER))
"""The roles that need seals: anybody can make a checksum."""

POLITE: Final = "unix:polite"
"""The principal of a run's own programs, where there are rules."""

EPOCHS_S: Final = (Rekeying().epoch_s, Rekeying().epoch_s, 2.0, 0.5)
"""The choices for the length of an epoch: new secrets only with each view, or all the time."""

_POLITE_RULE: Final = Rule((POLITE,), ("*",), frozenset(Verb), names=("*",))


def parse_roles(text: str) -> tuple[str, ...]:
    """Parse names with commas between them; each counts once, in the order of ROLES.

    Raises:
        ConfigError: a name is not one of ROLES.
    """
    names = [name.strip() for name in text.split(",")]
    for name in names:
        if name not in ROLES:
            raise ConfigError(
                f"attacker {name!r}: this role does not exist; the roles are {_listed()}"
            )
    return tuple(role for role in ROLES if role in names)


def check_roles(roles: tuple[str, ...], suite: int | None, daemons: int | None) -> None:
    """Raise ConfigError for a role that no suite resists, or that nobody can play."""
    for role in roles:
        if role in FOR_SUITE_2 and suite not in (None, 2):
            raise ConfigError(
                f"attacker {role}: in suite {suite} an attacker with the ring's key can "
                "pose as every daemon, so no run could pass: use --suite 2, where "
                "daemons have identities"
            )
        if role in FOR_SEALS and suite == 0:
            raise ConfigError(
                f"attacker {role}: in suite 0 datagrams have a checksum only, which "
                "anybody can make: use --suite 1 or 2"
            )
        if role == EVICTED and daemons == 1:
            raise ConfigError(
                f"attacker {role}: no other daemon can evict the daemon: use two daemons or more"
            )


def least_suite(roles: tuple[str, ...]) -> int:
    """Return the least suite for runs with these roles, for settings that fix none."""
    return 2 if FOR_SUITE_2 & set(roles) else 1 if roles else 0


def rules_against(roles: tuple[str, ...]) -> Access:
    """Return the rules of all daemons: none, unless programs attack."""
    if not {PROGRAM, USER, *ENTITLED} & set(roles):
        return Access()
    return Access((_POLITE_RULE, *(rule for role, rule in ENTITLED.items() if role in roles)))


def draw_unit_us(rng: Random, roles: tuple[str, ...]) -> int:
    """Draw the time of a unit of work, in microseconds."""
    return rng.choice(UNITS_US) if ENTITLED.keys() & set(roles) else 0


def draw_evicted(rng: Random, roles: tuple[str, ...], daemons: int) -> int | None:
    """Draw the daemon that is evicted, by index."""
    return rng.randrange(daemons) if EVICTED in roles else None


def draw_epoch_s(rng: Random, roles: tuple[str, ...]) -> float:
    """Draw the length of an epoch."""
    return rng.choice(EPOCHS_S) if FOR_SUITE_2 & set(roles) else EPOCHS_S[0]


def _listed() -> str:
    return ", ".join(ROLES)
