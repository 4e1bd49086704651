"""The log of a daemon: its formats, text or JSON, and its lines for operators.

Every view is logged with its causes and its duration, and so are programs that do not read, links
on which large packets are lost, and junk.
"""

import json
import logging
import sys
import time
from collections.abc import Callable, Sequence
from importlib.metadata import version
from math import inf
from typing import Any, Final

from groupcomm.engine import (
    AccessNews,
    DrainBegun,
    DrainOver,
    MembershipNews,
    News,
    ProgramSilent,
    ProtocolNews,
    RosterNews,
    Status,
    TokenLate,
    ViewInstalled,
)
from groupcomm.engine.status import SessionStatus
from groupcomm.host.line_writer import LineWriter
from groupcomm.membership.states import GatherReason
from groupcomm.security.keys import fingerprint_of
from groupcomm.visible import visible
from groupcomm.wire.link import LINK_BYTES
from groupcommd.config.daemon_config import DaemonConfig
from groupcommd.host.bounded_log import BoundedLog
from groupcommd.network.junk import MANY_PER_S
from groupcommd.network.sockets import Sockets
from groupcommd.operators import journal

_PLAIN = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime"}


class JsonFormatter(logging.Formatter):
    """A formatter of lines as JSON objects: time, level, text, and the fields of the line."""

    def format(self, record: logging.LogRecord) -> str:
        """Return one line."""
        fields = {name: value for name, value in vars(record).items() if name not in _PLAIN}
        line = {
            "time": time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
            + f".{int(record.msecs):03d}Z",
            "level": record.levelname.lower(),
            "text": record.getMessage(),
            **fields,
        }
        if record.exc_info:
            line["trace"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str)


class TextFormatter(logging.Formatter):
    """A formatter of time, level and text as one line; no name can look like another line."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)s %(message)s")

    def formatMessage(self, record: logging.LogRecord) -> str:
        """Return the line; the traceback of an error follows it."""
        return visible(super().formatMessage(record))


class JournalFormatter(TextFormatter):
    """A formatter for a journal without fields: with the priority, and without the time."""

    def __init__(self) -> None:
        logging.Formatter.__init__(self, "%(message)s")

    def formatMessage(self, record: logging.LogRecord) -> str:
        """Return the line, with a mark that the journal reads (sd-daemon(3))."""
        return f"<{journal.priority_of(record.levelno)}>{super().formatMessage(record)}"


class LineHandler(logging.Handler):
    """A handler that writes lines to standard error, and never waits for their reader.

    Attributes:
        lines: what writes them.
    """

    def __init__(self) -> None:
        super().__init__()
        self.lines = LineWriter(sys.stderr, self._note)

    def emit(self, record: logging.LogRecord) -> None:
        """Queue a line."""
        self.lines.put(self.format(record))

    def _note(self, count: int) -> str:
        name, of = "groupcommd", "lines of this log were dropped, as they could not be written"
        fields = {
            **{"name": name, "levelno": logging.WARNING, "levelname": "WARNING"},
            **{"msg": f"{count} {of}", "dropped_lines": count},
        }
        return self.format(logging.makeLogRecord(fields))

    def flush(self) -> None:
        """Wait a little until the lines are written."""
        self.lines.flush()

    def close(self) -> None:
        """Write the last lines, for a bounded time."""
        self.lines.close()
        super().close()


def set_up_logs(*, as_json: bool, verbose: bool) -> None:
    """Send the daemon's log to standard error; as fields, if that is the journal of systemd."""
    line_handler = LineHandler()
    line_handler.setFormatter(JsonFormatter() if as_json else TextFormatter())
    handler: logging.Handler = line_handler
    if not as_json and journal.is_standard_error():
        handler.setFormatter(JournalFormatter())
        handler = journal.JournalHandler(_PLAIN, handler)
    log = logging.getLogger("groupcommd")
    for each in log.handlers:
        each.close()
    log.handlers[:] = [handler]
    log.setLevel(logging.DEBUG if verbose else logging.INFO)
    log.propagate = False


def flush_logs() -> None:
    """Wait until the log's lines are written, for a bounded time."""
    for each in _log.handlers:
        each.flush()


def dropped_lines() -> int:
    """Return how many lines of the log were dropped, as they could not be written."""
    handlers = [getattr(each, "otherwise", each) for each in _log.handlers]
    return sum(each.lines.dropped for each in handlers if isinstance(each, LineHandler))


SLOW_BYTES = 1024 * 1024
"""A client with more pending output is logged."""

MAX_USERS = 16
"""The most users that a line names."""

JUNK_LOGGED_S = 3600.0
"""The time between two lines about junk, so that its sender cannot fill the log, too."""

_log = logging.getLogger("groupcommd")


