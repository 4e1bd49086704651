"""The dates of a daemon's certificates: one that has ended lets no program in.

The log says so in time, and `groupcomm doctor` as well.
"""

import logging
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Final

import trio

from groupcommd.config.daemon_config import DaemonConfig
from groupcommd.operators.findings import Finding, Grade, ok, problem, warning
from groupcommd.programs.credentials import TlsConfig

SOON_S: Final = 14 * 86_400.0
"""Certificates that end within this time are reported."""

LOOK_S: Final = 3600.0
"""The time between two looks of a daemon."""

AGAIN_S: Final = 86_400.0
"""The time after which the log repeats a report."""

_log = logging.getLogger("groupcommd")


def tables_of(config: DaemonConfig) -> tuple[TlsConfig, ...]:
    """Return the settings that name certificates."""
    found = config.tls, None if config.http is None else config.http.tls
    return tuple(tls for tls in found if tls is not None)


def check_dates(config: DaemonConfig, now: float) -> Iterator[Finding]:
    """Yield a finding for each certificate of the daemon's files.

    Args:
        config: names the files.
        now: the time, in seconds since 1970.

    Raises:
        OSError, ValueError: a file cannot be read, or holds no certificates.
    """
    for tls in tables_of(config):
        yield _check(f"{tls.table}.certificate", tls.certificate, now)
        if tls.ca is not None:
            yield _check(f"{tls.table}.ca", tls.ca, now)


def _check(key: str, path: Path, now: float) -> Finding:
    """Return the finding of a file. Of several authorities the last one to end counts."""
    from cryptography import x509  # noqa: PLC0415 - most daemons have no certificates

    found = x509.load_pem_x509_certificates(path.read_bytes())
    is_own = key.endswith(".certificate")
    ends = max(each.not_valid_after_utc for each in (found[:1] if is_own else found))
    starts = found[0].not_valid_before_utc.timestamp() if is_own else 0.0
    text, left_s = f"{key} {path} is valid until {ends:%Y-%m-%d %H:%M} UTC", ends.timestamp() - now
    remedy = f"issue a new one with groupcomm certs, put it at {path}, and send the daemon SIGHUP"
    if left_s <= 0:
        what = f"{key} {path} has ended on {ends:%Y-%m-%d %H:%M} UTC: no program gets in by it"
        return problem("certificates", what, remedy)
    if starts > now:
        what = f"{key} {path} is not valid yet: no program gets in by it"
        return problem("certificates", what, "set the clock of this host, or issue another one")
    if left_s < SOON_S:
        return warning("certificates", text, remedy)
    return ok("certificates", text)


def _look(config: DaemonConfig) -> list[Finding]:
    return list(check_dates(config, time.time()))


async def watch_dates(config: Callable[[], DaemonConfig]) -> None:
    """Log certificates that have ended or will soon, once a day each, until cancelled.

    Args:
        config: returns the present configuration.
    """
    logged_at: dict[str, float] = {}
    while True:
        found: list[Finding] = []
        present = config()
        if tables_of(present):
            look = partial(_look, present)
            with suppress(OSError, ValueError):  # a start and SIGHUP report what cannot be read
                found = await trio.to_thread.run_sync(look, abandon_on_cancel=True)
        report(found, logged_at, trio.current_time())
        await trio.sleep(LOOK_S)


def report(found: Iterable[Finding], logged_at: dict[str, float], now: float) -> None:
    """Log what is wrong, unless it was logged less than a day ago.

    Args:
        found: what was found.
        logged_at: the times at which each text was logged last, in seconds; changed.
        now: seconds.
    """
    for each in found:
        due = now >= logged_at.get(each.text, -AGAIN_S) + AGAIN_S
        if each.grade is not Grade.OK and due:
            logged_at[each.text] = now
            log = _log.error if each.grade is Grade.PROBLEM else _log.warning
            log("%s; %s", each.text, each.remedy)
