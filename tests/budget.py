"""The budget of lines: how large each package is, and how large it may be.

    python -m tests.budget           # the table; a package over its budget is marked
    python -m tests.budget --write   # tests/budget.toml with what there is now

A package that needs more lines gets them by a commit that raises its number in tests/budget.toml
and says what they are for. One that needs fewer lowers it, so that the table stays true.
"""

import argparse
import tomllib
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from tests.sources import ROOT

FILE: Final = ROOT / "tests" / "budget.toml"

SPARE_PART: Final = 0.02
"""The part of a budget that may be left over before it has to be lowered."""

SPARE_LINES: Final = 60
"""The same for small packages, in lines."""

_HEAD: Final = """\
# The most lines of each package, by folder; `python -m tests.budget` has the lines that there are.
# A commit that needs more raises a number here, and its message says what the lines are for.

"""
FOLDERS: Final = (".ci", "clients", "daemon", "docs", "examples", "groupcomm", "tests")
"""The folders of the project."""

_BY_PART: Final = ("groupcomm", "clients", "daemon", "tests")
"""The folders whose own folders are packages."""


def package_of(path: Path) -> str | None:
    """Return the package of a file, given from the project's root; None if it is not counted."""
    top, *rest = path.parts
    if path.suffix == ".md":
        return "docs" if top == "docs" or not rest else None
    if path.suffix != ".py" or not rest:
        return None
    if top not in _BY_PART or len(rest) == 1:
        return top
    return "/".join(path.parts[: 3 if rest[0] == "verification" else 2])


def lines_of_packages() -> dict[str, int]:
    """Return the lines of each package: Python, and the pages of the documentation."""
    found: Counter[str] = Counter()
    for top in FOLDERS:
        for path in (ROOT / top).rglob("*.*"):
            package = package_of(path.relative_to(ROOT))
            if package is not None:
                found[package] += path.read_bytes().count(b"\n")
    found["docs"] += sum(path.read_bytes().count(b"\n") for path in ROOT.glob("*.md"))
    return dict(sorted(found.items()))


def read_budget() -> dict[str, int]:
    """Return the most lines of each package."""
    return dict(tomllib.loads(FILE.read_text())["lines"])


def over(lines: Mapping[str, int], budget: Mapping[str, int]) -> list[str]:
    """Return a sentence for each package that is larger than it may be, or has no budget."""
    return [
        f"{package} has {count} lines, and may have {budget.get(package, 0)}"
        for package, count in lines.items()
        if count > budget.get(package, 0)
    ]


def spare(lines: Mapping[str, int], budget: Mapping[str, int]) -> list[str]:
    """Return a sentence for each budget that is to be lowered, or whose package has gone."""
    return [
        f"{package} has {lines.get(package, 0)} lines: lower its budget of {most}"
        for package, most in budget.items()
        if most - lines.get(package, 0) > max(SPARE_LINES, SPARE_PART * most)
        or package not in lines
    ]


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table, or write it; return 1 if a package is over its budget."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--write", action="store_true", help="make what there is the budget")
    options = parser.parse_args(arguments)
    lines = lines_of_packages()
    if options.write:
        rows = "".join(f'"{package}" = {count}\n' for package, count in lines.items())
        FILE.write_text(f"{_HEAD}[lines]\n{rows}")
        return 0
    budget = read_budget()
    for package, count in lines.items():
        most = budget.get(package, 0)
        print(f"{count:7} of {most:7}  {package}{'  over' * (count > most)}")
    print(f"{sum(lines.values()):7} of {sum(budget.values()):7}  in all")
    return int(bool(over(lines, budget)))


if __name__ == "__main__":
    raise SystemExit(main())
