"""Run seeds with a mutant: python -m tests.verification.mutants NAME [OPTIONS]; the options are
those of `python -m tests.verification.simulation`.
"""

import sys
from collections.abc import Sequence

from groupcomm.errors import ConfigError
from tests.verification.mutants.catalogue import find_mutant
from tests.verification.simulation import runs


def main(words: Sequence[str]) -> int:
    """Run the command with the mutant active; the exit status is that of a run without it."""
    name, *options = words or [""]
    try:
        mutant = find_mutant(name)
    except ConfigError as error:
        print(error, file=sys.stderr)
        return 2
    with mutant.active():
        # It runs in this process: another process would have the code without the bug.
        return runs.main([*options, "--workers", "1"])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
