"""Run seeds: python -m tests.verification.simulation [OPTIONS]; see `runs`."""

import sys

from tests.verification.simulation.runs import main

if __name__ == "__main__":
    sys.exit(main())
