"""`groupcomm doctor`: each problem really happens, and is found with its remedy."""

import json
import os
import socket
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
import trio

from groupcomm.host.key_file import write_key_file
from groupcomm_tools.commands.doctor import examine
from groupcomm_tools.doctor.daemon_checks import ask_daemon
from groupcomm_tools.doctor.host_checks import check_buffers, check_clock
from groupcomm_tools.local_cluster import LocalCluster, LocalDaemon, free_ports
from groupcomm_tools.running_cluster import RunningCluster
from groupcommd.config.config_file import read_addresses
from groupcommd.network.udp import BUFFER_BYTES
from groupcommd.operators.assessment import check_datagrams
from groupcommd.operators.findings import Finding, Grade
from tests.groupcomm_tools.shell import Shell

OK, WARNING, PROBLEM, _ = Grade


@pytest.fixture(scope="module")
def cluster() -> Iterator[RunningCluster]:
    with RunningCluster("ab") as running:
        yield running


def look(
    path: Path | None, name: str = "a", address: str | None = None, *others: str
) -> dict[str, Finding]:
    """Return the findings, by check; of several findings of one check the worst."""
    worst: dict[str, Finding] = {}
    for found in examine(path, name, address, list(others)):
        before = worst.get(found.check)
        if before is None or list(Grade).index(found.grade) > list(Grade).index(before.grade):
            worst[found.check] = found
        assert bool(found.remedy) == (found.grade in (WARNING, PROBLEM)), found
    return worst


def says(finding: Finding, grade: Grade, text: str, remedy: str = "") -> None:
    assert (finding.grade, text in finding.text, remedy in finding.remedy) == (grade, True, True), (
        finding
    )


# ---- a host ----


def alone(folder: Path, address: str, more: str = "") -> Path:
    """The configuration of a daemon `a` whose files are all in a folder."""
    path = folder / "a.toml"
    path.write_text(
        f'state_dir = "state"\n{more}\n[sites.hall.daemons]\na = "{address}"\n'
        f'[clients]\nunix = "{folder}/run/a.sock"\ntcp = "off"\n'
    )
    return path


@pytest.fixture
def own() -> str:
    """An address of this host that is free."""
    return f"127.0.0.1:{free_ports('127.0.0.1', 1)[0]}"


