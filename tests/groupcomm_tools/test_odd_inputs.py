"""Small inputs that people give: each is used, or refused in a line that says what to do."""

import io
import math
import os
import pwd
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import msgspec
import pytest

from groupcomm.config.roster import Roster, RosterEntry
from groupcomm.errors import BadDatagram, ConfigError
from groupcomm.host import addresses
from groupcomm.host.addresses import parse_daemon_address
from groupcomm.host.key_file import read_key_file, write_key_file
from groupcomm.joining.messages import Package, decode_package_untrusted, encode_package
from groupcomm.security.access import Access
from groupcomm_client import ConnectOptions, blocking
from groupcomm_client.spread_api import SP_connect, SpreadError
from groupcomm_client.spread_api.constants import COULD_NOT_CONNECT, ILLEGAL_SPREAD
from groupcomm_tools.commands.simulate_plan import read_plan
from groupcomm_tools.running_cluster import RunningCluster
from groupcomm_tools.terminal import visible_output
from groupcommd import cli
from groupcommd.config.config_file import read_config
from groupcommd.files.identity_file import read_roll
from groupcommd.operators.status import _readers
from groupcommd.programs.revocation_file import read_revocations
from groupcommd.programs.token_file import read_tokens
from tests.groupcomm_tools.shell import tell

DEEP = "x = " + "[" * 3000 + "]" * 3000


