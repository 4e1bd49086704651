"""Tokens and certificates on disk: made, found, revoked, and kept from others."""

import json
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.x509.oid import ExtendedKeyUsageOID

from groupcomm.errors import ConfigError
from groupcomm.host.private_files import folder_fault
from groupcomm_tools import cli
from groupcommd.programs.token_file import TokenBook, add_token, read_tokens, remove_token

NOW = datetime(2027, 1, 1, tzinfo=UTC)


def test_a_token_is_known_until_it_expires_or_is_revoked(tmp_path: Path) -> None:
    path = tmp_path / "tokens"
    ann, bob = add_token(path, "ann"), add_token(path, "bob", NOW + timedelta(days=1))
    book = TokenBook(path)
    assert (book.name_of(ann, NOW), book.name_of(bob, NOW)) == ("ann", "bob")
    assert book.name_of(bob, NOW + timedelta(days=1)) is None
    assert not book.expired(NOW)
    assert book.expired(NOW + timedelta(days=1)) == {"bob"}
    remove_token(path, "ann")
    assert book.name_of(ann, NOW) is None, "the book sees that the file has changed"
    assert (book.knows("ann", NOW), book.knows("bob", NOW)) == (False, True)
    assert book.name_of(add_token(path, "ann"), NOW) == "ann"
    assert book.name_of(ann, NOW) is None, "an old token of a name that is used again"


def test_tokens_that_are_made_at_the_same_time_are_all_kept(tmp_path: Path) -> None:
    path, names = tmp_path / "tokens", [f"n{number}" for number in range(40)]
    with ThreadPoolExecutor(8) as threads:
        list(threads.map(partial(add_token, path), names))
    assert sorted(read_tokens(path)) == sorted(names)


@pytest.mark.parametrize("wrong", ["", ":", "ann", "ann:", "ann:x", "eve:x", ":x", "ann:ü\0"])
def test_what_is_no_token_is_nobodys(tmp_path: Path, wrong: str) -> None:
    add_token(tmp_path / "tokens", "ann")
    assert TokenBook(tmp_path / "tokens").name_of(wrong, NOW) is None


def test_no_token_can_be_read_from_its_file(tmp_path: Path) -> None:
    path = tmp_path / "tokens"
    token = add_token(path, "ann")
    assert path.stat().st_mode & 0o777 == 0o600
    assert token.partition(":")[2] not in path.read_text()
    assert len(token.partition(":")[2]) >= 43, "256 bits"
    one, other = read_tokens(path)["ann"], read_tokens(path)["ann"]
    assert one == other
    assert one.digest.hex() not in repr(one)


def test_a_file_that_others_may_read_lets_nobody_in(tmp_path: Path) -> None:
    path = tmp_path / "tokens"
    token = add_token(path, "ann")
    book = TokenBook(path)
    path.chmod(0o640)
    assert book.name_of(token, NOW) is None
    with pytest.raises(ConfigError, match=r"others may read it \(mode 640"):
        read_tokens(path)


@pytest.mark.parametrize(
    "text",
    ["", "[tokens]\nx = 1", "[tokens.x]\nsalt = 'a'", "\xff", "[tokens.x]\nsalt=1\nsha256=2"],
)
def test_a_file_without_tokens_is_named(tmp_path: Path, text: str) -> None:
    path = tmp_path / "tokens"
    path.write_text(text, encoding="latin-1")
    path.chmod(0o600)
    with pytest.raises(ConfigError, match="the file holds no tokens"):
        read_tokens(path)


def test_the_command_makes_lists_and_removes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = str(tmp_path / "tokens")
    assert cli.main(["tokens", "add", path, "ann", "--days", "2"]) == 0
    shown = capsys.readouterr().out.strip()
    assert TokenBook(Path(path)).name_of(shown, datetime.now(UTC)) == "ann"
    assert cli.main(["tokens", "list", path, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["tokens"]["ann"]["valid"] is True
    assert cli.main(["tokens", "remove", path, "ann"]) == 0
    assert cli.main(["tokens", "remove", path, "ann"]) == 2
    assert "has no token of 'ann'" in capsys.readouterr().err
    assert cli.main(["tokens", "add", path, "a b"]) == 2
    assert cli.main(["tokens", "list", path, "ann"]) == 2


def test_certificates_are_issued_for_hosts_of_daemons_and_for_programs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pki = str(tmp_path / "pki")
    assert cli.main(["certs", "issue", pki, "press"]) == 2
    assert "make an authority first" in capsys.readouterr().err
    assert cli.main(["certs", "init", pki]) == 0
    assert cli.main(["certs", "init", pki]) == 2
    hosts = ("--host", "10.0.0.1", "--host", "press.plant")
    assert cli.main(["certs", "issue", pki, "press", *hosts]) == 0
    assert (tmp_path / "pki" / "press.key").stat().st_mode & 0o777 == 0o600
    assert cli.main(["certs", "issue", pki, "ann"]) == 0
    assert "daemons know as cert:ann" in capsys.readouterr().err
    for name in ("ca", "a b", "a:b", "../b", ""):
        assert cli.main(["certs", "issue", pki, name]) == 2
    found = {}
    for name in ("press", "ann"):
        made = x509.load_pem_x509_certificate((tmp_path / "pki" / f"{name}.pem").read_bytes())
        names = made.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        usage = made.extensions.get_extension_for_class(x509.ExtendedKeyUsage)
        assert usage.critical
        found[name] = [str(each.value) for each in names], list(usage.value)
    assert found == {
        "press": (["10.0.0.1", "press.plant"], [ExtendedKeyUsageOID.SERVER_AUTH]),
        "ann": (["groupcomm:ann"], [ExtendedKeyUsageOID.CLIENT_AUTH]),
    }


@pytest.mark.parametrize(
    ("mode", "opened_for", "said"),
    [
        (0o700, "owner", None),
        (0o740, "owner", None),
        (0o710, "owner", "others may enter"),
        (0o750, "group", None),
        (0o751, "group", "others may enter"),
        (0o755, "all", None),
        (0o775, "all", "others may write"),
        (0o1777, "all", "name a path in a folder of your own"),
    ],
)
def test_socket_folders_keep_others_out(
    tmp_path: Path, mode: int, opened_for: str, said: str | None
) -> None:
    folder = tmp_path / "run"
    folder.mkdir()
    folder.chmod(mode)
    fault = folder_fault(folder, folder.stat(), opened_for)
    assert fault is None if said is None else said in (fault or "")
