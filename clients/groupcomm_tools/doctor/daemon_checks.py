"""Checks of a running daemon, from its own answers."""

import grp
import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from groupcomm.errors import CannotConnect, SessionEnded
from groupcomm.host.acting import user_name
from groupcomm.host.addresses import is_service_user
from groupcomm_client import ConnectOptions
from groupcomm_client.blocking import connect
from groupcommd.config.daemon_config import DaemonConfig, describe
from groupcommd.operators.assessment import BETWEEN_S, DaemonAnswers
from groupcommd.operators.findings import Finding, ok, problem, warning

PATIENCE_S: Final = 5.0
ADMITS_NOBODY: Final = "did not admit"
"""Part of the text if a daemon listens, and has no view or has stopped."""

NOT_ALLOWED: Final = "permission denied"
"""Part of the text if this user may not connect."""

NEED_A_DAEMON: Final = "view, files, protocol, datagrams, links, disk and clocks"
"""The checks that compare answers of the daemon."""

RELOADED: Final = ("core", "multicast", "limits")
"""Keys of a configuration; options of the command line change the others."""


def ask_daemon(address: str, between_s: float = BETWEEN_S) -> DaemonAnswers:
    """Return everything that the checks need from a daemon.

    Raises:
        CannotConnect: it does not run, or it admits nobody.
        SessionEnded: it refuses the session.
    """
    with connect(address, options=ConnectOptions(timeout_s=PATIENCE_S)) as connection:
        first = connection.ask("status")
        time.sleep(between_s)
        return DaemonAnswers(first, connection.ask("status"), connection.ask("configuration"))


def refuses_us(text: str) -> bool:
    """Return whether a text says that a daemon runs, and admits nobody or not this user."""
    return ADMITS_NOBODY in text or NOT_ALLOWED in text


def _let_in(address: str) -> str:
    """Return the command that lets this user connect, where clients.unix_for is "group"."""
    user = user_name(os.geteuid())
    try:
        group = grp.getgrgid(Path(address).parent.stat().st_gid).gr_name
    except (OSError, KeyError):
        group = "GROUP"
    return f"adduser {user} {group}, and log in again"


def check_running(
    address: str, name: str | None, config: Path | None
) -> tuple[Finding, DaemonAnswers | None]:
    """Check whether a daemon is there, is the right one, and has a view."""
    check = "daemon"
    try:
        answers = ask_daemon(address)
    except CannotConnect as error:
        options = f" --config {config}" if config is not None else ""
        options += f" --name {name}" if name is not None else ""
        if ADMITS_NOBODY in str(error):
            return problem(check, str(error), "see in its log why it does not come to a view"), None
        if NOT_ALLOWED in str(error):
            remedy = f"run the doctor as root or as the daemon's user, or: {_let_in(address)}"
            return problem(check, str(error), remedy), None
        remedy = f"start it: groupcomm daemon{options}; if it runs with --unix, pass --address"
        if is_service_user():
            remedy += f"; if it is a service: systemctl start groupcommd@{name or 'NAME'}"
        return problem(check, str(error), remedy), None
    except SessionEnded as error:
        return problem(check, str(error), "see its log"), None
    found = answers.later
    text = f"{found['daemon']}, process {found['pid']}, up {found['uptime_s']} s"
    if name is not None and found["daemon"] != name:
        remedy = f"give the socket of {name} with --address"
        return problem(check, f"at {address} is daemon {found['daemon']}", remedy), None
    if found["state"] != "operational":
        remedy = "wait a little; if this lasts, check the missing daemons"
        return problem(check, f"{text}: it looks for a view ({found['state']})", remedy), answers
    return ok(check, f"{text}, operational"), answers


def check_same(config: DaemonConfig, answers: DaemonAnswers) -> Finding:
    """Check whether the daemon runs with the present contents of its file."""
    check = "same file"
    now = describe(config)
    changed = differences({k: now[k] for k in RELOADED}, answers.configuration)
    if config.keys is not None and not answers.configuration["sealed"]:
        changed.append("key_file")
    if changed:
        remedy = "restart it; a SIGHUP is enough for limits"
        return warning(check, f"the daemon runs with other {', '.join(changed)}", remedy)
    return ok(check, "the daemon runs with the present file")


def check_others(answers: DaemonAnswers, others: Sequence[str]) -> list[Finding]:
    """Check whether other daemons that can be asked from here have the same configuration."""
    findings = []
    for address in others:
        try:
            with connect(address, options=ConnectOptions(timeout_s=PATIENCE_S)) as connection:
                theirs = connection.ask("configuration")
        except (CannotConnect, SessionEnded) as error:
            findings.append(problem("same everywhere", str(error), "check the address"))
            continue
        changed = differences({"core": answers.configuration["core"]}, theirs)
        ours, other = answers.configuration["name"], theirs["name"]
        if changed:
            text = f"{ours} and {other} have different {', '.join(changed)}"
            remedy = "give both the same file, and restart them"
            findings.append(problem("same everywhere", text, remedy))
        else:
            findings.append(ok("same everywhere", f"{ours} and {other} have one configuration"))
    return findings


def differences(ours: Any, theirs: Any, key: str = "") -> list[str]:
    """Return the keys whose values differ, with the tables they are in."""
    if not (isinstance(ours, dict) and isinstance(theirs, dict)):
        return [] if ours == theirs else [key]
    return [
        found
        for name, value in ours.items()
        for found in differences(value, theirs.get(name), f"{key}.{name}" if key else name)
    ]
