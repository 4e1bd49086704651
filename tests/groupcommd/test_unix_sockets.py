"""Paths of unix sockets that are in use, or that something else has: it is never replaced."""

import os
import socket
import stat
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import TypeAlias

import pytest

from groupcomm.errors import ConfigError
from groupcomm.host.private_files import write_private
from groupcomm_tools.exported import whole_file
from groupcommd.network.sockets import listen_unix
from groupcommd.programs.unix_sockets import check_free, close_unix, listen_for_spread

Place: TypeAlias = Callable[[Path], object]


@pytest.fixture
def folder() -> Iterator[Path]:
    """Yield a private folder whose path is short enough for sockets."""
    with tempfile.TemporaryDirectory() as path:
        yield Path(path)


def link_to_a_socket(path: Path) -> None:
    """Make a symbolic link to the socket of a process that has ended."""
    end = path.with_name("end")
    with socket.socket(socket.AF_UNIX) as ended:
        ended.bind(str(end))
    path.symlink_to(end)


def socket_of_another_user(path: Path) -> None:
    """Make the socket of another user's process that has ended."""
    link_to_a_socket(path)
    path.unlink()
    path.with_name("end").rename(path)
    os.chown(path, 12345, 12345)


def identity_of(path: Path) -> tuple[int, ...]:
    """Return what says that a file is the same and unchanged; to look at it changes its atime."""
    found = path.lstat()
    return found.st_mode, found.st_ino, found.st_uid, found.st_size, found.st_mtime_ns


TAKEN: list[tuple[str, Place]] = [
    ("a file", lambda path: path.write_text("letters")),
    ("a file", lambda path: path.touch()),
    ("a folder", Path.mkdir),
    ("a symbolic link", lambda path: path.symlink_to("elsewhere")),
    ("a symbolic link", link_to_a_socket),
    ("a pipe", os.mkfifo),
]
if os.geteuid() == 0:  # nobody else can give a file to another user
    TAKEN.append(("belongs to user 12345", socket_of_another_user))


OPEN: list[tuple[str, Callable[[Path], socket.socket]]] = [
    ("clients.unix is ", listen_unix),
    ("http.listen is ", lambda path: listen_unix(path, "owner", "http.listen")),
    ("", lambda path: listen_for_spread(path, "owner")),
]


@pytest.mark.parametrize(("kind", "make"), TAKEN)
@pytest.mark.parametrize(("key", "listen"), OPEN)
def test_only_the_socket_of_a_process_that_has_ended_is_replaced(
    folder: Path, key: str, listen: Callable[[Path], socket.socket], kind: str, make: Place
) -> None:
    path = folder / "precious"
    make(path)
    before = identity_of(path)
    with pytest.raises(ConfigError, match=f"^{key}{path}.* {kind}.*choose another path, or remove"):
        listen(path)
    assert identity_of(path) == before


def test_what_has_the_temporary_path_is_not_removed(folder: Path) -> None:
    file = folder / "groupcomm.sock.new"
    file.write_text("letters")
    with pytest.raises(ConfigError, match=r"groupcomm\.sock\.new, which is a file"):
        listen_unix(folder / "groupcomm.sock")
    assert file.read_text() == "letters"


@pytest.mark.parametrize("make", [make for _, make in TAKEN[:4]])
def test_what_has_taken_the_path_meanwhile_is_not_removed_at_the_end(
    folder: Path, make: Place
) -> None:
    path = folder / "groupcomm.sock"
    listener = listen_unix(path)
    path.unlink()
    make(path)
    before = identity_of(path)
    close_unix(listener, path)
    assert identity_of(path) == before


def test_the_socket_of_a_process_too_busy_to_accept_is_not_replaced(folder: Path) -> None:
    path = folder / "groupcomm.sock"
    with socket.socket(socket.AF_UNIX) as busy, closing(socket.socket(socket.AF_UNIX)) as waiting:
        busy.bind(str(path))
        busy.listen(0)
        waiting.connect(str(path))
        with pytest.raises(ConfigError, match="another daemon listens there"):
            listen_unix(path)
        close_unix(socket.socket(socket.AF_UNIX), path)
        assert path.is_socket()


@pytest.mark.parametrize("make", [Path.mkdir, os.mkfifo, lambda path: path.symlink_to("/dev/null")])
def test_a_written_file_replaces_nothing_but_a_file(folder: Path, make: Place) -> None:
    path = folder / "ports"
    make(path)
    before = identity_of(path)
    with pytest.raises(FileExistsError, match="is no file, and is kept"):
        write_private(path, "text")
    assert identity_of(path) == before


def test_an_export_writes_through_links_and_to_devices(folder: Path) -> None:
    target, link = folder / "target", folder / "link"
    link.symlink_to(target)
    with whole_file(link) as output:
        output.write("text")
    assert link.is_symlink()
    assert target.read_text() == "text"
    null = folder / "null"
    with suppress(PermissionError):  # only root can make a device; the link below leads to one
        os.mknod(null, stat.S_IFCHR | 0o600, os.makedev(1, 3))
    for path in (null, Path("/dev/stderr")):
        if path.exists():
            kind = stat.S_IFMT(path.lstat().st_mode)
            with whole_file(path) as output:
                output.write("")
            assert stat.S_IFMT(path.lstat().st_mode) == kind


def test_a_daemon_is_told_which_other_one_has_its_path_and_what_to_do() -> None:
    with tempfile.TemporaryDirectory() as folder:  # its path is short enough, and private
        path = Path(folder) / "groupcomm.sock"
        with closing(listen_unix(path)):
            with pytest.raises(ConfigError) as refused:
                listen_unix(path)
            with pytest.raises(ConfigError, match=r"http\.listen .* or choose another path$"):
                check_free(path, "http.listen")
        check_free(path, "clients.unix")
    text = str(refused.value)
    assert f"clients.unix is {path}; another daemon listens there (process {os.getpid()}:" in text
    assert Path(sys.executable).name in text
    assert "choose another path with --unix, and give it to programs with --address" in text
    assert 'unix = "{name}.sock" in [clients]' in text
