"""Certificates of programs: the principals that they prove.

Names of different kinds are kept apart: who may have certificates for names of hosts signed is not
for that reason whoever has a mail address, or a program of ours, of the same spelling.
"""

import re
from collections.abc import Sequence
from typing import Final

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
