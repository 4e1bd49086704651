"""Checks of a host: files, addresses, buffers, the clock. They need no running daemon."""

import errno
import os
import socket
import stat
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from groupcomm.errors import ConfigError
from groupcomm.host.acting import owner_of, user_name
from groupcomm.host.os_errors import text_of
from groupcomm.host.private_files import ENTER_BY
from groupcomm.security.keys import fingerprint_of
from groupcommd.config.config_file import KeyFileMissing, read_config
from groupcommd.config.daemon_config import DaemonConfig
from groupcommd.files.service_file import service_file
from groupcommd.files.state_owner import Owner, check_owner
from groupcommd.network.sockets import check_credentials
from groupcommd.network.udp import BUFFER_BYTES
from groupcommd.operators.certificate_dates import check_dates
from groupcommd.operators.findings import Finding, ok, problem, warning

WRITTEN_AT_S: Final = 1_735_689_600
"""The beginning of 2025: no correct clock shows an earlier time."""

STEP_S: Final = 0.05
"""Clocks are slewed by less than this in `WATCHED_S`; more is a step."""

WATCHED_S: Final = 0.2


def check_configuration(path: Path | None, name: str | None) -> tuple[Finding, DaemonConfig | None]:
    """Check whether the configuration can be read and is consistent."""
    check = "configuration"
    try:
        config = read_config(path, name=name, state_dir=None)
    except KeyFileMissing as error:
        return problem("key file", error.fault, error.remedy), None
    except ConfigError as error:
        return problem(
            check, str(error), "correct that line; docs/configuration.md describes all keys"
        ), None
    except OSError as error:
        remedy = "pass the right file with --config"
        if isinstance(error, PermissionError):
            remedy = "run the doctor as root, or as the daemon's user"
        return problem(check, text_of(error), remedy), None
    where = "none: a daemon alone on loopback" if path is None else str(path)
    return ok(check, f"{where}; daemon {config.name} of {', '.join(config.core.daemons)}"), config


def check_user(path: Path | None) -> Finding:
    """Tell as which user the doctor looks, and whether that is the daemon's."""
    user, owner = os.geteuid(), None if path is None else owner_of(service_file(path))
    own = f"examined as user {user}"
    if owner is None:
        return ok("user", own)
    if owner[0] == user:
        return ok("user", f"{own}, as whom the daemon must run")
    name = user_name(owner[0])
    return warning(
        "user",
        f"{own} ({user_name(user)}); the daemon's user is {name}, who has its key file",
        f"run the doctor as root, or as {name}: others see only a part",
    )


def check_key(config: DaemonConfig) -> Finding:
    """Check the keys; the privacy of their files was checked when they were read."""
    if config.keys is not None:
        fingerprint = fingerprint_of(config.keys.keys[config.keys.active]).hex()
        text = f"key {config.keys.active}, fingerprint {fingerprint}"
        return ok("key file", f"{text}; all daemons of the cluster must have this key")
    if not config.insecure:
        return ok("key file", "none yet: the first daemon of this host that starts makes one")
    remedy = "make a key with groupcomm keygen, copy it to all hosts, name it as key_file"
    return warning("key file", "none: every host that can send to this daemon can join", remedy)


def check_certificates(config: DaemonConfig) -> list[Finding]:
    """Check whether the daemon's certificates are valid, and for how long."""
    try:
        return list(check_dates(config, time.time()))
    except (OSError, ValueError) as error:
        what = getattr(error, "filename", None)
        text = f"{what}: {error.strerror}" if isinstance(error, OSError) else str(error)
        return [problem("certificates", text, "make them with: groupcomm certs")]


def check_files(config: DaemonConfig) -> list[Finding]:
    """Check whether the daemon can use all files by which it knows programs."""
    check = "credentials"
    try:
        check_credentials(config)
    except ConfigError as error:
        what, _, remedy = str(error).rpartition("; ")
        return [problem(check, what or remedy, remedy if what else "mend or replace that file")]
    if config.tls is None and (config.http is None or config.http.tokens is None):
        return []
    return [ok(check, "the daemon can use its files of certificates, tokens and revocations")]


def check_address(config: DaemonConfig, listens: str | None, *, busy: bool = False) -> Finding:
    """Check whether the configured address belongs to this host, and is free or used by its daemon.

    Args:
        config: configuration of the daemon.
        listens: UDP address of the daemon that runs on this host; None if it is unknown.
        busy: a daemon runs that admits nobody, so it cannot be asked.
    """
    check, own = "address", config.addresses[config.name]
    if listens is not None and (listens == str(own) or not own.port):
        return ok(check, f"UDP {listens} is used by the daemon")
    family = socket.AF_INET6 if ":" in own.host else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM) as probe:
        try:
            probe.bind((own.host, own.port))
        except OSError as error:
            if busy and error.errno == errno.EADDRINUSE:
                return ok(check, f"UDP {own} is in use, probably by the daemon that admits nobody")
            return _cannot_bind(check, str(own), error)
    if listens is not None:
        remedy = "restart it with this file, and without --port"
        return warning(check, f"UDP {own} is free; the daemon is at {listens}", remedy)
    return ok(check, f"UDP {own} is free")


