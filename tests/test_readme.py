"""What the README shows works when it is pasted."""

import subprocess
import sys
import textwrap
from pathlib import Path

README = Path(__file__).parents[1] / "README.md"


def test_the_first_program_runs_and_both_members_agree() -> None:
    text = README.read_text()
    indented = text[text.index("    from groupcomm.") : text.index("More in [")]
    program = textwrap.dedent(indented)
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    ann, bob = done.stdout.splitlines()
    assert ann.removeprefix("ann ") == bob.removeprefix("bob ")
    assert "ann bids 10" in ann
    assert "bob bids 20" in ann
