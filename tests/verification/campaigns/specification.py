"""Explore the specification within all its bounds, and print how many states there are.

python -m tests.verification.campaigns specification            # every bound
python -m tests.verification.campaigns specification --most 1000000 --part recovery
"""

import time
from argparse import Namespace

from tests.verification.campaigns.runner import Found, campaign, option
from tests.verification.specification.bounds import LARGE, SMALL
from tests.verification.specification.exhaustive import explore


@campaign(
    option("part", "", "only bounds whose name begins like this"),
    option("most", 10**9, "the most states of each bound"),
)
def run(options: Namespace) -> Found:
    """Print a line for each bound; a violation is an invariant that does not hold."""
    states: dict[str, int] = {}
    wrong: list[str] = []
    for name, make in (*SMALL.items(), *LARGE.items()):
        if not name.startswith(options.part):
            continue
        began = time.process_time()
        found = explore(make(frozenset()), options.most)
        states[name] = found.states
        seconds = time.process_time() - began
        result = found.broken or ("all hold" if found.is_complete else "all hold so far")
        print(
            f"{name}: {found.states} states, {found.transitions} transitions,"
            f" depth {found.depth}, {seconds:.1f} s: {result}",
            flush=True,
        )
        for label in found.path:
            print(f"  {label[0]} " + " ".join(str(each) for each in label[1:]))
        if found.broken is not None:
            wrong.append(f"{name}: {found.broken}")
    return {"states": states, "violations": wrong}
