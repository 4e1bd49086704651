"""Strangers: who sends datagrams that this daemon drops because another host is set up otherwise.

The reason for which a datagram was dropped says what the likely cause is, and its source which host
to look at. Whoever has no key can make up both, but for ``unlisted``: so anybody's address is kept
for `groupcomm status` and `groupcomm doctor`, and the log names only sources that the configuration
lists, and who has the key.
"""

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, Protocol

import attrs

from groupcomm.host.addresses import Address
from groupcommd.config_file import DaemonConfig

MAX_STRANGERS: Final = 32
"""Sources and reasons, the latest; more are junk."""

LOOK_S: Final = 0.1
"""Junk comes in masses, and to look for its source costs time: no more often than this."""

FRESH_S: Final = 10.0
"""What came longer ago is not told any more."""

_log = logging.getLogger("groupcommd")


@attrs.frozen
class Cause:
    """What is likely behind datagrams that are dropped.

    Attributes:
        what: they are.
        keys: of a configuration, that differ.
        remedy: what to do.
        proven: their sender has the key, so it is a daemon of the cluster.
    """

    what: str
    keys: str
    remedy: str
    proven: bool = False


CAUSES: Final = {
    "tag": Cause(
        "were sealed with another key",
        "key_file",
        "give all daemons the same key file, and restart them",
    ),
    "key": Cause(
        "name a key that this daemon lacks",
        "key_file",
        "copy another host's key file, and: groupcomm keys add FILE --from COPY",
    ),
    "suite": Cause(
        "are sealed in another way: without keys, with keys, or with keys and identities",
        "insecure, key_file, identity and identities",
        "give all daemons the same of insecure, key_file, identity and identities",
    ),
    "identity": Cause(
        "are of daemons without an identity that counts here",
        "identities",
        "list their public keys at all hosts, unless they were evicted: groupcomm identity add",
        proven=True,
    ),
    "cluster": Cause(
        "are of another cluster",
        "cluster",
        "give the clusters different ports, or one cluster name",
    ),
    "unlisted": Cause(
        "are of daemons that are not listed",
        "sites.*.daemons",
        "list all daemons at all hosts, and restart the daemons whose files were changed",
        proven=True,
    ),
    "version": Cause("are of another release", "", "install the same release at all daemons"),
}
"""By the reason for which a core drops datagrams that another daemon may send in good faith."""


class Source(Protocol):
    """Where datagrams come from."""

    def source_of(self, index: int) -> Address | None:
        """Return who has sent a datagram, by its place in what came last; None if unknown."""


@attrs.define
class Stranger:
    """One source of datagrams that are dropped for one reason.

    Attributes:
        address: where they come from.
        name: of the daemon that is listed there; None if none is.
        reason: for which they are dropped.
        seen_at: when one came last.
    """

    address: Address
    name: str | None
    reason: str
    seen_at: float

    def __str__(self) -> str:
        return f"{self.name} ({self.address})" if self.name is not None else str(self.address)


class Strangers:
    """All of them, as one daemon knows them."""

    def __init__(self, config: DaemonConfig) -> None:
        self._file: Path | None = config.file
        self._names = {address: name for name, address in config.addresses.items()}
        for name, further in config.further.items():
            self._names |= dict.fromkeys(further, name)
        self._found: dict[tuple[str, Address], Stranger] = {}
        self._logged: set[tuple[str, Address]] = set()
        self._look_at = 0.0

    def note(
        self,
        dropped: Sequence[tuple[bytes, str]],
        datagrams: Sequence[bytes],
        source: Source,
        now: float,
    ) -> None:
        """Find out who has sent what was dropped in a step.

        Args:
            dropped: some of the datagrams that were dropped, and why.
            datagrams: all that came.
            source: where they came from.
            now: seconds.
        """
        if now < self._look_at:
            return
        self._look_at = now + LOOK_S
        for datagram, reason in dropped:
            if reason in CAUSES:
                index = next(at for at, each in enumerate(datagrams) if each is datagram)
                address = source.source_of(index)
                if address is not None:
                    self._note(reason, address, now)

    def _note(self, reason: str, address: Address, now: float) -> None:
        key, name = (reason, address), self._names.get(address)
        self._found.pop(key, None)
        self._found[key] = stranger = Stranger(address, name, reason, now)
        if len(self._found) > MAX_STRANGERS:
            del self._found[next(iter(self._found))]
        named = name is not None or CAUSES[reason].proven
        if named and key not in self._logged and len(self._logged) < MAX_STRANGERS:
            self._logged.add(key)
            self._log(stranger)

    def _log(self, stranger: Stranger) -> None:
        cause, file = CAUSES[stranger.reason], self._file or "this daemon's settings"
        differs = f"; most likely {cause.keys} differs there from {file}" if cause.keys else ""
        # Who has no key may have made them up, under whatever address.
        _log.log(
            logging.ERROR if cause.proven else logging.WARNING,
            "datagrams from %s %s (%s)%s%s: %s",
            stranger,
            cause.what,
            stranger.reason,
            differs,
            "" if cause.proven else "; if that daemon has sent them",
            cause.remedy,
            extra={"address": str(stranger.address), "reason": stranger.reason},
        )

    def told(self, now: float) -> list[dict[str, Any]]:
        """Return what is told of those that were seen lately, the latest last."""
        return [
            {
                "address": str(found.address),
                "name": found.name,
                "reason": found.reason,
                "text": str(found),
                "seen_s": round(now - found.seen_at, 3),
            }
            for found in self._found.values()
            if found.seen_at >= now - FRESH_S
        ]
