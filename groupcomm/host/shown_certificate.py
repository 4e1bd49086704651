"""Certificates of programs: the principals that they prove, and how long.

Names of different kinds are kept apart: who may have certificates for names of hosts signed is not
for that reason whoever has a mail address, or a program of ours, of the same spelling.
"""

import re
import ssl
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final

import attrs
from cryptography import x509
from cryptography.exceptions import InvalidSignature

from groupcomm.security.access import MAX_PRINCIPAL_BYTES

PROGRAM: Final = "groupcomm:"
"""Begins the URI of a program to which `groupcomm certs` has issued a certificate."""

PROGRAM_NAME: Final = re.compile(r"[A-Za-z0-9._-]{1,64}")
"""No colon: so no principal of a program is one of another kind."""

_KINDS: Final = {"DNS": "dns", "email": "mail", "URI": "uri"}
"""What OpenSSL calls a name, and what principals do."""


def principal_of(names: Sequence[tuple[str, str]]) -> str | None:
    """Return the principal that a certificate proves: by the first name in it that is no address.

    ``cert:NAME`` is of a program with the URI ``groupcomm:NAME``; others are ``cert:dns:NAME``,
    ``cert:mail:NAME`` and ``cert:uri:NAME``.

    Args:
        names: (kind, name) pairs of its subjectAltName, with OpenSSL's words for kinds.

    Returns:
        None if it has no such name, or one that cannot be a principal.
    """
    found = next(((kind, name) for kind, name in names if kind in _KINDS), None)
    if found is None:
        return None
    kind, name = found
    own = name.removeprefix(PROGRAM)
    if kind == "URI" and own != name and PROGRAM_NAME.fullmatch(own):
        return f"cert:{own}"
    if kind == "DNS":
        name = name.lower()  # as RFC 4343 compares them
    principal = f"cert:{_KINDS[kind]}:{name}"
    is_one = name.isprintable() and name and len(principal.encode()) <= MAX_PRINCIPAL_BYTES
    return principal if is_one else None


@attrs.frozen
class ShownCertificate:
    """What a program has shown, after TLS has checked it.

    Attributes:
        names: (kind, name) pairs of its subjectAltName.
        serial: of its authority.
        ends: from then on it counts no more.
        der: all of it.
    """

    names: tuple[tuple[str, str], ...]
    serial: int
    ends: datetime
    der: bytes = attrs.field(repr=False)

    @property
    def principal(self) -> str | None:
        """See `principal_of`."""
        return principal_of(self.names)

    def is_signed_by(self, authorities: bytes) -> bool:
        """Tell whether one of some authorities, in PEM, has signed it, and not one in between."""
        try:
            certificate = x509.load_der_x509_certificate(self.der)
            return any(
                _has_signed(authority, certificate)
                for authority in x509.load_pem_x509_certificates(authorities)
            )
        except ValueError:  # OpenSSL can read it, and the other library cannot
            return False


def read_shown(found: Mapping[str, Any], der: bytes) -> ShownCertificate:
    """Return a certificate as the ssl module tells it, checked."""
    ends_s = ssl.cert_time_to_seconds(found["notAfter"])
    return ShownCertificate(
        found.get("subjectAltName", ()),
        int(found["serialNumber"], 16),
        datetime.fromtimestamp(ends_s, UTC),
        der,
    )


def _has_signed(authority: x509.Certificate, certificate: x509.Certificate) -> bool:
    try:
        certificate.verify_directly_issued_by(authority)
    except (ValueError, TypeError, InvalidSignature):
        return False
    return True
