"""The client library of groupcomm: connections, events and errors, and services built on them.

::

    import groupcomm_client as gc

    async def main():
        async with gc.connect(user="ann") as connection, connection.group("chat"):
            await connection.multicast("chat", b"hello", level=gc.ServiceLevel.SAFE)
            async for message in connection.messages():
                print(message.sender, message.data)

    gc.run(main)

`connect` and `run` are for trio; `gc.aio` and `gc.blocking` have those for asyncio and threads.
Names are imported when they are used first.
"""

from typing import TYPE_CHECKING, Final

from groupcomm_client.lazy import lazy_names

if TYPE_CHECKING:
    from groupcomm.clocks.stamp import format_position, parse_position
    from groupcomm.errors import (
        AccessRefused,
        CannotConnect,
        ConfigError,
        ForkedSession,
        GroupCommError,
        InDoubt,
        LocalProtocolError,
        OrderUnknown,
        PlaceAhead,
        SessionEnded,
        SessionError,
    )
    from groupcomm.events import (
        CausalContext,
        Cause,
        DaemonStopping,
        DaemonView,
        GroupView,
        MemberId,
        Message,
        Ordered,
        Position,
        Refused,
        Stamp,
        Transition,
        Undeliverable,
        ViewId,
    )
    from groupcomm.level import ServiceLevel
    from groupcomm_client import (
        aio,
        blocking,
        committed,
        coordination,
        end_to_end,
        filters,
        spread_api,
    )
    from groupcomm_client.connection import Connection
    from groupcomm_client.end_to_end.credentials import (
        GroupSecret,
        SharedSecret,
        TrustedKeys,
        read_public_keys,
    )
    from groupcomm_client.events import (
        KeyChanged,
        Received,
        Reconnected,
        Unfiltered,
        Unreadable,
        Untrusted,
    )
    from groupcomm_client.history.cursor_client import Cursor
    from groupcomm_client.history.given import EARLIEST, LATEST, CaughtUp, Compacted, Gap
    from groupcomm_client.history.keeping import KeptMessage, KeptSender, NotKept
    from groupcomm_client.history.subscription import Subscription
    from groupcomm_client.options import ConnectOptions, TlsOptions
    from groupcomm_client.outbox import Outbox, OutboxFailed
    from groupcomm_client.trio_loop import connect, input_lines, run
    from groupcomm_client.typed import TypedMessage, WrongValue

__all__ = [
    "EARLIEST",
    "LATEST",
    "AccessRefused",
    "CannotConnect",
    "CaughtUp",
    "CausalContext",
    "Cause",
    "Compacted",
    "ConfigError",
    "ConnectOptions",
    "Connection",
    "Cursor",
    "DaemonStopping",
    "DaemonView",
    "ForkedSession",
    "Gap",
    "GroupCommError",
    "GroupSecret",
    "GroupView",
    "InDoubt",
    "KeptMessage",
    "KeptSender",
    "KeyChanged",
    "LocalProtocolError",
    "MemberId",
    "Message",
    "NotKept",
    "OrderUnknown",
    "Ordered",
    "Outbox",
    "OutboxFailed",
    "PlaceAhead",
    "Position",
    "Received",
    "Reconnected",
    "Refused",
    "ServiceLevel",
    "SessionEnded",
    "SessionError",
    "SharedSecret",
    "Stamp",
    "Subscription",
    "TlsOptions",
    "Transition",
    "TrustedKeys",
    "TypedMessage",
    "Undeliverable",
    "Unfiltered",
    "Unreadable",
    "Untrusted",
    "ViewId",
    "WrongValue",
    "aio",
    "blocking",
    "committed",
    "connect",
    "coordination",
    "end_to_end",
    "filters",
    "format_position",
    "input_lines",
    "parse_position",
    "read_public_keys",
    "run",
    "spread_api",
]

_HOMES: Final = {
    "groupcomm.clocks.stamp": ("format_position", "parse_position"),
    "groupcomm.errors": (
        *("AccessRefused", "CannotConnect", "ConfigError", "ForkedSession", "GroupCommError"),
        *("InDoubt", "LocalProtocolError", "OrderUnknown", "PlaceAhead", "SessionEnded"),
        "SessionError",
    ),
    "groupcomm.events": (
        *("CausalContext", "Cause", "DaemonStopping", "DaemonView", "GroupView", "MemberId"),
        *("Message", "Ordered", "Position", "Refused", "Stamp", "Transition", "Undeliverable"),
        "ViewId",
    ),
    "groupcomm.level": ("ServiceLevel",),
    "groupcomm_client.connection": ("Connection",),
    "groupcomm_client.end_to_end.credentials": (
        *("GroupSecret", "SharedSecret", "TrustedKeys", "read_public_keys"),
    ),
    "groupcomm_client.events": (
        *("KeyChanged", "Received", "Reconnected", "Unfiltered", "Unreadable", "Untrusted"),
    ),
    "groupcomm_client.history.cursor_client": ("Cursor",),
    "groupcomm_client.history.given": ("EARLIEST", "LATEST", "CaughtUp", "Compacted", "Gap"),
    "groupcomm_client.history.keeping": ("KeptSender", "KeptMessage", "NotKept"),
    "groupcomm_client.history.subscription": ("Subscription",),
    "groupcomm_client.options": ("ConnectOptions", "TlsOptions"),
    "groupcomm_client.outbox": ("Outbox", "OutboxFailed"),
    "groupcomm_client.trio_loop": ("connect", "input_lines", "run"),
    "groupcomm_client.typed": ("TypedMessage", "WrongValue"),
    "": (
        *("aio", "blocking", "committed", "coordination"),
        *("end_to_end", "filters", "spread_api"),
    ),
}

if not TYPE_CHECKING:
    __getattr__ = lazy_names(
        __name__, {name: home for home, names in _HOMES.items() for name in names}
    )
