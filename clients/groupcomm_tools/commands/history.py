"""`groupcomm history`: archives of groups, and their contents."""

import argparse
import signal
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from functools import partial
from ipaddress import ip_address
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import trio

from groupcomm.errors import ConfigError
from groupcomm.host.addresses import Address, parse_address
from groupcomm.host.option_types import one_or_more, positive
from groupcomm.host.parser import keep_old_names
from groupcomm_client.connection import Connection
from groupcomm_tools.commands import archive_status, cursors, exporting, reading
from groupcomm_tools.commands.connecting import check_daemon, connect_trio
from groupcomm_tools.commands.options import (
    add_connection_options,
    add_reconnect_option,
    group_names,
    need_pyarrow,
    without_repetitions,
)
from groupcomm_tools.commands.subcommands import Subcommand, add_subcommands, run
from groupcomm_tools.stopping import run_tasks
from groupcomm_tools.terminal import Reports
from groupcommd.host.process import raise_descriptor_limit

if TYPE_CHECKING:
    from groupcomm_archive.recorded import RecordedLogs

__all__ = ["EXAMPLE", "add_options", "run"]

EXAMPLE: Final = "groupcomm history serve orders --store orders-log"

MB: Final = 1_000_000

_ENDS: Final = (signal.SIGINT, signal.SIGTERM)


def add_options(parser: argparse.ArgumentParser) -> None:
    """Declare the verbs."""
    add_subcommands(
        parser,
        Subcommand(
            "serve",
            _serve,
            "record groups, and give subscribers their history",
            "orders trades --store orders-log",
            _add_serve_options,
        ),
        Subcommand(
            "status",
            archive_status.run,
            "show what the archives of groups hold, and whether they agree",
            "orders",
            archive_status.add_options,
        ),
        Subcommand(
            "read",
            _read,
            "print messages and views, from any place on",
            "orders --start earliest --until now",
            _add_read_options,
        ),
        Subcommand(
            "export",
            exporting.run,
            "write messages as lines of JSON or as CSV, from a log or from an archive",
            exporting.EXPORT_EXAMPLE,
            exporting.add_options,
        ),
        Subcommand(
            "cursors",
            run,
            "show, move and remove the named cursors that archives hold",
            "list",
            cursors.add_options,
        ),
    )


# ---- serve ----


def _add_serve_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "groups",
        nargs="+",
        type=group_names,
        metavar="GROUP",
        help="groups to keep; in a name * stands for any characters",
    )
    parser.add_argument(
        "--store", type=Path, required=True, metavar="DIR", help="folder of the log"
    )
    keep_old_names(parser, groups="")
    for name, metavar, default, text in (
        ("--buffer-mb", "N", 256, "maximum size of the events that wait for the disk (256)"),
        ("--seal-mb", "N", 64, "size at which the live file becomes Parquet (64)"),
        ("--seal-s", "S", 300, "age at which the live file becomes Parquet (300)"),
        ("--duration-s", "S", None, "end after S seconds"),
    ):
        parser.add_argument(name, type=positive, metavar=metavar, default=default, help=text)
    for name, metavar, text in (
        ("--keep-mb", "N", "maximum size of the files of a log; the oldest are removed (no limit)"),
        ("--keep-s", "S", "age at which a sealed file is removed (no limit)"),
    ):
        parser.add_argument(
            name,
            type=_kept,
            action="append",
            default=[],
            metavar=f"[GROUP=]{metavar}",
            help=f"{text}; with GROUP or a pattern only of these groups; more than once",
        )
    parser.add_argument(
        "--compact",
        type=_compacted,
        action="append",
        default=[],
        metavar="GROUP=KEY",
        help="keep only the last message of each key of older files: KEY is type, line or json:NAME"
        "; more than once, also with patterns",
    )
    parser.add_argument(
        "--listen",
        type=_listen,
        default="local",
        metavar="WHERE",
        help="where subscribers may fetch history without a way through the daemons: an address of"
        " this host, HOST:PORT, for those on other hosts and on this one; local: those on this host"
        " only; none (local)",
    )
    parser.add_argument(
        "--archives",
        type=one_or_more,
        metavar="N",
        help="how many archives of these groups there are to be, absent ones included: programs can"
        " wait until more than half of them keep a message; the folder remembers it",
    )
    parser.add_argument("--json", action="store_true", help="print one line of JSON for each step")
    add_reconnect_option(parser)
    add_connection_options(parser)


