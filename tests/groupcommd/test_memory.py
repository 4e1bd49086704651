"""Memory that a burst has used stays with the process."""

import subprocess
import sys

_PROGRAM = """
import resource, sys
from groupcommd.host.process import retain_freed_memory

kept = sys.argv[1] == "keep" and retain_freed_memory()
for _ in range(200):
    burst = [bytes(60_000) for _ in range(40)]
    del burst
print(int(kept), resource.getrusage(resource.RUSAGE_SELF).ru_minflt)
"""


def _run(how: str) -> tuple[bool, int]:
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM, how], capture_output=True, text=True, check=True
    )
    kept, faults = map(int, done.stdout.split())
    return bool(kept), faults


def test_a_burst_gets_the_pages_of_the_one_before() -> None:
    """200 bursts of 2.4 MB: with kept memory, fewer than a tenth of the page faults."""
    kept, with_it = _run("keep")
    _, without = _run("leave")
    if not kept:
        print("this C library has no mallopt: nothing to compare")
        return
    assert with_it < without / 10


_COLLECTED = """
import gc
from groupcommd.host import process
from groupcommd.host.process import DEEP_EVERY, FULL_EVERY, MOST_EXAMINED, GarbageCollection

class Cycle:
    alive = 0
    def __init__(self):
        self.me = self
        Cycle.alive += 1
    def __del__(self):
        Cycle.alive -= 1

garbage = GarbageCollection()
for _ in range(MOST_EXAMINED // 5):
    Cycle()
before = Cycle.alive
garbage.collect()
after = Cycle.alive
old = Cycle()
garbage.collect()  # it has been looked at, and grows old
garbage.collect()
del old
for _ in range(FULL_EVERY):
    garbage.collect()
grown_old = Cycle.alive
very_old = Cycle()
for _ in range(FULL_EVERY):
    garbage.collect()
del very_old
garbage.collect()
kept = Cycle.alive
garbage._times = DEEP_EVERY - 1
garbage.collect()
deep = Cycle.alive
burst = [[] for _ in range(3 * MOST_EXAMINED)]
some = Cycle()
del some
frozen = gc.get_freeze_count()
garbage.collect()
put_away = Cycle.alive, gc.get_freeze_count() - frozen >= 3 * MOST_EXAMINED
burst[:] = [[] for _ in burst]  # as many new ones, which gc.get_count() does not tell
frozen = gc.get_freeze_count()
garbage.collect()
put_away += (gc.get_freeze_count() - frozen >= 3 * MOST_EXAMINED,)
process.MOST_UNEXAMINED = MOST_EXAMINED
garbage.collect()
print(before, after, grown_old, kept, deep, *put_away, Cycle.alive)
"""


def test_garbage_is_collected_when_it_is_asked_to_and_not_before() -> None:
    done = subprocess.run(
        [sys.executable, "-c", _COLLECTED], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["1000", "0", "0", "1", "0", *["1", "True", "True"], "0"]
