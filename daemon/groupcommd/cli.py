"""`groupcommd`: run one daemon."""

import argparse
import json
import logging
import signal
import sys
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from types import FrameType

import attrs
import trio

from groupcomm.config.start import Adoption
from groupcomm.engine import Over
from groupcomm.errors import ConfigError, GroupCommError
from groupcommd.client_tables import tls_beside
from groupcommd.config_file import DaemonConfig, read_config, through_relay
from groupcommd.credentials import read_tls_credentials
from groupcommd.description import describe
from groupcommd.descriptors import raise_limit
from groupcommd.logs import set_up_logs
from groupcommd.memory import GarbageCollection, keep_memory
from groupcommd.ready import tell_systemd
from groupcommd.rule_check import impossible
from groupcommd.service import LINGER_S, End, Service
from groupcommd.sockets import Sockets
from groupcommd.starting import count_start
from groupcommd.state_dir import StateDir
from groupcommd.watchdog import Watchdog

FAILED, USAGE, CUT_SHORT = 1, 2, 3

HANGS_S = 2.0
"""A process that has not ended so long after its core had to is held up by something."""

_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1, signal.SIGHUP)

_log = logging.getLogger("groupcommd")


def add_options(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("--config", type=Path, metavar="FILE", help="TOML; none: alone on loopback")
    parser.add_argument("--name", help="which of the configured daemons this is")
    parser.add_argument(
        "--state-dir", type=Path, metavar="DIR", help="where its starts are counted"
    )
    parser.add_argument("--unix", type=Path, metavar="PATH", help="the socket for local clients")
    parser.add_argument(
        "--port", type=int, metavar="N", help="for daemons and clients; 0 lets the system choose"
    )
    parser.add_argument(
        "--ports-file", type=Path, metavar="FILE", help="write there where it listens, as JSON"
    )
    parser.add_argument(
        "--via", type=Path, metavar="FILE", help="reach other daemons through a groupcomm relay"
    )
    parser.add_argument(
        "--trace", type=Path, metavar="DIR", help="trace all it does, for groupcomm check DIR"
    )
    parser.add_argument(
        "--check",
        action="store_true",
        help="check the configuration, print it, say what its rules make impossible",
    )
    parser.add_argument("--json-log", action="store_true", help="log lines as JSON")
    parser.add_argument("--verbose", action="store_true", help="log more")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; returns the exit status."""
    parser = argparse.ArgumentParser(
        prog="groupcommd",
        description="A groupcomm daemon: programs of this host connect to it.",
        epilog="exit status: 0 left in order, 1 failed, 2 wrong configuration, 3 left,"
        " but not in order in time."
        " example: groupcommd --config plant.toml --name a",
    )
    parser.add_argument("--debug", action="store_true", help="show where an error came from")
    add_options(parser)
    options = parser.parse_args(arguments)
    try:
        return run(options)
    except GroupCommError as error:
        if options.debug:
            raise
        print(f"groupcommd: {error}", file=sys.stderr)
        return USAGE if isinstance(error, ConfigError) else FAILED
    except OSError as error:
        if options.debug:
            raise
        print(f"groupcommd: {error}", file=sys.stderr)
        return FAILED


def run(options: argparse.Namespace) -> int:
    """Check the configuration, or serve until the daemon is told to leave."""
    config = _configure(options)
    if options.check:
        if config.tls is not None:
            read_tls_credentials(config.tls)
        print(json.dumps(describe(config), indent=2))
        for sentence in impossible(config):
            print(f"groupcommd: {sentence}", file=sys.stderr)
        return 0
    set_up_logs(as_json=options.json_log, verbose=options.verbose)
    keep_memory()
    raise_limit()
    state = StateDir(config.state_dir)
    try:
        with Sockets(config) as sockets:
            return trio.run(_serve, options, config, state, sockets)
    finally:
        state.close()


def _configure(options: argparse.Namespace) -> DaemonConfig:
    config = read_config(
        options.config,
        name=options.name,
        state_dir=options.state_dir,
        make_key=not options.check,
    )
    if options.unix is not None:
        config = attrs.evolve(config, unix=options.unix)
    if options.port is not None:
        own = attrs.evolve(config.addresses[config.name], port=options.port)
        tcp = attrs.evolve(config.tcp, port=options.port) if config.tcp is not None else None
        tls = config.tls
        if tls is not None:
            port = tls_beside(own).port
            tls = attrs.evolve(tls, address=attrs.evolve(tls.address, port=port))
        addresses = {**config.addresses, config.name: own}
        config = attrs.evolve(config, addresses=addresses, tcp=tcp, tls=tls)
    if options.via is not None:
        config = through_relay(config, options.via)
    return attrs.evolve(config, trace=options.trace)


async def _serve(
    options: argparse.Namespace, config: DaemonConfig, state: StateDir, sockets: Sockets
) -> int:
    """Serve, from one start to the next, until it has left; return the exit status."""
    if config.keys is None:
        _log.warning("insecure: whoever can send to this daemon can join its cluster")
    with trio.open_signal_receiver(*_SIGNALS) as signals:
        _watch_over_the_end(config)
        # Only now may others know that it is there: earlier a signal would have killed it.
        if options.ports_file is not None:
            sockets.write_ports(options.ports_file)
        tell_systemd("READY=1")
        adopt: Adoption | None = None
        while True:
            kept: list[int] = []
            start = await count_start(config, state, adopt, signals, kept)
            if start is None:
                return 0
            service = Service(config, state, start, sockets)
            async with trio.open_nursery() as nursery:
                nursery.start_soon(_obey, service, options, kept, signals)
                nursery.start_soon(_collect_garbage)
                end = await service.run()
                nursery.cancel_scope.cancel()
            if end is End.LOCKED_OUT:
                raise ConfigError(str(service.locked_out))
            over = service.over
            assert over is not None, "a daemon that is not locked out ends by its core"
            if end is not End.OUTDATED or service.leaves:
                return _say_how_it_left(over, config)
            config = attrs.evolve(config, keys=over.keys, roll=over.roll)
            adopt = over.adopt
            assert adopt is not None, "it ended as outdated"
            _log.warning("others know of %d starts, the disk of fewer; begins anew", adopt.restarts)


def _watch_over_the_end(config: DaemonConfig) -> None:
    """End this process some time after it was told to, also if it hangs.

    The handler of a signal runs also while the loop waits for a system call.
    """
    watchdog = Watchdog(config.core.leave_timeout_s + LINGER_S + HANGS_S, CUT_SHORT)
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


def _say_how_it_left(over: Over, config: DaemonConfig) -> int:
    """Log the last line; return the exit status."""
    unfinished = over.unfinished
    if not unfinished:
        _log.info("left")
        return 0
    _log.warning(
        "left, but not in order, as that took more than leave_timeout_s (%g s): %s; what these"
        " programs have sent last may be lost",
        config.core.leave_timeout_s,
        unfinished,
        extra={"unfinished": unfinished},
    )
    return CUT_SHORT


async def _collect_garbage() -> None:
    garbage = GarbageCollection()
    while True:
        await trio.sleep(1.0)
        garbage.collect()


async def _obey(
    service: Service,
    options: argparse.Namespace,
    kept: Sequence[int],
    signals: AsyncIterator[int],
) -> None:
    """Do what signals ask for, first those that came before the daemon was there."""
    for number in kept:
        _obey_one(service, options, number)
    async for number in signals:
        _obey_one(service, options, number)


def _obey_one(service: Service, options: argparse.Namespace, number: int) -> None:
    if number in (signal.SIGTERM, signal.SIGINT):
        tell_systemd("STOPPING=1")
        service.leave()
    elif number == signal.SIGUSR1:
        service.dump()
    else:
        _reload(service, options)


def _reload(service: Service, options: argparse.Namespace) -> None:
    try:
        service.reload(_configure(options))
    except (GroupCommError, OSError) as error:
        _log.error("the configuration is as before, the file is wrong: %s", error)
