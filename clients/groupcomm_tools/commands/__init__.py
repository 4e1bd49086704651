"""The subcommands of `groupcomm`, one module each.

A module has EXAMPLE, ``add_options(parser)`` and ``run(options) -> exit status``; what the command
does stands in `groupcomm_tools.cli.COMMANDS`.
"""