def check(folder: Path, text: str | bytes, *options: str, capsys: Any) -> tuple[int, str]:
    """Check a configuration as a user does; return the status and the messages."""
    path = folder / "plant.toml"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    status = cli.main(["--check", "--config", str(path), "--state-dir", str(folder), *options])
    return status, capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (DEEP, "not valid TOML: its tables or lists are nested too deep"),
        ('name = "ä"'.encode("utf-16"), "not valid UTF-8: .*; save it as UTF-8"),
        ("[clients]\nunx = 'a'", r"clients: unx is no key \(is unix meant\?\); there are: .*tls"),
        ("clustr = 'x'", r"the file: clustr is no key \(is cluster meant\?\); there are: "),
        ("xyz = 1", "the file: xyz is no key; there are: access, "),
        ("clients = 5", "clients: it must be a table"),
        ("access = [5]", "access.*: it must be a table"),
        ("[clients.tls]\nkey = 'k'", "clients.tls.certificate: this key is missing"),
        ("disk_timeout_s = inf", "disk_timeout_s: is inf; it must be a finite number"),
        ("drain_s = nan", "drain_s: is nan; it must be a finite number"),
        ("[timing]\ntoken_timeout_s = inf", "token_timeout_s.*: is inf; it must be a finite"),
        ("[clients]\nsession_timeout_s = inf", "session_timeout_s: is inf; it must be a finite"),
        ("[sites.a.daemons]\na = '10.0.0.1'\nb = '10.0.0.2'\n[links.a-a]\ndelay_ms = inf", "inf"),
        (
            "key_file = 'none'",
            "key_file .*/none: No such file or directory: copy it .* keygen",
        ),
    ],
)
def test_a_configuration_is_refused_in_words(
    text: str | bytes, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if isinstance(text, str) and "name" not in text:
        text = f"name = 'a'\n{text}"
    status, told = check(tmp_path, text, capsys=capsys)
    (line,) = told.splitlines()
    assert status == cli.USAGE
    assert_matches(said, line)
    assert not any(word in line for word in ("cattrs", "extra fields", "Errno", "required field"))


def assert_matches(said: str, line: str) -> None:
    with pytest.raises(ConfigError, match=said):
        raise ConfigError(line)


def test_a_byte_order_mark_is_read_over_in_every_file(tmp_path: Path) -> None:
    (tmp_path / "plant.toml").write_bytes(b'\xef\xbb\xbfname = "a"\r\n')
    assert read_config(tmp_path / "plant.toml", name=None, state_dir=tmp_path).name == "a"
    key = tmp_path / "key"
    write_key_file(key)
    keys = read_key_file(key)
    key.write_bytes(b"\xef\xbb\xbf" + key.read_bytes())
    assert read_key_file(key) == keys


@pytest.mark.parametrize(
    "read", [read_key_file, read_tokens, read_roll, read_revocations, read_plan]
)
def test_a_file_that_is_nested_too_deep_is_refused(read: Any, tmp_path: Path) -> None:
    path = tmp_path / "deep"
    path.write_text(DEEP)
    path.chmod(0o600)
    with pytest.raises(ConfigError, match="deep"):
        read(path)


def test_a_question_that_is_nested_too_deep_is_refused() -> None:
    assert "error" in _readers(Access(), "[" * 100_000, "unix:ann")


@pytest.mark.parametrize("unix", [".", "..", "/", "", "x/.."])
def test_a_socket_needs_a_name(
    unix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    tmp_path.chmod(0o700)
    status = cli.main(["--unix", unix, "--state-dir", str(tmp_path / "s"), "--port", "0"])
    assert status == cli.USAGE
    assert "a folder: name the socket in it, as in ./x.sock" in capsys.readouterr().err


# ---- without a home ----


UNKNOWN: Final = 4242
"""The number of a user without a name."""


@pytest.fixture
def homeless(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A user whom the system does not know, as in a container, on a host without a daemon."""
    monkeypatch.setattr(addresses, "SYSTEM_FOLDER", tmp_path / "run")

    known = pwd.getpwuid

    def all_but_one(uid: int) -> pwd.struct_passwd:
        if uid == UNKNOWN:
            raise KeyError
        return known(uid)

    for name in ("HOME", "XDG_STATE_HOME", "XDG_CONFIG_HOME", "XDG_RUNTIME_DIR", "STATE_DIRECTORY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(pwd, "getpwuid", all_but_one)
    for name in ("getuid", "geteuid"):
        monkeypatch.setattr(os, name, lambda: UNKNOWN)


@pytest.mark.usefixtures("homeless")
def test_who_gives_all_paths_needs_no_home(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = "insecure = true\nname = 'a'"
    assert check(tmp_path, text, "--unix", f"{tmp_path}/a.sock", capsys=capsys)[0] == 0
    assert check(tmp_path, text, capsys=capsys)[0] == 0, "another folder is there for sockets"
    status, _, told = tell("status")
    assert (status, f"cannot connect to /run/user/{UNKNOWN}/groupcomm" in told) == (3, True), told


@pytest.mark.usefixtures("homeless")
def test_contexts_need_a_home_to_be_kept_and_none_to_be_read() -> None:
    assert tell("context", "list")[:2] == (0, "")
    status, _, told = tell("context", "add", "x", "--address", "/x.sock")
    assert (status, "the home folder is not known: set HOME" in told) == (2, True), told


@pytest.mark.usefixtures("homeless")
def test_who_does_not_is_told_what_to_give(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    status, told = check(tmp_path, "key_file = '~/key'\nname = 'a'", capsys=capsys)
    assert (status, "~/key: the home folder is not known: set HOME" in told) == (cli.USAGE, True)
    assert cli.main(["--check"]) == cli.USAGE
    assert "the home folder is not known" in capsys.readouterr().err
    assert tell("status", "--address", "~/x.sock")[0] == 2


# ---- encodings, addresses, times ----


def test_what_an_encoding_does_not_have_is_written_with_escapes() -> None:
    raw = io.BytesIO()
    kept = sys.stdout
    sys.stdout = io.TextIOWrapper(raw, encoding="ascii")
    try:
        with visible_output():
            print("größe \U0001f40c")
    finally:
        sys.stdout.flush()
        sys.stdout.detach()
        sys.stdout = kept
    assert raw.getvalue() == b"gr\\xf6\\xdfe \\U0001f40c\n"


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with RunningCluster(1) as cluster:
        yield cluster.address("a")


def test_sub_goes_on_where_a_message_cannot_be_written_as_it_is(address: str) -> None:
    command = [sys.executable, "-m", "groupcomm_tools.cli", "sub", "g", "--address", address]
    environment = {**os.environ, "PYTHONIOENCODING": "ascii"}
    with subprocess.Popen(
        [*command, "--count", "1"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment
    ) as sub:
        with blocking.connect(address) as program:
            program.join("g")
            while len(getattr(program.receive(), "members", ())) < 2:
                pass
            program.multicast("g", "größe".encode())
        output, told = sub.communicate(timeout=20)
    assert (sub.returncode, "internal error" in told.decode()) == (0, False), told
    assert rb"gr\xf6\xdfe" in output


@pytest.mark.parametrize("text", ["foo.sock", "./foo.sock", "x-1.sock"])
def test_a_name_of_a_socket_is_a_path(text: str) -> None:
    assert parse_daemon_address(text).path == Path(text)


@pytest.mark.parametrize("text", [".", "..", "a..b", "a..:5", "tls://."])
def test_dots_alone_name_no_host(text: str) -> None:
    with pytest.raises(ConfigError, match="is not an address"):
        parse_daemon_address(text)


@pytest.mark.parametrize(
    ("name", "code"),
    [
        *((name, ILLEGAL_SPREAD) for name in ("99999", "0", "-1", "٣", "4803@", "4803@a b", "x@y")),
        *((name, ILLEGAL_SPREAD) for name in ("1" * 5000, "4803@[", "tls://x:0", "4803@..")),
        ("./nowhere", COULD_NOT_CONNECT),
    ],
)
def test_a_wrong_name_of_a_daemon_has_its_code(name: str, code: int) -> None:
    with pytest.raises(SpreadError) as caught:
        SP_connect(name, "u")
    assert caught.value.code == code


@pytest.mark.parametrize("value", [math.nan, -1.0, -math.inf])
@pytest.mark.parametrize("key", ["timeout_s", "daemon_timeout_s"])
def test_a_time_that_is_none_is_refused_at_the_call(key: str, value: float) -> None:
    options: dict[str, Any] = {key: value}
    with pytest.raises(ConfigError, match=f"{key} is {value}; it must be a number of at least 0"):
        ConnectOptions(**options)


@pytest.mark.parametrize("value", [math.inf, 1e300])
def test_a_time_without_an_end_is_one(address: str, value: float) -> None:
    with blocking.connect(address, options=ConnectOptions(timeout_s=value)) as program:
        program.join("g")
        assert program.receive(timeout_s=value) is not None


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, -1.0])
def test_a_package_has_no_time_that_is_none(value: float) -> None:
    entry = RosterEntry(name="a", site="main", addresses=("10.0.0.1:1",))
    package = Package(
        cluster="plant",
        roster=Roster(entries=(entry,), number=1),
        timing={"token_timeout_s": 0.5},
        packet_bytes=1340,
        suite=0,
        keys=None,
    )
    data = encode_package(package)
    assert decode_package_untrusted(data).timing == {"token_timeout_s": 0.5}
    fields = msgspec.msgpack.decode(data)
    fields[2] = {"token_timeout_s": value}
    with pytest.raises(BadDatagram, match="a time is no finite number"):
        decode_package_untrusted(msgspec.msgpack.encode(fields))
