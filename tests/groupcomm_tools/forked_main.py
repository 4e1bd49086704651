"""Functions that tests of warm starts call in processes of their own."""

import json
import os
import sys
import time
from collections.abc import Sequence
from io import TextIOWrapper
from pathlib import Path
from typing import cast


def main(arguments: Sequence[str]) -> int:
    """Write down what there is, to the first argument; end with the second one, run on, or copy."""
    found = {
        "pid": os.getpid(),
        "folder": str(Path.cwd()),
        "env": dict(os.environ),
        "marker": getattr(sys, "marker", ""),
    }
    part = Path(f"{arguments[0]}.part")
    part.write_text(json.dumps(found))
    part.rename(arguments[0])
    print("said", file=sys.stderr)
    if arguments[1] == "sleep":
        time.sleep(60.0)
    if arguments[1] == "copy":
        stdout = cast(TextIOWrapper, sys.stdout)
        stdout.reconfigure(errors="backslashreplace")  # as commands do; it asks where it is
        stdout.writelines(sys.stdin)
        return 0
    return int(arguments[1])
