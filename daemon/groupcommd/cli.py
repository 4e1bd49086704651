"""`groupcommd`: run one daemon."""

import argparse
import json
import logging
import signal
import sys
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import attrs
import trio

from groupcomm.errors import ConfigError, GroupCommError
from groupcommd.client_tables import tls_beside
from groupcommd.config_file import DaemonConfig, read_config, through_relay
from groupcommd.description import describe
from groupcommd.descriptors import RETRY_S, is_exhausted, raise_limit
from groupcommd.doors import read_keeper
from groupcommd.logs import set_up_logs
from groupcommd.memory import GarbageCollection, keep_memory
from groupcommd.ready import tell_systemd
from groupcommd.service import End, Service
from groupcommd.sockets import Sockets
from groupcommd.state_dir import StateDir, StateError

FAILED, USAGE = 1, 2

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
    parser.add_argument("--check", action="store_true", help="check the configuration, print it")
    parser.add_argument("--json-log", action="store_true", help="log lines as JSON")
    parser.add_argument("--verbose", action="store_true", help="log more")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; returns the exit status."""
    parser = argparse.ArgumentParser(
        prog="groupcommd",
        description="A groupcomm daemon: programs of this host connect to it.",
        epilog="exit status: 0 left in order, 1 failed, 2 wrong configuration."
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
            read_keeper(config.tls)
        print(json.dumps(describe(config), indent=2))
        return 0
    set_up_logs(as_json=options.json_log, verbose=options.verbose)
    keep_memory()
    raise_limit()
    state = StateDir(config.state_dir)
    try:
        with Sockets(config) as sockets:
            trio.run(_serve, options, config, state, sockets)
    finally:
        state.close()
    return 0


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
) -> None:
    """Serve, from one start to the next, until it has left."""
    if config.keys is None:
        _log.warning("insecure: whoever can send to this daemon can join its cluster")
    with trio.open_signal_receiver(*_SIGNALS) as signals:
        # Only now may others know that it is there: earlier a signal would have killed it.
        if options.ports_file is not None:
            sockets.write_ports(options.ports_file)
        tell_systemd("READY=1")
        least_restarts = 0
        while True:
            service = await _begin(config, state, sockets, least_restarts)
            async with trio.open_nursery() as nursery:
                nursery.start_soon(_obey, service, options, signals)
                nursery.start_soon(_collect_garbage)
                end = await service.run()
                nursery.cancel_scope.cancel()
            if end is End.LOCKED_OUT:
                raise ConfigError(str(service.locked_out))
            if end is not End.OUTDATED:
                _log.info("left")
                return
            keeper = service.core.keeper
            config = attrs.evolve(config, keys=keeper.keys, roll=keeper.roll)
            least_restarts = service.core.adopt_restarts or 0
            _log.warning("others know of %d starts, the disk of fewer; begins anew", least_restarts)


async def _begin(
    config: DaemonConfig, state: StateDir, sockets: Sockets, least_restarts: int
) -> Service:
    """Begin a start, once there is a file descriptor to count it with."""
    while True:
        try:
            return Service(config, state, sockets, least_restarts=least_restarts)
        except StateError as error:
            if not is_exhausted(error):
                raise
            _log.warning("%s; it is tried again", error)
            await trio.sleep(RETRY_S)


async def _collect_garbage() -> None:
    garbage = GarbageCollection()
    while True:
        await trio.sleep(1.0)
        garbage.collect()


async def _obey(service: Service, options: argparse.Namespace, signals: AsyncIterator[int]) -> None:
    """Do what signals ask for."""
    async for number in signals:
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
