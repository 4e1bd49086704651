"""The completions for zsh, read by zsh itself."""

import subprocess
from pathlib import Path


def test_it_reads_them(share: Path) -> None:
    file = share / "zsh/vendor-completions/_groupcomm"
    verdict = subprocess.run(["zsh", "-n", str(file)], capture_output=True, text=True, check=False)
    assert (verdict.returncode, verdict.stderr) == (0, "")
