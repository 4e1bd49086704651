"""`groupcomm status`: show the state of a daemon."""

import argparse
import json
import time
from typing import Any, Final

from groupcomm.errors import GroupCommError
from groupcomm.visible import visible
from groupcomm_client.blocking import BlockingConnection
from groupcomm_tools.commands import query
from groupcomm_tools.commands.connecting import connect_blocking

EXAMPLE: Final = "groupcomm status --all"

ANSWERS_S: Final = 2.0
"""The time that all daemons have to answer."""

POLL_S: Final = 0.05

_COLUMNS: Final = (
    *("uptime_s", "programs", "groups", "messages", "deliveries", "to_read", "to_send"),
    *("rejected", "refused", "version", "host"),
)
"""The figures of a daemon, in the order of the table."""


def add_options(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument(
        "--all", action="store_true", help="show all daemons, which are asked through the cluster"
    )
    query.add_options(parser)


def sources_of(found: dict[str, Any], reason: str) -> str:
    """Return the recent senders of datagrams that were rejected for a reason, if they are known."""
    sources = [each["text"] for each in found["rejected_senders"] if each["reason"] == reason]
    return f", from {', '.join(sources)}" if sources else ""


def roster_text(roster: dict[str, Any]) -> str:
    """Return the number of a roster, how it came about, and what it waits for."""
    text = f"{roster['number']}, with {len(roster['daemons'])} daemons"
    if not roster["number"]:
        text += ", from the configuration"
    if roster["forced"]:
        text += f"; {roster['forced']} changes were forced"
    if roster["changing"]:
        text += f"; a change waits for {', '.join(roster['lacking']) or 'the next step'}"
    return text


def way_text(way: dict[str, Any]) -> str:
    """Return the counters of a link that ends at the daemon."""
    return (
        f"to {way['to']}: round trip {way['round_trip_ms']:.1f} ms, {way['sent']} packets sent,"
        f" {way['lost']} of them lost, {way['dropped']} dropped, {way['waiting_bytes']} bytes to"
        " send"
    )


def run(options: argparse.Namespace) -> int:
    """Show the state; return 1 while the daemon is between two views."""
    if options.all:
        return _run_all(options)
    found = query.query(options, "status")
    if not options.json:
        ring = found["ring"]
        _print_head(found)
        _print_missing(found)
        for members in found["rings"]:
            print(f"ring      {', '.join(members)}")
        for one, other in found["links"]:
            print(f"link      {one}, {other}")
        for way in found["ways"]:
            print(f"way       {way_text(way)}")
        for word, told in (("files", found["files"]["differ"]), ("broken", found["broken"])):
            for each in told:
                print(f"{word:<10}{each['text']}\n          -> {each['remedy']}")
        if ring is not None:
            print(
                f"token     {ring['token']}, hop {ring['hop']}, lost {ring['token_losses']}"
                f" times, retransmitted {ring['token_retransmissions']} times"
            )
        print(f"disk      {_disk(found['disk'])}")
        _print_sessions(found)
        if found["refused"]:
            reasons = ", ".join(f"{why} {n}" for why, n in sorted(found["refused"].items()))
            print(f"refused   {found['connections_refused']} programs: {reasons}")
        _print_datagrams(found)
    return 0 if found["state"] == "operational" else 1


def _run_all(options: argparse.Namespace) -> int:
    """Show all daemons; return 1 if one is missing, does not answer, or there is no majority."""
    with connect_blocking(options) as connection:
        found = ask_all(connection)
    rows = found["daemons"]
    good = found["majority"] is not False and all(row["state"] in _WELL for row in rows)
    if options.json:
        print(json.dumps(found, ensure_ascii=False))
        return 0 if good else 1
    table = [("daemon", "state", *_COLUMNS)]
    table += [
        (row["name"], row["state"], *(str(row.get(name, "-")) for name in _COLUMNS)) for row in rows
    ]
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    for line in table:
        print("  ".join(map(str.ljust, line, widths)).rstrip())
    there = sum(row["state"] in (*_WELL, "no answer") for row in rows)
    word = "no majority" if found["majority"] is False else "a majority"
    print(f"{there} of {len(rows)} daemons are in the view of {found['asked']}, {word}")
    return 0 if good else 1


def ask_all(connection: BlockingConnection) -> dict[str, Any]:
    """Return the state of all configured daemons, as one of them knows it and they report.

    Raises:
        GroupCommError: the daemon does not know this question.
    """
    begin_s = time.monotonic()
    while True:
        told = connection.ask("cluster")
        if "error" in told:
            raise GroupCommError(told["error"])
        status = connection.ask("status")
        waited_s = time.monotonic() - begin_s
        reports = {
            name: report
            for name, report in told["reports"].items()
            if report["age_s"] <= waited_s + FRESH_S
        }
        if reports.keys() >= set(status["daemons"]) or waited_s > ANSWERS_S:
            break
        time.sleep(POLL_S)
    names = sorted({*status["configured"], *status["daemons"]})
    return {
        "asked": status["daemon"],
        "view": status["view"],
        "majority": status["majority"],
        "daemons": [
            {"name": name, "state": _state_of(name, status, reports), **reports.get(name, {})}
            for name in names
        ],
    }


def _state_of(name: str, status: dict[str, Any], reports: dict[str, Any]) -> str:
    if name in status["daemons"]:
        if name not in reports:
            return "no answer"
        return "draining" if "stops_in_s" in reports[name] else "in view"
    peer = next((peer for peer in status["peers"] if peer["name"] == name), None)
    if peer is None or peer["heard_s"] is None:
        return "never heard"
    return "left" if peer["left"] else f"lost for {peer['heard_s']:.0f} s"


_WELL: Final = ("in view", "draining")
"""The states of daemons that serve programs."""

FRESH_S: Final = 1.0
"""A report of this age may have been asked for by another program."""


def _print_head(found: dict[str, Any]) -> None:
    print(f"daemon    {found['daemon']}, start {found['restarts']}, up {found['uptime_s']} s")
    print(f"state     {found['state']}")
    if found.get("drain") is not None:  # an older daemon has none
        print(f"drain     {_drain(found['drain'])}")
    print(f"view      {found['view']}")
    print(f"daemons   {', '.join(found['daemons'])}")
    print(f"roster    {roster_text(found['roster'])}")


def _drain(drain: dict[str, Any]) -> str:
    """Return the progress of the drain of a daemon that is about to stop."""
    staying = drain["staying"]
    names = f": {', '.join(map(visible, staying))}" if staying else ""
    return (
        f"it stops within {drain['left_s']:.0f} s, and admits no new session; {drain['gone']}"
        f" programs have gone, {len(staying)} are left{names}"
    )


def _print_missing(found: dict[str, Any]) -> None:
    """Print whether the view has a majority, and the daemons that it lacks."""
    there, listed = len(found["daemons"]), len(found["configured"])
    if found["majority"] is not None and listed > 1:
        word = "yes" if found["majority"] else "NO"
        print(f"majority  {word}: {there} of {listed} daemons are in the view")
    for peer in found["peers"]:
        if peer["name"] in found["daemons"] or peer["name"] not in found["configured"]:
            continue
        if peer["left"]:
            print(f"left      {peer['name']}, in order")
        elif peer["heard_s"] is None:
            print(f"missing   {peer['name']}: never heard")
        else:
            print(f"lost      {peer['name']}: heard last {peer['heard_s']:.1f} s ago")


def _print_sessions(found: dict[str, Any]) -> None:
    print(f"sessions  {len(found['sessions'])} of {found['connections']} connections")
    for session in found["sessions"]:
        print(
            f"          {session['user']} of {session['principal'] or 'an unknown principal'}:"
            f" {session['output_bytes']} bytes to read,"
            f" {session['backlog_bytes']} to send, {session['dropped']} dropped"
        )


def _print_datagrams(found: dict[str, Any]) -> None:
    sent = found["datagrams"]
    print(
        f"datagrams {sent['sent']} sent, {sent['received']} received,"
        f" {sum(sent['rejected'].values())} rejected"
    )
    for reason, count in sorted(sent["rejected"].items()):
        print(f"          {count} rejected: {reason}{sources_of(found, reason)}")
    for kind, count in sorted(sent["violations"].items()):
        print(f"          {count} refused, because they break the protocol: {kind}")


def _disk(disk: dict[str, Any]) -> str:
    if disk["error"] is not None:
        text = f"fails: {disk['error']}"
    elif not disk["answers"]:
        text = f"{disk['folder']} has not answered for {disk['waits_s']:.0f} s"
    else:
        text = f"{disk['folder']}, writes take {1000 * disk['write_s']:.0f} ms"
    return text + ("; the daemon has left the view until it works" if disk["aside"] else "")
