"""Write .ci/lock anew: the newest releases that pyproject.toml allows, with their hashes.

One file holds for all releases of Python and all systems (markers say where a line is not for), and
none names a registry. A target of make installs several of them together: see .ci/venv.

    make lock
"""

import os
import shutil
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

HERE = Path(__file__).resolve().parent
LOCK = HERE / "lock"
PROJECT = HERE.parent / "pyproject.toml"
LEAST_PYTHON = "3.11"
TOOLS = ["editables>=0.5", "setuptools>=77"]  # for hatchling, and to build pyspark

GROUPS = {  # each with those that are installed before it, whose packages it need not have again
    "build": (),
    "base": ("build",),
    "tools": ("build", "base"),
    "spark": ("build", "base", "tools"),
    "test": ("build", "base", "tools", "spark"),
    "java": ("build", "base"),
    "fuzz": ("build", "base", "tools", "spark", "test"),
    "package": ("build", "base", "tools", "spark", "test"),
    "peers": ("build", "base", "tools", "spark", "test"),
    "uv": (),
}


def main(uv: str) -> None:
    """Resolve all groups at once, so that they agree, and share the packages among the files."""
    with tempfile.TemporaryDirectory() as text:
        folder = Path(text)
        sources = {name: source(name, folder) for name in GROUPS}
        whole = folder / "whole.txt"
        together = [word for words in sources.values() for word in words]
        whole.write_text(compiled(uv, together, "--generate-hashes", "--upgrade"))
        entries = split(whole.read_text())
        names = {
            group: {name_of(entry) for entry in split(compiled(uv, words, "--constraints", whole))}
            for group, words in sources.items()
        }
    for group, before in GROUPS.items():
        own = names[group].difference(*(names[each] for each in before))
        lines = [entry for entry in entries if name_of(entry) in own]
        head = f"# Packages for {group}, with the hashes of their files; written by: make lock\n"
        (LOCK / f"{group}.txt").write_text(head + "".join(lines))
        print(f"{group}: {len(lines)} packages")


def find_uv() -> str:
    """Return the path of uv, which resolves; one of its own below .boot if there is none."""
    boot = HERE.parent / ".boot"
    found = shutil.which("uv", path=f"{os.environ['PATH']}:{boot}/bin")
    if found:
        return found
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--upgrade", "--target", str(boot)]
    subprocess.run([*pip, "--require-hashes", "-r", str(LOCK / "uv.txt")], check=True)
    return str(boot / "bin" / "uv")


def source(group: str, folder: Path) -> list[str]:
    """Return where uv finds what a group is to have."""
    if group in ("build", "uv"):
        requires = tomllib.loads(PROJECT.read_text())["build-system"]["requires"]
        wanted = [*requires, *TOOLS] if group == "build" else ["uv"]
        path = folder / f"{group}.in"
        path.write_text("\n".join(wanted))
        return [str(path)]
    return [str(PROJECT)] if group == "base" else [str(PROJECT), "--extra", group]


def compiled(uv: str, words: list[str], *options: str | Path) -> str:
    """Return the packages that are needed, one a line, with what belongs to it indented."""
    command = [uv, "pip", "compile", "--quiet", "--universal", "--python-version", LEAST_PYTHON]
    command += ["--no-header", "--no-annotate", *map(str, options), *words]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


def split(text: str) -> list[str]:
    """Return each package with its lines."""
    entries: list[str] = []
    for line in text.splitlines(keepends=True):
        if line.startswith(" "):
            entries[-1] += line
        elif not line.startswith("#"):
            entries.append(line)
    return entries


def name_of(entry: str) -> str:
    """Return the name of a package."""
    return entry.partition("==")[0]


if __name__ == "__main__":
    main(find_uv())
