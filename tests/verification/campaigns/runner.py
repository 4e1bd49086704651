"""A campaign: a function with declared options, and one form for what it has found.

    @campaign(option("kills", 20), option("seed", 1, "of the victims"))
    async def run(options: Namespace) -> Found: ...

It returns its figures, with units in their names, and `violations`: a sentence for each expectation
that was not met. It tells its progress on standard error. The result is one object:

- `campaign`, `options`: its name, and the values of all its options;
- `passed`, `violations`: whether there are no violations, and these;
- `figures`: everything else that it has found;
- `wall_s`: how long it took; `repeat`: the command that runs it again.
"""

import argparse
import importlib
import inspect
import os
import shlex
import signal
import subprocess
import sys
import time
from argparse import Namespace
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any, Final

import attrs
import trio

from groupcomm.errors import GroupCommError

PACKAGE: Final = "tests.verification.campaigns"
COMMAND: Final = f"python -m {PACKAGE}"
PASSED, VIOLATED, NOT_HERE, INTERRUPTED = 0, 1, 2, 130
"""Exit statuses; wrong options are the third one, too."""

END_S: Final = 60.0
"""How long a campaign beyond its time limit may take to end its processes."""

Found = dict[str, Any]
Play = Callable[[Namespace], Found] | Callable[[Namespace], Awaitable[Found]]


class NotHere(GroupCommError):
    """A campaign cannot run on this system, or not with these options; the text says why."""


@attrs.frozen
class Option:
    """An option, as argparse wants it."""

    flag: str
    settings: dict[str, Any]


def option(name: str, default: Any = None, text: str = "", **more: Any) -> Option:
    """Return an option; its kind is that of its default.

    Args:
        name: with underscores, as the function reads it.
        default: False makes a flag, a tuple an option with several values of one kind.
        text: what it is, for --help.
        more: what argparse takes besides, such as `type` or `choices`.
    """
    if default is False:
        more["action"] = "store_true"
    elif isinstance(default, tuple):
        more = {"type": type(default[0]), "nargs": "+"} | more
    elif "action" not in more:
        more = {"type": str if default is None else type(default)} | more
    shown = f"{text} (%(default)s)" if default else text
    return Option(f"--{name.replace('_', '-')}", {"default": default, "help": shown, **more})


@attrs.frozen
class Campaign:
    """A campaign that is declared: its function, and its options."""

    play: Play
    options: tuple[Option, ...]

    @property
    def page(self) -> str:
        """Return what its module says of it."""
        return inspect.getdoc(inspect.getmodule(self.play)) or ""

    def read(self, name: str, arguments: Sequence[str]) -> Namespace:
        """Read its options; ends the process with status 2 if they are wrong."""
        parser = argparse.ArgumentParser(
            prog=f"{COMMAND} {name}",
            description=self.page,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        for each in self.options:
            parser.add_argument(each.flag, **each.settings)
        return parser.parse_args(arguments)


def campaign(*options: Option) -> Callable[[Play], Campaign]:
    """Declare the function below as the campaign of its module."""
    return lambda play: Campaign(play, options)


def find(name: str) -> Campaign:
    """Return the campaign of a module below this package, or of `campaign.py` in such a folder.

    Raises:
        NotHere: there is none.
    """
    folder = Path(__file__).parent.joinpath(*name.split("."))
    try:
        module = importlib.import_module(f"{PACKAGE}.{name}{'.campaign' * folder.is_dir()}")
    except ModuleNotFoundError as error:
        raise NotHere(f"{name}: {error}") from error
    for each in vars(module).values():
        if isinstance(each, Campaign):
            return each
    raise NotHere(f"{name} is no campaign")


def play(name: str, *arguments: str) -> dict[str, Any]:
    """Run a campaign; return its result.

    Raises:
        NotHere: it cannot run here.
    """
    chosen = find(name)
    options = chosen.read(name, arguments)
    began = time.monotonic()
    if inspect.iscoroutinefunction(chosen.play):
        figures: Found = trio.run(chosen.play, options)
    else:
        figures = chosen.play(options)  # type: ignore[assignment]
    violations = figures.pop("violations")
    return {
        "campaign": name,
        "options": vars(options),
        "passed": not violations,
        "violations": violations,
        "figures": figures,
        "wall_s": round(time.monotonic() - began, 1),
        "repeat": shlex.join([*COMMAND.split(), name, *arguments]),
    }


def figures_of(line: str) -> Found:
    """Run a campaign as a test does, by its name and options; return its figures.

    Raises:
        NotHere: it cannot run here.
        AssertionError: an expectation was not met.
    """
    result = play(*shlex.split(line))
    assert result["passed"], result
    figures: Found = result["figures"]
    return figures


def not_done(name: str, arguments: Sequence[str], why: str) -> dict[str, Any]:
    """Return the result of a campaign that has not come to its end."""
    repeat = shlex.join([*COMMAND.split(), name, *arguments])
    return {"campaign": name, "passed": False, "violations": [why], "repeat": repeat}


def limited(name: str, arguments: Sequence[str], limit_s: float) -> tuple[int, str]:
    """Run a campaign as a process of its own, which is ended after some time.

    Returns:
        its exit status, and why it has no result of its own if it has taken too long.
    """
    command = [sys.executable, "-m", PACKAGE, name, *arguments]
    with subprocess.Popen(command, start_new_session=True) as process:
        try:
            return process.wait(limit_s), ""
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGINT)  # ends the processes of its clusters, too
            try:
                process.wait(END_S)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
            return VIOLATED, f"not done after {limit_s / 60:g} minutes"
        except BaseException:
            process.send_signal(signal.SIGINT)
            raise
