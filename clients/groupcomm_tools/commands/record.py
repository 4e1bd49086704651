"""`groupcomm record`: write the messages and views of groups to a durable log, in their order."""

import argparse
import signal
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from functools import partial
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import trio

from groupcomm.host.option_types import one_or_more, positive
from groupcomm.host.parser import keep_old_names
from groupcomm.names import check_group
from groupcomm_client.connection import Connection
from groupcomm_log.errors import LogError
from groupcomm_tools.commands.connecting import check_daemon, connect_trio
from groupcomm_tools.commands.options import (
    add_connection_options,
    add_reconnect_option,
    need_pyarrow,
)
from groupcomm_tools.stopping import run_tasks
from groupcomm_tools.terminal import Reports

if TYPE_CHECKING:
    from groupcomm_tools.recording.recorder import Recorder

EXAMPLE: Final = "groupcomm record chat --store chat-log"

MB: Final = 1_000_000

_ENDS: Final = (signal.SIGINT, signal.SIGTERM)


def add_options(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("groups", nargs="+", metavar="GROUP", help="groups to record")
    parser.add_argument(
        "--store", type=Path, required=True, metavar="DIR", help="folder of the log"
    )
    keep_old_names(parser, to="--store")
    for name, metavar, default, text in (
        ("--sync-ms", "N", 50, "time from one write to the next (50)"),
        ("--buffer-mb", "N", 256, "maximum size of the queue for the disk (256)"),
        ("--seal-mb", "N", 64, "size at which the live file becomes Parquet (64)"),
        ("--seal-s", "S", 300, "age at which the live file becomes Parquet (300)"),
        ("--keep-mb", "N", None, "maximum size of all files; the oldest are removed (no limit)"),
        ("--keep-s", "S", None, "age at which a sealed file is removed (no limit)"),
        ("--duration-s", "S", None, "end after S seconds"),
    ):
        parser.add_argument(name, type=positive, metavar=metavar, default=default, help=text)
    parser.add_argument("--count", type=one_or_more, metavar="N", help="end after N messages")
    parser.add_argument("--json", action="store_true", help="print one line of JSON for each step")
    add_reconnect_option(parser)
    add_connection_options(parser)


def run(options: argparse.Namespace) -> int:
    """Record until the count is reached, or until ^C or SIGTERM; everything received is then on
    disk.
    """
    groups = tuple(dict.fromkeys(map(check_group, options.groups)))
    need_pyarrow("writes Parquet")
    if not options.store.exists():
        check_daemon(options)  # before the log exists: a log without a row is of no use
    with Reports(as_json=options.json) as reports:
        recorder = _make_recorder(options, groups, reports.report)
        run_tasks(_run, options, groups, recorder)
        end = {"event": "end", "messages": recorder.count}
        reports.report({**end, "text": f"{recorder.count} messages are in {options.store}"})
    return 0


def _make_recorder(
    options: argparse.Namespace, groups: tuple[str, ...], tell: Callable[[dict[str, Any]], None]
) -> "Recorder":
    from groupcomm_log.writer import Limits, LogWriter  # noqa: PLC0415 - an extra
    from groupcomm_tools.recording.recorder import Pace, Recorder  # noqa: PLC0415 - an extra

    limits = Limits(
        seal_bytes=int(options.seal_mb * MB),
        seal_s=options.seal_s,
        keep_bytes=None if options.keep_mb is None else int(options.keep_mb * MB),
        keep_s=options.keep_s,
    )
    pace = Pace(sync_s=options.sync_ms / 1000, buffer_bytes=int(options.buffer_mb * MB))
    try:
        writer = LogWriter(options.store, limits)
    except OSError as error:
        raise LogError(
            f"{options.store} cannot be written: {error}; make room, or name another folder"
        ) from None
    return Recorder(writer, groups, pace, tell, options.count)


async def _run(options: argparse.Namespace, groups: tuple[str, ...], recorder: "Recorder") -> None:
    from groupcomm_tools.recording.recorder import record  # noqa: PLC0415 - an extra

    connect: Callable[[], AbstractAsyncContextManager[Connection]] = partial(
        connect_trio, options, causes=True
    )
    with trio.move_on_after(inf if options.duration_s is None else options.duration_s):
        async with trio.open_nursery() as nursery:
            await nursery.start(_end_on_signal, nursery.cancel_scope)
            await record(connect, groups, recorder, reconnect=not options.no_reconnect)
            nursery.cancel_scope.cancel()


async def _end_on_signal(
    scope: trio.CancelScope, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
) -> None:
    with trio.open_signal_receiver(*_ENDS) as signals:
        task_status.started()
        async for _ in signals:
            scope.cancel()
