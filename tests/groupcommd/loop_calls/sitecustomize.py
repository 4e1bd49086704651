"""A watch over an event loop: which calls of its steps may wait. Python reads this at the start.

It watches the program that $LOOP_PROGRAM is a word of, while the method $LOOP_METHOD runs (as
``module:Class.method``). It appends a line of JSON to the file $LOOP_CALLS for each place that
calls what may wait, and one at the end.

What counts is which function is called, not how long it takes. So a busy host changes nothing, and
neither does a disk or a name service that happens to be quick. Clocks and the kernel's counts of
waits would see only what does wait today, and also the waits for the interpreter's lock while a
thread of the pool computes. Two sources tell the calls:

- the profiler of the loop's thread tells each function in C that a step calls: of the system
  (`os`, `pwd`, `time.sleep`), of open files, of sockets that block, of locks;
- the audit hook tells the files that C code opens by itself, and names that are looked up.
"""

import _thread
import io
import json
import os
import socket
import sys
import threading
from importlib import import_module
from types import FrameType, ModuleType
from typing import Any, Final

import trio

LOCKS: Final = (_thread.LockType, _thread.RLock)
FILES: Final = (io.FileIO, io.BufferedReader, io.BufferedWriter, io.BufferedRandom)
NEVER_WAIT: Final = {
    *("posix.close", "posix.fspath", "posix.getegid", "posix.geteuid", "posix.getpid"),
    *("posix.kill", "posix.pipe", "posix.set_inheritable", "posix.urandom"),
    *("posix.waitstatus_to_exitcode", "posix.WIFSTOPPED", "posix.sysconf"),
}
WAIT: Final = {
    **dict.fromkeys(("time.sleep", "select.select"), "sleep"),
    **dict.fromkeys(("_signal.sigwait", "_signal.pause", "_signal.sigtimedwait"), "sleep"),
    **dict.fromkeys(("fcntl.flock", "fcntl.lockf"), "file"),
    **dict.fromkeys(("_posixsubprocess.fork_exec", "posix.waitpid"), "process"),
}
MODULES: Final = {"posix": "file", "pwd": "name", "grp": "name"}
LOOK_UPS: Final = ("gethostbyname", "gethostbyname_ex", "gethostbyaddr", "getnameinfo")
OF_SOCKETS: Final = ("connect", "connect_ex", "accept", "_accept", "sendall", "sendfile")
AUDITED: Final = {
    "open": "file",
    **dict.fromkeys(("socket.getaddrinfo", "socket.gethostbyname"), "name"),
    "socket.gethostbyaddr": "name",
}

ALLOWED: Final = (
    # A lock that is held for a few operations in memory, or not waited for.
    ("lock", "logging/__init__.py", ""),  # its handlers only queue lines
    ("lock", "groupcomm/host/line_writer.py", "put"),
    ("lock", "groupcomm_archive/store.py", "far"),
    ("lock", "trio/_core/_entry_queue.py", ""),
    ("lock", "trio/_core/_thread_cache.py", ""),
    ("lock", "threading.py", "start"),  # until the thread exists
    ("lock", "_strptime.py", ""),  # of its cache
    ("lock", "subprocess.py", "_internal_poll"),  # it does not wait for the lock
    # Files of the kernel, which are no disk's.
    ("file", "groupcommd/host/process.py", "resident_bytes"),
    ("file", "groupcommd/host/process.py", "_is_open"),
    ("file", "groupcommd/host/loop_watch.py", ""),
    # A process that is started takes a millisecond, and must be started by this thread.
    ("", "groupcommd/http/supervisor.py", "__init__"),
    ("process", "subprocess.py", "_internal_poll"),  # WNOHANG
    ("sleep", "groupcomm_client/byte_stream.py", "is_readable"),  # for no time
    ("sleep", "groupcommd/programs/connections.py", "_read_all"),  # for no time
    # It only looks for the route: UDP.
    ("socket", "groupcommd/config/reach.py", "_can_send"),
)
"""Kinds, files and functions ("" for all) that may call what else is a fault, and why."""

Place = tuple[str, str, int]


