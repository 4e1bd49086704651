"""The assessment of a running daemon, by two of its own statuses: the faults, and the remedies.

For `groupcomm doctor`, which asks for them, and for the page of the daemon itself.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, Final

import attrs

from groupcomm.host.addresses import parse_address
from groupcommd.config.reach import loopback_fault
from groupcommd.operators.copies import REMEDY
from groupcommd.operators.findings import Finding, ok, problem, warning
from groupcommd.operators.mismatches import CAUSES, RejectionCause
from groupcommd.operators.solitude import ALONE_S, COPIED

Answer = Mapping[str, Any]
"""The answer of a daemon to a question."""

BETWEEN_S: Final = 0.6
"""Seconds between two readings of counters: several beacons of each daemon, whatever its preset."""

CLOCK_S: Final = 2.0
"""Clocks that differ by more are reported; they can be compared to within a second or so."""


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


def assess(answers: DaemonAnswers) -> Iterator[Finding]:
    """Yield all findings that the answers alone give."""
    yield check_view(answers)
    yield from check_room(answers)
    yield from check_drain(answers)
    yield from check_files(answers)
    yield from check_versions(answers)
    yield from check_other_daemons(answers)
    yield from check_copies(answers)
    yield from check_datagrams(answers)
    yield check_programs(answers)
    yield from check_ways(answers)
    yield check_disk(answers)
    yield from check_loop(answers)
    yield check_clocks(answers)
    yield from check_log(answers)


def check_view(answers: DaemonAnswers) -> Finding:
    """Check whether all configured daemons are in the view; tell what is known of the others."""
    found = answers.later
    missing = sorted(set(found["configured"]) - set(found["daemons"]))
    if not missing:
        return ok("view", f"all are in it: {', '.join(found['daemons'])}")
    peers = {peer["name"]: peer for peer in found["peers"]}
    apart = {name for other in found["files"]["differ"] for name in other["daemons"]}
    states = [
        f"{name} {'runs with another file' if name in apart else _state_of(peers.get(name))}"
        for name in missing
    ]
    there = ", ".join(found["daemons"])
    way = ", ".join(f"UDP {_place_of(name, answers.configuration)}" for name in missing)
    remedy = f"start the missing daemons; if they run, check that {way} passes in both directions"
    if apart.issuperset(missing):
        remedy = "make the files equal: see files"
    elif len(found["daemons"]) == 1 and not any(map(_is_heard, peers.values())):
        fault = _loopback_fault(answers.configuration)
        remedy = "; ".join(filter(None, (fault, remedy, COPIED)))
    return problem("view", f"of {there}; {'; '.join(states)}", remedy)


def check_room(answers: DaemonAnswers) -> Iterator[Finding]:
    """Report daemons that are heard and left out of the view, as it has no more rings."""
    names = answers.later.get("no_room")  # an older daemon has none
    if names:
        text = f"{', '.join(names)} are heard and left out of the view, which would have too many"
        text += " rings with them: one for each group of a site's daemons that all hear each other;"
        text += f" now it has {len(answers.later['rings'])}"
        remedy = "repair the network inside the sites, or put sites together"
        yield problem("room", text, remedy)


def _loopback_fault(configuration: Answer) -> str:
    places = {**configuration["addresses"], **configuration.get("located", {})}
    return loopback_fault({name: parse_address(at, name) for name, at in places.items()})


def _place_of(name: str, configuration: Answer) -> str:
    """Return where datagrams for a daemon go, and the name of its host, if it is listed with one.

    An older daemon has no names.
    """
    place = configuration.get("located", {}).get(name) or configuration["addresses"].get(name)
    host = configuration.get("names", {}).get(name)
    if host is None:
        return str(place)
    return f"{host} ({place or 'it leads to no address: repair the name'})"


def _is_heard(peer: Answer) -> bool:
    return peer["heard_s"] is not None and peer["heard_s"] < ALONE_S


def _state_of(peer: Answer | None) -> str:
    if peer is None or peer["heard_s"] is None:
        return "was never heard"
    if peer["left"]:
        return "has left in order"
    if peer["heard_s"] < 2 * BETWEEN_S:
        return "is heard, but does not join the view"
    return f"was heard {peer['heard_s']:.0f} s ago"


def check_drain(answers: DaemonAnswers) -> Iterator[Finding]:
    """Report a daemon that is about to stop."""
    drain = answers.later.get("drain")  # an older daemon has none
    if drain is not None:
        text = f"it stops within {drain['left_s']:.0f} s, and admits no new session; programs that "
        text += f"are left: {', '.join(drain['staying']) or 'none'}"
        yield warning("daemon", text, "start it again once it has stopped, if it is needed here")


def check_copies(answers: DaemonAnswers) -> Iterator[Finding]:
    """Report second daemons that call themselves as others do, from other addresses."""
    for each in answers.later.get("copies", ()):  # an older daemon does not look
        text = f"a second daemon that calls itself {each['name']} sends from {each['address']}, and"
        text += f" {each['name']} itself is heard at {each['listed']}"
        yield warning("copies", text, REMEDY)


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


def check_programs(answers: DaemonAnswers) -> Finding:
    """Tell how many connections there may be, and report those that were refused."""
    found, quota = answers.later, answers.configuration["quotas"]["connections"]
    most = found["connections_most"]
    alone = f"as many as it leaves to others, {-(-most // 2)} if there are none"
    own = alone if quota is None else quota
    text = f"{found['connections']} connections of at most {most}; one user may have {own}"
    refused = sum(found["refused"].get(reason, 0) for reason in ("quota", "full"))
    if not refused:
        return ok("programs", text)
    remedy = "see principals in groupcomm status --json; clients.quotas.connections is the limit of"
    remedy += " each user, and the system's of open files (LimitNOFILE) that of all"
    return warning("programs", f"{text}; {refused} more were refused", remedy)


def check_files(answers: DaemonAnswers) -> list[Finding]:
    """Check whether all other daemons run with the same settings."""
    found = answers.later["files"]
    return [
        (problem if other["excludes"] else warning)("files", other["text"], other["remedy"])
        for other in found["differ"]
    ] or [ok("files", "no daemon that is heard has other settings")]


def check_versions(answers: DaemonAnswers) -> list[Finding]:
    """Check whether all daemons share a version of the protocol, and whether an upgrade goes on."""
    found = answers.later.get("protocol")  # an older daemon has none
    if found is None or found["view"] is None:
        return []
    apart = [problem("versions", each["text"], each["remedy"]) for each in found["apart"]]
    steps = [
        (f"version {step['version']}" if "version" in step else f"feature {step['feature']}", step)
        for step in found["next"]
    ]
    later = [
        warning(
            "versions",
            f"{what} is not used yet: {', '.join(step['waits_for'])} cannot",
            f"upgrade {', '.join(step['waits_for'])}",
        )
        for what, step in steps
    ]
    return [*apart, *later] or [ok("versions", f"all use version {found['view']['version']}")]


def check_other_daemons(answers: DaemonAnswers) -> list[Finding]:
    """Check whether other daemons keep to the protocol, as far as this one has seen."""
    return [
        (problem if other["left_out_s"] else warning)("protocol", other["text"], other["remedy"])
        for other in answers.later["broken"]
    ] or [ok("protocol", "no other daemon has broken the protocol")]


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


STANDS_STILL_MS: Final = 500.0
"""Longer steps of a daemon's event loop are reported: most of a token timeout."""


def check_loop(answers: DaemonAnswers) -> Iterator[Finding]:
    """Report an event loop that has served nobody for a while; see groupcommd.host.loop_watch."""
    loop = answers.later.get("loop")  # an older daemon does not measure it
    if loop is not None and loop["longest_ms"] >= STANDS_STILL_MS:
        yield warning("loop", f"in the last two minutes {loop['text']}", loop["remedy"])


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


def check_log(answers: DaemonAnswers) -> Iterator[Finding]:
    """Report lines of the log that are missing, as nothing took them."""
    before, after = (each.get("log", {}) for each in (answers.first, answers.later))
    dropped = after.get("dropped_lines", 0)  # an older daemon does not count
    if not dropped:
        return
    now = dropped - before.get("dropped_lines", 0)
    text = f"{dropped} lines could not be written, {now} of them in the last {BETWEEN_S:g} s"
    remedy = "see what takes the daemon's standard error: a pipe that nobody reads, a full disk, a"
    yield (problem if now else warning)("log", text, f"{remedy} journal that has stopped")


def _apart(ahead_s: float) -> str:
    return f"{abs(ahead_s):.0f} s {'ahead' if ahead_s > 0 else 'behind'}"
