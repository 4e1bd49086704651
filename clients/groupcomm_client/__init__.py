"""A program's side of groupcomm: connections, and what is built on them."""

from groupcomm.level import ServiceLevel
from groupcomm_client.connecting import connect
from groupcomm_client.connection import Connection
from groupcomm_client.sessions import Reconnected
from groupcomm_client.staying import StayingConnection, stay_connected

__all__ = [
    "Connection",
    "Reconnected",
    "ServiceLevel",
    "StayingConnection",
    "connect",
    "stay_connected",
]
