"""The state of all daemons, asked through the cluster.

A question of a program makes its daemon ask all others, with an empty report at a place in the
agreed order. Each answers with a report of its own: a small object of JSON. The answers are
collected for the next program that asks, each with its age, so a program asks until all have come.
"""

import json
import os
import time
from collections.abc import Iterable
from importlib.metadata import version
from ipaddress import ip_address
from math import isfinite
from socket import gethostname
from typing import Any, Final

import attrs

from groupcomm.engine import MAX_REPORT_BYTES, DaemonCore, Status
from groupcomm.engine.status import ProgramsStatus
from groupcomm.errors import ConfigError
from groupcomm.host.addresses import TLS, Address, parse_address
from groupcommd.programs.connections import Connections

PAUSE_S: Final = 0.2
"""The least time between two reports or questions of one daemon, however many programs ask."""

KEPT: Final = 256
"""The reports that are kept, of as many daemons as a cluster has, and of some that have gone."""

QUESTION: Final = b""
MAX_HOST: Final = 64
_VERSION: Final = version("groupcomm")  # it is read from the disk


@attrs.frozen
class _Report:
    """The latest report of a daemon, and when it came."""

    at: float
    told: dict[str, Any]


class ClusterReports:
    """The reports that this daemon sends, and has got.

    Args:
        core: the daemon's core.
        connections: the connections of its programs.
        started: the time at which the daemon was started, by time.monotonic.
        tls: the address at which programs of other hosts connect to it; None without one.
    """

    def __init__(
        self,
        core: DaemonCore,
        connections: Connections,
        started: float,
        tls: Address | None = None,
    ) -> None:
        self._core = core
        self._connections = connections
        self._started = started
        self._tls = tls
        self._reports: dict[str, _Report] = {}
        self._asked_at = self._reported_at = float("-inf")

    def accept(self, reports: Iterable[tuple[str, bytes]], now: float) -> None:
        """Keep the reports of daemons, and answer their questions."""
        for name, payload in reports:
            if payload == QUESTION:
                self._tell(now)
            elif (told := _decode_untrusted(payload)) is not None:
                self._reports.pop(name, None)
                self._reports[name] = _Report(now, told)
                if len(self._reports) > KEPT:
                    del self._reports[next(iter(self._reports))]

    def _tell(self, now: float) -> None:
        if now >= self._reported_at + PAUSE_S:
            self._reported_at = now
            found, programs = self._core.status(now), self._core.programs_status()
            self._core.report(_encode(self._own(found, programs)))

    def _own(self, found: Status, programs: ProgramsStatus) -> dict[str, Any]:
        """Return this daemon's report to the others; the most important part comes first."""
        sent = found.datagrams
        return {
            "pid": os.getpid(),
            "host": gethostname()[:MAX_HOST],
            "version": _VERSION,
            "restarts": found.daemon.incarnation.restarts,
            "uptime_s": round(time.monotonic() - self._started),
            "programs": programs.programs,
            **({} if found.drain is None else {"stops_in_s": round(found.drain.left_s)}),
            **({} if self._tls is None else {"tls": str(self._tls)}),
            "groups": found.groups,
            "to_read": programs.output_bytes,
            "to_send": programs.backlog_bytes,
            "messages": found.traffic.taken,
            "deliveries": found.traffic.delivered,
            "rejected": sum(sent.rejected.values()),
            "refused": self._connections.refusals.counts.total(),
        }

    def ask(self, now: float) -> dict[str, Any]:
        """Ask all daemons of the view, and return their reports so far."""
        if now >= self._asked_at + PAUSE_S:
            self._asked_at = now
            self._core.report(QUESTION)
        return {
            "asked_s": round(now - self._asked_at, 3),
            "reports": {
                name: {**report.told, "age_s": round(now - report.at, 3)}
                for name, report in sorted(self._reports.items())
            },
        }

    def tls_addresses(self, found: Status) -> tuple[str, ...]:
        """Return the addresses at which the view's other daemons admit programs of other hosts.

        Daemons that are about to stop themselves are left out.
        """
        daemons = () if found.view is None else found.view.daemons
        others = [daemon.name for daemon in daemons if daemon != found.daemon]
        reports = [self._reports[name].told for name in others if name in self._reports]
        addresses = (_address_in(told.get("tls")) for told in reports if "stops_in_s" not in told)
        return tuple(f"{TLS}{address}" for address in addresses if address is not None)


def reachable(address: Address | None, own: Address) -> Address | None:
    """Return an address that others can connect to: one of all interfaces gets the daemon's host.

    Args:
        address: the address at which the daemon listens; None if it does not.
        own: its address for other daemons.
    """
    if address is None or not ip_address(address.host).is_unspecified:
        return address
    return attrs.evolve(address, host=own.host)


def _address_in(text: object) -> Address | None:
    """Return the address that a report has as text; None if it is no address."""
    if not isinstance(text, str):
        return None
    try:
        return parse_address(text, "tls")
    except ConfigError:
        return None


def _encode(told: dict[str, Any]) -> bytes:
    """Return a report; parts without room are left out, from the end."""
    names = list(told)
    while True:
        raw = json.dumps({name: told[name] for name in names}, separators=(",", ":")).encode()
        if len(raw) <= MAX_REPORT_BYTES:
            return raw
        names.pop()


def _decode_untrusted(payload: bytes) -> dict[str, Any] | None:
    """Return the report of a daemon; None if it is none."""
    try:
        found = json.loads(payload)
    except (ValueError, RecursionError):
        return None
    if not isinstance(found, dict):
        return None
    return {
        str(name): value
        for name, value in found.items()
        if isinstance(value, str | int | None) or (isinstance(value, float) and isfinite(value))
    }
