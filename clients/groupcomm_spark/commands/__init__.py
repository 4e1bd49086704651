"""The subcommands of `groupcomm spark`, one module each."""