def _cannot_bind(check: str, own: str, error: OSError) -> Finding:
    if error.errno == errno.EADDRINUSE:
        remedy = f"find the program that uses it with: ss -lunp | grep {own.rpartition(':')[2]}"
        return problem(check, f"UDP {own} is in use, but not by a known daemon", remedy)
    if error.errno == errno.EADDRNOTAVAIL:
        remedy = "see this host's addresses with: ip addr; correct the configuration, or --name"
        return problem(check, f"{own} is not an address of this host", remedy)
    return problem(check, f"UDP {own}: {error.strerror}", "choose another address or port")


def check_buffers(wanted_bytes: int = BUFFER_BYTES) -> Finding:
    """Check whether the system gives UDP sockets the buffers that a daemon asks for."""
    given = {}
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        for option, key in ((socket.SO_RCVBUF, "rmem_max"), (socket.SO_SNDBUF, "wmem_max")):
            probe.setsockopt(socket.SOL_SOCKET, option, wanted_bytes)
            given[key] = (
                probe.getsockopt(socket.SOL_SOCKET, option) // 2
            )  # Linux returns twice the size
    small = [f"net.core.{key}={wanted_bytes}" for key, size in given.items() if size < wanted_bytes]
    sizes = " and ".join(str(size) for size in given.values())
    text = f"{sizes} bytes to receive and to send; {wanted_bytes} are wanted"
    if small:
        remedy = f"bursts are lost silently; as root: sysctl -w {' '.join(small)}"
        return warning("UDP buffers", text, remedy)
    return ok("UDP buffers", text)


def check_clock(
    wall: Callable[[], float] = time.time, sleep: Callable[[float], None] = time.sleep
) -> Finding:
    """Check whether the wall clock shows a possible time, and advances as the monotonic clock
    does.
    """
    check, before = "clock", wall() - time.monotonic()
    now = time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(wall()))
    if wall() < WRITTEN_AT_S:
        remedy = "set it, and run a time service such as chrony"
        return problem(check, f"the wall clock says {now} UTC, which is long ago", remedy)
    sleep(WATCHED_S)
    stepped_s = wall() - time.monotonic() - before
    if abs(stepped_s) > STEP_S:
        remedy = "two time services may conflict; run only one, such as chrony"
        return warning(check, f"the clock was set by {stepped_s:+.3f} s during the check", remedy)
    return ok(check, f"{now} UTC, and steady")


def check_folders(config: DaemonConfig) -> list[Finding]:
    """Check the folders of the socket and of the state."""
    return [
        _check_folder("socket folder", config.unix.parent, "clients.unix", config.unix_for),
        _check_owner(config) or _check_folder("state folder", config.state_dir, "state_dir", "all"),
    ]


def _check_owner(config: DaemonConfig) -> Finding | None:
    """Return a problem if the state folder belongs to another daemon; None if not."""
    try:
        check_owner(config.state_dir, Owner(config.core.cluster, config.name))
    except ConfigError as error:
        what, _, remedy = str(error).partition(": ")
        return problem("state folder", what, remedy)
    except OSError:
        return None  # a user who cannot read it is told so by the check of the folder
    return None


def _check_folder(check: str, path: Path, key: str, opened_for: str) -> Finding:
    """Check whether a folder exists or can be made, the daemon can write to it, and others
    cannot.
    """
    # of what cannot be seen, the folder is examined
    there = next(p for p in (path, *path.absolute().parents) if os.path.exists(p))  # noqa: PTH110
    if not there.is_dir() or not os.access(there, os.W_OK | os.X_OK, effective_ids=True):
        remedy = f"choose another folder with {key}, or: chown {os.geteuid()} {there}"
        return problem(check, f"{path}: user {os.geteuid()} cannot write to {there}", remedy)
    if there != path:
        return ok(check, f"{path} is made by the daemon when it starts")
    found = path.stat()
    mode = stat.S_IMODE(found.st_mode)
    if mode & 0o022:
        remedy = f"others could put their own files there: chmod go-w {path}"
        return problem(check, f"{path}: others may write there (mode {mode:o})", remedy)
    if mode & 0o011 & ~ENTER_BY[opened_for]:
        remedy = f'chmod 700 {path}, or say that others may: clients.unix_for = "group" or "all"'
        return problem(check, f"{path}: others may enter it (mode {mode:o})", remedy)
    if found.st_uid != os.geteuid():
        remedy = "run the doctor as the user of the daemon"
        return warning(check, f"{path} belongs to user {found.st_uid}", remedy)
    return ok(check, f"{path} (mode {mode:o})")
