"""`groupcomm status`: show the state of a daemon."""

import argparse
from typing import Any, Final

from groupcomm_tools.commands import query

EXAMPLE: Final = "groupcomm status --json"

add_options = query.add_options


def sources_of(found: dict[str, Any], reason: str) -> str:
    """Return the recent senders of datagrams that were rejected for a reason, if they are known."""
    sources = [each["text"] for each in found["rejected_senders"] if each["reason"] == reason]
    return f", from {', '.join(sources)}" if sources else ""


def run(options: argparse.Namespace) -> int:
    """Show the state; return 1 while the daemon is between two views."""
    found = query.query(options, "status")
    if not options.json:
        ring = found["ring"]
        print(f"daemon    {found['daemon']}, start {found['restarts']}, up {found['uptime_s']} s")
        print(f"state     {found['state']}")
        print(f"view      {found['view']}")
        print(f"daemons   {', '.join(found['daemons'])}")
        _print_missing(found)
        for members in found["rings"]:
            print(f"ring      {', '.join(members)}")
        for one, other in found["links"]:
            print(f"link      {one}, {other}")
        for word, told in (("files", found["files"]["differ"]), ("broken", found["broken"])):
            for each in told:
                print(f"{word:<10}{each['text']}\n          -> {each['remedy']}")
        if ring is not None:
            print(
                f"token     {ring['token']}, hop {ring['hop']}, lost {ring['token_losses']}"
                f" times, retransmitted {ring['token_retransmissions']} times"
            )
        print(f"disk      {_disk(found['disk'])}")
        print(f"sessions  {len(found['sessions'])} of {found['connections']} connections")
        for session in found["sessions"]:
            print(
                f"          {session['user']} of {session['principal'] or 'an unknown principal'}:"
                f" {session['output_bytes']} bytes to read,"
                f" {session['backlog_bytes']} to send, {session['dropped']} dropped"
            )
        if found["refused"]:
            reasons = ", ".join(f"{why} {n}" for why, n in sorted(found["refused"].items()))
            print(f"refused   {found['connections_refused']} programs: {reasons}")
        _print_datagrams(found)
    return 0 if found["state"] == "operational" else 1


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
