"""What a program may ask of a connection: the options of `connect`."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import attrs

from groupcomm_client.filters.factories import Factory

ADMISSION_S: Final = 10.0
"""Longer than any view change: being admitted is ordered among all daemons."""

StrPath = str | os.PathLike[str]


@attrs.frozen(kw_only=True)
class ConnectOptions:
    """What a session is to have.

    Attributes:
        timeout_s: seconds until the first session must be admitted.
        trace: a folder in which all that the session asks for and is told is written down, for
            ``groupcomm check`` (docs/trace.md); None for no trace.
        causes: have `Message.causes` say what each message depends on.
        principals: have `Message.principal` say whose session each message comes from.
        filters: factories of the filters that all messages go through, the first of them next to
            the program (docs/filters.md); None for those of `filters.set_default`.
    """

    timeout_s: float = ADMISSION_S
    trace: Path | None = None
    causes: bool = False
    principals: bool = False
    filters: Sequence[Factory] | None = None


DEFAULT_OPTIONS: Final = ConnectOptions()


@attrs.frozen(kw_only=True)
class TlsOptions:
    """Whom a program trusts over TLS, and how it proves who it is.

    Attributes:
        ca: PEM file of those who sign daemons' certificates; None for what ``GROUPCOMM_CA`` says,
            else for those whom the system trusts.
        certificate, key: PEM files by which this program proves who it is; None for those in
            ``GROUPCOMM_CERTIFICATE`` and ``GROUPCOMM_KEY``, if any.
        token: proves it, too; a str is the token, a path its file; None for that in
            ``GROUPCOMM_TOKEN``, if any.
    """

    ca: StrPath | None = None
    certificate: StrPath | None = None
    key: StrPath | None = None
    token: StrPath | None = attrs.field(default=None, repr=False)
