"""What root does to a service's files it does as their owner: they stay the service's."""

import argparse
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest

from groupcomm.errors import ConfigError
from groupcomm.host import addresses
from groupcomm.host.acting import as_owner_of
from groupcomm.host.key_file import read_key_file, write_key_file
from groupcomm.host.option_types import existing_file
from groupcomm.host.private_files import open_private
from groupcomm_tools.commands.doctor import examine
from groupcommd.files.service_file import service_file
from groupcommd.operators.findings import Finding, Grade
from groupcommd.programs.token_file import add_token
from tests.groupcomm_tools.shell import tell
from tests.groupcommd.nobody import NOBODY, can_be_nobody, open_folder


def give(*paths: Path) -> None:
    for path in paths:
        os.chown(path, NOBODY, NOBODY)


def test_what_root_changes_keeps_its_owner() -> None:
    if not can_be_nobody():
        return
    with open_folder() as above:
        folder = above / "service"
        folder.mkdir(0o700)
        key, tokens = folder / "plant.key", folder / "tokens"
        write_key_file(key)
        add_token(tokens, "old")
        give(folder, key, tokens)
        nowhere = ("--address", str(above / "no.sock"))
        status, _, told = tell("keys", "add", str(key), *nowhere)
        assert status == 0, told
        assert tell("tokens", "add", str(tokens), "new")[0] == 0
        assert tell("tokens", "remove", str(tokens), "old")[0] == 0
        assert "new" in tell("tokens", "list", str(tokens))[1]
        for path in (key, tokens):
            found = path.stat()
            assert (found.st_uid, found.st_gid, found.st_mode & 0o777) == (NOBODY, NOBODY, 0o600)
        with as_owner_of(key):
            assert sorted(read_key_file(key).keys) == [1, 2]
        assert os.geteuid() == 0


def findings(config: Path) -> dict[str, Finding]:
    with as_owner_of(service_file(config)):
        return {each.check: each for each in examine(config, "a", None, [])}


def test_the_doctor_of_root_sees_what_the_service_will_see() -> None:
    if not can_be_nobody():
        return
    with open_folder() as above:
        folder = above / "service"
        folder.mkdir(0o700)
        key, config = folder / "plant.key", above / "a.toml"
        write_key_file(key)
        config.write_text(
            f'name = "a"\nkey_file = "{key}"\nstate_dir = "{folder}/a"\n'
            f'clients.unix = "{folder}/run/a.sock"\n'
        )
        config.chmod(0o644)
        give(folder)
        give(key)
        found = findings(config)
        assert found["user"].text == f"examined as user {NOBODY}, as whom the daemon must run"
        for check in ("configuration", "key file", "socket folder", "state folder"):
            assert found[check].grade is Grade.OK, found[check]
        os.chown(folder, 0, 0)
        found = findings(config)
        assert Grade.PROBLEM in [each.grade for each in found.values()], "it could not read its key"


def test_nothing_changes_for_other_users_and_own_files(tmp_path: Path) -> None:
    before = os.geteuid(), os.getegid(), os.getgroups()
    for path in (tmp_path, tmp_path / "missing"):
        with as_owner_of(path):
            assert (os.geteuid(), os.getegid(), os.getgroups()) == before


def test_an_error_gives_root_back(tmp_path: Path) -> None:
    if not can_be_nobody():
        return
    path = tmp_path / "file"
    path.touch()
    give(path)

    def fail() -> None:
        with as_owner_of(path):
            assert os.geteuid() == NOBODY
            raise ValueError("wrong")

    with pytest.raises(ValueError, match="wrong"):
        fail()
    assert os.geteuid() == 0


def test_what_root_makes_in_a_folder_of_a_service_is_the_services() -> None:
    if not can_be_nobody():
        return
    with open_folder() as above:
        folder = above / "service"
        folder.mkdir(0o700)
        give(folder)
        key, tokens, identity = (folder / name for name in ("key", "tokens", "identity"))
        for words in (
            ("keygen", key),
            ("tokens", "add", tokens, "x"),
            ("identity", "new", identity),
        ):
            status, _, told = tell(*map(str, words))
            assert status == 0, told
        for path in (key, tokens, identity):
            assert (path.stat().st_uid, path.stat().st_mode & 0o777) == (NOBODY, 0o600)


LATE: Final = """
import os, sys
class Late:
    def find_spec(self, name, path=None, target=None):
        assert os.geteuid() == 0, f"{name} is imported as another user"
sys.meta_path.insert(0, Late())
from groupcomm_tools.cli import main
from groupcommd.cli import main as daemon
key, config = sys.argv[1:]
assert main(["keys", "add", key, "--address", key + ".sock"]) == 0
assert daemon(["--check", "--config", config]) == 0
assert main(["doctor", "--config", config]) == 1, "no daemon runs"
assert os.geteuid() == 0
"""


def test_nothing_is_imported_as_another_user_who_may_be_unable_to_read_it() -> None:
    """Root's Python may be in root's own folder."""
    if not can_be_nobody():
        return
    with open_folder() as above:
        folder, config = above / "service", above / "a.toml"
        folder.mkdir(0o700)
        give(folder)
        key = folder / "plant.key"
        assert tell("keygen", str(key))[0] == 0
        assert tell("tokens", "add", str(folder / "tokens"), "x")[0] == 0
        config.write_text(
            f'name = "a"\nkey_file = "{key}"\nstate_dir = "{folder}/a"\n'
            f'clients.unix = "{folder}/run/a.sock"\n'
            f'http = {{ listen = "127.0.0.1:4805", tokens = "{folder}/tokens" }}\n'
        )
        config.chmod(0o644)
        command = [sys.executable, "-c", LATE, str(key), str(config)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        assert "the daemon can use its files" in done.stdout
        assert "chown" not in done.stdout + done.stderr


@contextmanager
def nobody() -> Iterator[None]:
    """Act as another user, whom no file here belongs to."""
    os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(0)


def test_others_are_told_who_may_look() -> None:
    if not can_be_nobody():
        return
    with open_folder() as above:
        folder, config = above / "service", above / "a.toml"
        folder.mkdir(0o700)
        key = folder / "plant.key"
        write_key_file(key)
        config.write_text(f'name = "a"\nkey_file = "{key}"\n')
        config.chmod(0o644)
        with nobody():
            found = {each.check: each for each in examine(config, "a", None, [])}
            with pytest.raises(argparse.ArgumentTypeError, match="Permission denied"):
                existing_file(str(key))
        assert found["user"].grade is Grade.WARNING
        assert "the daemon's user is root" in found["user"].text
        assert "run the doctor as root" in found["configuration"].remedy
        give(folder, key)
        with pytest.raises(ConfigError, match="run this as that user: runuser -u") as error:
            open_private(key, "key_file").close()
        assert "chown" not in str(error.value), "the daemon could not read its key any more"


def test_the_user_of_the_service_has_its_folders_wherever_it_works(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("STATE_DIRECTORY", "XDG_RUNTIME_DIR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(addresses, "SYSTEM_STATE", tmp_path)  # which belongs to this user
    assert addresses.state_folder() == tmp_path
    assert addresses.runtime_folder() == addresses.SYSTEM_FOLDER
