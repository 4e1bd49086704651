"""`groupcomm daemon`: the same as `groupcommd`."""

from typing import Final

from groupcommd import cli

NAME: Final = "daemon"
HELP: Final = "run a daemon; without a configuration, alone on this host"
EXAMPLE: Final = "groupcomm daemon --config plant.toml --name a"

add_options = cli.add_options
run = cli.run
