"""The verbs of the `groupcomm` command, one module each.

A module has NAME, HELP, EXAMPLE, ``add_options(parser)`` and ``run(options) -> exit status``.
"""
