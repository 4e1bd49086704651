"""The roles of the attacker: what they are called, what each has, and where it can be played.

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

ROLES: Final = {
    NOTHING: "hears and sends everything, and has no key",
    RING_KEY: "has the ring's key file as well, and no identity",
    EVICTED: "was a daemon, and has all that it had when it was evicted",
    PROGRAM: "was let in by a daemon whose rules allow it nothing",
    USER: "is another user of each host: sends from its addresses, and is let in nowhere",
}

FOR_SUITE_2: Final = frozenset((RING_KEY, EVICTED))
"""Without identities whoever has the ring's key is every daemon."""

FOR_SEALS: Final = frozenset((NOTHING, USER))
"""Anybody can make a checksum."""

POLITE: Final = "unix:polite"
"""The principal of a run's own programs, where there are rules."""

EPOCHS_S: Final = (Rekeying().epoch_s, Rekeying().epoch_s, 2.0, 0.5)
"""How long an epoch lasts: new secrets in each view alone, or all the time."""

_RULES: Final = Access((Rule((POLITE,), ("*",), frozenset(Verb), names=("*",)),))


def parse_roles(text: str) -> tuple[str, ...]:
    """Parse names with commas between them; each counts once, in the order of ROLES.

    Raises:
        ConfigError: a name is not one of ROLES.
    """
    names = [name.strip() for name in text.split(",")]
    for name in names:
        if name not in ROLES:
            raise ConfigError(f"attacker {name!r}: there is no such role; there are {_listed()}")
    return tuple(role for role in ROLES if role in names)


def check_roles(roles: tuple[str, ...], suite: int | None, daemons: int | None) -> None:
    """Raise ConfigError for a role that cannot be held against, or that nobody can play."""
    for role in roles:
        if role in FOR_SUITE_2 and suite not in (None, 2):
            raise ConfigError(
                f"attacker {role}: in suite {suite} whoever has the ring's key is every daemon, so"
                " nothing can hold against it; run it with --suite 2, where daemons have identities"
            )
        if role in FOR_SEALS and suite == 0:
            raise ConfigError(
                f"attacker {role}: in suite 0 datagrams have a checksum only, which anybody can"
                " make; run it with --suite 1 or 2"
            )
        if role == EVICTED and daemons == 1:
            raise ConfigError(f"attacker {role}: there must be another daemon that evicts it")


def least_suite(roles: tuple[str, ...]) -> int:
    """Return the suite of runs with these roles for which none is fixed."""
    return 2 if FOR_SUITE_2 & set(roles) else 1 if roles else 0


def rules_against(roles: tuple[str, ...]) -> Access:
    """Return the rules of all daemons: none, unless programs attack."""
    return _RULES if {PROGRAM, USER} & set(roles) else Access()


def draw_evicted(rng: Random, roles: tuple[str, ...], daemons: int) -> int | None:
    """Draw the daemon that is evicted, by index."""
    return rng.randrange(daemons) if EVICTED in roles else None


def draw_epoch_s(rng: Random, roles: tuple[str, ...]) -> float:
    """Draw how long an epoch lasts."""
    return rng.choice(EPOCHS_S) if FOR_SUITE_2 & set(roles) else EPOCHS_S[0]


def _listed() -> str:
    return ", ".join(ROLES)
