"""The errors of `groupcomm` about wrong usage, for all its verbs, without a daemon."""

import argparse
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import groupcommd.cli
from groupcomm.host.parser import Parser
from groupcomm_log.writer import LogWriter
from groupcomm_tools.cli import COMMANDS, make_parser
from tests.groupcomm_tools.shell import PATIENCE_S, tell

NO_DAEMON = {"GROUPCOMM_ADDRESS": "/nowhere/groupcomm.sock"}
PARSER = make_parser()


def parsers(parser: argparse.ArgumentParser = PARSER) -> Iterator[argparse.ArgumentParser]:
    """Every verb, and every verb of a verb."""
    yield parser
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for each in action.choices.values():
                yield from parsers(each)


# ---- options ----


@pytest.mark.parametrize(
    "words",
    [
        ("pub", "g", "--level", "safe", "FILE"),
        ("pub", "--level", "SAFE", "g", "FILE"),
        ("pub", "g", "FILE", "--level", "Safe"),
    ],
)
def test_options_may_stand_between_other_words(words: tuple[str, ...]) -> None:
    own = str(Path(__file__))
    options = make_parser(["pub"]).parse_args([own if word == "FILE" else word for word in words])
    assert (options.group, str(options.file), options.level) == ("g", own, "safe")


def test_so_they_may_in_subcommands_and_for_many_words() -> None:
    parser = make_parser(["identity", "sub", "certs"])
    found = parser.parse_args(["identity", "add", "ids", "--json", "press", "--user", "u", "00"])
    assert (str(found.file), found.name, found.public) == ("ids", "press", "00")
    found = parser.parse_args(["sub", "a", "--json", "b", "--count", "3", "c"])
    assert (found.groups, found.json, found.count) == (["a", "b", "c"], True, 3)
    found = parser.parse_args(["certs", "issue", "pki", "--host", "h", "press", "--days", "3"])
    assert (str(found.folder), found.name, found.host, found.days) == ("pki", "press", ["h"], 3)


