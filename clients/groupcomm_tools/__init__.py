"""The `groupcomm` command, and everything that its subcommands need."""
