"""Locks, which one program holds at a time, and queues, of which no job is lost or invented."""

from collections import Counter
from collections.abc import Sequence

from tests.verification.campaigns.consistency.operations import Operation


def check_locks(operations: Sequence[Operation]) -> list[str]:
    """Return the pairs of programs that held the lock at the same time.

    An operation is one hold, from the grant to the release. A program that was cut off or killed
    learns that a moment after the others: its hold has no known end, and counts for nothing.
    """
    holds = sorted((o for o in operations if o.outcome == "ok"), key=lambda hold: hold.call)
    found: list[str] = []
    last: Operation | None = None  # the hold that has ended last so far
    for hold in holds:
        if last is not None and hold.call < last.last:
            found.append(
                f"{last.process} held the lock until {last.end}, and {hold.process} from"
                f" {hold.call} on"
            )
        if last is None or hold.last > last.last:
            last = hold
    return found


def check_queue(operations: Sequence[Operation]) -> list[str]:
    """Return the jobs that were lost, invented, or done before they were sent.

    Acts are ``["send", job]``, ok once the job has its place in the order of a majority, and
    ``["do", job]``. Jobs may be done more than once, and those of unknown outcome may be lost.
    """
    sends = {o.act[1]: o for o in operations if o.act[0] == "send"}
    done = [o for o in operations if o.act[0] == "do"]
    times = Counter(o.act[1] for o in done)
    found = [
        f"{job} of {send.process} was lost"
        for job, send in sends.items()
        if send.outcome == "ok" and not times[job]
    ]
    for each in done:
        send = sends.get(each.act[1])
        if send is None:
            found.append(f"{each.process} did {each.act[1]}, which nobody has sent")
        elif each.call < send.call:
            found.append(f"{each.process} did {each.act[1]} before it was sent")
    return found
