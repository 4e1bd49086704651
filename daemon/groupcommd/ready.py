"""Telling systemd how far the daemon is, where it asks for that (sd_notify(3))."""

import logging
import os
import socket

_log = logging.getLogger("groupcommd")


def tell_systemd(state: str) -> bool:
    """Send a state such as ``READY=1``; False if nobody asks, or it cannot be told now."""
    path = os.environ.get("NOTIFY_SOCKET")
    if not path:
        return False
    address = "\0" + path[1:] if path.startswith("@") else path
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notify:
            notify.connect(address)
            notify.sendall(state.encode())
    except OSError as error:
        _log.warning("systemd cannot be told %s: %s", state, error)
        return False
    return True
