"""A state folder knows the cluster and the name of its daemon, and serves no other one."""

import json
import logging
import os
import subprocess
import sys
from pathlib import Path

import pytest

from groupcomm.errors import ConfigError
from groupcomm_tools.doctor.host_checks import check_configuration, check_folders
from groupcommd.config.config_file import JOINED, JoinWish, read_config
from groupcommd.files.state_dir import StateDir, StateError
from groupcommd.files.state_owner import OWNER, Owner, read_owner
from groupcommd.join_command import check_same_cluster
from groupcommd.operators.findings import Grade

THREE, FOUR = Owner("three", "a"), Owner("four", "a")


def start(folder: Path, owner: Owner) -> None:
    """Do with a folder what the start of a daemon does."""
    state = StateDir(folder)
    try:
        state.claim(owner)
        state.read_rosters()
        state.begin(owner.daemon)
    finally:
        state.close()


def file_of(folder: Path, cluster: str, more: str = "") -> Path:
    """Write the file of daemon `a` of a cluster, alone on loopback; return its path."""
    path = folder / f"{cluster}.toml"
    path.write_text(f'cluster = "{cluster}"\nname = "a"\n{more}')
    path.chmod(0o600)
    return path


@pytest.fixture
def states(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the folder in which daemons of this test have theirs by default."""
    folder = tmp_path / "states"
    monkeypatch.setenv("STATE_DIRECTORY", str(folder))
    return folder


def state_dir(path: Path) -> Path:
    return read_config(path, name=None, state_dir=None).state_dir


@pytest.mark.parametrize("other", [FOUR, Owner("three", "b")])
def test_a_folder_of_another_daemon_is_refused(tmp_path: Path, other: Owner) -> None:
    start(tmp_path, THREE)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    text = f"{tmp_path} belongs to daemon a of cluster three, and this is {other}: .*--state-dir"
    with pytest.raises(StateError, match=text):
        start(tmp_path, other)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before
    start(tmp_path, THREE)
    assert read_owner(tmp_path) == THREE


def test_a_folder_without_a_mark_is_adopted_once_with_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    start(tmp_path, THREE)
    assert not caplog.messages, "a new folder"
    (tmp_path / OWNER).unlink()  # as an earlier release leaves it
    with caplog.at_level(logging.WARNING):
        start(tmp_path, FOUR)
        start(tmp_path, FOUR)
    (line,) = caplog.messages
    assert "from now on it belongs to daemon a of cluster four" in line
    with pytest.raises(StateError, match="belongs to daemon a of cluster four"):
        start(tmp_path, THREE)


@pytest.mark.parametrize("text", ["", "[]", '{"cluster": "three"}', '{"cluster": 1, "daemon": 2}'])
def test_a_damaged_mark_is_refused(tmp_path: Path, text: str) -> None:
    start(tmp_path, THREE)
    (tmp_path / OWNER).write_text(text)
    with pytest.raises(StateError, match="is damaged: write into it whose folder this is"):
        start(tmp_path, THREE)


def test_daemons_of_one_name_in_two_clusters_have_two_folders_by_default(
    tmp_path: Path, states: Path
) -> None:
    three, four = (state_dir(file_of(tmp_path, cluster)) for cluster in ("three", "four"))
    assert (three, four) == (states / "three" / "a", states / "four" / "a")
    assert state_dir(file_of(tmp_path, "..")) == states / "%.." / "a"


def test_a_folder_of_an_earlier_release_at_its_old_default_place_is_used_on(
    tmp_path: Path, states: Path
) -> None:
    former = states / "a"
    start(former, THREE)
    (former / OWNER).unlink()
    three, four = file_of(tmp_path, "three"), file_of(tmp_path, "four")
    assert state_dir(three) == state_dir(four) == former, "whoever starts first adopts it"
    start(former, THREE)
    assert (state_dir(three), state_dir(four)) == (former, states / "four" / "a")
    start(states / "four" / "a", FOUR)
    assert (state_dir(three), state_dir(four)) == (former, states / "four" / "a")


def test_the_doctor_sees_a_folder_of_another_cluster(tmp_path: Path) -> None:
    start(tmp_path / "state", THREE)
    grades = {}
    for cluster in ("three", "four"):
        _, config = check_configuration(file_of(tmp_path, cluster, 'state_dir = "state"'), "a")
        assert config is not None
        finding = check_folders(config)[1]
        grades[cluster] = finding.grade
    assert grades == {"three": Grade.OK, "four": Grade.PROBLEM}
    assert "belongs to daemon a of cluster three, and this is daemon a of cluster four" in (
        finding.text
    )
    assert finding.remedy.startswith("give this one a folder of its own, with state_dir")


def test_the_token_of_another_cluster_than_the_joined_one_is_refused(tmp_path: Path) -> None:
    state = tmp_path / "state"
    state.mkdir(0o700)
    (state / JOINED).write_text('cluster = "three"\ninsecure = true\n')
    (state / JOINED).chmod(0o600)
    wish = JoinWish(name="a", state_dir=state, seeds=(), own=(), identity=None)
    check_same_cluster("three", wish)
    with pytest.raises(ConfigError, match=r"a of cluster three, and the token is for cluster four"):
        check_same_cluster("four", wish)


def test_the_daemon_itself_is_refused_with_one_line(tmp_path: Path) -> None:
    start(tmp_path / "state", THREE)
    command = [sys.executable, "-m", "groupcommd", "--config", str(file_of(tmp_path, "four"))]
    command += ["--state-dir", str(tmp_path / "state"), "--port", "0"]
    environment = {**os.environ, "STATE_DIRECTORY": str(tmp_path)}
    over = subprocess.run(
        [*command, "--unix", str(tmp_path / "sock")],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env=environment,
    )
    (line,) = over.stderr.splitlines()
    assert over.returncode == 1
    assert "belongs to daemon a of cluster three, and this is daemon a of cluster four" in line
    assert json.loads((tmp_path / "state" / "state.json").read_text())["restarts"] == 1
