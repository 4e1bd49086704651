"""`groupcommd`: run one daemon."""

import argparse
import json
import logging
import signal
import sys
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path
from types import FrameType

import attrs
import trio

from groupcomm.config.roster import Roster
from groupcomm.config.view import Start
from groupcomm.engine import CoreOver
from groupcomm.errors import ConfigError, GroupCommError
from groupcomm.host.acting import as_owner_of
from groupcomm.host.addresses import Address
from groupcomm.host.line_writer import write_last
from groupcomm.host.option_types import existing_file, port_number
from groupcomm.host.os_errors import text_of
from groupcomm.host.parser import Parser, add_version_option, example_text
from groupcomm.security.access_review import opened
from groupcommd.config.client_tables import tls_beside
from groupcommd.config.config_file import read_config, through_relay
from groupcommd.config.daemon_config import DaemonConfig, describe, impossible
from groupcommd.config.http_table import listening
from groupcommd.config.present_address import HostUnknown
from groupcommd.config.roster_config import log_roster, removed_text
from groupcommd.files.service_file import service_file
from groupcommd.files.state_dir import StateDir, StateError
from groupcommd.files.state_owner import Owner
from groupcommd.host.process import (
    GarbageCollection,
    Watchdog,
    feed_systemd_watchdog,
    is_out_of_memory,
    notify_systemd,
    occupy_standard_descriptors,
    raise_descriptor_limit,
    retain_freed_memory,
    retry_while_exhausted,
)
from groupcommd.join_command import join_first
from groupcommd.network.host_names import LONGEST_LOOK_UP_S, LOOK_UP_S
from groupcommd.network.sockets import Sockets, check_credentials
from groupcommd.operators.logs import flush_logs, log_start, set_up_logs
from groupcommd.programs.local_users import owners
from groupcommd.service import LINGER_S, ReadFiles, Service, ServiceEnd

FAILED, USAGE, CUT_SHORT = 1, 2, 3

OUT_OF_MEMORY = (
    "out of memory: the daemon ends, as it may not have finished its last step; allow it more"
    " memory (ulimit -v, the memory of its container), or threads (ulimit -u, TasksMax), then start"
    " it again"
)

READY_S = 5.0
"""The time that systemd has to take the news that the daemon is ready."""

HANGS_S = 2.0
"""The process has this time to end after its core has ended; then something holds it up."""

_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1, signal.SIGHUP)

_log = logging.getLogger("groupcommd")


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the command's options to a parser."""
    parser.add_argument(
        "--config",
        type=existing_file,
        metavar="FILE",
        help="configuration in TOML; without it: a daemon alone",
    )
    parser.add_argument("--name", help="name of this daemon in the configuration")
    parser.add_argument(
        "--join",
        metavar="SEED[,SEED...]",
        help="ask these daemons to be admitted to their cluster, in place of seeds in the file:"
        " HOST[:PORT], dns:NAME or srv:NAME; needed at the first start only",
    )
    parser.add_argument(
        "--token",
        metavar="T",
        help="the token of groupcomm daemons invite, with which this daemon joins once;"
        " -: read it from standard input, where no other user sees it",
    )
    parser.add_argument(
        "--state-dir", type=Path, metavar="DIR", help="folder in which its starts are counted"
    )
    parser.add_argument("--unix", type=Path, metavar="PATH", help="unix socket for local clients")
    parser.add_argument(
        "--port",
        type=port_number,
        metavar="N",
        help="port for daemons and clients; 0: the system chooses",
    )
    parser.add_argument(
        "--http",
        metavar="ADDRESS",
        help="answer HTTP there: HOST:PORT or unix:PATH, in place of http.listen",
    )
    parser.add_argument(
        "--ports-file",
        type=Path,
        metavar="FILE",
        help="write the addresses it listens on to FILE (JSON)",
    )
    parser.add_argument(
        "--via",
        type=existing_file,
        metavar="FILE",
        help="reach other daemons through a groupcomm relay",
    )
    parser.add_argument(
        "--trace", type=Path, metavar="DIR", help="write a trace to DIR, for groupcomm check DIR"
    )
    parser.add_argument(
        "--check",
        action="store_true",
        help="check and print the configuration; report what its rules make impossible",
    )
    parser.add_argument("--json-log", action="store_true", help="write log lines as JSON")
    parser.add_argument("--verbose", action="store_true", help="log debugging messages, too")


