"""Files that a daemon believes: none that another user of the host has changed or replaced."""

import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Final

import attrs
import pytest

import groupcommd.cli
from groupcomm.errors import ConfigError, SessionEnded
from groupcomm.host import private_files
from groupcomm.host.private_files import open_private, open_unwritable
from groupcomm_client import TlsOptions
from groupcomm_client.blocking import connect
from groupcomm_tools.certificates import issue, make_authority
from groupcomm_tools.running_cluster import RunningCluster
from groupcommd.files.state_dir import StateDir, StateError
from groupcommd.programs.token_file import add_token
from tests.groupcomm_tools.shell import NO_PAUSES
from tests.groupcommd.nobody import NOBODY, as_nobody, can_be_nobody, open_folder

NAMES: Final = {
    "configuration": "configuration",
    "tokens": "clients.tokens",
    "key": "clients.tls.key",
    "certificate": "clients.tls.certificate",
    "ca": "clients.tls.ca",
}


@attrs.frozen
class Host:
    """The files of a daemon, each in a folder of its own.

    Attributes:
        folder: the folder of all files.
        files: the files, by their use.
        token: the valid token.
    """

    folder: Path
    files: dict[str, Path]
    token: str

    def check(self) -> int:
        """Run ``groupcommd --check``; return its exit status."""
        return groupcommd.cli.main(["--config", str(self.files["configuration"]), "--check"])


def host(folder: Path) -> Host:
    ca, _ = make_authority(folder / "pki", 1.0)
    certificate, key = issue(folder / "pki", "d", ["127.0.0.1"], 1.0)
    files = {name: folder / name / "file" for name in NAMES}
    for path in files.values():
        path.parent.mkdir(0o755)
    for name, made in (("ca", ca), ("certificate", certificate), ("key", key)):
        made.rename(files[name])
    files["configuration"].write_text(
        f'name = "d"\n[clients]\nunix = "{folder}/run/d.sock"\ntokens = "{files["tokens"]}"\n'
        f'[clients.tls]\naddress = "127.0.0.1:0"\ncertificate = "{files["certificate"]}"\n'
        f'key = "{files["key"]}"\nca = "{files["ca"]}"\n'
    )
    return Host(folder, files, add_token(files["tokens"], "ann"))


def open_its_folder(path: Path) -> None:
    path.parent.chmod(0o777)


def let_all_write(path: Path) -> None:
    path.chmod(0o666)


def link_from_open_folder(path: Path) -> None:
    """The target of the path is safe, the path is not."""
    safe = path.parent / "safe"
    safe.mkdir(0o755)
    path.rename(safe / "file")
    path.symlink_to(safe / "file")
    path.parent.chmod(0o777)


def link_to_open_folder(path: Path) -> None:
    """The path is safe, its target is not."""
    unsafe = path.parent / "unsafe"
    unsafe.mkdir()
    unsafe.chmod(0o777)
    path.rename(unsafe / "file")
    path.symlink_to("unsafe/file")


