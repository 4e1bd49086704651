"""The terminals of a page: a folder, an environment, and the programs that run in them."""

import os
import shlex
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

LOOK_S: Final = 0.02
"""A condition is looked at this often."""

END_S: Final = 10.0
"""A program that was interrupted has this time to end."""

KEPT: Final = ("LANG", "LC_ALL", "TZ", "JAVA_HOME", "TMPDIR", "PYTHONHASHSEED")
"""The variables of this process that a page has, too."""

LINKED: Final = ("examples",)
"""The folders of the repository that are in the folder of a page, as in a clone."""

_CARRIED: Final = """\
cd -- "$(cat {folder})" && . {variables} || exit 99
trap 'pwd >{folder}; export -p >{variables}' EXIT
set -e
. {script}
"""


class Program:
    """A program that runs or has run.

    Attributes:
        place: the page and the line of its block.
        status: its expected exit status.
        seen: the number of characters of its output that the page has described.
    """

    def __init__(
        self,
        place: str,
        command: Sequence[str],
        output: Path,
        status: int,
        variables: Mapping[str, str],
        *,
        is_typed_to: bool,
    ) -> None:
        self.place = place
        self.status = status
        self.seen = 0
        self._output = output
        with output.open("wb") as file:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE if is_typed_to else subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                env=variables,
            )

    @property
    def printed(self) -> str:
        """Return everything that it has printed, also what it prints to standard error."""
        return self._output.read_text(errors="replace")

    @property
    def ended(self) -> int | None:
        """Return its exit status; None while it runs."""
        return self._process.poll()

    def wait(self, timeout_s: float) -> int | None:
        """Wait until it ends; return its exit status, or None if it did not end in time."""
        try:
            return self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            return None

    def type(self, text: str) -> None:
        """Write lines to its standard input."""
        assert self._process.stdin is not None, "it runs in the background"
        self._process.stdin.write(text.encode())
        self._process.stdin.flush()

    def stop(self) -> int | None:
        """End it as ^C and ^D do, then by force; return the status that it had before, if any."""
        status = self.ended
        if status is None:
            self._signal(signal.SIGINT)
            self._close_input()
            self.wait(END_S)
        self._signal(signal.SIGKILL)  # and everything that it has started
        self._process.wait()
        self._close_input()
        return status

    def _close_input(self) -> None:
        if self._process.stdin is not None:
            self._process.stdin.close()

    def _signal(self, number: signal.Signals) -> None:
        try:
            os.killpg(self._process.pid, number)
        except ProcessLookupError:
            return  # the last process of it has ended


class Terminals:
    """A folder that stands for a clone, and programs that are run there.

    Commands find the programs of an environment first. They share the current folder and the
    exported variables, as the commands in one terminal do.

    Args:
        folder: an empty folder; its path has to be short, as sockets are made below it.
        environment: the virtual environment, whose programs come first in PATH.
        root: the repository.
    """

    def __init__(self, folder: Path, environment: Path, root: Path) -> None:
        self.clone = folder / "clone"
        self._private = folder / "private"
        self._number = 0
        for each in (self.clone, self._private, folder / "home", folder / "run", folder / "state"):
            each.mkdir(mode=0o700)
        (self.clone / ".venv").symlink_to(environment)
        for name in LINKED:
            (self.clone / name).symlink_to(root / name)
        own = {
            "PATH": f"{environment / 'bin'}:{os.environ.get('PATH', os.defpath)}",
            "HOME": str(folder / "home"),
            "XDG_RUNTIME_DIR": str(folder / "run"),
            "STATE_DIRECTORY": str(folder / "state"),
            "PYTHONUNBUFFERED": "1",  # as in a terminal
            "TERM": "dumb",
            "COLUMNS": "100",
        }
        kept = {name: os.environ[name] for name in KEPT if name in os.environ}
        self._start = {**kept, **own}
        self._folder_file = self._private / "folder"
        self._variables_file = self._private / "variables"
        self._folder_file.write_text(str(self.clone))
        self._variables_file.write_text(_exports(self._start))

    @property
    def current_folder(self) -> Path:
        """Return the folder in which the next command is run."""
        return Path(self._folder_file.read_text().rstrip("\n"))

    def start(
        self, place: str, language: str, text: str, status: int = 0, *, beside: bool = False
    ) -> Program:
        """Start a block of sh or python.

        Args:
            place: the page and the line of the block.
            language: "sh" or "python".
            text: the block.
            status: the exit status that it has to have.
            beside: in another terminal, in which lines can be typed: it begins in the current
                folder with the present variables, and changes neither.
        """
        self._number += 1
        script = self._private / f"block-{self._number}"
        script.write_text(text)
        names = [self._folder_file, self._variables_file]
        if beside:
            names = [script.with_suffix(f".{each.name}") for each in names]
            names[0].write_text(str(self.current_folder))
            names[1].write_text(self._variables_file.read_text())
        if language == "python":
            block = self._private / f"block-{self._number}.sh"
            block.write_text(f"python {shlex.quote(str(script))}\n")
            script = block
        folder, variables, quoted = (shlex.quote(str(each)) for each in (*names, script))
        command = _CARRIED.format(folder=folder, variables=variables, script=quoted)
        return Program(
            place,
            ["bash", "-c", command],
            self._private / f"output-{self._number}",
            status,
            self._start,
            is_typed_to=beside,
        )

    def save(self, name: str, text: str) -> None:
        """Save a file in the current folder."""
        path = self.current_folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def succeeds(self, command: str, timeout_s: float) -> bool:
        """Return whether a command ends with status 0, and in this time."""
        program = self.start("", "sh", command, beside=True)
        ended = program.wait(timeout_s)
        program.stop()
        return ended == 0


def wait_until(holds: Callable[[], bool], timeout_s: float) -> bool:
    """Wait until a condition holds; return False if it does not in time."""
    deadline = time.monotonic() + timeout_s
    while not holds():
        if time.monotonic() > deadline:
            return False
        time.sleep(LOOK_S)
    return True


def _exports(variables: Mapping[str, str]) -> str:
    return "".join(f"export {name}={shlex.quote(text)}\n" for name, text in variables.items())
