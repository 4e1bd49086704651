"""The subcommands of `groupcomm`, one module each.

A module has EXAMPLE, ``add_options(parser)`` and ``run(options) -> exit status``; the purpose of
the command stands in `groupcomm_tools.cli.COMMANDS`.
"""