def _compacted(text: str) -> tuple[str, str]:
    """Return the groups of an option, and their key; errors are `argparse`'s."""
    from groupcomm_archive.keys import parse_key  # noqa: PLC0415 - few need it

    pattern, _, key = text.partition("=")
    try:
        parse_key(key)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    if not pattern:
        raise argparse.ArgumentTypeError(f"{text} names no group")
    return pattern, key


def _kept(text: str) -> tuple[str | None, float]:
    """Return the groups and the limit of an option; errors are `argparse`'s."""
    pattern, _, value = text.rpartition("=")
    return pattern or None, positive(value)


def _listen(text: str) -> str | Address:
    """Return an address of the command line, or one of its words; errors are `argparse`'s."""
    if text in {"local", "none"}:
        return text
    try:
        address = parse_address(text, "--listen", port=0)
    except ConfigError as error:
        raise argparse.ArgumentTypeError(f"{error}; or local, or none") from None
    if ip_address(address.host).is_unspecified:
        raise argparse.ArgumentTypeError(
            f"subscribers cannot connect to {address.host}; name the address by which they reach"
            " this host"
        )
    return address


def _serve(options: argparse.Namespace) -> int:
    """Serve until ^C or SIGTERM; everything that was recorded is then on disk."""
    need_pyarrow("writes Parquet")
    raise_descriptor_limit()
    if not options.store.exists():
        check_daemon(options)  # before the log exists: a log without a row is of no use
    logs = _open_logs(options)
    with Reports(as_json=options.json) as reports:
        try:
            for damage in logs.damage:
                reports.report({"event": "damage", "text": str(damage)})
            run_tasks(_run_archive, options, logs, reports.report)
        finally:
            logs.close()
    return 0


def _open_logs(options: argparse.Namespace) -> "RecordedLogs":
    from groupcomm_archive.layout import ANY, Keep, Layout  # noqa: PLC0415 - an extra
    from groupcomm_archive.recorded import RecordedLogs  # noqa: PLC0415 - an extra
    from groupcomm_log.writer import Limits  # noqa: PLC0415 - an extra

    groups = without_repetitions(options.groups)
    return RecordedLogs(
        Layout(
            folder=options.store,
            names=tuple(name for name in groups if ANY not in name),
            patterns=tuple(name for name in groups if ANY in name),
            limits=Limits(seal_bytes=int(options.seal_mb * MB), seal_s=options.seal_s),
            keep_s=tuple(Keep(*each) for each in options.keep_s),
            keep_bytes=tuple(Keep(pattern, size * MB) for pattern, size in options.keep_mb),
            compact=tuple(options.compact),
        )
    )


async def _run_archive(
    options: argparse.Namespace, logs: "RecordedLogs", tell: Callable[[dict[str, Any]], None]
) -> None:
    from groupcomm_archive.serving import Serving  # noqa: PLC0415 - an extra

    connect: Callable[[], AbstractAsyncContextManager[Connection]] = partial(
        connect_trio, options, causes=True, principals=True
    )
    serving = Serving(
        logs,
        tell,
        buffer_bytes=int(options.buffer_mb * MB),
        channels=options.listen != "none",
        address=options.listen if isinstance(options.listen, Address) else None,
        archives=options.archives,
    )
    with trio.move_on_after(inf if options.duration_s is None else options.duration_s):
        async with trio.open_nursery() as nursery:
            await nursery.start(_end_on_signal, nursery.cancel_scope)
            await serving.run(connect, reconnect=not options.no_reconnect)


async def _end_on_signal(
    scope: trio.CancelScope, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
) -> None:
    with trio.open_signal_receiver(*_ENDS) as signals:
        task_status.started()
        async for _ in signals:
            scope.cancel()


# ---- read ----


def _add_read_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("groups", nargs="+", metavar="GROUP", help="groups to subscribe to")
    parser.add_argument(
        "--start",
        default="earliest",
        metavar="PLACE",
        help=f"{reading.START_HELP} (earliest); {reading.TIME_HELP}",
    )
    reading.add_end_options(parser)
    parser.add_argument("--count", type=one_or_more, metavar="N", help="end after N messages")
    parser.add_argument("--duration-s", type=positive, metavar="S", help="end after S seconds")
    parser.add_argument("--json", action="store_true", help="print one line of JSON for each event")
    add_reconnect_option(parser)
    add_connection_options(parser)


def _read(options: argparse.Namespace) -> int:
    """Print messages and views until the end."""
    return reading.run(options, reading.print_for(options))
