"""The machine that measures, and the releases of everything that it measures."""

import os
import platform
import re
import subprocess
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Final

from tests.verification.campaigns.peers import spread

GIB: Final = 1 << 30

_COMMANDS: Final[dict[str, tuple[str, ...]]] = {
    "Corosync": ("corosync", "-v"),
    "NATS": ("nats-server", "--version"),
    "Redis": ("redis-server", "--version"),
}
_PACKAGES: Final = {"trio": "trio", "nats-py": "nats-py", "redis-py": "redis", "pyzmq": "pyzmq"}
_NUMBER: Final = re.compile(r"\d+(?:\.\d+)+")


def describe() -> dict[str, str]:
    """Return the processors, their model, memory, kernel and interpreter of this machine."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / GIB
    return {
        "processors": str(os.cpu_count()),
        "model": _model(),
        "memory": f"{memory:.1f} GiB",
        "kernel": f"{platform.system()} {platform.release()}",
        "python": f"{platform.python_implementation()} {platform.python_version()}",
    }


def _model() -> str:
    text = Path("/proc/cpuinfo").read_text(errors="replace")
    found = re.search(r"^model name\s*:\s*(.+)$", text, re.MULTILINE)
    return found[1].strip() if found else platform.machine()


def releases() -> dict[str, str]:
    """Return the releases of the installed systems, by their names."""
    found = {name: _release(command) for name, command in _COMMANDS.items()}
    found["Spread"] = spread.release()
    for name, package in _PACKAGES.items():
        try:
            found[name] = version(package)
        except PackageNotFoundError:
            continue
    return {name: text for name, text in sorted(found.items()) if text}


def _release(command: Sequence[str]) -> str:
    """Return the first number with a point that a command prints; empty if it is missing."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=10)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    found = _NUMBER.search(done.stdout + done.stderr)
    return found[0] if found else ""


def commit() -> str:
    """Return the commit that is checked out; with a + if files differ from it."""
    head = subprocess.run(
        ("git", "describe", "--always", "--abbrev=10", "--exclude=*", "--dirty=+"),
        capture_output=True,
        text=True,
        check=True,
    )
    return head.stdout.strip()
