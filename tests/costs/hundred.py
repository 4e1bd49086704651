"""Counts what a hundred sites of ten daemons cost, in virtual time: minutes, and 11 GB of memory.

::

    python -m tests.costs.hundred             # 100 sites of 10
    python -m tests.costs.hundred --sites 24  # of 10
"""

import argparse
import gc
import json
import time
from collections import Counter
from collections.abc import Collection, Sequence
from typing import Final

from groupcomm.sim.cluster.cluster import Cluster
from groupcomm.sim.settings import plain_settings

DELAY_S: Final = 0.02
"""One way between any two sites."""

LOOK_S: Final = 0.01
LIMIT_S: Final = 10.0


class Counted:
    """A cluster, and what its daemons have received and what it took since the last look."""

    def __init__(self, sites: int, each: int) -> None:
        settings = plain_settings(daemons=[each] * sites, delay_s=DELAY_S)
        self.cluster = Cluster(settings, start=False)
        self._found: Counter[str] = Counter()
        self._began = self.cluster.loop.now, time.process_time()
        self.cluster.network.observers.append(self._observe)

    def _observe(self, _source: int, _target: int, datagram: bytes, _goes_on: bool) -> None:
        self._found["datagrams"] += 1
        self._found["bytes"] += len(datagram)
        self._found["largest"] = max(self._found["largest"], len(datagram))

    def until_view(self, hosts: Collection[int]) -> None:
        """Run until these hosts alone have a view."""
        daemons = self.cluster.daemons
        while any(daemons[at].process is None for at in hosts) or not self.cluster.agree(hosts):
            self.cluster.run(LOOK_S)
            assert self.cluster.loop.now < self._began[0] + LIMIT_S * 1e6, "no view"

    def pop(self, what: str) -> None:
        """Print the figures since the last call, as JSON."""
        virtual, processor = self._began
        self._began = self.cluster.loop.now, time.process_time()
        found = {"virtual_s": (self._began[0] - virtual) / 1e6, **self._found}
        print(json.dumps({what: found | {"processor_s": self._began[1] - processor}}), flush=True)
        self._found.clear()


def main(arguments: Sequence[str] | None = None) -> None:
    """Count, and print one line of JSON for each thing that happens."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--sites", type=int, default=100)
    parser.add_argument("--each", type=int, default=10, help="daemons of each site")
    parser.add_argument("--idle-s", type=float, default=60.0, help="idle virtual seconds")
    options = parser.parse_args(arguments)
    gc.disable()  # as in each daemon: nearly all of these objects stay
    counted = Counted(options.sites, options.each)
    hosts = range(options.sites * options.each)
    counted.cluster.start(form=False)
    counted.until_view(hosts)
    counted.pop("first view")
    counted.cluster.run(1.0)
    counted.pop("its first second")
    counted.cluster.run(options.idle_s)
    counted.pop("idle")
    gc.enable()  # views that are over refer to each other in circles
    lost, left = hosts[-options.each :], hosts[: -options.each]
    for at in lost:
        counted.cluster.daemons[at].kill()
    counted.until_view(left)
    counted.pop("a site crashes")
    counted.cluster.run(1.0)
    counted.pop("a second later")
    for at in lost:
        counted.cluster.daemons[at].boot()
    counted.until_view(hosts)
    counted.pop("it returns")


if __name__ == "__main__":
    main()
