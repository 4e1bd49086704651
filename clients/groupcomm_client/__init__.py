"""A program's side of groupcomm: clients and the `groupcomm` command."""
