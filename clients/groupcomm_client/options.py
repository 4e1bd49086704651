"""The options of `connect`."""

import os
import secrets
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeAlias

import attrs

from groupcomm.errors import ConfigError
from groupcomm_client.filters.factories import Factory, check_filters

if TYPE_CHECKING:
    from groupcomm_client.outbox import Outbox

ADMISSION_S: Final = 10.0
"""Longer than any view change, as an admission is ordered among all daemons."""

SAME_HOST_TIMEOUT_S: Final = 3.0
"""The silence of a daemon of the same host after which its programs leave it. Others leave it after
its token timeout, which is shorter; and no cable is between them that may be put back."""

StrPath = str | os.PathLike[str]

Once: TypeAlias = "bool | Outbox"
"""Whether messages come exactly once, and whether an outbox stores them."""

Resume = bool | Sequence[str]
"""Whether a connection resumes, in all groups or in some; see `groupcomm_client.connect`."""


def random_user() -> str:
    """Return a random name, for a program that chooses none."""
    return f"u{secrets.token_hex(6)}"


@attrs.frozen(kw_only=True)
class ConnectOptions:
    """The options of a session.

    Attributes:
        timeout_s: seconds until the first session must be admitted.
        trace: the folder for a trace of all requests and events of the session, for ``groupcomm
            check`` (docs/trace.md); None for no trace.
        causes: whether `Message.causes` says which messages each message depends on.
        principals: whether `Message.principal` says who owns the session of each message's sender.
        daemon_timeout_s: seconds without any bytes from the daemon after which the session ends, as
            the daemon or its host has vanished; 0 for no limit. None for 3 s on one host, 10 s over
            a network.
        views: whether groups are joined with views, unless a join says otherwise; `connect` has an
            argument for it, too.
        own_views_only: whether the session, though a member of its groups, gets no views of them
            but those of its own joins and leaves, with only itself: as programs of Spread without
            membership messages.
        filters: factories of the filters that all messages pass, the first of them next to the
            program (docs/filters.md); None for those of `filters.set_default`.
    """

    timeout_s: float = ADMISSION_S
    trace: Path | None = None
    causes: bool = False
    principals: bool = False
    daemon_timeout_s: float | None = None
    views: bool = True
    own_views_only: bool = False
    filters: Sequence[Factory] | None = None

    def __attrs_post_init__(self) -> None:
        """Check the types, and the times.

        Raises:
            ConfigError: one is of a wrong type, or a time is negative.
        """
        for name, value in (("timeout_s", self.timeout_s), ("daemon_timeout_s", self._daemon_s)):
            if not isinstance(value, int | float) or not value >= 0:
                raise ConfigError(f"{name} is {value!r}; it must be a number of at least 0")
        if self.trace is not None and not isinstance(self.trace, Path):
            raise ConfigError(f"trace is {self.trace!r}; it must be the Path of a folder")
        check_filters(self.filters or ())

    @property
    def _daemon_s(self) -> float:
        return 0.0 if self.daemon_timeout_s is None else self.daemon_timeout_s


DEFAULT_OPTIONS: Final = ConnectOptions()


def with_views(options: ConnectOptions, *, views: bool) -> ConnectOptions:
    """Return these options, without views if `views` is False; what is none is refused later."""
    if views or not isinstance(options, ConnectOptions):
        return options
    return attrs.evolve(options, views=False)


@attrs.frozen(kw_only=True)
class TlsOptions:
    """The authorities that a program trusts over TLS, and its own credentials.

    Attributes:
        ca: PEM file of the authorities that sign daemons' certificates; None for the file in
                ``GROUPCOMM_CA``, otherwise for the authorities that the system trusts.
        certificate, key: PEM files by which this program authenticates; None for those in
            ``GROUPCOMM_CERTIFICATE`` and ``GROUPCOMM_KEY``, if any.
        token: authenticates the program, too; a str is the token, a path its file; None for the one
            in ``GROUPCOMM_TOKEN``, if any.

    A connection that reconnects reads the files again for each session.
    """

    ca: StrPath | None = None
    certificate: StrPath | None = None
    key: StrPath | None = None
    token: StrPath | None = attrs.field(default=None, repr=False)
