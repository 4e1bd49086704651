"""Suites: how datagrams are protected, and the gate for each."""

from groupcomm.config.core import CoreConfig
from groupcomm.config.view import Start
from groupcomm.engine.identity_gate import IdentityProtection
from groupcomm.engine.protection import DatagramProtection, PlainProtection, SealedProtection
from groupcomm.errors import ConfigError
from groupcomm.security.identity import DaemonCredentials
from groupcomm.security.keys import KeyRing
from groupcomm.security.layout import SUITE_AES_GCM, SUITE_IDENTITIES, SUITE_NONE


def make_protection(
    config: CoreConfig,
    start: Start,
    keys: KeyRing | None,
    now: float,
    credentials: DaemonCredentials | None = None,
) -> DatagramProtection:
    """The gate for the suite that is configured.

    Raises:
        ConfigError: there is no such suite, or it lacks keys or an identity.
    """
    if config.suite == SUITE_NONE:
        return PlainProtection(config, start)
    if config.suite == SUITE_AES_GCM:
        return SealedProtection(config, start, keys, now)
    if config.suite == SUITE_IDENTITIES:
        if credentials is None:
            raise ConfigError("suite 2 (identities) needs an identity; give one, or suite 1")
        return IdentityProtection(config, start, keys, now, credentials)
    raise ConfigError(
        f"suite is {config.suite}; it must be 0 (CRC32C), 1 (AES-256-GCM) or 2 (identities)"
    )
