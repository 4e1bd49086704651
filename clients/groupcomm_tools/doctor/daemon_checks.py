"""Checks of a running daemon, from its own answers."""

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import attrs

from groupcomm.errors import CannotConnect, SessionEnded
from groupcomm_client import ConnectOptions
from groupcomm_client.blocking import connect
from groupcomm_tools.doctor.findings import Finding, ok, problem, warning
from groupcommd.daemon_config import DaemonConfig, describe
from groupcommd.mismatches import CAUSES, RejectionCause

Answer = Mapping[str, Any]
"""The answer of a daemon to a question."""

PATIENCE_S: Final = 5.0
BETWEEN_S: Final = 0.6
"""Seconds between two readings of counters: several beacons of each daemon, whatever its preset."""

CLOCK_S: Final = 2.0
"""Clocks that differ by more are reported; they can be compared to within a second or so."""

ADMITS_NOBODY: Final = "did not admit"
"""Part of the text if a daemon listens, and has no view or has stopped."""

NEED_A_DAEMON: Final = "view, files, fellows, datagrams, links, disk and clocks"
"""The checks that compare answers of the daemon."""

RELOADED: Final = ("core", "multicast", "limits")
"""Keys of a configuration; options of the command line change the others."""


@attrs.frozen
class DaemonAnswers:
    """The answers of a running daemon.

    Attributes:
        first: status.
        later: status a moment later.
        configuration: configuration with which it runs.
    """

    first: Answer
    later: Answer
    configuration: Answer


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
        return problem(check, str(error), f"start it: groupcomm daemon{options}"), None
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


def check_view(answers: DaemonAnswers) -> Finding:
    """Check whether all configured daemons are in the view; tell what is known of the others."""
    found = answers.later
    missing = sorted(set(found["configured"]) - set(found["daemons"]))
    if not missing:
        return ok("view", f"all are in it: {', '.join(found['daemons'])}")
    peers = {peer["name"]: peer for peer in found["peers"]}
    addresses = answers.configuration["addresses"]
    apart = {name for other in found["files"]["differ"] for name in other["daemons"]}
    states = [
        f"{name} {'runs with another file' if name in apart else _state_of(peers.get(name))}"
        for name in missing
    ]
    there = ", ".join(found["daemons"])
    way = ", ".join(f"UDP {addresses.get(name)}" for name in missing)
    remedy = f"start the missing daemons; if they run, check that {way} passes in both directions"
    if apart.issuperset(missing):
        remedy = "make the files equal: see files"
    return problem("view", f"of {there}; {'; '.join(states)}", remedy)


def _state_of(peer: Answer | None) -> str:
    if peer is None or peer["heard_s"] is None:
        return "was never heard of"
    if peer["left"]:
        return "has left in order"
    if peer["heard_s"] < 2 * BETWEEN_S:
        return "is heard, and does not join the view"
    return f"was heard {peer['heard_s']:.0f} s ago"


def check_datagrams(answers: DaemonAnswers) -> list[Finding]:
    """Check whether datagrams are or were rejected, and whether the system loses datagrams."""
    before, after = (Counter(s["datagrams"]["rejected"]) for s in (answers.first, answers.later))
    findings = []
    for reason, cause in CAUSES.items():
        total, now = after[reason], after[reason] - before[reason]
        if total:
            text = f"{total} {cause.what} ({reason}), {now} of them in the last {BETWEEN_S:g} s"
            strangers = answers.later["rejected_senders"]
            sources = [each["text"] for each in strangers if each["reason"] == reason]
            if sources:
                text += f"; from {', '.join(sources)}"
            findings.append(_check_rejected(answers, text, cause, is_now=now > 0))
    refused = answers.later["datagrams"]["violations"]
    if refused:
        kinds = ", ".join(f"{count} {kind}" for kind, count in sorted(refused.items()))
        remedy = "run the same release with the same configuration at all daemons"
        findings.append(warning("datagrams", f"refused, against the protocol: {kinds}", remedy))
    lost = answers.later["datagrams"]["not_sent"]
    if lost:
        remedy = "the network is down, or a firewall drops datagrams: see the daemon's log"
        findings.append(warning("datagrams", f"{lost} were refused by the system", remedy))
    return findings or [
        ok("datagrams", f"{answers.later['datagrams']['received']} came, all valid")
    ]


