"""A daemon's files on disk: its keys, and the number of its starts."""

import errno
import json
import os
from pathlib import Path

import pytest

from groupcomm.errors import ConfigError
from groupcomm.host import private_files
from groupcomm.host.key_file import (
    add_from,
    add_key,
    agreed,
    change_key_file,
    read_key_file,
    write_key_file,
)
from groupcomm.security.keys import KeyRing
from groupcommd.files.state_dir import StateDir, StateError

# ---- keys ----


def test_a_key_file_is_made_once_and_only_its_owner_reads_it(tmp_path: Path) -> None:
    path = tmp_path / "key"
    write_key_file(path)
    ring = read_key_file(path)
    assert [len(key) for key in ring.keys.values()] == [32]
    assert path.stat().st_mode & 0o777 == 0o600
    before = path.read_bytes()
    with pytest.raises(ConfigError, match="exists"):
        write_key_file(path)
    assert path.read_bytes() == before
    path.chmod(0o640)
    with pytest.raises(ConfigError, match="others may read it"):
        read_key_file(path)


def test_a_key_file_where_others_may_put_another_in_its_place_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "keys"
    folder.mkdir()
    write_key_file(folder / "key")
    for mode in (0o770, 0o707, 0o722):
        folder.chmod(mode)
        with pytest.raises(ConfigError, match="others may write to its folder"):
            read_key_file(folder / "key")
    for mode in (0o700, 0o755, 0o1777):
        folder.chmod(mode)
        assert read_key_file(folder / "key").active == 1


def test_a_key_file_of_another_user_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_key_file(tmp_path / "key")
    owner = (tmp_path / "key").stat().st_uid
    monkeypatch.setattr(private_files, "_trusted", lambda: (owner + 1,))
    with pytest.raises(ConfigError, match=f"it belongs to user {owner}, who may change it"):
        read_key_file(tmp_path / "key")


def test_a_key_file_is_changed_whole_or_not_at_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "key"
    write_key_file(path)
    (tmp_path / ".key.new").write_text("left behind when the power failed")
    first = read_key_file(path)
    second = change_key_file(path, add_key)
    assert (sorted(second.keys), second.active) == ([1, 2], 1)
    assert (read_key_file(path).keys, read_key_file(path).active) == (second.keys, 1)
    assert path.stat().st_mode & 0o777 == 0o600
    assert [each.name for each in tmp_path.iterdir()] == ["key"]

    before = path.read_bytes()
    monkeypatch.setattr(os, "fsync", full_disk)
    with pytest.raises(OSError, match="No space"):
        change_key_file(path, add_key)
    assert path.read_bytes() == before
    assert read_key_file(path).keys[1] == first.keys[1]


def full_disk(_descriptor: int) -> None:
    raise OSError(errno.ENOSPC, "No space left on device")


def test_what_daemons_agree_on_leaves_newer_keys_in_the_file() -> None:
    """One that was added after the daemon had read the file, and one that is retired."""
    one, two, three = (bytes((n,)) * 32 for n in (1, 2, 3))
    changed = agreed(KeyRing({2: two}, 2), KeyRing({1: one, 2: two, 3: three}, 1))
    assert (changed.keys, changed.active) == ({2: two, 3: three}, 2)


def test_keys_of_another_host_come_with_what_seals_there() -> None:
    one, two = bytes(32), b"2" * 32
    changed = add_from(KeyRing({1: one, 2: two}, 2), KeyRing({1: one}, 1))
    assert (changed.keys, changed.active) == ({1: one, 2: two}, 2)
    with pytest.raises(ConfigError, match="have a key 1, and not the same one"):
        add_from(KeyRing({1: two}, 1), KeyRing({1: one}, 1))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "active = ",
        "active = 1",
        "active = 1\n[keys]\n1 = 5",
        "active = 1\n[keys]\n1 = 'xyz'",
        "active = 1\n[keys]\nx = 'ab'",
        "active = true\n[keys]\n1 = 'ab'",
        "more = 1\nactive = 1\n[keys]\n",
        "active = 2\n[keys]\n1 = '" + "ab" * 32 + "'",
    ],
)
def test_what_is_no_key_file_is_refused_without_telling_secrets(tmp_path: Path, text: str) -> None:
    path = tmp_path / "key"
    path.write_text(text)
    path.chmod(0o600)
    with pytest.raises(ConfigError) as caught:
        read_key_file(path)
    assert "abab" not in str(caught.value)


# ---- starts ----


def test_every_start_is_counted_on_disk_and_marks_are_kept(tmp_path: Path) -> None:
    state = StateDir(tmp_path / "a")
    first = state.begin("a")
    state.store(first.mark + 10_000_000)
    state.close()
    state = StateDir(tmp_path / "a")
    second = state.begin("a")
    assert (first.incarnation.restarts, second.incarnation.restarts) == (1, 2)
    assert first.incarnation.random_id != second.incarnation.random_id
    assert first.counter < first.mark < second.counter < second.mark, "each above the one before"
    assert json.loads((tmp_path / "a" / "state.json").read_text())["mark"] == second.mark
    state.close()


def test_a_second_daemon_on_the_same_folder_is_refused(tmp_path: Path) -> None:
    state = StateDir(tmp_path)
    with pytest.raises(StateError, match="in use by another daemon"):
        StateDir(tmp_path)
    state.close()
    StateDir(tmp_path).close()


@pytest.mark.parametrize("text", ["", "{", "[]", '{"restarts": 1}', '{"restarts": -1, "mark": 0}'])
def test_a_damaged_record_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "state.json").write_text(text)
    state = StateDir(tmp_path)
    with pytest.raises(StateError, match="is damaged"):
        state.begin("a")
    assert (tmp_path / "state.json").read_text() == text
    state.close()


def test_a_folder_that_cannot_be_made_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StateError, match="cannot be used"):
        StateDir(tmp_path / "file" / "a")


def test_a_record_that_cannot_be_written_changes_nothing(tmp_path: Path) -> None:
    state = StateDir(tmp_path)
    first = state.begin("a")
    (tmp_path / "state.json.new").unlink()  # the daemon holds it open, and checks it
    (tmp_path / "state.json.new").mkdir()
    with pytest.raises(StateError, match="check the disk"):
        state.store(first.mark + 5)
    found = json.loads((tmp_path / "state.json").read_text())
    assert found == {"restarts": 1, "mark": first.mark}
    state.close()
