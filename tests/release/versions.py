"""The version, which stands in pyproject.toml, and the files that have to agree with it."""

import re
import tomllib
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).resolve().parents[2]
CITATION: Final = re.compile(r'^version: "?([^"\n]+)"?$', re.MULTILINE)
HEADING: Final = re.compile(r"^## (\d+\.\d+\.\d+)\b", re.MULTILINE)
CLASSIFIER: Final = re.compile(r"^Programming Language :: Python :: (3\.\d+)$")


def project() -> dict[str, Any]:
    """Return the table `project` of pyproject.toml."""
    table: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    return table


def version() -> str:
    """Return the version of the project, MAJOR.MINOR.PATCH."""
    return str(project()["version"])


def pythons() -> list[str]:
    """Return the versions of Python that the package says it is for."""
    found = (CLASSIFIER.match(each) for each in project()["classifiers"])
    return [match[1] for match in found if match]


def disagreements(root: Path = ROOT) -> list[str]:
    """Return what does not agree with the version, a sentence each."""
    wrong = []
    expected = version()
    cited = CITATION.findall((root / "CITATION.cff").read_text())
    if cited != [expected]:
        wrong.append(f"CITATION.cff has version {' '.join(cited) or 'none'}, not {expected}")
    headings = HEADING.findall((root / "docs" / "changes.md").read_text())
    if not headings or headings[0] != expected:
        newest = headings[0] if headings else "no version"
        wrong.append(f"docs/changes.md begins with {newest}, not {expected}")
    return wrong