def log_start(config: DaemonConfig, sockets: Sockets) -> None:
    """Log this daemon's name and addresses, before it sends its first datagram."""
    spread = [str(at) for at in (sockets.spread_unix, *sockets.spread_tcp) if at]
    fields: dict[str, Any] = {
        "version": version("groupcomm"),
        "daemon": config.name,
        "cluster": config.core.cluster,
        "listens": str(sockets.udp.address),
        "unix": str(config.unix),
        "tcp": str(sockets.tcp) if sockets.tcp else None,
        "tls": str(sockets.tls) if sockets.tls else None,
        "http": sockets.http.name if sockets.http else None,
        "spread": spread,
        "state_dir": str(config.state_dir),
        "config_file": str(config.file) if config.file else None,
    }
    key = "none: datagrams are not encrypted"
    if config.keys is not None:
        fingerprint = fingerprint_of(config.keys.keys[config.keys.active]).hex()
        fields |= {"key": config.keys.active, "fingerprint": fingerprint}
        key = f"{config.keys.active}, fingerprint {fingerprint}"
    programs = [str(config.unix)]
    programs += [f"TCP {sockets.tcp}"] if sockets.tcp else []
    programs += [f"TLS {sockets.tls}"] if sockets.tls else []
    programs += [f"{each} (Spread)" for each in spread]
    programs += [f"HTTP {sockets.http.name}"] if sockets.http else []
    _log.info(
        "groupcomm %s starts as daemon %s of cluster %s; daemons reach it at UDP %s, programs at"
        " %s; state folder %s; key %s",
        fields["version"],
        config.name,
        config.core.cluster,
        sockets.udp.address,
        ", ".join(programs),
        config.state_dir,
        key,
        extra=fields,
    )


def log_news(news: News, status: Callable[[], Status], bounded: BoundedLog) -> None:
    """Log an event of the core.

    Args:
        news: the event.
        bounded: writes what programs cause.
        status: returns the status of the core, which is made for some events only.
    """
    match news:
        case ViewInstalled():
            _log_view(news)
            if news.left:
                _log_left(news, status())
        case TokenLate(silent_s=silent_s, timeout_s=timeout_s):
            _log.warning(
                "the token is late: the last sign of it was %.2f s ago; after %g s without one the"
                " view ends",
                silent_s,
                timeout_s,
                extra={"silent_s": round(silent_s, 3)},
            )
        case AccessNews(text) | MembershipNews(text):
            about = "access" if isinstance(news, AccessNews) else "membership"
            bounded.line(about, logging.WARNING, f"{about}: %s", text)
        case ProtocolNews(text):
            _log.error("protocol: %s", text)
        case DrainBegun():
            _log.info(
                "this daemon is about to stop, within %g s: it admits no more programs, and tells"
                " the %d that it has to move to other daemons",
                news.within_s,
                news.programs,
                extra={"within_s": news.within_s, "programs": news.programs},
            )
        case DrainOver():
            _log_drained(news)
        case ProgramSilent():
            bounded.line(
                "silent",
                logging.WARNING,
                "the session of %r (%s) was ended, as nothing has come from its program for %g s:"
                " it stands still, or its host has vanished (clients.session_timeout_s)",
                news.user,
                news.principal,
                news.silent_s,
                extra={"client": news.user, "silent_s": news.silent_s},
            )
        case RosterNews(text):
            _log.warning("%s", text)


def _log_drained(news: DrainOver) -> None:
    fields = {"gone": news.gone, "staying": list(news.staying)}
    if not news.staying:
        _log.info("this daemon leaves: no program is left (%d have gone)", news.gone, extra=fields)
        return
    shown = ", ".join(map(repr, news.staying[:MAX_USERS]))
    more = len(news.staying) - MAX_USERS
    _log.warning(
        "this daemon leaves: %d programs have gone, and the sessions of %d end now: %s%s",
        news.gone,
        len(news.staying),
        shown,
        f" and {more} more" if more > 0 else "",
        extra=fields,
    )


def _log_view(news: ViewInstalled) -> None:
    if news.no_room:
        _log_no_room(news)
    names = [daemon.name for daemon in news.view.daemons]
    _log.info(
        "view %s: %s",
        news.view.id,
        ", ".join(names),
        extra={
            "view": str(news.view.id),
            "daemons": names,
            "came": list(news.came),
            "left": list(news.left),
            "cause": [reason.name.lower() for reason in news.causes],
            "took_ms": round(news.took_s * 1000, 1),
        },
    )


_CAUSES: Final = {
    GatherReason.TOKEN_LOST: "no token came in time",
    GatherReason.PATH_LOST: "it was silent",
    GatherReason.NOT_RECEIVED: "packets from it or to it do not arrive",
    GatherReason.MEMBER_GATHERS: "another daemon looked for a view",
    GatherReason.MEMBER_MOVED: "another daemon is in a later view",
    GatherReason.MEMBER_RESTARTED: "it was started again",
    GatherReason.FOREIGN_HEARD: "a daemon from outside was heard",
    GatherReason.MEMBER_BROKEN: "it breaks the protocol",
    GatherReason.CONTRADICTED: "statements of daemons contradict each other",
    GatherReason.PAUSED: "this daemon itself stood still",
}
"""The reasons for which a view is without a daemon; uninformative ones are left out."""