def kind_of(called: Any) -> tuple[str, str] | None:
    """Return the kind of a function that may wait, and its name; None for any other."""
    own, name = getattr(called, "__self__", None), called.__name__
    if isinstance(own, LOCKS):  # a `with` block shows by its end alone
        return ("lock", name) if name in ("acquire", "__enter__", "__exit__") else None
    if isinstance(own, (*FILES, io.TextIOWrapper)):
        return "file", f"{type(own).__name__}.{name}"
    if isinstance(own, socket.socket):
        waits = name.startswith(("recv", "send")) or name in OF_SOCKETS
        return ("socket", name) if waits and own.gettimeout() != 0 else None
    kind = f"{type(own).__module__}.{type(own).__name__}"
    if kind in ("_ssl._SSLContext", "ssl.SSLContext"):
        return ("file", name) if name.startswith("load_") else None
    if kind in ("select.poll", "select.epoll") and name == "poll":
        return "sleep", name
    module = called.__module__ if isinstance(called.__module__, str) else ""
    if module == "_socket":
        return ("name", name) if name in LOOK_UPS else None
    full = f"{module}.{name}"
    if full in WAIT:
        return WAIT[full], full
    if module in MODULES and full not in NEVER_WAIT:
        return MODULES[module], full
    return None


class Watch(trio.abc.Instrument):
    """The watch of one process.

    Args:
        path: the file for the findings.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._thread = threading.get_ident()
        self._in_step = False
        self._steps = 0
        self._found: set[tuple[str, str, tuple[Place, ...]]] = set()
        self._never_wait: set[object] = set()  # functions, or types with names of their methods

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        """Begin a step."""
        self._steps += 1
        self._in_step = True

    def after_task_step(self, task: trio.lowlevel.Task) -> None:
        """End a step."""
        self._in_step = False

    def profile(self, frame: FrameType, event: str, called: Any) -> None:
        """Note what a step calls; see sys.setprofile."""
        if event != "c_call" or not self._in_step:
            return
        own = getattr(called, "__self__", None)
        of = called if isinstance(own, ModuleType) else (type(own), called.__name__)
        if of not in self._never_wait:
            self._in_step = False  # what is called here is none of the step's
            if (found := kind_of(called)) is not None:
                self._note(*found, frame)
            elif not isinstance(own, socket.socket):  # these wait or not as they are set
                self._never_wait.add(of)
            self._in_step = True

    def audit(self, event: str, details: tuple[Any, ...]) -> None:
        """Note what a step makes C code open or look up; see sys.addaudithook."""
        if self._in_step and event in AUDITED and threading.get_ident() == self._thread:
            self._in_step = False
            self._note(AUDITED[event], f"{event} {details[0]!r}", sys._getframe(1))
            self._in_step = True

    def _note(self, kind: str, call: str, frame: FrameType | None) -> None:
        places: list[Place] = []
        while frame is not None and "trio/_core/_run.py" not in frame.f_code.co_filename:
            places.append((frame.f_code.co_filename, frame.f_code.co_name, frame.f_lineno))
            frame = frame.f_back
        for allowed, file, function in ALLOWED:
            if allowed in ("", kind) and any(
                place[0].endswith(file) and function in ("", place[1]) for place in places
            ):
                return
        found = kind, call, tuple(places)
        if found not in self._found:
            self._found.add(found)
            self._write({"kind": kind, "call": call, "places": places})

    def end(self) -> None:
        """Write the last line."""
        self._in_step = False
        self._write({"steps": self._steps, "watched": sys.getprofile() == self.profile})

    def _write(self, line: dict[str, Any]) -> None:
        with open(self._path, "a") as file:  # noqa: PTH123 - of few imports
            print(json.dumps(line), file=file)


def watch_method(path: str, method: str) -> None:
    """Watch the steps of the loop while a method runs."""
    module, _, name = method.partition(":")
    owner = getattr(import_module(module), name.partition(".")[0])
    run = getattr(owner, name.partition(".")[2])

    async def watched(*arguments: Any, **options: Any) -> Any:
        watch = Watch(path)
        trio.lowlevel.add_instrument(watch)
        sys.addaudithook(watch.audit)
        sys.setprofile(watch.profile)
        try:
            return await run(*arguments, **options)
        finally:
            watch.end()
            sys.setprofile(None)

    setattr(owner, name.partition(".")[2], watched)


if os.environ.get("LOOP_PROGRAM") in sys.orig_argv:
    _run: Any = trio.run

    def run(*arguments: Any, **options: Any) -> Any:
        """Run a loop as trio does, once its program is imported."""
        watch_method(os.environ["LOOP_CALLS"], os.environ["LOOP_METHOD"])
        return _run(*arguments, **options)

    trio.run = run  # type: ignore[assignment]
