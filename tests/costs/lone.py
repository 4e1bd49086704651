"""What one lone message touches in all daemons and programs together: modules, functions, calls.

Cold code costs several times what warm code costs, so the delay of a message that finds everything
at rest goes with the number of different functions as much as with the number of calls.
"""

import os
import sys
from collections import Counter
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, Final

import attrs

from groupcomm.level import ServiceLevel
from groupcomm.sim.cluster.cluster import Cluster
from groupcomm.sim.settings import plain_settings

_WITHIN: Final = f"{os.sep}groupcomm{os.sep}"
_SIMULATOR: Final = str(Path("groupcomm", "sim"))
_TRACE: Final = str(Path("groupcomm", "trace"))

MESSAGES: Final = 10
SILENCE_S: Final = 0.0437
"""The time between two messages: no part of any interval, so that beacons come at other times."""

ROUND_S: Final = 0.02
"""The time for which calls are counted: until the token rests again."""


@attrs.frozen(order=True)
class Touched:
    """What one message touches below `groupcomm/`."""

    calls: int
    functions: int
    modules: int


def touched_by(level: ServiceLevel, daemons: int = 3) -> Touched:
    """Return the least of several lone messages of a level, each with a member at each daemon."""
    cluster = Cluster(plain_settings(daemons=daemons))
    members = [cluster.connect(f"user{at}", at) for at in range(daemons)]
    cluster.run(0.1)
    for member in members:
        member.join("g")
    cluster.run(1.0)
    found = []
    for _ in range(MESSAGES):
        calls: Counter[CodeType] = Counter()

        def count(frame: FrameType, event: str, _: Any, calls: Counter[CodeType] = calls) -> None:
            if event == "call" and not _is_apart(frame):
                calls[frame.f_code] += 1

        sys.setprofile(count)
        try:
            members[0].multicast(["g"], bytes(100), level=level)
            cluster.run(ROUND_S)
        finally:
            sys.setprofile(None)
        cluster.run(SILENCE_S)
        modules = {code.co_filename for code in calls}
        found.append(Touched(calls=calls.total(), functions=len(calls), modules=len(modules)))
    return min(found)  # beacons come between the others


def _is_apart(frame: FrameType) -> bool:
    """Return whether a call is of the simulator, or of what only a trace wants to know."""
    name, caller = frame.f_code.co_filename, frame.f_back
    if _WITHIN not in name or _SIMULATOR in name or _TRACE in name:
        return True
    return caller is not None and _TRACE in caller.f_code.co_filename
