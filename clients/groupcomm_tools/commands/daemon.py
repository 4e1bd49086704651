"""`groupcomm daemon`: the same as `groupcommd`."""

from typing import Final

from groupcommd import cli

EXAMPLE: Final = "groupcomm daemon --config plant.toml --name a"

add_options = cli.add_options
run = cli.run
