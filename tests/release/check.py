"""Whether this commit can be released: everything that a user does with a release, once.

    make release-check
    python -m tests.release.check --only wheel --pythons 3.12,3.13

The commit is cloned into a temporary folder, so nothing counts that is not committed. Each step
prints what it saw, and leaves its output in build/release. Steps whose interpreter or program is
not on this machine are listed as not checked. Nothing is published.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final

import attrs

from tests.release.interpreters import PYTHONS, find
from tests.release.versions import disagreements, version

ROOT: Final = Path(__file__).resolve().parents[2]
LOGS: Final = ROOT / "build" / "release"
PROGRAM: Final = Path(__file__).with_name("program.py")
EXTRAS: Final = "[log,top,dns]"
"""Extras of wheels in fresh environments; Spark is checked by `make test`."""


class StepFailed(Exception):
    """A step found a reason not to release; the text says which."""


class NotChecked(Exception):
    """A step lacks something that this machine does not have; the text says what."""


@attrs.frozen
class Step:
    """One step, and the group of steps by which it is chosen.

    Attributes:
        group: the word for `--only`.
        name: what is checked.
        run: checks it, returns what was seen; raises StepFailed or NotChecked.
    """

    group: str
    name: str
    run: Callable[[], str]


@attrs.frozen
class Result:
    """How a step went.

    Attributes:
        name: what was checked.
        state: "passed", "failed" or "not checked".
        text: what was seen.
        seconds: the time it took.
    """

    name: str
    state: str
    text: str
    seconds: float


class Release:
    """A clone of the commit, and what is built there.

    Attributes:
        clone: the clone's folder.
    """

    def __init__(self, folder: Path) -> None:
        self.clone = folder / "clone"
        self._folder = folder
        self._logs = 0

    def steps(self, pythons: Sequence[str]) -> Iterator[Step]:
        """Yield all steps, in the order in which they are done."""
        yield Step("tree", "everything is committed, one version everywhere", self.check_tree)
        yield Step("tree", "a fresh clone", self.make_clone)
        yield Step("commands", "make run", lambda: self.make("run"))
        yield Step("commands", "make test", lambda: self.make("test"))
        yield Step("docs", "make docs", lambda: self.make("docs"))
        yield Step("packages", "make packages: wheel, sdist, twine", lambda: self.make("packages"))
        yield Step("packages", "the sdist builds the same wheel", self.compare_sdist)
        yield Step("deb", "make deb", lambda: self.make("deb"))
        for each in pythons:
            yield Step("wheel", f"the wheel on Python {each}", lambda each=each: self.try_on(each))  # type: ignore[misc]

    def check_tree(self) -> str:
        """Raise StepFailed if something is not committed, or versions disagree."""
        changed = self._output(["git", "status", "--porcelain"], ROOT)
        if changed:
            raise StepFailed(f"not committed:\n{changed}")
        if wrong := disagreements():
            raise StepFailed("\n".join(wrong))
        return version()

    def make_clone(self) -> str:
        """Clone the commit."""
        self._log(["git", "clone", "--quiet", "--no-hardlinks", str(ROOT), str(self.clone)], ROOT)
        return self._output(["git", "rev-parse", "--short", "HEAD"], self.clone)

    def make(self, target: str) -> str:
        """Make a target in the clone; return the last line of its output."""
        return self._log(["make", "--no-print-directory", target], self.clone)

    def compare_sdist(self) -> str:
        """Build a wheel from the sdist, and compare the names of the files in both."""
        (sdist,) = (self.clone / "dist").glob("*.tar.gz")
        python = str(self.clone / ".venv" / "bin" / "python")
        folder = self._folder / "sdist"
        folder.mkdir()
        self._log(["tar", "-xzf", str(sdist), "-C", str(folder), "--strip-components=1"], folder)
        self._log([python, "-m", "hatchling", "build", "-t", "wheel"], folder)
        wheels = [self._wheel(self.clone), self._wheel(folder)]
        listing = [
            self._output([python, "-m", "zipfile", "-l", str(each)], folder) for each in wheels
        ]
        names = [sorted(line.split()[0] for line in text.splitlines()[1:]) for text in listing]
        if names[0] != names[1]:
            different = sorted(set(names[0]) ^ set(names[1]))
            raise StepFailed(f"not in both wheels: {', '.join(different)}")
        return f"{len(names[0])} files"

    def try_on(self, wanted: str) -> str:
        """Install the wheel into a fresh environment of this version, and use it."""
        python = find(wanted)
        if python is None:
            raise NotChecked(f"there is no Python {wanted} on this machine")
        home = self._folder / f"python{wanted}"
        self._log([str(python), "-m", "venv", str(home)], self._folder)
        own = str(home / "bin" / "python")
        install = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        self._log([own, *install, f"{self._wheel(self.clone)}{EXTRAS}"], home)
        self._log([own, "-m", "pip", "check"], home)
        said = self._log([str(home / "bin" / "groupcomm"), "--version"], home)
        if said.split()[-1] != version():
            raise StepFailed(f"groupcomm --version says {said}, not {version()}")
        self._log([own, "-I", str(PROGRAM)], home)
        self._log([str(home / "bin" / "groupcomm"), "demo"], home)
        return self._output([own, "--version"], home)

    def _wheel(self, folder: Path) -> Path:
        wheels = list((folder / "dist").glob("*.whl"))
        if len(wheels) != 1:
            raise StepFailed(f"{len(wheels)} wheels in {folder / 'dist'}, and one was expected")
        return wheels[0]

    def _log(self, words: list[str], folder: Path) -> str:
        """Run a command with its output in a file; return the last line of that."""
        self._logs += 1
        path = LOGS / f"{self._logs:02}-{Path(words[0]).name}-{words[-1].split('/')[-1]}.log"
        with path.open("w", encoding="utf-8") as output:
            done = subprocess.run(
                words, cwd=folder, env=clean(), stdout=output, stderr=subprocess.STDOUT, check=False
            )
        lines = path.read_text(encoding="utf-8", errors="replace").strip().splitlines()
        if done.returncode:
            tail = "\n".join(lines[-8:])
            raise StepFailed(f"{' '.join(words)}: status {done.returncode}; {path} has all\n{tail}")
        return lines[-1] if lines else ""

    def _output(self, words: list[str], folder: Path) -> str:
        done = subprocess.run(
            words, cwd=folder, env=clean(), capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise StepFailed(f"{' '.join(words)}: {done.stderr.strip()}")
        return done.stdout.rstrip()


def clean() -> dict[str, str]:
    """Return the environment without what leads to this folder's modules."""
    own = {"PYTHONPATH", "VIRTUAL_ENV", "MAKEFLAGS", "MAKELEVEL", "PYTHONHOME"}
    return {name: value for name, value in os.environ.items() if name not in own}