def test_the_beginning_of_an_option_is_not_taken_for_it(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(SystemExit):
        make_parser(["status"]).parse_args(["status", "--to", "plant"])  # and not --token-file
    assert "there is no option --to" in capsys.readouterr().err


def test_words_after_two_dashes_are_no_options() -> None:
    found = make_parser(["sub"]).parse_args(["sub", "--json", "a", "--", "--views", "-x"])
    assert (found.groups, found.json, found.views) == (["a", "--views", "-x"], True, False)


def test_debug_may_stand_before_the_command() -> None:
    assert make_parser(["sub"]).parse_args(["--debug", "sub", "a"]).debug
    assert make_parser(["sub"]).parse_args(["sub", "a", "--debug"]).debug
    assert not make_parser(["sub"]).parse_args(["sub", "a"]).debug


def test_required_options_and_words_are_missed() -> None:
    assert "required: GROUP" in tell("pub", "--json")[2]
    assert "required: --store" in tell("record", "g")[2]
    assert "not allowed with" in tell("bench", "--tcp", "--tls")[2]


# ---- every wrong use is told in one line, with status 2 ----

WRONG = (
    (("statsu",), "groupcomm: argument COMMAND: there is no 'statsu'; did you mean status?"),
    (("keys", "ad"), "there is no 'ad'; did you mean add?"),
    (("sub", "g", "--veiws"), "groupcomm sub: there is no option --veiws; did you mean --views?"),
    (("status", "now"), "groupcomm status: there is no place for 'now'"),
    (("pub", "g", "--level", "saef"), "there is no 'saef'; did you mean safe?"),
    (("pub", "g", "--level", "best"), "it must be one of unreliable, reliable, fifo, causal"),
    (
        ("pub", "g", "hi all"),
        "hi all: No such file or directory; to send a text, write --text 'hi all'",
    ),
    (("pub", "g", "/dev/null", "--text", "hi"), "--text stands in place of a file"),
    (("daemon", "--port", "70000"), "argument --port: it is 70000, and must be at most 65535"),
    (("daemon", "--port", "-1"), "argument --port: it is -1, and must be at least 0"),
    (("daemon", "--config", "/nowhere.toml"), "argument --config: /nowhere.toml: No such file"),
    (("daemon", "--config", "/tmp"), "argument --config: /tmp is a folder; name a file"),
    (("sub", "g", "--duration-s", "-1"), "argument --duration-s: it is -1, and must be above 0"),
    (("sub", "g", "--duration-s", "nan"), "argument --duration-s: it is nan, and must be finite"),
    (("sub", "g", "--duration-s", "1e999"), "and must be finite"),
    (("sub", "g", "--count", "0"), "argument --count: it is 0, and must be at least 1"),
    (("sub", "g", "--count", "many"), "argument --count: 'many' is no whole number"),
    (("top", "--interval-s", "nan"), "argument --interval-s: it is nan, and must be finite"),
    (("latency", "--rate", "inf"), "argument --rate: it is inf, and must be finite"),
    (("latency", "--size", "99999999999"), "argument --size: it is 99999999999, and must be"),
    (("bench", "--rate", "nan"), "argument --rate: it is nan, and must be finite"),
    (("bench", "--duration-s", "-1"), "argument --duration-s: it is -1, and must be above 0"),
    (("relay", "--loss", "2"), "argument --loss: it is 2, and must be at most 1"),
    (("replay", "/nowhere"), "argument DIR: /nowhere: No such file"),
    (("log", "check", "/nowhere"), "argument DIR: /nowhere: No such file"),
    (("check", "/nowhere"), "argument TRACE: /nowhere: No such file"),
    (("view", "/nowhere"), "argument TRACE: /nowhere: No such file"),
    (("keys", "add", "/nowhere"), "argument FILE: /nowhere: No such file"),
    (("status", "--ca", "/nowhere"), "argument --ca: /nowhere: No such file"),
    (("spark", "report", "/nowhere"), "argument DIR: /nowhere: No such file"),
    (("members", ""), "group name is empty"),
    (("members", "x" * 300), "group name of 300 bytes is too long"),
    (("members", "g", "--address", "http://h"), "'http://h' is not an address"),
    (("status", "--address", "localhost:99999"), "'localhost:99999' is not an address"),
    (("bench", "--address", "http://h"), "'http://h' is not an address"),
    (("doctor", "--other", "http://h"), "'http://h' is not an address"),
    (
        ("certs", "issue", "pki"),
        "groupcomm certs issue: the following arguments are required: NAME",
    ),
    (("certs", "revoke", "pki"), "give DIR and one of NAME, --serial and --principal"),
    (("tokens", "add", "file", "name", "--days", "0"), "--days: it is 0, and must be above 0"),
)


@pytest.mark.parametrize(
    ("words", "said"), WRONG, ids=lambda each: "" if isinstance(each, str) else " ".join(each)[:40]
)
def test_wrong_usage_is_reported_in_a_line(words: tuple[str, ...], said: str) -> None:
    status, output, messages = tell(*words, environment=NO_DAEMON)
    assert (status, output) == (2, "")
    assert said in messages
    assert len(messages.splitlines()) == 1
    assert "argparse" not in messages
    assert "internal error" not in messages


def test_an_address_of_the_environment_is_checked_too() -> None:
    status, _, messages = tell("status", environment={"GROUPCOMM_ADDRESS": "http://h"})
    assert (status, "'http://h' is not an address" in messages) == (2, True)


# ---- exit statuses ----

WORDS = {
    "pub": ("g",),
    "sub": ("g",),
    "chat": ("g",),
    "request": ("g", "text"),
    "serve": ("g", "cat"),
    "work": ("g", "--name", "n", "cat"),
    "members": ("g",),
    "bench": ("--address", "/nowhere/groupcomm.sock"),
    "keys": ("status",),
    "daemons": ("list",),
    "links": ("list",),
    "record": ("g", "--store", "FOLDER"),
    "history": ("serve", "g", "--store", "FOLDER"),
    "replay": ("EMPTY",),
}
"""The arguments with which a verb comes as far as to its daemon."""


@pytest.mark.parametrize("verb", [name for name, each in COMMANDS.items() if each.connects])
def test_a_command_without_its_daemon_ends_with_3(verb: str, tmp_path: Path) -> None:
    kinds = {"FOLDER": str(tmp_path / "log"), "EMPTY": str(tmp_path)}
    words = [kinds.get(word, word) for word in WORDS.get(verb, ())]
    if verb == "replay":
        LogWriter(tmp_path).close()
    status, output, messages = tell(verb, *words, environment=NO_DAEMON)
    assert (status, output) == (3, ""), messages
    assert "cannot connect to /nowhere/groupcomm.sock: No such file or directory" in messages
    assert "try: groupcomm daemon" in messages
    assert not (tmp_path / "log").exists(), "nothing is left"


@pytest.mark.parametrize("verb", COMMANDS)
def test_no_command_knows_an_option_that_is_none(verb: str) -> None:
    status, output, messages = tell(verb, "--nonsense")
    assert (status, output, len(messages.splitlines())) == (2, "", 1)


def test_the_exit_statuses_stand_in_the_help_of_each_command() -> None:
    for name, parser in PARSER.commands.choices.items():
        told = " ".join(parser.format_help().split())
        assert f"exit status: 0 done; 1 {COMMANDS[name].fails}; 2 wrong usage" in told
        assert ("; 3 cannot connect" in told) == COMMANDS[name].connects


# ---- help ----


def test_examples_can_be_pasted_from_80_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    for parser in parsers():
        _, marked, example = parser.format_help().partition("\nexample:\n")
        assert marked, parser.prog
        lines = example.rstrip("\n").split("\n")
        assert all(line.startswith("  ") and len(line) <= 80 for line in lines), example
        assert "groupcomm" in lines[0]


def examples() -> Iterator[list[str]]:
    """Return the words of each example, without the part before a pipe."""
    for parser in parsers():
        _, _, example = parser.format_help().partition("\nexample:\n")
        for line in example.replace("\\\n", " ").splitlines():
            words = line.partition("| ")[2] or line
            yield [word.strip("'") for word in words.split()]


def test_examples_have_only_options_that_there_are() -> None:
    known = {option for parser in parsers() for option in parser._option_string_actions}
    for words in examples():
        assert words[0] == "groupcomm"
        assert known.issuperset(word for word in words if word.startswith("--") and word != "--")


def test_all_parsers_are_of_the_kind_that_takes_options_everywhere() -> None:
    assert all(isinstance(parser, Parser) for parser in parsers())


def test_the_version_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    assert re.fullmatch(r"groupcomm \d+\.\d+\.\d+\n", tell("--version")[1])
    with pytest.raises(SystemExit) as end:
        groupcommd.cli.main(["--version"])
    assert end.value.code == 0
    assert re.fullmatch(r"groupcommd \d+\.\d+\.\d+\n", capsys.readouterr().out)


# ---- standard streams ----


def in_shell(command: str) -> tuple[int, str, str]:
    """Run a line of bash in which `groupcomm` is this one."""
    own = f'groupcomm() {{ {sys.executable} -m groupcomm_tools.cli "$@"; }}; set -o pipefail; '
    done = subprocess.run(
        ["bash", "-c", own + command],
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE_S,
        env={**os.environ, **NO_DAEMON},
    )
    return done.returncode, done.stdout, done.stderr


def test_closed_streams_are_no_internal_errors() -> None:
    missing = "groupcomm: there is no standard input; redirect one, such as </dev/null\n"
    assert in_shell("groupcomm pub g <&-") == (2, "", missing)
    assert in_shell("groupcomm --version >&-")[0] == 0
    assert in_shell("groupcomm story 2>&- | tail -1")[:2] == (
        0,
        "All 5 members saw one agreed order.\n",
    )


def test_a_demo_whose_reader_ends_says_that_it_was_stopped() -> None:
    status, output, messages = in_shell("groupcomm demo | head -1")
    assert (status, len(output.splitlines())) == (1, 1)
    assert messages == (
        "groupcomm: the demo was stopped, as the reader of its output has ended; read all of it\n"
    )


def test_options_have_their_old_names_for_a_release(capsys: pytest.CaptureFixture[str]) -> None:
    parse = make_parser().parse_args
    for old, new, said in (
        ("bench --connect /s --mbit=5", "bench --address /s --bandwidth-mbit=5", "--mbit is "),
        ("record g --to d", "record g --store d", "record: --to is --store now; the next release"),
        ("history serve --groups a,b --store d", "history serve a b --store d", "is left out now"),
        ("history export --groups=a", "history export a", "--groups is left out now"),
        ("spark channel docs --out m", "spark channel docs --output m", "--out is --output now"),
        ("spread import pyproject.toml --to x", "spread import pyproject.toml -o x", "--output"),
    ):
        expected = vars(parse(new.split()))
        assert capsys.readouterr().err == ""
        found = vars(parse(old.split()))
        for each in (found, expected):
            each["groups"] = ",".join(",".join(names) for names in each.get("groups", ()))
        assert found == expected
        assert said in capsys.readouterr().err
