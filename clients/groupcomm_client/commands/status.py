"""`groupcomm status`: how a daemon is."""

import argparse
from typing import Any, Final

from groupcomm_client.commands import ask

NAME: Final = "status"
HELP: Final = "show a daemon's view, ring, sessions and counters"
EXAMPLE: Final = "groupcomm status --json"

add_options = ask.add_options


def run(options: argparse.Namespace) -> int:
    """Show it; 1 while the daemon is between two views."""
    found = ask.ask(options, "status")
    if not options.json:
        ring, sent = found["ring"], found["datagrams"]
        print(f"daemon    {found['daemon']}, start {found['restarts']}, up {found['uptime_s']} s")
        print(f"state     {found['state']}")
        print(f"view      {found['view']}")
        print(f"daemons   {', '.join(found['daemons'])}")
        for members in found["rings"]:
            print(f"ring      {', '.join(members)}")
        for one, other in found["links"]:
            print(f"link      {one}, {other}")
        if ring is not None:
            print(
                f"token     {ring['token']}, hop {ring['hop']}, lost {ring['token_losses']}"
                f" times, sent again {ring['token_retransmissions']} times"
            )
        print(f"disk      {_disk(found['disk'])}")
        print(f"sessions  {len(found['sessions'])} of {found['connections']} connections")
        for session in found["sessions"]:
            print(
                f"          {session['user']} of {session['principal'] or 'nobody known'}:"
                f" {session['output_bytes']} bytes to read,"
                f" {session['backlog_bytes']} to send, {session['dropped']} dropped"
            )
        if found["refused"]:
            reasons = ", ".join(f"{why} {n}" for why, n in sorted(found["refused"].items()))
            print(f"refused   {found['connections_refused']} programs: {reasons}")
        print(
            f"datagrams {sent['sent']} sent, {sent['received']} received,"
            f" {sum(sent['rejected'].values())} rejected"
        )
        for reason, count in sorted(sent["rejected"].items()):
            print(f"          {count} rejected: {reason}")
    return 0 if found["state"] == "operational" else 1


def _disk(disk: dict[str, Any]) -> str:
    if disk["error"] is not None:
        text = f"fails: {disk['error']}"
    elif not disk["answers"]:
        text = f"{disk['folder']} has not answered for {disk['waits_s']:.0f} s"
    else:
        text = f"{disk['folder']}, writes take {1000 * disk['write_s']:.0f} ms"
    return text + ("; this daemon stands aside meanwhile" if disk["aside"] else "")