def make_parser() -> Parser:
    """Return the parser of the command line."""
    parser = Parser(
        prog="groupcommd",
        description="Run a groupcomm daemon, to which the programs of this host connect.",
        epilog="exit status: 0 left in order; 1 failed; 2 wrong usage or configuration, or removed"
        " from the cluster; 3 left, but did not complete an orderly leave in time; 4 the cluster"
        " refuses to admit it\n\n" + example_text("groupcommd --config plant.toml --name a"),
    )
    add_version_option(parser)
    parser.add_argument("--debug", action="store_true", help="show the traceback of an error")
    add_options(parser)
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; return the exit status."""
    options = make_parser().parse_args(arguments)
    try:
        return run(options)
    except GroupCommError as error:
        if options.debug:
            raise
        write_last(f"groupcommd: {error}")
        return USAGE if isinstance(error, ConfigError) else FAILED
    except OSError as error:
        if options.debug:
            raise
        write_last(f"groupcommd: {text_of(error)}")
        return FAILED
    except Exception as error:
        if options.debug or not is_out_of_memory(error):
            raise
        write_last(f"groupcommd: {OUT_OF_MEMORY}")
        return FAILED


def run(options: argparse.Namespace) -> int:
    """Check the configuration, or serve until a signal asks the daemon to leave."""
    occupy_standard_descriptors()
    try:
        return _run(options)
    finally:
        flush_logs()


def _run(options: argparse.Namespace) -> int:
    if (options.join or options.token) and not options.check:
        over = join_first(options)
        if over is not None:
            return over
    if options.check:
        return _check(options)
    set_up_logs(as_json=options.json_log, verbose=options.verbose)
    config = _configured(options)
    retain_freed_memory()
    raise_descriptor_limit()
    owners()  # their names are read while nobody waits
    state = StateDir(config.state_dir)
    try:
        state.claim(Owner(config.core.cluster, config.name))
        roster = state.read_rosters().agreed
        if roster is not None:
            if roster.entry(config.name) is None:
                raise ConfigError(removed_text(config.name, roster, state.rosters_path))
            config = _configured(options, roster)
            log_roster(roster, state.rosters_path, config.overruled)
        with Sockets(config) as sockets:
            return trio.run(_serve, options, config, state, sockets)
    finally:
        state.close()


def _check(options: argparse.Namespace) -> int:
    """Check the configuration, if root does it as the user of the daemon; print it."""
    with ExitStack() as stack:
        if options.config is not None:
            stack.enter_context(as_owner_of(service_file(options.config)))
        config = _configured(options)
        check_credentials(config)
    print(json.dumps(describe(config), indent=2))
    for sentence in (*opened(config.access), *impossible(config)):
        print(f"groupcommd: {sentence}", file=sys.stderr)
    return 0


def _configured(options: argparse.Namespace, roster: Roster | None = None) -> DaemonConfig:
    """Read the configuration, again and again while the name of this daemon's host leads nowhere.

    Signals end the process meanwhile: it has done nothing yet.
    """
    wait_s = LOOK_UP_S
    while True:
        try:
            return _configure(options, roster)
        except HostUnknown as error:
            if options.check:
                raise
            _log.warning("%s; this is tried again in %g s", error, wait_s)
        time.sleep(wait_s)
        wait_s = min(2 * wait_s, LONGEST_LOOK_UP_S)


def _configure(
    options: argparse.Namespace, roster: Roster | None = None, own: Address | None = None
) -> DaemonConfig:
    """Read the configuration; with an agreed roster its daemons are those of the roster.

    Args:
        options: the command line.
        roster: the agreed roster; None without one.
        own: the address of this daemon, if it is known.
    """
    config = read_config(
        options.config,
        name=options.name,
        state_dir=options.state_dir,
        make_key=not options.check,
        roster=roster,
        own=own,
    )
    if options.unix is not None:
        config = attrs.evolve(config, unix=options.unix)
    if options.http is not None:
        config = attrs.evolve(config, http=listening(config.http, options.http))
    if options.port is not None:
        own = attrs.evolve(config.addresses[config.name], port=options.port)
        tcp = attrs.evolve(config.tcp, port=options.port) if config.tcp is not None else None
        tls = config.tls
        if tls is not None:
            port = tls_beside(own).port
            tls = attrs.evolve(tls, address=attrs.evolve(tls.address, port=port))
        addresses = {**config.addresses, config.name: own}
        config = attrs.evolve(config, addresses=addresses, tcp=tcp, tls=tls)
        host = config.names.get(config.name)
        told = tuple(map(str, config.places[config.name]))
        if host is not None:  # its address may change, and its name does not
            host = attrs.evolve(host, port=options.port)
            config = attrs.evolve(config, names={**config.names, config.name: host})
            told = (str(host),)
        first = {**config.core.addresses, config.name: told}
        config = attrs.evolve(config, core=attrs.evolve(config.core, addresses=first))
    if options.via is not None:
        config = through_relay(config, options.via)
    return attrs.evolve(config, trace=options.trace)


async def _serve(
    options: argparse.Namespace, config: DaemonConfig, state: StateDir, sockets: Sockets
) -> int:
    """Serve until the daemon has left; return the exit status."""
    if config.keys is None:
        _log.warning(
            "insecure = true: any host that can send to this daemon can join its cluster; to change"
            " that, set key_file"
        )
    with trio.open_signal_receiver(*_SIGNALS) as signals:
        watchdog = _watch_over_the_end(config)
        # Other programs may know the daemon only now: an earlier signal would have killed it.
        if options.ports_file is not None:
            sockets.write_ports(options.ports_file)
        log_start(config, sockets)
        notify_systemd("READY=1", within_s=READY_S)
        trio.lowlevel.spawn_system_task(feed_systemd_watchdog)
        kept: list[int] = []
        start = await count_start(config, state, signals, kept)
        if start is None:
            notify_systemd("STOPPING=1")
            return 0
        service = Service(with_bound(config, sockets), state, start, sockets)
        service.on_leaving = partial(_begin_end, watchdog)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_obey, service, options, config, kept, signals)
            nursery.start_soon(_collect_garbage, service)
            end = await service.run()
            nursery.cancel_scope.cancel()
        if end is ServiceEnd.LOCKED_OUT:
            raise ConfigError(str(service.locked_out))
        over = service.over
        assert over is not None, "a daemon that is not locked out ends by its core"
        if over.roster is not None:
            raise ConfigError(removed_text(config.name, over.roster, state.rosters_path))
        return _say_how_it_left(over, config)


def with_bound(config: DaemonConfig, sockets: Sockets) -> DaemonConfig:
    """Return the configuration with the own address for others, if the system chose its port."""
    own = config.addresses[config.name]
    if own.port or config.core.agreed is not None:
        return config
    addresses = {**config.core.addresses, config.name: (str(sockets.udp.address),)}
    return attrs.evolve(config, core=attrs.evolve(config.core, addresses=addresses))


def _end_s(config: DaemonConfig) -> float:
    """Return the seconds within which the process ends after a signal, in every state."""
    return config.drain_s + config.core.leave_timeout_s + LINGER_S + HANGS_S


def _begin_end(watchdog: Watchdog) -> None:
    """Note that the daemon leaves after a drain that nobody asked for by a signal."""
    watchdog.arm()
    notify_systemd("STOPPING=1")


def _watch_over_the_end(config: DaemonConfig) -> Watchdog:
    """End this process some time after a signal asked for it, even if it hangs.

    The handler of a signal runs even while the loop waits for a system call.
    """
    watchdog = Watchdog(_end_s(config), CUT_SHORT)
    for number in (signal.SIGTERM, signal.SIGINT):
        obey = signal.getsignal(number)
        assert callable(obey)

        def handle(
            number: int,
            frame: FrameType | None,
            obey: Callable[[int, FrameType | None], object] = obey,
        ) -> None:
            watchdog.arm()
            obey(number, frame)

        signal.signal(number, handle)
    return watchdog


def _say_how_it_left(over: CoreOver, config: DaemonConfig) -> int:
    """Log the last line; return the exit status."""
    unfinished = over.unfinished
    if not unfinished:
        _log.info("left")
        return 0
    _log.warning(
        "left, but not in order, as an orderly leave took more than leave_timeout_s (%g s): %s; the"
        " last messages of these programs may be lost",
        config.core.leave_timeout_s,
        unfinished,
        extra={"unfinished": unfinished},
    )
    return CUT_SHORT


async def _collect_garbage(service: Service) -> None:
    garbage = GarbageCollection()
    while True:
        await trio.sleep(1.0)
        with service.loop.step("collected garbage"):
            garbage.collect()


async def _obey(
    service: Service,
    options: argparse.Namespace,
    config: DaemonConfig,
    kept: Sequence[int],
    signals: AsyncIterator[int],
) -> None:
    """Obey signals, beginning with those that came before the daemon could.

    What waits for the disk is a task of its own, so that the next signal is obeyed meanwhile.
    """
    wanted, asked = trio.open_memory_channel[None](1)  # one reload more than the one that runs
    async with trio.open_nursery() as nursery:
        nursery.start_soon(_reload_when_asked, service, options, asked)

        def obey(number: int) -> None:
            if number == signal.SIGUSR1:
                nursery.start_soon(service.dump)
            elif number == signal.SIGHUP:
                with suppress(trio.WouldBlock):
                    wanted.send_nowait(None)
            else:
                _stop(service, config)

        for number in kept:
            obey(number)
        async for number in signals:
            obey(number)


def _stop(service: Service, config: DaemonConfig) -> None:
    extended = f"\nEXTEND_TIMEOUT_USEC={_end_s(config) * 1e6:.0f}" if config.drain_s else ""
    notify_systemd(f"STOPPING=1{extended}")
    service.stop()


async def _reload_when_asked(
    service: Service, options: argparse.Namespace, asked: trio.MemoryReceiveChannel[None]
) -> None:
    async for _ in asked:
        try:
            await _reload(service, options)
        except (GroupCommError, OSError) as error:
            _log.error("the configuration stays as it was, as the file cannot be used: %s", error)


async def _reload(service: Service, options: argparse.Namespace) -> None:
    """Read the configuration and its files in a thread, and use them.

    They are read once more if the roster has changed meanwhile.
    """

    def read() -> tuple[DaemonConfig, ReadFiles]:
        config = _configure(options, roster, own)
        return config, service.read_files(config)

    while True:
        own, roster = service.config.own_if_named, service.config.core.agreed
        config, files = await trio.to_thread.run_sync(read, abandon_on_cancel=True)
        if service.config.core.agreed is roster:
            service.reload(config, files)
            return


_ENDS = (signal.SIGTERM, signal.SIGINT)


async def count_start(
    config: DaemonConfig,
    state: StateDir,
    signals: AsyncIterator[int],
    kept: list[int],
) -> Start | None:
    """Count a start on disk, before the daemon sends its first datagram.

    That may take long: while the disk does not answer, the log says so, and a signal can end the
    daemon.

    Args:
        config: the configuration of the daemon.
        state: its state folder.
        signals: the signals that come meanwhile; one that ends the daemon is obeyed at once.
        kept: receives all of them, to be obeyed once the daemon serves.

    Returns:
        The start; None if a signal has ended the daemon before it was counted.

    Raises:
        StateError: the record is damaged or cannot be written.
    """
    found: list[Start | StateError] = []

    async def count(over: trio.CancelScope) -> None:
        begin = partial(state.begin, config.name)
        try:
            found.append(await retry_while_exhausted("the start", begin))
        except StateError as error:
            found.append(error)
        over.cancel()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(count, nursery.cancel_scope)
        nursery.start_soon(_end_on_signal, nursery.cancel_scope, signals, kept)
        nursery.start_soon(_complain, config)
    if not found:
        _log.info("left before the disk had counted the start")
        return None
    if isinstance(found[0], StateError):
        raise found[0]
    return found[0]


async def _end_on_signal(
    over: trio.CancelScope, signals: AsyncIterator[int], kept: list[int]
) -> None:
    async for number in signals:
        kept.append(number)
        if number in _ENDS:
            over.cancel()


async def _complain(config: DaemonConfig) -> None:
    """Log that the disk does not answer, the less often the longer it takes."""
    waited_s, wait_s = 0.0, config.disk_timeout_s
    while True:
        await trio.sleep(wait_s)
        waited_s += wait_s
        _log.error(
            "state_dir %s: the disk has not answered for %g s (disk_timeout_s = %g); the daemon"
            " waits, as this start must be counted there first: check the disk with dmesg, mount"
            " and df",
            config.state_dir,
            waited_s,
            config.disk_timeout_s,
            extra={"state_dir": str(config.state_dir), "waits_s": waited_s},
        )
        wait_s = waited_s
