"""What a daemon keeps on disk: its keys, and how often it has started."""

import json
from pathlib import Path

import pytest

from groupcomm.errors import ConfigError
from groupcommd.key_file import read_key_file, write_key_file
from groupcommd.state_dir import StateDir, StateError

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
    state.store(77)
    state.close()
    state = StateDir(tmp_path / "a")
    second = state.begin("a")
    assert (first.incarnation.restarts, second.incarnation.restarts) == (1, 2)
    assert first.incarnation.random_id != second.incarnation.random_id
    assert (first.counter, second.counter) == (0, 77)
    assert state.begin("a", 9).incarnation.restarts == 10
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


def test_a_record_that_cannot_be_written_stops_the_start(tmp_path: Path) -> None:
    state = StateDir(tmp_path)
    state.begin("a")
    (tmp_path / "state.json.new").mkdir()
    with pytest.raises(StateError, match="does not start"):
        state.store(5)
    assert json.loads((tmp_path / "state.json").read_text()) == {"restarts": 1, "mark": 0}
    state.close()