def run(steps: Sequence[Step]) -> list[Result]:
    """Run steps until one fails on which the next ones stand; print each as it ends."""
    results = []
    for number, step in enumerate(steps, 1):
        print(f"[{number}/{len(steps)}] {step.name} ...", end=" ", file=sys.stderr, flush=True)
        began = time.monotonic()
        try:
            state, text = "passed", step.run()
        except StepFailed as error:
            state, text = "failed", str(error)
        except NotChecked as error:
            state, text = "not checked", str(error)
        result = Result(step.name, state, text, round(time.monotonic() - began, 1))
        results.append(result)
        print(f"{state} ({result.seconds:.0f} s): {text}", file=sys.stderr, flush=True)
        if state == "failed" and step.group == "tree":
            break
    return results


def main(arguments: list[str] | None = None) -> int:
    """Check; return the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.release.check",
        description="Check whether this commit can be released. Nothing is published.",
        epilog="exit status: 0 nothing failed; 1 a step failed; 2 wrong usage",
    )
    groups = ["commands", "docs", "packages", "deb", "wheel"]
    parser.add_argument("--only", choices=groups, action="append", help="these steps; all")
    parser.add_argument("--pythons", default=",".join(PYTHONS), metavar="V,V", help="versions")
    parser.add_argument("--json", action="store_true", help="print the results as JSON")
    options = parser.parse_args(arguments)
    chosen = {"tree", *(options.only or groups)}
    if chosen & {"wheel", "deb"}:
        chosen.add("packages")  # has the wheel
    LOGS.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="groupcomm-release-") as folder:
        release = Release(Path(folder))
        every = release.steps(options.pythons.split(","))
        results = run([step for step in every if step.group in chosen])
    failed = [each.name for each in results if each.state == "failed"]
    missing = [each.text for each in results if each.state == "not checked"]
    if options.json:
        print(json.dumps([attrs.asdict(each) for each in results]))
    for text in missing:
        print(f"not checked: {text}", file=sys.stderr)
    print(f"failed: {'; '.join(failed)}" if failed else "can be released", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
