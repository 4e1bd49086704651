"""Burn a given share of the processors; a process of its own.

Runs with SHARE, in units of one processor and at most 1, until the end of its input.
"""

import json
import sys
import threading
import time
from typing import Final

TICK_S: Final = 0.001


def wait_for_end(ended: threading.Event) -> None:
    """Wait for the end of the input, then set the event."""
    sys.stdin.read()
    ended.set()


def main() -> int:
    share = float(sys.argv[1])
    ended = threading.Event()
    threading.Thread(target=wait_for_end, args=(ended,), daemon=True).start()
    print(json.dumps({"share": share}), flush=True)
    began = time.monotonic() - time.process_time() / max(share, 1e-6)
    while not ended.is_set():
        while time.process_time() < (time.monotonic() - began) * share and not ended.is_set():
            sum(range(1000))
        time.sleep(TICK_S)
    return 0


if __name__ == "__main__":
    sys.exit(main())
