"""Telling systemd how far the daemon is, where it asks for that (sd_notify(3))."""

import os
import socket


def tell_systemd(state: str) -> bool:
    """Send a state such as ``READY=1``; False if nobody asks."""
    path = os.environ.get("NOTIFY_SOCKET")
    if not path:
        return False
    address = "\0" + path[1:] if path.startswith("@") else path
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notify:
        notify.connect(address)
        notify.sendall(state.encode())
    return True