def _check_rejected(
    answers: DaemonAnswers, text: str, cause: RejectionCause, *, is_now: bool
) -> Finding:
    """Return the remedy for rejected datagrams: no stranger can influence it."""
    found, remedy = answers.later, cause.remedy
    if not cause.proven:
        missing = sorted(set(found["configured"]) - set(found["daemons"]))
        if not missing:
            text = f"{text}; no daemon is missing, and anybody can send such datagrams"
            return warning("datagrams", text, "none: they were dropped")
        remedy = f"if {' or '.join(missing)} sent them: {remedy}; anybody can send such datagrams"
    return (problem if is_now else warning)("datagrams", text, remedy)


def check_files(answers: DaemonAnswers) -> list[Finding]:
    """Check whether all other daemons run with the same settings."""
    found = answers.later["files"]
    return [
        (problem if other["excludes"] else warning)("files", other["text"], other["remedy"])
        for other in found["differ"]
    ] or [ok("files", "no daemon that is heard has other settings")]


def check_other_daemons(answers: DaemonAnswers) -> list[Finding]:
    """Check whether other daemons keep to the protocol, as far as this one has seen."""
    return [
        (problem if fellow["left_out_s"] else warning)("fellows", fellow["text"], fellow["remedy"])
        for fellow in answers.later["broken"]
    ] or [ok("fellows", "no other daemon has broken the protocol")]


def check_ways(answers: DaemonAnswers) -> list[Finding]:
    """Check whether packets of all sizes pass over the links that end at the daemon."""
    ways = answers.later["ways"]
    narrow = [way for way in ways if way["narrow"]]
    if ways and not narrow:
        return [
            ok("links", f"to {', '.join(way['to'] for way in ways)}: packets of all sizes pass")
        ]
    return [
        warning(
            "links",
            f"on the way to {way['to']} packets of more than {way['packet_bytes']} bytes are lost;"
            f" those of up to {way['of_bytes']} go in fragments",
            f"repair the network's MTU, or set packet_bytes of the link to {way['packet_bytes']}",
        )
        for way in narrow
    ]


def check_disk(answers: DaemonAnswers) -> Finding:
    """Check whether the disk of the state folder accepts the daemon's writes, and in time."""
    check, disk = "disk", answers.later["disk"]
    aside = (
        "; the daemon has left the view, and returns when the disk works" if disk["aside"] else ""
    )
    if disk["error"] is not None:
        remedy = "examine the disk with df, mount and dmesg; the daemon tries again every 2 s"
        return problem(check, f"{disk['error']}{aside}", remedy)
    if not disk["answers"]:
        text = f"{disk['folder']} has not answered for {disk['waits_s']:.0f} s{aside}"
        remedy = "examine the disk with dmesg, mount and df; state_dir should be on a local disk"
        return problem(check, text, remedy)
    text = f"{disk['folder']}: a write takes {1000 * disk['write_s']:.0f} ms{aside}"
    if disk["slow"]:
        remedy = "put state_dir on a faster disk, or find what keeps this one busy"
        return warning(check, text, remedy)
    return ok(check, text)


def check_clocks(answers: DaemonAnswers) -> Finding:
    """Check whether the daemon's wall clock agrees with the cluster's, and was never set."""
    own, check = answers.later["clock"], "clocks"
    remedy = "run a time service such as chrony on all hosts; order does not depend on it"
    far = {
        peer["name"]: peer["clock_ahead_s"]
        for peer in answers.later["peers"]
        if abs(peer["clock_ahead_s"] or 0.0) > CLOCK_S
    }
    if far:
        text = ", ".join(f"{name} is {_apart(ahead)}" for name, ahead in far.items())
        return warning(check, f"{text} of this daemon", remedy)
    if abs(own["wall_ahead_s"]) > CLOCK_S:
        text = f"this host's clock is {_apart(own['wall_ahead_s'])} of the time of the cluster"
        return warning(check, text, remedy)
    if own["jumps"]:
        return warning(check, f"this host's clock was set {own['jumps']} times", remedy)
    return ok(check, f"within {CLOCK_S:g} s of all daemons that report it")


def _apart(ahead_s: float) -> str:
    return f"{abs(ahead_s):.0f} s {'ahead' if ahead_s > 0 else 'behind'}"


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
