"""Files of daemons, programs and recorders: for their user alone, and never through a link."""

import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path

import attrs
import pytest

from groupcomm.config.view import Incarnation, Start
from groupcomm.errors import ConfigError
from groupcomm.host.addresses import Address
from groupcomm.host.private_files import make_private_folder, write_new, write_private
from groupcomm.host.trace_file import TraceFile
from groupcomm_client import ConnectOptions
from groupcomm_client.blocking import connect
from groupcomm_log.writer import LogWriter
from groupcomm_tools.running_cluster import RunningCluster
from groupcommd.config.config_file import read_config
from groupcommd.files.state_dir import StateDir
from groupcommd.network.flight import FlightRecorder
from groupcommd.network.sockets import Sockets
from tests.groupcomm_log.make import append, crash
from tests.groupcomm_tools.shell import NO_PAUSES
from tests.groupcommd.nobody import as_nobody, can_be_nobody, open_folder

SECRET = "what a program has sent"


@pytest.fixture(autouse=True)
def careless_umask() -> Iterator[None]:
    before = os.umask(0)
    yield
    os.umask(before)


def open_to_others(folder: Path) -> list[str]:
    """Return the paths below a folder, except sockets, that others may read, write or enter."""
    found = []
    for path in [folder, *folder.rglob("*")]:
        mode = path.lstat().st_mode
        if not stat.S_ISSOCK(mode) and stat.S_IMODE(mode) & 0o077:
            found.append(f"{path.relative_to(folder)} {stat.S_IMODE(mode):o}")
    return found


def record(folder: Path) -> None:
    writer = LogWriter(folder)
    append(writer, SECRET.encode())
    writer.close()
    writer = LogWriter(folder)
    append(writer, SECRET.encode())
    crash(writer)  # the live file stays


def keep_state(folder: Path) -> None:
    state = StateDir(folder)
    start = state.begin("a")
    state.store(7)
    FlightRecorder(start).dump(folder / "flight-1.jsonl")
    state.close()


def trace(folder: Path) -> None:
    make_private_folder(folder)
    TraceFile(folder / "daemon-a-1.jsonl").close()


def write_again(folder: Path) -> None:
    make_private_folder(folder)
    write_new(folder / "new", SECRET)
    (folder / "old").write_text("")
    (folder / "old").chmod(0o666)
    write_private(folder / "old", SECRET)


@pytest.mark.parametrize("write", [record, keep_state, trace, write_again])
def test_what_is_written_only_its_user_can_read(
    write: Callable[[Path], None], tmp_path: Path
) -> None:
    folder = tmp_path / "new" / "folder"
    write(folder)
    assert len(list(folder.iterdir())) >= 1
    assert not open_to_others(tmp_path / "new")


def test_a_running_daemon_and_its_programs_leave_nothing_open(tmp_path: Path) -> None:
    tmp_path.chmod(0o700)
    traces = ("--trace", str(tmp_path))
    with RunningCluster(1, settings=NO_PAUSES, options=traces) as cluster:
        with connect(
            cluster.address("a"), user="ann", options=ConnectOptions(trace=tmp_path)
        ) as program:
            program.join("g")
        written = [*cluster.config.parent.rglob("*.ports"), *cluster.config.parent.rglob("*.json")]
        assert sorted(path.name for path in written) == ["a.ports", "owner.json", "state.json"]
        assert not [path for path in written if open_to_others(path)]
    assert len(list(tmp_path.iterdir())) == 2
    assert not open_to_others(tmp_path)


# ---- links ----


@pytest.mark.parametrize("there", [True, False])
def test_a_link_leads_no_trace_elsewhere(there: bool, tmp_path: Path) -> None:
    target, link = tmp_path / "target", tmp_path / "daemon-a-1.jsonl"
    if there:
        target.write_text("as it was")
    link.symlink_to(target)
    with pytest.raises(ConfigError, match="exists: name another folder"):
        TraceFile(link)
    assert target.read_text() == "as it was" if there else not target.exists()


def test_a_trace_is_not_written_into_a_file_that_somebody_has_laid_there(tmp_path: Path) -> None:
    (tmp_path / "daemon-a-1.jsonl").touch(0o666)
    with pytest.raises(ConfigError, match="exists: name another folder"):
        TraceFile(tmp_path / "daemon-a-1.jsonl")


def write_ports(path: Path) -> None:
    config = read_config(None, name=None, state_dir=path.parent)
    own = {config.name: Address("127.0.0.1", 0)}
    unix = path.parent / "run" / "a.sock"
    evolved = attrs.evolve(config, addresses=own, tcp=None, unix=unix, spread_unix=None)
    with Sockets(evolved) as sockets:
        sockets.write_ports(path)


def begin(path: Path) -> None:
    state = StateDir(path.parent)
    state.begin("a")
    state.close()


def dump(path: Path) -> None:
    start = Start(name="a", incarnation=Incarnation(1, 1))
    FlightRecorder(start).dump(path)


@pytest.mark.parametrize(
    ("write", "name", "link"),
    [
        (write_ports, "a.ports", "a.ports"),
        (write_ports, "a.ports", "a.ports.new"),
        (begin, "state.json", "state.json.new"),
        (dump, "flight-1.jsonl", "flight-1.jsonl"),
    ],
)
def test_a_link_leads_no_daemon_to_write_elsewhere(
    write: Callable[[Path], None], name: str, link: str, tmp_path: Path
) -> None:
    target = tmp_path / "target"
    target.write_text("as it was")
    (tmp_path / link).symlink_to(target)
    write(tmp_path / name)
    assert target.read_text() == "as it was"
    assert not (tmp_path / name).is_symlink()


def test_a_link_leads_no_recorder_elsewhere(tmp_path: Path) -> None:
    target, folder = tmp_path / "target", tmp_path / "log"
    target.write_text("as it was")
    folder.mkdir(0o700)
    for name in ("_live-000001-000000000000000.arrows", "._log.json.new"):
        (folder / name).symlink_to(target)
    record(folder)
    assert target.read_text() == "as it was"


# ---- as another user ----

READ_ALL = """
for path in pathlib.Path(sys.argv[1]).rglob("*"):
    try:
        print(path, len(path.read_bytes()))
    except OSError:
        pass
"""


def test_nobody_reads_what_root_records() -> None:
    if not can_be_nobody():
        return
    with open_folder() as folder:
        os.umask(0o022)
        (folder / "old").mkdir()  # the folder existed before, open to others
        for name in ("new", "old"):
            record(folder / name)
            assert as_nobody(READ_ALL, folder / name) == ""
