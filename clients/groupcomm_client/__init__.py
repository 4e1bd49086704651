"""A program's side of groupcomm: clients and the `groupcomm` command."""

from groupcomm.level import ServiceLevel
from groupcomm_client.connecting import connect
from groupcomm_client.connection import Connection

__all__ = ["Connection", "ServiceLevel", "connect"]
