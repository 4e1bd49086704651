"""A daemon in a container with a user namespace: users outside of it have no name there."""

import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from groupcommd.programs import local_users
from groupcommd.programs.listeners import _identify_unix
from groupcommd.programs.local_users import unix_user
from groupcommd.programs.peer_names import PeerRefused
from tests.groupcommd.nobody import NOBODY, open_folder

ALONE: Final = "         0          0          1\n"
MANY: Final = "         0     100000      65536\n"
ALL: Final = "         0          0 4294967295\n"

LISTEN: Final = """
import socket, sys
from groupcommd.programs.local_users import unix_user
listener = socket.socket(socket.AF_UNIX)
listener.bind(sys.argv[1])
listener.listen()
print("ready", flush=True)
for _ in range(3):
    accepted, _ = listener.accept()
    print(unix_user(accepted), flush=True)
"""

CONNECT: Final = """
import os, socket, sys
user = int(sys.argv[2])
if user:
    os.setgroups([]); os.setresgid(user, user, user); os.setresuid(user, user, user)
socket.socket(socket.AF_UNIX).connect(sys.argv[1])
"""


def has_user_namespaces() -> bool:
    """Tell whether such a container can be made here; say so where it cannot."""
    tried = ["unshare", "--user", "--map-root-user", "true"]
    try:
        made = os.geteuid() == 0 and subprocess.run(tried, check=False).returncode == 0
    except OSError:
        made = False
    if not made:
        print("left out: no user namespace can be made here")
    return made


def test_users_of_the_host_are_nobody_in_a_container_without_them() -> None:
    """Two users connect to a daemon that has root only: the kernel calls both 65534."""
    if not has_user_namespaces():
        return
    with open_folder() as folder:
        path = folder / "socket"
        command = ["unshare", "--user", "--map-root-user", sys.executable, "-c", LISTEN, str(path)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as listener:
            assert listener.stdout is not None
            assert listener.stdout.readline() == "ready\n"
            path.chmod(0o777)
            for user in (0, 1234, NOBODY):
                subprocess.run([sys.executable, "-c", CONNECT, path, str(user)], check=True)
            assert listener.stdout.read().split() == ["0", "None", "None"]


@pytest.mark.parametrize(("mapped", "known"), [(ALONE, False), (MANY, False), (ALL, True)])
def test_the_number_of_nobody_is_believed_where_all_users_are(
    monkeypatch: pytest.MonkeyPatch, mapped: str, known: bool
) -> None:
    monkeypatch.setattr(
        Path, "read_text", lambda self: mapped if self.name == "uid_map" else f"{NOBODY}\n"
    )
    local_users._maps_all_users.cache_clear()
    local_users._overflow_uid.cache_clear()
    try:
        assert local_users._known(NOBODY) == (NOBODY if known else None)
        assert local_users._known(1234) == 1234
    finally:
        local_users._maps_all_users.cache_clear()
        local_users._overflow_uid.cache_clear()


async def test_who_has_no_number_learns_why(monkeypatch: pytest.MonkeyPatch) -> None:
    one, other = socket.socketpair()
    with one, other:
        assert unix_user(one) == os.geteuid()
        monkeypatch.setattr(local_users, "_known", lambda uid: None)
        with pytest.raises(PeerRefused, match="does not exist in the daemon's container"):
            await _identify_unix(one)
