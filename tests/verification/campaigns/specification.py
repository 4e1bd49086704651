"""Explore the specification within all its bounds, and print how many states there are.

python -m tests.verification.campaigns.specification            # every bound
python -m tests.verification.campaigns.specification --most 1000000 --part recovery
"""

import argparse
import sys
import time

from tests.verification.specification.bounds import LARGE, SMALL
from tests.verification.specification.exhaustive import explore


def main() -> int:
    """Print a line for each bound; return 1 if an invariant does not hold."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--part", default="", help="only bounds whose name begins like this")
    parser.add_argument("--most", type=int, default=10**9, help="the most states of each bound")
    options = parser.parse_args()
    has_failed = False
    for name, make in (*SMALL.items(), *LARGE.items()):
        if not name.startswith(options.part):
            continue
        began = time.process_time()
        found = explore(make(frozenset()), options.most)
        seconds = time.process_time() - began
        result = found.broken or ("all hold" if found.is_complete else "all hold so far")
        print(
            f"{name}: {found.states} states, {found.transitions} transitions,"
            f" depth {found.depth}, {seconds:.1f} s: {result}",
            flush=True,
        )
        for label in found.path:
            print(f"  {label[0]} " + " ".join(str(each) for each in label[1:]))
        has_failed |= found.broken is not None
    return int(has_failed)


if __name__ == "__main__":
    sys.exit(main())