def test_a_host_that_is_ready_lacks_nothing_but_its_daemon(
    tmp_path: Path, own: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STATE_DIRECTORY", str(tmp_path / "state"))
    found = look(alone(tmp_path, own))
    says(found["configuration"], OK, "daemon a of a")
    says(found["key file"], OK, "first daemon of this host that starts makes one")
    says(found["address"], OK, f"UDP {own} is free")
    says(found["socket folder"], OK, "made by the daemon")
    says(found["state folder"], OK, "made by the daemon")
    says(found["daemon"], PROBLEM, "No such file", "groupcomm daemon --config")


def test_the_socket_is_that_of_the_file_wherever_the_file_is(
    tmp_path: Path, own: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A path without a slash was taken for a host."""
    monkeypatch.chdir(tmp_path)
    path = alone(tmp_path, own)
    path.write_text(path.read_text().replace(f'"{tmp_path}/run/a.sock"', '"{name}.sock"'))
    found = look(Path(path.name))["daemon"]
    says(found, PROBLEM, f"cannot connect to {tmp_path}/a.sock: No such file", "pass --address")


@pytest.mark.parametrize(
    ("more", "said"),
    [("nonsense = 1", "nonsense"), ("cluster =", "not valid TOML"), ("preset = 'x'", "preset")],
)
def test_a_configuration_that_is_wrong(tmp_path: Path, own: str, more: str, said: str) -> None:
    found = look(alone(tmp_path, own, more))
    says(found["configuration"], PROBLEM, said, "correct that line")
    assert "daemon" not in found


def test_a_file_or_a_name_that_is_not_there(tmp_path: Path, own: str) -> None:
    says(look(tmp_path / "no")["configuration"], PROBLEM, "No such file", "--config")
    found = look(alone(tmp_path, own), "oven")
    says(found["configuration"], PROBLEM, "name is 'oven'")


def test_a_port_that_somebody_else_has(tmp_path: Path) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
        found = look(alone(tmp_path, f"127.0.0.1:{port}"))
    says(found["address"], PROBLEM, "is in use", f"grep {port}")


def test_an_address_of_another_host_and_no_key(tmp_path: Path) -> None:
    found = look(alone(tmp_path, "192.0.2.1:4803", "insecure = true"))
    says(found["address"], PROBLEM, "not an address of this host", "ip addr")
    says(found["key file"], WARNING, "can join", "keygen")


def test_key_files(tmp_path: Path, own: str) -> None:
    path, key = alone(tmp_path, own, 'key_file = "the.key"'), tmp_path / "the.key"
    says(look(path)["key file"], PROBLEM, "No such file", "keygen")
    write_key_file(key)
    first = look(path)["key file"]
    says(first, OK, "fingerprint")
    key.chmod(0o644)
    says(look(path)["configuration"], PROBLEM, f"chmod 600 {key}")
    key.unlink()
    write_key_file(key)
    assert look(path)["key file"].text != first.text


def test_folders_that_others_can_write_to_or_that_are_none(tmp_path: Path, own: str) -> None:
    path = alone(tmp_path, own)
    (tmp_path / "run").mkdir()
    (tmp_path / "run").chmod(0o770)
    (tmp_path / "state").write_text("a file")
    found = look(path)
    says(found["socket folder"], PROBLEM, "others may write", "chmod go-w")
    says(found["state folder"], PROBLEM, "cannot write", "state_dir")
    (tmp_path / "run").chmod(0o700)
    says(look(path)["socket folder"], OK, "mode 700")


def test_buffers_that_are_smaller_than_wanted() -> None:
    most = int(Path("/proc/sys/net/core/rmem_max").read_text())
    says(
        check_buffers(2 * most), WARNING, f"{2 * most} are wanted", f"net.core.rmem_max={2 * most}"
    )
    says(check_buffers(most // 2), OK, f"{most // 2} are wanted")
    assert check_buffers().grade is (OK if most >= BUFFER_BYTES else WARNING)


def test_a_clock_that_was_never_set_or_is_set_meanwhile() -> None:
    says(check_clock(lambda: 1000.0), PROBLEM, "1970-01-01 00:16:40", "chrony")
    offset_s = 0.0

    def wall() -> float:
        return 2e9 + time.monotonic() + offset_s

    def set_it(seconds: float) -> None:
        nonlocal offset_s
        offset_s = 3.0

    says(check_clock(wall, set_it), WARNING, "set by +3.000 s", "chrony")
    says(check_clock(), OK, "steady")


# ---- daemons ----


def test_a_cluster_that_is_well(cluster: RunningCluster, tmp_path: Path) -> None:
    shell = Shell(cluster.address("a"))
    # Where no daemon of another test listens or keeps its state.
    shell.environment |= dict.fromkeys(("XDG_RUNTIME_DIR", "STATE_DIRECTORY"), str(tmp_path))
    words = ("doctor", "--config", str(cluster.config), "--name", "a")
    where = ("--address", cluster.address("a"), "--other", cluster.address("b"))
    status, output, messages = shell.tell(*words, *where, "--json")
    found = json.loads(output)
    assert (status, messages, found["problem"]) == (0, "", 0), output
    checks = {each["check"]: each["text"] for each in found["findings"]}
    assert checks["view"] == "all are in it: a, b"
    assert checks["address"].endswith("is used by the daemon")
    assert checks["same everywhere"] == "a and b have one configuration"
    status, output, _ = shell.run("doctor")  # the daemon of $GROUPCOMM_ADDRESS
    assert (status, "view: all are in it: a, b" in output) == (0, True), output
    status, output, _ = shell.tell(*words)  # no daemon listens at the socket of the file
    assert status == 1
    assert "PROBLEM daemon: cannot connect" in output, output
    assert "\n        -> start it: groupcomm daemon --config" in output
    assert "PROBLEM address: UDP" in output, "it is a's, which cannot be known"
    assert "\nskipped the rest: view, files, " in output
    assert output.splitlines()[-1].endswith("problems: 2, skipped: 1")


def test_a_daemon_that_is_missing(cluster: RunningCluster) -> None:
    address = cluster.address("a")
    cluster.kill("b")
    cluster.settle("a")
    found = look(cluster.config, "a", address)
    says(found["view"], PROBLEM, "of a; b was heard", "start the missing")
    cluster.start("b")
    cluster.settle()
    says(look(cluster.config, "a", address)["view"], OK, "a, b")
    cluster.leave("b")
    cluster.settle("a")
    says(look(cluster.config, "a", address)["view"], PROBLEM, "b has left in order")
    cluster.start("b")
    cluster.settle()


def test_the_wrong_daemon_and_one_that_stands_still(cluster: RunningCluster) -> None:
    found = look(cluster.config, "a", cluster.address("b"))
    says(found["daemon"], PROBLEM, "is daemon b", "--address")
    cluster.pause("a")
    found = look(cluster.config, "a", cluster.address("a"))
    cluster.resume("a")
    says(found["daemon"], PROBLEM, "did not admit", "log")
    says(found["address"], OK, "probably by the daemon that admits nobody")
    cluster.settle()


def test_a_file_that_was_changed_since_the_start(tmp_path: Path) -> None:
    with RunningCluster(1) as running:
        changed = tmp_path / "changed.toml"
        text = running.config.read_text()
        changed.write_text("packet_bytes = 9000\n" + text + "block_s = 1\n")
        found = look(changed, "a", running.address("a"))
    says(found["same file"], WARNING, "other core.packet_limit, limits.block_s", "restart")


# ---- daemons that were set up in different ways ----


@contextmanager
def unlike(ours: str, theirs: str) -> Iterator[tuple[LocalCluster, LocalDaemon]]:
    """Daemon a with one head of its configuration, and b with another; both run."""
    with closing(LocalCluster("ab", ours)) as cluster:
        other = cluster.folder / "other.toml"
        other.write_text(cluster.config.read_text().replace(ours, theirs, 1))
        b = LocalDaemon(cluster.folder, "b", other, ())
        trio.run(cluster["a"].start)
        trio.run(b.start)
        try:
            yield cluster, b
        finally:
            b.stop()


def test_another_key(tmp_path: Path) -> None:
    heads = []
    for name in ("one.key", "two.key"):
        write_key_file(tmp_path / name)
        heads.append(f'key_file = "{tmp_path / name}"')
    with unlike(*heads) as (cluster, _):
        found = look(cluster.config, "a", str(cluster["a"].unix))
    says(found["datagrams"], PROBLEM, "sealed with another key (tag)", "same key file")
    says(found["view"], PROBLEM, "b was never heard")


def test_a_key_at_one_of_them_only(tmp_path: Path) -> None:
    write_key_file(tmp_path / "one.key")
    with unlike(f'key_file = "{tmp_path / "one.key"}"', "insecure = true") as (cluster, _):
        found = look(cluster.config, "a", str(cluster["a"].unix))
        where = read_addresses(cluster.config)["b"]
        told = [line["text"] for line in cluster["a"].lines() if line.get("reason") == "suite"]
    says(found["datagrams"], PROBLEM, "(suite)", "key_file")
    says(found["datagrams"], PROBLEM, f"from b ({where})")
    assert len(told) == 1
    assert f"datagrams from b ({where})" in told[0]
    assert f"key_file, identity and identities differs there from {cluster.config}" in told[0]


def test_another_cluster_whose_datagrams_come_here_and_end() -> None:
    with unlike('cluster = "one"', 'cluster = "two"') as (cluster, b):
        address = str(cluster["a"].unix)
        says(look(cluster.config, "a", address)["datagrams"], PROBLEM, "(cluster)", "ports")
        b.kill()
        ask_daemon(address)  # the datagrams in flight have arrived
        (past,) = check_datagrams(ask_daemon(address))
    says(past, WARNING, "0 of them in the last", "ports")


def test_configurations_that_disagree() -> None:
    with unlike("expected_daemons = 2", "expected_daemons = 3") as (cluster, b):
        found = look(cluster.config, "a", str(cluster["a"].unix), str(b.unix))
        lost = look(cluster.config, "a", str(cluster["a"].unix), str(b.unix) + ".no")
    says(found["same everywhere"], PROBLEM, "a and b have different core.expected_daemons")
    says(found["files"], PROBLEM, "in expected_daemons (here 2, there 3)", "make the files equal")
    says(found["view"], PROBLEM, "b runs with another file", "see files")
    says(lost["same everywhere"], PROBLEM, "cannot connect")


def test_what_only_should_be_equal_and_is_not() -> None:
    heads = [f"[windows]\nring_bytes = {size}" for size in (2_000_000, 1_000_000)]
    with unlike(*heads) as (cluster, _):
        trio.run(_until_reported, cluster["a"])
        found = look(cluster.config, "a", str(cluster["a"].unix))
    text = "in windows.ring_bytes (here 2000000, there 1000000); these daemons form views together"
    says(found["files"], WARNING, text, "restart the daemons whose files were changed")
    says(found["view"], OK, "a, b")


async def _until_reported(daemon: LocalDaemon) -> None:
    with trio.fail_after(20):
        while not any("differ" in line for line in daemon.lines()):
            await trio.sleep(0.01)


def test_a_wall_clock_that_is_an_hour_ahead(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "sitecustomize.py").write_text(
        "import time\nright = time.time\ntime.time = lambda: right() + 3600\n"
    )
    with closing(LocalCluster("ab")) as cluster:
        trio.run(cluster["a"].start)
        with monkeypatch.context() as patch:
            patch.setenv("PYTHONPATH", f"{tmp_path}:{os.environ.get('PYTHONPATH', '')}")
            trio.run(cluster["b"].start)
        trio.run(cluster.settle, "ab")
        found = look(cluster.config, "b", str(cluster["b"].unix))
    says(found["clocks"], WARNING, "s ahead", "chrony")
