"""A network and a table of processes for one page, so that pages may use the same ports at once.

A page starts its daemons as users do, at the ports that they have by default, and ends processes by
name. Namespaces of Linux keep that apart from everything else on the host. Where the system allows
none, pages take turns.
"""

import contextlib
import fcntl
import functools
import os
import socket
import struct
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

OWN: Final = ("--net", "--pid", "--mount", "--fork", "--mount-proc", "--kill-child")
WAYS: Final = (("unshare", *OWN), ("unshare", "--user", "--map-root-user", *OWN))
"""The commands that run another command in namespaces of its own: as root, and as anybody."""

_GET_FLAGS, _SET_FLAGS, _UP = 0x8913, 0x8914, 1  # of Linux's ioctls for interfaces


@functools.cache
def own_namespaces() -> Sequence[str]:
    """Return the command before a command that is run in namespaces of its own; () for none."""
    for way in WAYS:
        with contextlib.suppress(OSError):
            if subprocess.run([*way, "true"], capture_output=True, check=False).returncode == 0:
                return way
    return ()


def bring_loopback_up() -> None:
    """Bring up the loopback interface of this network, as a new network has it down."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        request = struct.pack("16sH14x", b"lo", 0)
        (flags,) = struct.unpack("16xH14x", fcntl.ioctl(any_socket, _GET_FLAGS, request))
        fcntl.ioctl(any_socket, _SET_FLAGS, struct.pack("16sH14x", b"lo", flags | _UP))


@contextlib.contextmanager
def turn() -> Iterator[None]:
    """Wait until no other page of this user runs on this host."""
    path = Path(tempfile.gettempdir()) / f"groupcomm-pages-{os.geteuid()}.lock"
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
