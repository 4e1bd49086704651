"""Hints about packages to install name existing packages, in any installation."""

import importlib.util
import re
import shutil
import sys
import tomllib
from pathlib import Path

import pytest

from groupcomm.host.extras import install_hint, requirements
from groupcomm_spark.session import REMEDY

PROJECT = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]


def test_the_packages_of_an_extra_are_those_of_the_project() -> None:
    extras = PROJECT["optional-dependencies"]
    assert requirements("top") == extras["top"]
    names = [re.split("[<>]", each)[0] for each in requirements("spark")]
    assert names == ["pandas", "pyarrow", "pyspark"]
    assert f"'{extras['java'][0]}'" in REMEDY
    assert requirements("x", ['a>=1; extra == "x"', "b; extra == 'y'", "c"]) == ["a>=1"]


@pytest.mark.parametrize(
    ("pip", "uv", "hint"),
    [
        (True, True, "{python} -m pip install 'rich>=13'"),
        (False, True, "uv pip install --python {python} 'rich>=13'"),
        (False, False, "pip --python {python} install 'rich>=13'"),
    ],
)
def test_a_hint_fits_the_installers_that_there_are(
    pip: bool, uv: bool, hint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: name if pip else None)
    monkeypatch.setattr(shutil, "which", lambda name: name if uv else None)
    assert install_hint("top") == hint.format(python=sys.executable)
