"""The rows of the table of all public calls, and the calls that there are.

One rule: what a user's function raises, returns or prints, and what a peer sends, ends at most that
call; what exceeds a limit is an error at the call, with the limit and the value. Each row says how
its call keeps the rule in six kinds of trouble; where a kind does not apply, the row says why.
"""

import inspect
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager
from typing import Any, Final, TypeAlias

import attrs

from docs.extensions.public_names import MODULES, names_of, value_of
from groupcomm.errors import ForkedSession, LocalProtocolError

Call: TypeAlias = Callable[[Any], Any]
"""Makes a call in a scene; the result is awaited, entered or returned."""

Trouble: TypeAlias = Callable[[Any], Awaitable[object]]
"""Brings trouble about in a scene, and asserts what is told."""


@attrs.frozen
class Refused:
    """A call that is refused before anything is done.

    Attributes:
        call: the call.
        text: a regular expression that its error's text has.
        error: the documented class of the error.
    """

    call: Call
    text: str
    error: type[Exception] = LocalProtocolError


@attrs.frozen(kw_only=True)
class Row:
    """One public call.

    Attributes:
        call: a right call, which can be repeated.
        large: calls with too much.
        wrong: calls with arguments of wrong types.
        raising: a user's function that raises, or returns what is wrong.
        slow: None if the call is tried while the daemon stands still; or what else is slow.
        cancelled: None if the call is cancelled at once, and as it waits, and then made again.
        forked: the error that the call raises in a process that was forked.
        forked_call: the call there, if it is not `call`.

    A text says why a kind does not apply.
    """

    call: Call
    large: tuple[Refused, ...] | str
    wrong: tuple[Refused, ...] | str
    raising: Trouble | str
    slow: Trouble | str | None = None
    cancelled: str | None = None
    forked: type[Exception] | str = ForkedSession
    forked_call: Call | None = None


@attrs.frozen
class Scene:
    """What some calls need, and the rows of these calls.

    Attributes:
        build: sets attributes of the stage for the length of a block.
        rows: the rows by the name of the call.
        forms: the names of the forms of programs that have these calls.
    """

    build: Callable[[Any], AbstractAsyncContextManager[None]]
    rows: dict[str, Row]
    forms: tuple[str, ...] = ("trio", "asyncio", "threads")


NO_FUNCTION: Final = "it takes no function"
NOT_WAITING: Final = "it does not wait"
NO_SIZE: Final = "nothing that it takes has a size"
NO_ARGUMENTS: Final = "it takes no arguments"
FOR_EVER: Final = "it lasts until its block ends"

# ---- the calls that there are ----

PACKAGES: Final = ("groupcomm_client", "groupcomm_lessons.direct")

ELSEWHERE: Final = {
    "run": "ends its process: test_program.py",
    "input_lines": "reads standard input: test_program.py",
    "read_public_keys": "reads a file: end_to_end/test_sealing.py",
    "SharedSecret.": "computes: end_to_end/test_sealing.py",
    "TrustedKeys.": "computes, its function included: end_to_end/test_sealing.py",
    "GroupSecret.": "is a type of the user's own",
    "StateMachine.": "is the user's own: see Replicated.submit and replicate",
    "AsyncioLoop.": "is used inside",
    "AsyncioStream.": "is used inside",
    "Manager.": "is the user's own: see Connection.set_filters, and filters/test_filtering.py",
    "Path.": "is called by filters: filters/test_filtering.py",
    "ReceiveFilter.": "is the user's own: filters/test_filtering.py",
    "SendFilter.": "is the user's own: filters/test_filtering.py",
    "format_position": "converts a position: documentation/test_names_of_guides.py",
    "parse_position": "converts a text: groupcomm/clocks/test_stamp.py",
    "filters.": "makes or chooses filters, and does nothing else: filters/test_filtering.py",
    "history.": "converts a text: history/test_place_ahead.py",
    "CommittedLog.": "reads files: test_committed.py",
    "keep_back": "is called by layers above: test_spread_flush.py",
    "Is_": "compares numbers",
    "level_of": "compares numbers",
    "E_": "is of an event loop: test_spread_events.py",
    "Flip_int": "computes",
    "FL_error": "prints a constant",
    "FL_get_": "returns a constant",
    "FL_lib_init": "does nothing",
    "FL_version": "returns a constant",
    "Received_message.": "reads a message that has come",
    "joined": "computes",
    "SP_scat_get_": "reads a message that has come",
    "SP_set_auth_method": "compares with a constant",
    "SP_strerror": "returns a constant",
    "SP_version": "returns a constant",
    "SP_error": "prints a constant",
    "SP_equal_group_ids": "compares",
    "Connection.typed": "makes calls, and does nothing else: test_typed.py",
    "Typed.": "makes the calls of a connection: test_typed.py",
    "SP_get_": "reads a message that has come",
}
"""Public names that are no calls of a session, by their beginnings, and where they are tested."""

INSIDE: Final = frozenset(
    (
        *("accept", "begin", "lose", "changed"),  # of `Participant`
        *("run", "run_receiver", "run_sender", "run_timer", "run_channels"),  # tasks of a block
        *("run_reporter", "run_watch", "tell", "let_go"),
        *("present_session", "next_session", "receive_of", "part", "greet", "in_time"),
        *("read_ready", "keep_back", "forsake", "welcomed", "fileno", "check_tenure", "look"),
    )
)
"""Methods that other parts of the library call, and no program."""


def public_calls() -> Iterator[str]:
    """Yield the names of all public calls of programs; those of blocking classes as the others."""
    for module in MODULES:
        for name in names_of(module) if module.startswith(PACKAGES) else ():
            found = value_of(module, name)
            if inspect.isfunction(found):
                yield _with_module(module, name)
            elif inspect.isclass(found) and not issubclass(found, BaseException):
                yield from _methods_of(name.removeprefix("Blocking"), found)


def _methods_of(name: str, kind: type) -> Iterator[str]:
    if hasattr(kind, "__aenter__"):
        yield name  # its block
    for each, method in inspect.getmembers(kind, inspect.isfunction):
        ours = method.__module__.startswith(PACKAGES)
        if ours and not each.startswith("_") and each not in INSIDE:
            yield f"{name}.{OTHER_NAMES.get(each, each)}"


OTHER_NAMES: Final = {"close": "aclose", "open_connection": "connect"}


def _with_module(module: str, name: str) -> str:
    last = module.rpartition(".")[2]
    if last in ("direct", "history", "filters"):
        return f"{last}.{name}"
    return OTHER_NAMES.get(name, name)


def is_elsewhere(name: str) -> bool:
    """Return whether a public name needs no row."""
    return any(name.startswith(each) for each in ELSEWHERE)
