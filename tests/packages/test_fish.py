"""The completions for fish, read by fish itself."""

import subprocess
from pathlib import Path


def test_it_reads_them(share: Path) -> None:
    file = share / "fish/vendor_completions.d/groupcomm.fish"
    verdict = subprocess.run(["fish", "-n", str(file)], capture_output=True, text=True, check=False)
    assert (verdict.returncode, verdict.stderr) == (0, "")