@pytest.mark.parametrize(
    ("weaken", "said"),
    [
        (open_its_folder, "others may write to its folder .mode 777. and replace it"),
        (let_all_write, "others may (read|write to) it .mode 666.; mend that with: chmod"),
        (link_from_open_folder, "others may write to its folder .mode 777. and replace it"),
        (link_to_open_folder, "others may write to its folder .mode 777. and replace it"),
    ],
    ids=["folder", "file", "link", "target"],
)
@pytest.mark.parametrize("name", NAMES)
def test_a_daemon_starts_with_no_file_that_others_could_change(
    name: str,
    weaken: Callable[[Path], None],
    said: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    plant = host(tmp_path)
    assert plant.check() == 0, capsys.readouterr().err
    weaken(plant.files[name])
    assert plant.check() == groupcommd.cli.USAGE
    told = capsys.readouterr().err
    assert re.search(f"{NAMES[name]} .*file: {said}", told), told


@pytest.mark.parametrize("whose", ["file", "folder", "link"])
def test_what_belongs_to_another_user_is_refused(
    whose: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without root: whose a file is is told to the code, and not to the system."""
    folder = tmp_path / "folder"
    folder.mkdir()
    target, path = folder / "target", folder / "file"
    target.write_text("")
    target.chmod(0o600)
    path.symlink_to(target)
    theirs = {"file": target, "folder": folder, "link": path}[whose].lstat().st_ino
    real_stat, real_fstat, real_lstat = Path.stat, os.fstat, Path.lstat

    def of_others(status: os.stat_result) -> os.stat_result:
        fields = list(status)
        fields[4] = NOBODY if status.st_ino == theirs else os.geteuid()
        return os.stat_result(fields)

    monkeypatch.setattr(os, "fstat", lambda descriptor: of_others(real_fstat(descriptor)))
    monkeypatch.setattr(Path, "stat", lambda self, **way: of_others(real_stat(self, **way)))
    monkeypatch.setattr(Path, "lstat", lambda self: of_others(real_lstat(self)))
    for opened in (open_private, open_unwritable):
        with pytest.raises(ConfigError, match=f"belongs to user {NOBODY}, who may"):
            opened(path, "key")
    monkeypatch.setattr(private_files, "_trusted", lambda: (os.geteuid(), NOBODY))
    open_private(path, "key").close()


def test_starts_are_not_counted_where_others_could_set_the_count_back(tmp_path: Path) -> None:
    state = StateDir(tmp_path / "a")
    state.begin("a")
    (tmp_path / "a").chmod(0o777)
    with pytest.raises(StateError, match="others may write to its folder"):
        state.begin("a")
    state.close()


def test_a_pipe_in_the_place_of_a_file_stops_nobody(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe", 0o600)
    with pytest.raises(ConfigError, match="it is no regular file"):
        open_private(tmp_path / "pipe", "key")


# ---- as another user ----

REPLACE: Final = """
path, text = sys.argv[1:]
os.rename(path, path + ".theirs")
with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
    file.write(text)
"""


@pytest.mark.parametrize("name", NAMES)
def test_a_file_that_nobody_has_replaced_is_refused_though_its_folder_is_mended(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    if not can_be_nobody():
        return
    with open_folder() as folder:
        plant = host(folder)
        path = plant.files[name]
        path.parent.chmod(0o777)
        as_nobody(REPLACE, path, path.read_text())
        path.parent.chmod(0o755)
        assert plant.check() == groupcommd.cli.USAGE
        told = capsys.readouterr().err
        assert f"{NAMES[name]} {path}: it belongs to user {NOBODY}" in told


def test_a_token_of_nobodys_own_lets_nobody_into_roots_daemon() -> None:
    """The folder was left open while the daemon runs; it looks at the file at each attempt."""
    if not can_be_nobody():
        return
    with open_folder() as folder:
        plant = host(folder)
        tokens = plant.files["tokens"]
        clients = (
            f'tls = {{address = "127.0.0.1:0", certificate = "{plant.files["certificate"]}",'
            f' key = "{plant.files["key"]}"}}\ntokens = "{tokens}"\n'
        )
        with RunningCluster(1, settings=NO_PAUSES, clients=clients) as cluster:
            where, trusted = cluster.tls_address("a"), plant.files["ca"]
            with connect(where, tls=TlsOptions(ca=trusted, token=plant.token)) as good:
                assert good.name.endswith("#a")
            own = folder / "own"
            token = add_token(own, "nobody")
            tokens.parent.chmod(0o777)
            as_nobody(REPLACE, tokens, own.read_text())
            for _ in range(2):
                with (
                    pytest.raises(SessionEnded),
                    connect(where, tls=TlsOptions(ca=trusted, token=token)),
                ):
                    pass
            told = [
                line["text"]
                for line in cluster.log("a")
                if "all tokens are invalid" in line["text"]
            ]
            assert len(told) == 1, told
            assert f"clients.tokens {tokens}: it belongs to user {NOBODY}" in told[0]
