"""Acting as the user of a service: what root does to a daemon's files it does as their owner.

So a file that is rewritten keeps its owner, and what a check finds is what the daemon will find.
"""

import os
import pwd
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from groupcomm.host.addresses import state_folder


@contextmanager
def as_owner_of(path: Path) -> Iterator[None]:
    """Act as the owner of a file for the length of a block, if this process is root's.

    The whole process does so: a block must not be entered in a thread of several.

    Args:
        path: the file; if there is none, it will belong to the owner of its folder. If it belongs
            to root, nothing changes.
    """
    uid, gid = owner_of(path) or (0, 0)
    if os.geteuid() != 0 or uid == 0:
        yield
        return
    groups, group = os.getgroups(), os.getegid()
    folders = {"STATE_DIRECTORY": str(state_folder()), "XDG_RUNTIME_DIR": "/run"}  # as root's own
    added = {name: text for name, text in folders.items() if name not in os.environ}
    os.setgroups([gid])
    os.setegid(gid)
    os.seteuid(uid)
    os.environ.update(added)
    try:
        yield
    finally:
        for name in added:
            del os.environ[name]
        os.seteuid(0)
        os.setegid(group)
        os.setgroups(groups)


def owner_of(path: Path) -> tuple[int, int] | None:
    """Return the user and the group of a file, or of its folder if it cannot be seen.

    None if neither can be seen.
    """
    for each in (path, path.absolute().parent):
        with suppress(OSError):
            found = each.stat()
            return found.st_uid, found.st_gid
    return None


def user_name(uid: int) -> str:
    """Return the name of a user, or its number if it has none."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)
