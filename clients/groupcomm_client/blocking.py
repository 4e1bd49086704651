"""The connection for programs without an event loop: calls wait, and threads may share it.

::

    from groupcomm_client.blocking import connect

    with connect(user="ann") as connection, connection.group("chat"):
        connection.multicast("chat", b"hello")
        for event in connection:
            print(event)

One thread may wait in `receive` while others send. `select` and its kin can watch a connection: its
file number is readable when `receive` has something to give.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from groupcomm_client import connecting
from groupcomm_client.blocking_connection import BlockingConnection
from groupcomm_client.blocking_loop import ThreadLoop, run
from groupcomm_client.blocking_staying import BlockingStayingConnection, stay_connected
from groupcomm_client.connecting import ADMISSION_S
from groupcomm_client.credentials import Credentials, StrPath
from groupcomm_client.filters.factories import Factory

__all__ = [
    "BlockingConnection",
    "BlockingStayingConnection",
    "connect",
    "open_connection",
    "stay_connected",
]


@contextmanager
def connect(
    address: str | None = None,
    *,
    user: str | None = None,
    timeout_s: float = ADMISSION_S,
    trace: Path | None = None,
    causes: bool = False,
    principals: bool = False,
    ca: StrPath | None = None,
    certificate: StrPath | None = None,
    key: StrPath | None = None,
    token: StrPath | None = None,
    filters: Sequence[Factory] | None = None,
) -> Iterator[BlockingConnection]:
    """Open a session for the length of a block; see `groupcomm_client.connect`."""
    connection = open_connection(
        address,
        user=user,
        timeout_s=timeout_s,
        trace=trace,
        causes=causes,
        principals=principals,
        ca=ca,
        certificate=certificate,
        key=key,
        token=token,
        filters=filters,
    )
    try:
        yield connection
    finally:
        connection.close()


def open_connection(
    address: str | None = None,
    *,
    user: str | None = None,
    timeout_s: float = ADMISSION_S,
    trace: Path | None = None,
    causes: bool = False,
    principals: bool = False,
    ca: StrPath | None = None,
    certificate: StrPath | None = None,
    key: StrPath | None = None,
    token: StrPath | None = None,
    filters: Sequence[Factory] | None = None,
) -> BlockingConnection:
    """Open a session; `BlockingConnection.close` ends it.

    Raises:
        CannotConnect: there is no daemon, or it does not admit this session in time.
        SessionEnded: the daemon refuses it; the code tells why.
        LocalProtocolError: not a user's name.
        ConfigError: no trace can be written there.
    """
    credentials = Credentials.of(ca, certificate, key, token)
    made = connecting.open_connection(
        ThreadLoop(),
        address,
        user,
        timeout_s,
        trace,
        causes=causes,
        principals=principals,
        filters=filters,
        credentials=credentials,
    )
    return run(made).blocking
