"""Run campaigns: one by its name, or those of `make campaigns`, each for a limited time.

    python -m tests.verification.campaigns                          # which ones there are
    python -m tests.verification.campaigns mutex --help             # what one is, and its options
    python -m tests.verification.campaigns mutex --kills 5          # run it
    python -m tests.verification.campaigns --usual --limit-minutes 90
    python -m tests.verification.campaigns --usual mutex store      # only these, with usual options

The last line of the output is the result, as JSON (see `runner`); of a list of campaigns each has
one. Exit status 0 if all is well, 1 if an expectation was not met, 2 if a campaign cannot run here,
or not with these options.
"""

import argparse
import json
import shlex
import signal
import sys
import traceback
from collections.abc import Sequence
from typing import Final

from groupcomm_tools.terminal import say
from tests.verification.campaigns.runner import (
    COMMAND,
    INTERRUPTED,
    NOT_HERE,
    PASSED,
    VIOLATED,
    NotHere,
    find,
    limited,
    not_done,
    play,
)

USUAL: Final[dict[str, tuple[str, ...]]] = {
    "flush": ("--changes 140",),
    "spread": ("--clients 200 --disasters 40",),
    "mutex": (
        "--acquisitions 10000 --kills 20",
        "--acquisitions 1000 --kills 5 --form acknowledged",
        "--acquisitions 1000 --kills 5 --form lamport",
    ),
    "store": ("--disasters 50 --rate 500",),
    "tenures": (
        "",
        "--part mutex --loop trio --reconnect --kills 500",
        "--part replica --loop trio --reconnect --kills 100",
    ),
    "shared_work": ("--jobs 100000 --workers 8 --kills 50", "--waiting 20000"),
    "history_seeds": (
        "--seeds 1:1000 --crowd history",
        "--seeds 1:1000 --crowd work",
        "--seeds 1:200 --crowd cursors",
        "--seeds 1:200 --crowd channels",
        "--seeds 1:200 --crowd spread",
        "--seeds 1:500 --crowd lines",
        "--seeds 1:200 --crowd upgrades",
    ),
    "recorder": ("--kills 50",),
    "history": ("--rounds 40",),
    "kept": ("--kills 100",),
    "witness": ("--rounds 3", "--rounds 3 --sites"),
    "local_delays": ("",),
    "history_away": ("--messages 1000000",),
    "spark_exactly_once": ("--kills 20",),
    "spark_workers": ("",),
    "junk": ("--rate 100000 --half-open 10000",),
    "rude_programs": ("--rounds 5",),
    "rude_browsers": ("--conversations 20000",),
    "bounds": ("--rounds 3",),
    "http_load": ("--rounds 3",),
    "differing_files": ("--seconds 60",),
    "slow_disk": ("",),
    "busy_starts": ("--rounds 100",),
    "drains": ("--rounds 60", "--rounds 30 --once --sites"),
    "exactly_once": ("--kills 100",),
    "growing": ("--rate 1000 --kills 20",),
    "rolling_upgrade": ("--rounds 3",),
    "containers": ("",),
    "pods": ("",),
    "deployment": ("",),
    "bus1": ("--seconds 60",),
    "memory": ("",),
    "memory_hour": ("",),
    "attackers": ("--seeds 500",),
    "chaos": (),
    "chaos.sites_kill": (),
    "computers": (),
    "cursor_rate": (),
    "exploration": (),
    "flaky": (),
    "history_rate": (),
    "losses": (),
    "many_daemons": (),
    "outdated_disks": (),
    "guard.check": (),
    "peers.bench": (),
    "peers.replay": (),
    "peers.shells": (),
    "performance": (),
    "recorder_load": (),
    "specification": (),
    "vanished_hosts": (),
}
"""All campaigns, and the options with which `make campaigns` runs each: not at all, or often."""


def show() -> None:
    """Print all campaigns, with what they do and their usual options."""
    for name, usual in USUAL.items():
        sentence, _, _ = find(name).page.partition("\n\n")
        print(f"{name}: {' '.join(sentence.split())}")
        for each in usual:
            print(f"    {name} {each}".rstrip())


def run_usual(arguments: Sequence[str]) -> int:
    """Run campaigns with their usual options, each as a process; return the exit status."""
    parser = argparse.ArgumentParser(prog=COMMAND)
    parser.add_argument("--usual", action="store_true", required=True)
    parser.add_argument("--limit-minutes", type=float, default=120.0, help="of each (120)")
    parser.add_argument("names", nargs="*", metavar="NAME", help="all that have usual options")
    options = parser.parse_args(arguments)
    if unknown := set(options.names) - USUAL.keys():
        parser.error(f"no campaigns: {', '.join(sorted(unknown))}")
    todo = [(name, each) for name in options.names or USUAL for each in USUAL[name] or ()]
    statuses = []
    for number, (name, words) in enumerate(todo, 1):
        say(f"{number} of {len(todo)}: {name} {words}".rstrip())
        status, why = limited(name, shlex.split(words), 60 * options.limit_minutes)
        if why:
            print(json.dumps(not_done(name, shlex.split(words), why)), flush=True)
        say(f"{number} of {len(todo)}: {name}: status {status}")
        statuses.append(status)
    failed = any(status not in (PASSED, NOT_HERE) for status in statuses)
    return VIOLATED if failed else max(statuses, default=PASSED)


def main(arguments: Sequence[str]) -> int:
    """Do what the arguments say; return the exit status."""
    if not arguments:
        show()
        return PASSED
    if arguments[0] in ("--help", "-h"):
        print(__doc__)
        return PASSED
    if arguments[0].startswith("-"):
        return run_usual(arguments)
    status = INTERRUPTED
    try:
        status = run_one(*arguments)
    except* KeyboardInterrupt:
        say("interrupted; everything that was started has been stopped")
    return status


def run_one(name: str, *rest: str) -> int:
    """Run a campaign and print its result; return the exit status."""
    try:
        result = play(name, *rest)
    except NotHere as error:
        say(f"not here: {error}")
        return NOT_HERE
    except Exception as error:  # whatever it is, a list of campaigns goes on
        traceback.print_exc()
        result = not_done(name, rest, f"{type(error).__name__}: {error}")
    print(json.dumps(result, default=str), flush=True)
    return PASSED if result["passed"] else VIOLATED


if __name__ == "__main__":
    # Both end all processes; a shell that starts it in the background has it ignore ^C.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, lambda *_: signal.raise_signal(signal.SIGINT))
    sys.exit(main(sys.argv[1:]))
