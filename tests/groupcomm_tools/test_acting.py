"""What root does to a service's files it does as their owner: they stay the service's."""

import os
from pathlib import Path

import pytest

from groupcomm.host.acting import as_owner_of
from groupcomm.host.key_file import read_key_file, write_key_file
from groupcomm_tools.commands.doctor import examine
from groupcomm_tools.doctor.host_checks import service_file
from groupcommd.findings import Finding, Grade
from groupcommd.token_file import add_token
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
