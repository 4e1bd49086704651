"""Contexts: what they name, where they count, and where they do not."""

import json
from pathlib import Path

import pytest

from groupcomm_tools.cli import main
from groupcomm_tools.running_cluster import RunningCluster


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    for name in ("GROUPCOMM_ADDRESS", "GROUPCOMM_CONTEXT"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


def listed(capsys: pytest.CaptureFixture[str]) -> dict[str, object]:
    capsys.readouterr()
    assert main(["context", "list", "--json"]) == 0
    found: dict[str, object] = json.loads(capsys.readouterr().out)
    return found


def test_the_first_is_in_use_until_another_one_is(
    home: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (home / "ca.pem").write_text("")
    monkeypatch.chdir(home)
    assert main(["context", "add", "plant", "--address", "tls://alfa:4804", "--ca", "ca.pem"]) == 0
    assert main(["context", "add", "here", "--address", "/run/x.sock"]) == 0
    nothing = {"certificate": None, "key": None, "token_file": None}
    assert listed(capsys) == {
        "used": "plant",
        "contexts": {
            "here": {"address": "/run/x.sock", "ca": None, **nothing},
            "plant": {"address": "tls://alfa:4804", "ca": str(home / "ca.pem"), **nothing},
        },
    }
    assert main(["context", "use", "here"]) == 0
    assert main(["context", "list"]) == 0
    assert capsys.readouterr().out == "* here: /run/x.sock\n  plant: tls://alfa:4804\n"
    assert main(["context", "remove", "here"]) == 0
    assert listed(capsys)["used"] is None


def test_it_counts_where_nothing_else_says_where(
    home: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (home / "token").write_text("secret of a")
    with RunningCluster("ab") as cluster:
        files = ["--token-file", str(home / "token")]
        assert main(["context", "add", "a", "--address", cluster.address("a")]) == 0
        assert main(["context", "add", "b", "--address", cluster.address("b")]) == 0
        capsys.readouterr()

        def asked(*words: str) -> str:
            assert main(["status", "--json", *words]) == 0
            name: str = json.loads(capsys.readouterr().out)["daemon"]
            return name

        assert asked() == "a"
        assert asked("--address", cluster.address("b")) == "b"
        monkeypatch.setenv("GROUPCOMM_CONTEXT", "b")
        assert asked() == "b"
        monkeypatch.setenv("GROUPCOMM_ADDRESS", cluster.address("a"))
        assert asked() == "a"
        # A token of one cluster is not shown to another one, whose address is given.
        monkeypatch.delenv("GROUPCOMM_ADDRESS")
        assert main(["context", "add", "b", "--address", "127.0.0.1:1", *files]) == 0
        assert asked("--address", cluster.address("a")) == "a"


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["context", "use", "plant"], "use 'plant', which is no context; there is none"),
        (["context", "remove", "plant"], "remove 'plant', which is no context"),
        (["context", "add", "plant", "--address", "a:b:c"], "a:b:c"),
        (["status"], "$GROUPCOMM_CONTEXT is 'other', which is no context; there are here"),
    ],
)
def test_mistakes_are_one_sentence(
    words: list[str],
    why: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if words == ["status"]:
        assert main(["context", "add", "here", "--address", "/run/x.sock"]) == 0
        monkeypatch.setenv("GROUPCOMM_CONTEXT", "other")
    assert main(words) == 2
    found = capsys.readouterr().err
    assert why in found
    assert "Traceback" not in found


@pytest.mark.parametrize(
    "text", ["{", '{"known": 7}', '{"known": {}, "more": 1}', '{"used": "x"}', "\xff"]
)
def test_a_damaged_file_is_named(home: Path, text: str, capsys: pytest.CaptureFixture[str]) -> None:
    path = home / "groupcomm" / "contexts.json"
    path.parent.mkdir()
    path.write_bytes(text.encode("latin-1"))
    assert main(["context", "list"]) == 2
    assert str(path) in capsys.readouterr().err
