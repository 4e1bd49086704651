"""Files of revoked certificates: certificates of programs that are invalid before they expire.

TOML, written by ``groupcomm certs revoke``: a table ``[serials]``, with a serial number in
hexadecimal digits for each certificate, and a table ``[principals]``, for all certificates of a
principal. The value of each entry is a note for people. Everybody may read the file, and only its
owner may write it.
"""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import attrs

from groupcomm.errors import ConfigError
from groupcomm.host.private_files import open_unwritable, rewrite_private
from groupcomm.host.tls import PeerCertificate
from groupcomm.host.toml_file import load_toml
from groupcomm.security.access import MAX_PRINCIPAL_BYTES

SERIAL: Final = re.compile(r"[0-9a-fA-F]{1,64}")
_COMMENT: Final = (
    "# Revoked certificates, which are not valid any more: written by groupcomm certs revoke."
)


@attrs.frozen
class Revocations:
    """The revoked certificates.

    Attributes:
        serials: serial numbers of certificates, each with a note.
        principals: principals all of whose certificates are revoked, each with a note.
    """

    serials: Mapping[int, str] = attrs.field(factory=dict)
    principals: Mapping[str, str] = attrs.field(factory=dict)

    def has(self, certificate: PeerCertificate) -> bool:
        """Return whether a certificate was revoked."""
        return certificate.serial in self.serials or certificate.principal in self.principals


def read_revocations(path: Path) -> Revocations:
    """Read the revocations of a file.

    Raises:
        ConfigError: others may change or replace it, or it does not hold revocations.
        OSError: it cannot be read.
    """
    with open_unwritable(path, "clients.tls.revoked") as file:
        try:
            table = load_toml(file)
            if not table.keys() <= {"serials", "principals"}:
                raise ValueError
            serials = {_serial(text): str(note) for text, note in _rows(table, "serials")}
            principals = {
                check_principal(text): str(note) for text, note in _rows(table, "principals")
            }
        except (ConfigError, ValueError, AttributeError):
            raise ConfigError(
                f"clients.tls.revoked {path}: the file holds no revocations; make one "
                "with: groupcomm certs revoke"
            ) from None
    return Revocations(serials, principals)


def revoke(path: Path, revoked: Revocations) -> Revocations:
    """Add to a file, and make it if it does not exist; return all its revocations.

    Raises:
        ConfigError: the file is wrong; it is as before.
        OSError: the file cannot be read or written; it is as before.
    """

    def added() -> Revocations:
        old = read_revocations(path) if path.exists() else Revocations()
        return Revocations(
            {**revoked.serials, **old.serials}, {**revoked.principals, **old.principals}
        )

    return rewrite_private(path, added, _text)


def check_principal(text: str) -> str:
    """Return a text that is a principal of certificates.

    Raises:
        ValueError: the text is no such principal.
    """
    right = text.startswith("cert:") and text.isprintable()
    if not right or len(text.encode()) > MAX_PRINCIPAL_BYTES:
        raise ValueError(text)
    return text


def _rows(table: Mapping[str, Any], name: str) -> list[tuple[str, object]]:
    return list(table.get(name, {}).items())


def _serial(text: str) -> int:
    if not SERIAL.fullmatch(text):
        raise ValueError(text)
    return int(text, 16)


def _text(revoked: Revocations) -> str:
    serials = [f"{serial:x} = {_quoted(note)}" for serial, note in revoked.serials.items()]
    principals = [f"{_quoted(one)} = {_quoted(note)}" for one, note in revoked.principals.items()]
    return "\n".join([_COMMENT, "[serials]", *serials, "", "[principals]", *principals, ""])


def _quoted(text: str) -> str:
    """Return a basic string of TOML; texts have no control characters."""
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