def _log_no_room(news: ViewInstalled) -> None:
    names, rings = list(news.no_room), len(news.view.rings)
    _log.warning(
        "no room in the view for %s: it has %d rings, one for each group of a site's daemons that"
        " all hear each other, and would have too many with them; the smallest groups have views of"
        " their own: repair the network inside the sites, or put sites together (groupcomm"
        " doctor shows which daemons do not hear each other)",
        ", ".join(names),
        rings,
        extra={"no_room": names, "rings": rings},
    )


def _log_left(news: ViewInstalled, status: Status) -> None:
    """Log each daemon that the new view lacks: as lost, or as one that has left in order."""
    peers = {peer.name: peer for peer in status.peers}
    count, listed = len(news.view.daemons), len(status.configured)
    left_over = f"{count} of {listed} daemons are left"
    left_over += ", a majority" if status.majority else ", NO majority"
    for name in news.left:
        peer = peers.get(name)
        if peer is not None and peer.left:
            _log.info("daemon %s has left in order; %s", name, left_over, extra={"gone": name})
            continue
        causes = [_CAUSES[cause] for cause in news.causes if cause in _CAUSES]
        silent_s = inf if peer is None else status.at - peer.heard_at
        since = "it was never heard" if silent_s == inf else _since(silent_s)
        _log.warning(
            "daemon %s is lost: %s; %s; %s",
            name,
            ", ".join(dict.fromkeys(causes)) or "the others formed a view without it",
            since,
            left_over,
            extra={
                "lost": name,
                "unheard_s": None if silent_s == inf else round(silent_s, 3),
                "majority": bool(status.majority),
                "left_over": count,
                "listed": listed,
            },
        )


def _since(silent_s: float) -> str:
    heard = time.strftime("%H:%M:%S", time.localtime(time.time() - silent_s))
    return f"it was heard last at {heard}, {silent_s:.1f} s ago"


class LogWatch:
    """A monitor that logs changes of a daemon's status from one second to the next.

    Args:
        bounded: writes what programs cause.

    Attributes:
        bounded: see above.
    """

    def __init__(self, bounded: BoundedLog) -> None:
        self.bounded = bounded
        self._slow: set[int] = set()
        self._narrow: set[str] = set()  # links that were logged
        self._junk = 0  # the count of bad datagrams at the last check
        self._is_flooded = self._is_logged = False
        self._junk_logged_at = -JUNK_LOGGED_S

    def check(self, status: Status, slow: Sequence[SessionStatus]) -> None:
        """Log links on which large packets are lost, and programs that do not read.

        Args:
            status: the status of this second.
            slow: the sessions with `SLOW_BYTES` of output or more.
        """
        self._check_load(slow)
        self._check_links(status)

    def _check_load(self, sessions: Sequence[SessionStatus]) -> None:
        for session in sessions:
            slow = session.output_bytes > SLOW_BYTES
            if slow and session.connection not in self._slow:
                self._slow.add(session.connection)
                self.bounded.line(
                    "slow",
                    logging.WARNING,
                    "client %s does not keep up: %d bytes of its output are pending",
                    session.user,
                    session.output_bytes,
                    extra={"client": session.user, "waiting_bytes": session.output_bytes},
                )
            elif not slow:
                self._slow.discard(session.connection)
        self._slow.intersection_update(session.connection for session in sessions)

    def _check_links(self, status: Status) -> None:
        for link in status.links:
            name = link.to
            if link.narrow and name not in self._narrow:
                self._narrow.add(name)
                passes, full = link.carries_bytes - LINK_BYTES, link.most_bytes - LINK_BYTES
                _log.warning(
                    "on the path to %s packets of more than %d bytes are lost: those of up to %d go"
                    " in fragments; repair the network, or set packet_bytes of the link to %d",
                    name,
                    passes,
                    full,
                    passes,
                    extra={"to": name, "packet_bytes": passes, "of_bytes": full},
                )
            elif link.carries_bytes == link.most_bytes and name in self._narrow:
                self._narrow.discard(name)
                _log.info("on the path to %s packets of all sizes pass", name, extra={"to": name})

    def check_junk(self, status: Status, dropped: int) -> bool:
        """Log more bad datagrams than a healthy cluster has; return whether there are any.

        Args:
            status: the status of this second.
            dropped: the number of datagrams that the system has dropped so far.
        """
        rejected, now = status.datagrams.rejected, status.at
        junk = sum(rejected.values()) + dropped
        per_s, self._junk = junk - self._junk, junk
        begins = per_s > MANY_PER_S and not self._is_flooded
        if begins and now >= self._junk_logged_at + JUNK_LOGGED_S:
            self._is_logged, self._junk_logged_at = True, now
            _log.warning(
                "junk: %d datagrams of the last second were rejected, or dropped by the system,"
                " most of them for the reason %s; this is logged once an hour at most",
                per_s,
                max(rejected, key=rejected.__getitem__, default="none"),
                extra={"junk_per_s": per_s, "rejected": dict(rejected), "dropped": dropped},
            )
        elif self._is_logged and per_s <= MANY_PER_S:
            self._is_logged = False
            _log.info("junk: no more than usual", extra={"junk_per_s": per_s})
        self._is_flooded = per_s > MANY_PER_S
        return self._is_flooded
