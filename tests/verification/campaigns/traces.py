"""The traces of a campaign: its kills are noted beside them, and the checkers verify all."""

import subprocess
import sys
from pathlib import Path
from typing import Final

import msgspec

from groupcomm.host.trace_file import TraceFile, now_us
from groupcomm.trace.events import Boot, Fail, Left, TraceEvent, decode_event_untrusted

CHECK_S: Final = 240.0
"""The time for the checkers."""


def read_event(line: bytes) -> TraceEvent | None:
    """Return the event of a line; None if the line is cut off, as its daemon was killed."""
    try:
        found: TraceEvent = decode_event_untrusted(line)
    except msgspec.MsgspecError:
        return None
    return found


def note_kill(trace: TraceFile, folder: Path, name: str) -> None:
    """Record the end of a daemon's process, unless the daemon did so itself."""
    latest, identity = latest_trace(folder, name)
    last = latest.read_bytes().splitlines()[-1:]
    if not (last and isinstance(read_event(last[0]), Fail | Left)):
        trace.record(Fail(now_us(), identity))


def latest_trace(folder: Path, name: str) -> tuple[Path, str]:
    """Return the trace of a daemon's latest start, and the identity of that start.

    Counts do not tell which start is the latest: an empty folder begins to count anew.
    """
    boots = {}
    for path in folder.glob(f"daemon-{name}-*.jsonl"):
        with path.open("rb") as file:
            first = read_event(file.readline())
        if isinstance(first, Boot):
            boots[first.t] = path, first.p
    return boots[max(boots)]


def check(folder: Path) -> list[str]:
    """Have the checkers verify the traces in a folder; return what is wrong."""
    command = [sys.executable, "-m", "groupcomm_tools.cli", "check", str(folder), "--json"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=CHECK_S)
    except subprocess.TimeoutExpired:
        return [f"after {CHECK_S:g} s the checkers have not verified the traces"]
    return [] if done.returncode == 0 else [f"check: {done.stdout[-500:]} {done.stderr[-1500:]}"]
