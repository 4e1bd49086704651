"""The runner: all campaigns are listed, what is documented can be run, and one form of results."""

import json
import re
import shlex
from argparse import Namespace
from pathlib import Path
from typing import Any

import pytest

from tests.verification.campaigns import runner
from tests.verification.campaigns.__main__ import USUAL, main
from tests.verification.campaigns.runner import COMMAND, Campaign, NotHere, find, limited, option

ROOT = Path(__file__).parents[3]
NAMED = re.compile(r"-m\s+tests\.verification\.campaigns (?!--|NAME)([\w.]+)([^`#\\\n\"]*)")
"""A command of a page, of the Makefile, of a docstring: the campaign, and its options."""


def found_by(options: Namespace) -> dict[str, Any]:
    if options.fails:
        raise ValueError("no")
    return {"kills": options.kills, "violations": ["two hold it"] * options.wrong}


MADE = Campaign(found_by, (option("kills", 3), option("wrong", 0), option("fails", False)))


def documented() -> list[tuple[str, str]]:
    paths = [ROOT / "Makefile", *(ROOT / "docs").rglob("*.md"), *(ROOT / "tests").rglob("*.py")]
    return [found for path in paths for found in NAMED.findall(path.read_text())]


def test_each_campaign_is_listed() -> None:
    here = Path(__file__).parent
    declared = {
        ".".join(path.relative_to(here).with_suffix("").parts).removesuffix(".campaign")
        for path in here.rglob("*.py")
        if "\n@campaign(" in path.read_text()
    }
    assert declared == USUAL.keys()


def test_a_module_that_is_run_by_itself_can_be() -> None:
    for path in (ROOT / "tests").rglob("*.py"):
        for name in re.findall(
            r'"-m", "(tests\.verification\.campaigns\.[\w.]+)"', path.read_text()
        ):
            module = ROOT.joinpath(*name.split("."))
            run = module / "__main__.py" if module.is_dir() else module.with_suffix(".py")
            assert '__name__ == "__main__"' in run.read_text(), (path, name)


def test_what_is_documented_can_be_run() -> None:
    told = documented()
    assert len(told) > 50
    usual = [(name, words) for name, lines in USUAL.items() for words in lines]
    for name, words in [*told, *usual]:
        arguments = [each for each in shlex.split(words.partition(")")[0]) if each != "--help"]
        if not any("$" in each for each in arguments):
            find(name).read(name, arguments)


def test_what_does_not_exist_is_found(capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("nothing", "programs"):
        with pytest.raises(NotHere, match=name):
            find(name)
    assert main(["nothing"]) == 2
    with pytest.raises(SystemExit) as ended:
        main(["mutex", "--times", "5"])
    assert ended.value.code == 2
    assert "--times" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "status", "violations"),
    [
        ("--kills 4", 0, []),
        ("--kills 4 --wrong 1", 1, ["two hold it"]),
        ("--fails", 1, ["ValueError: no"]),
    ],
)
def test_the_last_line_is_the_result(
    options: str,
    status: int,
    violations: list[str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(runner, "find", lambda _: MADE)
    assert main(["made", *options.split()]) == status
    found = json.loads(capsys.readouterr().out)
    assert (found["passed"], found["violations"]) == (not violations, violations)
    assert found["repeat"] == f"{COMMAND} made {options}"
    if not violations:
        assert found["figures"] == {"kills": 4}
        assert found["options"] == {"kills": 4, "wrong": 0, "fails": False}


def test_a_campaign_that_takes_too_long_is_ended() -> None:
    status, why = limited("bus1", ["--seconds", "60"], limit_s=0.0)
    assert (status, why) == (1, "not done after 0 minutes")


def test_only_what_has_usual_options_is_run(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--usual", "flaky"]) == 0
    with pytest.raises(SystemExit):
        main(["--usual", "nothing"])
    assert "no campaigns: nothing" in capsys.readouterr().err


def test_all_are_shown(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 0
    shown = capsys.readouterr().out
    assert all(f"\n{name}: " in f"\n{shown}" for name in USUAL)
    assert "    mutex --acquisitions 1000 --kills 5 --form lamport\n" in shown
