"""The identity of a daemon that was removed: all daemons stop trusting it once it has left."""

import time
from typing import Any, Final

from groupcomm_client.blocking import BlockingConnection
from groupcomm_tools.commands.connecting import accepted

LEAVE_S: Final = 5.0
"""A removed daemon has left the view by then, or has been left out of it."""

POLL_S: Final = 0.05


def is_trusted(connection: BlockingConnection, name: str) -> bool:
    """Return whether daemons have identities, and trust that of this one."""
    keys: dict[str, Any] = connection.ask("keys")
    identities = keys.get("identities")  # without a key file the answer is an error
    return identities is not None and name in identities["daemons"]


def evict_removed(connection: BlockingConnection, name: str, asked: str) -> str:
    """Evict the identity of a daemon that was removed, and return a sentence that says so.

    It has left the view before: what it has sent is delivered.

    Args:
        connection: of the user that runs the daemon.
        name: the removed daemon.
        asked: the daemon of the connection, which ends if it is the removed one.
    """
    if name == asked:
        return _later(name)
    until = time.monotonic() + LEAVE_S
    while name in accepted(connection.ask("status"))["daemons"]:
        if time.monotonic() > until:
            return f"it is in the view still; {_later(name)}"
        time.sleep(POLL_S)
    accepted(connection.ask(f"keys evict {name}"))
    return f"no daemon trusts the identity of {name} any more"


def _later(name: str) -> str:
    return f"evict its identity once it has ended, at another daemon: groupcomm keys evict {name}"
