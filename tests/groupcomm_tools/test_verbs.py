"""The `groupcomm` command imports a verb's module only when that verb is asked for."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from groupcomm_tools import commands
from groupcomm_tools.cli import VERBS, main


def test_every_module_that_has_a_name_is_a_verb() -> None:
    folder = Path(commands.__file__).parent
    named = {path.stem for path in folder.glob("*.py") if "\nNAME: Final" in path.read_text()}
    assert named == set(VERBS)
    assert len(VERBS) == len(named)


def test_the_help_has_all_verbs_in_their_order(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--help"])
    assert tuple(re.findall(r"^    (\w+)", capsys.readouterr().out, re.MULTILINE)) == VERBS


def test_what_is_no_verb_is_told_with_those_that_are(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["sing"])
    told = capsys.readouterr().err
    assert "invalid choice: 'sing'" in told
    assert all(verb in told for verb in VERBS)


def test_a_verb_does_not_import_what_only_others_need() -> None:
    code = (
        "import sys; from groupcomm_tools.cli import make_parser, verbs_for\n"
        "make_parser(verbs_for(['status']))\n"
        "print([name for name in sys.modules if name.startswith('groupcomm.sim')])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
