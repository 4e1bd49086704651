"""`groupcomm keygen`: make the secret that the daemons of a cluster share."""

import argparse
import sys
from pathlib import Path
from typing import Final

from groupcomm.host.acting import as_owner_of
from groupcomm.host.key_file import write_key_file

EXAMPLE: Final = "groupcomm keygen plant.key"


def add_options(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("file", type=Path, metavar="FILE", help="path of the new file")


def run(options: argparse.Namespace) -> int:
    """Write the key file; return 0."""
    with as_owner_of(options.file):
        write_key_file(options.file)
    print(
        f"wrote {options.file}: copy it to every daemon's host, and name it there as key_file",
        file=sys.stderr,
    )
    return 0
