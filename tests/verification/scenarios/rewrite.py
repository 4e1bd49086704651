"""Writes the present transcripts into scenarios: after an intended change, to be read in a diff.

Usage: python tests/verification/scenarios/rewrite.py [FILE ...]; without files all in this folder.
"""

import sys
from pathlib import Path

from tests.verification.scenarios import ScenarioError, run_scenario


def main(names: list[str]) -> int:
    paths = [Path(name) for name in names] or sorted(Path(__file__).parent.glob("*.txt"))
    wrong = 0
    for path in paths:
        text = path.read_text()
        try:
            outcome = run_scenario(text, path.name)
        except ScenarioError as error:
            print(error)
            wrong += 1
            continue
        for problem in outcome.problems:
            print(problem)
        wrong += bool(outcome.problems)
        if outcome.text != text:
            path.write_text(outcome.text)
            print(f"{path.name}: rewritten")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
