"""`groupcomm spread`: make a configuration from that of Spread's daemons."""

import argparse
import sys
from pathlib import Path
from typing import Final

from groupcomm.errors import ConfigError
from groupcomm.host.option_types import existing_file
from groupcomm.host.parser import keep_old_names
from groupcomm.host.private_files import write_new
from groupcomm_tools.spread_import import parse_spread_conf, to_groupcomm

EXAMPLE: Final = "groupcomm spread import /etc/spread.conf --output groupcomm.toml"


def add_options(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("what", choices=("import",), metavar="import")
    parser.add_argument("file", type=existing_file, metavar="FILE", help="a spread.conf")
    parser.add_argument(
        "-o",
        "--output",
        type=Path,
        metavar="FILE",
        help="the file to write, which must not exist (default: print)",
    )
    keep_old_names(parser, to="--output")


def run(options: argparse.Namespace) -> int:
    """Print or write the configuration; return 0."""
    try:
        text = to_groupcomm(parse_spread_conf(options.file.read_text()))
    except UnicodeDecodeError:
        raise ConfigError(f"{options.file}: no text") from None
    except ConfigError as error:
        raise ConfigError(f"{options.file}: {error}") from None
    if options.output is None:
        print(text, end="")
        return 0
    try:
        write_new(options.output, text)
    except FileExistsError:
        raise ConfigError(f"{options.output} is there already; name another file") from None
    print(f"wrote {options.output}: read its comments", file=sys.stderr)
    return 0
