"""How datagrams are protected: the suite, and the files that it asks for.

Datagrams are sealed unless a configuration says ``insecure``. Daemons that are all on this host and
of one user need no ``key_file`` for it: the first that starts makes one, and the others find it.
"""

from pathlib import Path
from urllib.parse import quote

import attrs

from groupcomm.errors import ConfigError
from groupcomm.host.addresses import state_folder
from groupcomm.host.key_file import make_common_key, read_key_file
from groupcomm.security.identity import Roll
from groupcomm.security.keys import KeyRing
from groupcomm.security.layout import SUITE_AES_GCM, SUITE_IDENTITIES, SUITE_NONE
from groupcommd.identity_file import read_identity, read_roll


@attrs.frozen(kw_only=True)
class Written:
    """What a configuration says of it, as it is written."""

    cluster: str
    key_file: str | None
    identity: str | None
    identities: str | None
    insecure: bool


@attrs.frozen(kw_only=True)
class Protection:
    """What a daemon protects datagrams with.

    Attributes:
        suite: 0 to 2, see groupcomm/security.
        key_file: where keys were read, and are written when daemons agree on others.
        keys: in it; None in suite 0, and where a daemon's first start makes them.
        identity: its private key; None where daemons have no identities.
        identities: the file where `roll` was read, and is written when a daemon is evicted.
        roll: whose identities count; None if `identity` is.
    """

    suite: int
    key_file: Path | None = None
    keys: KeyRing | None = attrs.field(default=None, repr=False)
    identity: bytes | None = attrs.field(default=None, repr=False)
    identities: Path | None = None
    roll: Roll | None = None


def read_protection(
    written: Written, base: Path, *, beyond: str | None, make_key: bool
) -> Protection:
    """Read the files that a configuration names.

    Args:
        written: the configuration.
        base: paths in it are relative to this folder.
        beyond: what is beyond loopback, such as ``press at 10.0.0.1``; None if nothing is.
        make_key: whether to make a key for the daemons of this host, if they need one.

    Raises:
        ConfigError: a file is missing, wrong, or open to others.
        OSError: one cannot be read.
    """
    _check_pairs(written)
    if written.key_file is None:
        return _unnamed(written, beyond, make_key=make_key)
    key_file, identity, identities = (
        base / Path(text).expanduser() if text else None
        for text in (written.key_file, written.identity, written.identities)
    )
    assert key_file is not None
    return Protection(
        suite=SUITE_AES_GCM if identity is None else SUITE_IDENTITIES,
        key_file=key_file,
        keys=read_key_file(key_file),
        identity=read_identity(identity) if identity is not None else None,
        identities=identities,
        roll=read_roll(identities) if identities is not None else None,
    )


def _check_pairs(written: Written) -> None:
    if bool(written.identity) != bool(written.identities):
        there, missing = "identity", "identities"
        if not written.identity:
            there, missing = missing, there
        raise ConfigError(f"{there} is set and {missing} is not: daemons need both, or neither")
    if written.identity and not written.key_file:
        raise ConfigError("identity is set and key_file is not: identities need both")


def _unnamed(written: Written, beyond: str | None, *, make_key: bool) -> Protection:
    """No key file is named: there is one for all daemons of this user on this host."""
    if written.insecure:
        return Protection(suite=SUITE_NONE)
    if beyond is not None:
        raise ConfigError(
            f"key_file is missing, and {beyond} is beyond loopback: anybody there could join;"
            " make a key with: groupcomm keygen, or set insecure = true"
        )
    path = state_folder() / f"{quote(written.cluster, safe='')}.key"
    if make_key:
        try:
            make_common_key(path)
        except OSError as error:
            raise ConfigError(
                f"no key can be made for the daemons of this host: {error}; name one as key_file,"
                " or set insecure = true"
            ) from None
    keys = read_key_file(path) if path.exists() else None
    return Protection(suite=SUITE_AES_GCM, key_file=path, keys=keys)
