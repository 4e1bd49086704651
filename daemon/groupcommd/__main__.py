"""`groupcommd`, and `python -m groupcommd`."""

import gc
import sys


def main() -> int:
    """Import the daemon, and run it; return its exit status."""
    gc.disable()  # nothing of what is imported is ever freed
    from groupcommd.cli import main as run  # noqa: PLC0415 - see above

    gc.enable()
    return run()


if __name__ == "__main__":
    sys.exit(main())
