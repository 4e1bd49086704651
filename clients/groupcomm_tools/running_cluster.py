"""A cluster of real daemons for tests: processes on this host, and calls that block.

::

    with RunningCluster(3, relay=True) as cluster:
        with connect(cluster.address("a")) as connection:
            ...
        cluster.partition("a", "bc")
        cluster.settle("a")
        cluster.heal()
        cluster.settle()

No event loop is needed; inside one, calls block it.
"""

import signal
import string
import tempfile
import threading
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import Future
from contextlib import ExitStack
from itertools import combinations
from pathlib import Path
from typing import Any, Final, Self, TypeVar

import trio

from groupcomm.errors import ConfigError
from groupcomm.sim.faults.faults import Faults
from groupcomm_tools.local_cluster import LocalCluster
from groupcomm_tools.relay import Line, Relay
from groupcomm_tools.topology import Topology
from groupcommd.config.config_file import read_addresses

DEFAULT_DAEMONS: Final = 3


class RunningCluster:
    """Daemons as processes: in one view when the block begins, and ended when it ends.

    Attributes:
        names: names of all daemons, in order.
        sites: names of the daemons of each site, by the site's name.
        config: path of the configuration.

    Raises:
        ConfigError: there cannot be so many daemons or sites, or there is no such shape.
    """

    def __init__(
        self,
        daemons: int | Sequence[str] = DEFAULT_DAEMONS,
        *,
        settings: str = "",
        clients: str = "",
        options: Sequence[str] = (),
        tcp: bool = False,
        relay: bool = False,
        line: Line | None = None,
        sites: int = 1,
        shape: str = "mesh",
        seed: int = 1,
    ) -> None:
        """Choose ports and write the configuration; nothing is started yet.

        Args:
            daemons: names of the daemons, or their number, 1 to 26; these are called a, b, c.
            settings: TOML for the head of their configuration.
            clients: TOML for its table of this name.
            options: options for the command line of each.
            tcp: whether they listen for programs on TCP, too.
            relay: whether to put a relay between them, which `partition`, `suffer` and `line` need.
            line: the properties of the relay's paths; with several sites, of those between sites.
            sites: the number of sites among which they are shared, in order; several need no
                `relay=True`.
            shape: the sites that have links: mesh, chain, ring or star.
            seed: the seed of the relay's random decisions.
        """
        if isinstance(daemons, int) and not 1 <= daemons <= len(string.ascii_lowercase):
            raise ConfigError(f"daemons is {daemons}; it must be 1 to 26, or their names")
        letters = string.ascii_lowercase
        self.names = tuple(letters[:daemons] if isinstance(daemons, int) else daemons)
        topology = Topology.of(self.names, sites, line or Line(), shape)
        self.sites = topology.sites
        self._relay: Relay | None = None
        with ExitStack() as stack:
            options = list(options)
            relay = relay or sites > 1
            if relay:
                folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="groupcomm-"))
                options += ("--via", f"{folder}/via.json")
            self._local = LocalCluster(
                self.names,
                settings + topology.settings(),
                clients=clients,
                options=options,
                tcp=tcp,
                sites=topology.sites,
            )
            stack.callback(self._local.close)
            self.config = self._local.config
            if relay:
                lines = topology.lines(within=Line()) if sites > 1 else None
                self._relay = Relay(read_addresses(self.config), seed=seed, line=line, lines=lines)
                self._relay.write(Path(options[-1]))
            self._thread = stack.enter_context(TrioThread())
            if self._relay is not None:
                self._thread.begin(self._relay.run)
            self._stack = stack.pop_all()

    def __enter__(self) -> Self:
        try:
            self.start(*self.names)
            self.settle()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End all daemons, and remove their files."""
        self._stack.close()

    # ---- state ----

    def address(self, name: str) -> str:
        """Return the address where programs connect to a daemon."""
        return str(self._local[name].unix)

    def tcp_address(self, name: str) -> str:
        """Return the address on TCP, if it was asked for."""
        return self._local[name].tcp

    def tls_address(self, name: str) -> str:
        """Return the address on TLS, if it was configured."""
        return f"tls://{self._local[name].tls}"

    def pid(self, name: str) -> int:
        """Return the process number of a daemon."""
        return self._local[name].pid

    def log(self, name: str) -> list[dict[str, Any]]:
        """Return the log of a daemon since its first start."""
        return self._local[name].lines()

    @property
    def running(self) -> list[str]:
        """Return the names of the daemons whose processes are alive."""
        return [name for name in self.names if self._local[name].running]

    # ---- daemons ----

    def start(self, *names: str) -> None:
        """Start daemons that do not run; return once they listen (see `settle` for their view).

        Raises:
            ClusterError: a daemon does not start.
        """
        self._thread.call(self._start, names)

    async def _start(self, names: Sequence[str]) -> None:
        async with trio.open_nursery() as nursery:
            for name in names:
                nursery.start_soon(self._local[name].start)

    def kill(self, *names: str) -> None:
        """End these daemons at once, as by ``kill -9``."""
        for name in names:
            self._local[name].kill()

    def leave(self, name: str) -> int:
        """Have a daemon leave in order; return its exit status."""
        return self._thread.call(self._local[name].leave)

    def pause(self, name: str) -> None:
        """Stop the process of a daemon, so that it is silent, until `resume`."""
        self._local[name].signal(signal.SIGSTOP)

    def resume(self, name: str) -> None:
        """Continue a daemon that was paused."""
        self._local[name].signal(signal.SIGCONT)

    def settle(self, *names: str) -> None:
        """Wait until these daemons, or all that run, are in one view of exactly them.

        Raises:
            ClusterError: a daemon has ended, or they do not find each other in time.
        """
        self._thread.call(self._local.settle, names or self.running)

    # ---- the network ----

    def partition(self, *parts: Sequence[str]) -> None:
        """Cut the daemons into parts that receive nothing from each other, until `heal`.

        Args:
            parts: the names in each, as in ``partition("a", "bc")``; with several sites
                ``partition(sites["north"], sites["south"])`` cuts their link.

        Raises:
            ConfigError: there is no relay, or no daemon of a name.
        """
        relay = self._needs_relay("partition")
        pairs = [
            pair for one, other in combinations(parts, 2) for pair in relay.between(one, other)
        ]
        self._thread.call_sync(relay.cut, pairs)

    def suffer(self, faults: Faults | None) -> None:
        """Lose, duplicate, reorder or corrupt datagrams on all paths; None ends it.

        Raises:
            ConfigError: there is no relay.
        """
        self._thread.call_sync(self._needs_relay("suffer").suffer, faults)

    def heal(self) -> None:
        """End all partitions and faults.

        Raises:
            ConfigError: there is no relay.
        """
        relay = self._needs_relay("heal")
        self._thread.call_sync(relay.mend)
        self._thread.call_sync(relay.suffer, None)

    def _needs_relay(self, what: str) -> Relay:
        if self._relay is None:
            raise ConfigError(f"{what} needs a relay between the daemons: start it with relay=True")
        return self._relay


_Value = TypeVar("_Value")


class TrioThread:
    """A trio loop in a thread of its own, which runs until `close`; calls may come from any thread.

    A call from inside an event loop, of trio or of asyncio, blocks that loop.
    """

    def __init__(self) -> None:
        begun: Future[trio.lowlevel.TrioToken] = Future()
        self._thread = threading.Thread(target=trio.run, args=(self._main, begun), daemon=True)
        self._thread.start()
        self._token = begun.result()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Cancel everything that still runs, and end the thread."""
        if self._thread.is_alive():
            self._token.run_sync_soon(self._nursery.cancel_scope.cancel)
            self._thread.join()

    def call(self, function: Callable[..., Awaitable[_Value]], *arguments: Any) -> _Value:
        """Call an async function in the thread; return its result or raise its error."""
        answer: Future[_Value] = Future()
        self._token.run_sync_soon(
            self._nursery.start_soon, self._answer, answer, function, arguments
        )
        return answer.result()

    def call_sync(self, function: Callable[..., _Value], *arguments: Any) -> _Value:
        """Call a function that is not async in the thread; return its result or raise its error."""

        async def call() -> _Value:
            return function(*arguments)

        return self.call(call)

    def begin(self, function: Callable[..., Awaitable[object]], *arguments: Any) -> None:
        """Start an async function in the thread; its error ends the thread."""
        self._token.run_sync_soon(self._nursery.start_soon, function, *arguments)

    async def _main(self, begun: "Future[trio.lowlevel.TrioToken]") -> None:
        async with trio.open_nursery() as self._nursery:
            begun.set_result(trio.lowlevel.current_trio_token())
            await trio.sleep_forever()

    async def _answer(
        self,
        answer: "Future[_Value]",
        function: Callable[..., Awaitable[_Value]],
        arguments: tuple[Any, ...],
    ) -> None:
        try:
            answer.set_result(await function(*arguments))
        except trio.Cancelled:
            answer.cancel()
            raise
        except Exception as error:
            answer.set_exception(error)
