"""The daemon: sockets and a clock around one core.

Tasks only wait, for datagrams, for clients, for the core's deadline. Then they call `turn`, which
reads all datagrams that have come and has `drive` take one synchronous step of the core. The core
asks for duties, and `Service` has one method for each, as `groupcomm.engine.Shell` names them:
`store`, `send`, `serve` and `finish`. Nothing awaits for a single packet.
"""

import enum
import logging
import socket
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from time import monotonic
from typing import TYPE_CHECKING

import attrs
import trio

from groupcomm.config.roster import Roster
from groupcomm.config.view import Start
from groupcomm.engine import (
    CoreOver,
    DaemonCore,
    DrainOver,
    DrainRequested,
    Input,
    LeaveRequested,
    LoadKeys,
    Output,
    PathMeasured,
    ProgramSettings,
    QuestionAnswered,
    Segmentation,
    Status,
    Store,
    WallClockRead,
    drive,
)
from groupcomm.engine.probe import Probe
from groupcomm.host.trace_file import TraceFile, identity_of, trace_daemon
from groupcomm.trace.events import Fail, Left
from groupcommd.config.daemon_config import DaemonConfig
from groupcommd.config.roster_config import log_roster
from groupcommd.config.seeds import look_up_off_the_loop
from groupcommd.files.disk import DiskWatch, DiskWriter
from groupcommd.files.key_service import RELOAD_KEYS, KeyService, may_change_keys
from groupcommd.files.state_dir import StateDir
from groupcommd.host.bounded_log import BoundedLog
from groupcommd.host.loop_watch import LoopWatch, log_step
from groupcommd.host.process import LastWords, connection_capacity
from groupcommd.joining.move_client import tell_move
from groupcommd.joining.roster_service import RosterService
from groupcommd.network.delays import DelayRecorder
from groupcommd.network.flight import FlightRecorder
from groupcommd.network.host_names import HostNames, LookUp
from groupcommd.network.junk import Flood, pattern_of
from groupcommd.network.networks import Networks
from groupcommd.network.sockets import HttpSocket, Sockets, check_http_files, use_places
from groupcommd.network.udp import MAX_READS
from groupcommd.operators.answers import QuestionQueue
from groupcommd.operators.certificate_dates import watch_dates
from groupcommd.operators.cluster import ClusterReports, reachable
from groupcommd.operators.copies import Copies
from groupcommd.operators.drain_service import DrainService
from groupcommd.operators.logs import SLOW_BYTES, LogWatch, log_news
from groupcommd.operators.mismatches import ConfigDifferences, RejectedSenders
from groupcommd.operators.solitude import Solitude
from groupcommd.operators.status import DaemonParts, answer
from groupcommd.operators.versions import VersionWatch
from groupcommd.programs.connections import LISTENER_SHARE, Connections
from groupcommd.programs.credentials import TlsCredentials, read_tls_credentials
from groupcommd.programs.expiry import Expiry

if TYPE_CHECKING:
    from groupcommd.http.supervisor import HttpSupervisor

WALL_INTERVAL_S = 1.0
"""Between readings of the wall clock."""

RELOADED = frozenset(("limits", "quotas", "access"))
"""Parts of a configuration that change while the daemon runs, besides those of TLS and keys."""

_OF_OTHERS = frozenset(("keys", "roll", "overruled", "located"))
"""Parts of a configuration that are reported elsewhere."""

REPORTS_S = 0.5
"""Before a drain, the other daemons have this time to report their addresses for programs."""

LINGER_S = 1.0
"""A daemon that has left gives its clients this time to read their last events."""

_log = logging.getLogger("groupcommd")


class ServiceEnd(enum.Enum):
    """The reason why one start of a daemon has ended."""

    LEFT = enum.auto()  # an operator stopped it, and it left in order
    CUT_SHORT = enum.auto()  # an operator stopped it, and an orderly leave took too long
    REMOVED = enum.auto()  # the cluster's roster does not have it any more
    LOCKED_OUT = enum.auto()  # the others seal with a key that it lacks, or have evicted it


@attrs.frozen
class ReadFiles:
    """The contents of files that were read again.

    Attributes:
        credentials: those of TLS; None if the daemon does not listen at their address.
        renews_http: whether settings of HTTP can change while it is answered.
        keys: the keys; None without a key file.
    """

    credentials: TlsCredentials | None
    renews_http: bool
    keys: LoadKeys | None


def _settings_of(config: DaemonConfig) -> ProgramSettings:
    return ProgramSettings(access=config.access, quotas=config.quotas, limits=config.limits)


class Service:
    """One start of a daemon.

    Args:
        config: the checked configuration.
        state: the locked state folder of this daemon.
        start: the start, counted in that folder.
        sockets: the open sockets.
        look_up: looks the names of other daemons' hosts up.

    Attributes:
        core: the core of this start.
        loop: the watch over the steps of the event loop.
        connections: the clients' connections, while `run` runs.
        over: the way in which the core has ended; None while it runs.
        leaves: whether the daemon was asked to leave, now or after a drain.
        on_leaving: called when the daemon leaves after a drain.
        reloads: the number of times that the configuration was read again.
        locked_out: the reason for which others do not accept this daemon, and the remedy; None if
            they do.
    """

    # Of the latest turn: the datagrams and inputs that it had, and the counts of the datagrams that
    # it has sent and of the programs that it has served.
    _datagrams: Sequence[bytes] = ()
    _inputs = 0
    _done = 0, 0
    _path_bytes = 0  # what the core knows of the paths; 0: nothing

    def __init__(
        self,
        config: DaemonConfig,
        state: StateDir,
        start: Start,
        sockets: Sockets,
        look_up: LookUp = look_up_off_the_loop,
    ) -> None:
        if sockets.http is not None:
            import groupcommd.http.supervisor  # noqa: F401, PLC0415 - before the core has a deadline
        self._near = config.known - config.remote
        self._delays = None if sockets.http is None else DelayRecorder(start)
        self._flight = FlightRecorder(start) if self._delays is None else self._delays
        self._trace: TraceFile | None = None
        probe: Probe = self._flight
        if config.trace is not None:
            self._trace, probe = trace_daemon(config.trace, start)
        self._now = trio.current_time()  # the time of the latest turn
        self.core = DaemonCore(
            config.core,
            start,
            keys=config.keys,
            credentials=config.credentials,
            now=self._now,
            wall=time.time(),
            settings=_settings_of(config),
            probe=probe,
            rosters=state.rosters,
        )
        self._start = start
        self._drain = DrainService(self.core, self.drain)
        self._drains = False
        self.on_leaving: Callable[[], object] = bool
        self._state = state
        self._roster = RosterService(self.core, config)
        self._roster.on_located = self._use_places
        self._host_names = HostNames(self._roster, self.core, look_up)
        self._keys = KeyService(self.core, config.key_file, config.identities)
        self._disk = DiskWatch(config.state_dir, config.disk_timeout_s)
        self._writer = DiskWriter(state, self._keys, self._note_written, self._fail)
        self._udp = sockets.udp
        self._networks = sockets.udp if isinstance(sockets.udp, Networks) else None
        self._sockets = sockets
        self._timer, self._scope = trio.CancelScope(), trio.CancelScope()
        self.over: CoreOver | None = None
        self.leaves = False
        self.locked_out: str | None = None
        self._error: Exception | None = None
        self._end = ServiceEnd.LEFT
        self.reloads = 0
        self._started = time.monotonic()
        self._watch = LogWatch(BoundedLog())
        self.loop = LoopWatch(partial(log_step, self._watch.bounded))
        self._differences = ConfigDifferences(lambda: self.config)
        self._versions, self._solitude = VersionWatch(), Solitude()
        self._rejected_senders = RejectedSenders(lambda: self.config)
        self._copies = Copies(lambda: self.config)
        self._flood = Flood(MAX_READS)
        self._wanted = pattern_of(config.core)
        self._http: HttpSupervisor | None = None

    @property
    def config(self) -> DaemonConfig:
        """Return the configuration, with all that has changed while the daemon runs."""
        return self._roster.config

    async def run(self) -> ServiceEnd:
        """Serve until the daemon has left or must start anew; then close its clients' connections.

        Raises:
            Exception: the core broke an invariant: the daemon must not continue.
        """
        with self._scope, self.loop.running():
            async with trio.open_nursery() as nursery:
                self._nursery, self._last_words = nursery, LastWords()
                most, quotas = connection_capacity(), self.config.quotas
                if self._sockets.http is not None:
                    self._serve_http(self._sockets.http, nursery)
                self.connections = Connections(
                    *(self.core, nursery, self.turn, quotas),
                    session_timeout_s=self.config.limits.session_timeout_s,
                    most=most,
                    log=self._watch.bounded,
                )
                self._answers = QuestionQueue(self._answer, self.connections.principal_of)
                own = self.config.addresses[self.config.name]
                tls = reachable(self._sockets.tls, own)
                self._cluster = ClusterReports(self.core, self.connections, self._started, tls)
                self._expiry = Expiry(self.connections, self._sockets.tls_listener)
                for listener in self._sockets.listeners:
                    listener.shrink(most // LISTENER_SHARE)
                    nursery.start_soon(self.connections.listen, listener)
                for source in self._udp.sockets:
                    nursery.start_soon(self._receive, source)
                nursery.start_soon(self._check_each_second)
                nursery.start_soon(watch_dates, lambda: self.config)
                nursery.start_soon(self._expiry.watch_tokens)
                nursery.start_soon(self._host_names.run, self.config.names)
                if self.config.moved:
                    nursery.start_soon(
                        tell_move, lambda: self.config, self._roster.locate, self._udp.address
                    )
                if self.config.spin:
                    nursery.start_soon(self._spin)
                self._measure_path()
                await self._keep_time()
        if self._trace is not None:
            self._end_trace(self._trace)
        if self._error is not None:
            if not isinstance(self._error, MemoryError):
                with trio.move_on_after(LINGER_S):
                    await self.dump()
            raise self._error
        return self._end

    def _end_trace(self, trace: TraceFile) -> None:
        left = self._error is None and self._end is ServiceEnd.LEFT
        identity = identity_of(self._start.daemon)
        trace.record(Left(trace.now, identity) if left else Fail(trace.now, identity))
        trace.close()

    def stop(self) -> None:
        """Begin to leave, after a drain if the configuration says so; a second call ends that."""
        if self.config.drain_s and not self._drains:
            self.drain(self.config.drain_s)
        else:
            self.leave()

    def drain(self, within_s: float, observer: str = "") -> None:
        """Have the programs move, then leave in order; `run` returns once that is complete.

        Args:
            within_s: the seconds after which the daemon leaves, whatever programs do.
            observer: the user of a session that is not waited for; "" for none.
        """
        self.leaves = self._drains = True
        self._nursery.start_soon(self._begin_drain, within_s, observer)

    async def _begin_drain(self, within_s: float, observer: str) -> None:
        """Begin the drain, once other daemons have reported where programs can go."""
        others: tuple[str, ...] = ()
        if self._sockets.tls is not None:  # else no program comes from another host
            self._cluster.ask(trio.current_time())
            await trio.sleep(min(within_s, REPORTS_S))
            others = self._cluster.tls_addresses(self.core.status(trio.current_time()))
        request = DrainRequested(within_s=within_s, addresses=others, observer=observer)
        self.connections.feed([request])

    def leave(self) -> None:
        """Begin an orderly leave; `run` returns once it is complete."""
        self.leaves = True
        self._submit(LeaveRequested())

    def _submit(self, event: Input) -> None:
        """Pass an input to the core now."""
        self.connections.inputs.append(event)
        self.turn()

    def _note_written(self, answer: Input) -> None:
        """Pass the result of a write to the core, and log a disk that is not well."""
        self._submit(answer)
        self._disk.check(self.core.status(trio.current_time()))

    def read_files(self, config: DaemonConfig) -> ReadFiles:
        """Read the files that a configuration names, which may wait for the disk: in a thread.

        Raises:
            ConfigError, OSError: a file for TLS, for HTTP or of keys cannot be used.
        """
        old, tls, http = self.config, config.tls, config.http
        listens_at = None if old.tls is None else old.tls.address
        if self._sockets.tls_listener is None or (tls is not None and tls.address != listens_at):
            tls = None
        if self._sockets.tls_listener is not None:
            self._sockets.tls_listener.credentials.refresh()
        if http is not None and (old.http is None or http.listen != old.http.listen):
            http = None
        if http is not None:
            check_http_files(http)
        return ReadFiles(
            None if tls is None else read_tls_credentials(tls),
            http is not None,
            self._keys.read() if config.key_file is not None and old.keys is not None else None,
        )

    def reload(self, config: DaemonConfig, files: ReadFiles) -> None:
        """Apply the settings that can change while the daemon runs; log those that cannot.

        Args:
            config: the configuration that was read again.
            files: its files, as `read_files` has returned them.

        Raises:
            LocalProtocolError: the key file lacks a key in use; then nothing has changed.
        """
        credentials, http_is_renewed = files.credentials, files.renews_http
        first = self.config.core.addresses  # of the start, with a port that the system has chosen
        config = attrs.evolve(config, core=attrs.evolve(config.core, addresses=first))
        names = [name for name in attrs.fields_dict(DaemonConfig) if name not in _OF_OTHERS]
        changed = [n for n in names if getattr(config, n) != getattr(self.config, n)]
        reloaded = RELOADED | ({"tls"} if credentials is not None else set())
        reloaded |= {"http"} if http_is_renewed else set()
        taken = [name for name in changed if name in reloaded]
        left = [name for name in changed if name not in reloaded]
        news = {name: getattr(config, name) for name in taken}
        if files.keys is not None:
            self._keys.use(files.keys)  # the last act that may fail
        self._roster.config = attrs.evolve(self.config, **news, overruled=config.overruled)
        self.reloads += 1
        self.connections.quotas.quotas = config.quotas
        self.connections.session_timeout_s = config.limits.session_timeout_s
        self._expiry.renew(credentials)
        if self._http is not None:
            self._http.renew(settings=http_is_renewed)
        self._submit(_settings_of(config))
        _log.info(
            "configuration read again: %s",
            f"new for clients that connect from now on: {', '.join(taken)}"
            if taken
            else "as before",
            extra={"taken": taken, "needs_restart": left},
        )
        if config.core.agreed is not None:
            log_roster(config.core.agreed, self._state.rosters_path, config.overruled)
        if left:
            _log.warning("these settings change only with a restart: %s", ", ".join(left))

    async def dump(self) -> None:
        """Write the flight recorder's events to the state folder, and log the file."""
        if self._trace is not None:
            _log.info(
                "no flight recorder is written, as the trace %s has all events", self._trace.path
            )
            return
        path = self.config.state_dir / f"flight-{int(time.time())}.jsonl"
        recorded = self._flight.copy()
        try:
            await trio.to_thread.run_sync(recorded.dump, path, abandon_on_cancel=True)
        except OSError as error:
            _log.error("the flight recorder was not written: %s", error)
            return
        _log.info(
            "the flight recorder was written: %d events in %s; groupcomm view draws them",
            len(recorded),
            path,
        )

    # ---- tasks ----

    async def _keep_time(self) -> None:
        """Take a turn at each deadline of the core."""
        while True:
            with trio.CancelScope(deadline=self._due) as self._timer:
                await trio.sleep_forever()
            late_s = trio.current_time() - self._due
            if late_s >= 0.0:  # otherwise the deadline has moved meanwhile
                self.loop.note_late(late_s)
                self.turn()

    async def _receive(self, source: socket.socket) -> None:
        while True:
            await trio.lowlevel.wait_readable(source)
            self.turn()
            while self._flood.is_watched and (pause_s := self._flood_pause_s()):
                await trio.sleep(pause_s)
                self.turn()

    def _flood_pause_s(self) -> float:
        """Return the time to pause reading; under much junk, have the system filter it."""
        pause_s = self._flood.pause_s(trio.current_time())
        if self._flood.is_on:
            self._udp.filter(self._wanted)
        return pause_s

    async def _spin(self) -> None:
        """Keep the loop from sleeping: polling is faster than waking up, and costs a processor."""
        while True:
            await trio.lowlevel.checkpoint()

    async def _check_each_second(self) -> None:
        """Check once a second the state that steps do not report: clocks, settings, junk, slow
        programs."""
        while True:
            await trio.sleep(WALL_INTERVAL_S)
            now = trio.current_time()
            self.connections.inputs.append(WallClockRead(now, time.time()))  # for the next step
            self._measure_path()
            with self.loop.step("looked for certificates and tokens that have expired"):
                any_ended = self._expiry.end_expired()
            if any_ended:
                self.turn()
            await self.connections.end_vanished()
            with self.loop.step("checked what is checked each second"):
                status = self._check(now)
            self.locked_out = self._keys.check(status)
            if self.locked_out is not None:
                self._finish(ServiceEnd.LOCKED_OUT)

    def _measure_path(self) -> None:
        """Tell the core, with the next step, what the system says the paths carry."""
        found = self._udp.measure_path()
        if found is not None and found != self._path_bytes:
            self._path_bytes = found
            self.connections.inputs.append(PathMeasured(found))

    def _check(self, now: float) -> Status:
        status = self.core.status(now)
        slow = self.core.programs_status(least_output=SLOW_BYTES).sessions
        self._differences.check(status)
        self._versions.check(status)
        self._solitude.check(status, {**self.config.addresses, **self.config.located})
        self._watch.check(status, slow)
        self._disk.check(status)
        self._check_junk(status)
        return status

    def _check_junk(self, status: Status) -> None:
        if self._watch.check_junk(status, self._udp.dropped):
            self._flood.go_on(status.at)
        elif status.at >= self._flood.over_at:
            self._udp.filter(None)

    # ---- one turn ----

    def turn(self) -> None:
        """Pass all input to one step of the core and carry out its output; never raise."""
        if self._error is not None:
            return
        began = monotonic()
        if began >= self.loop.read_due:
            self.loop.read(began)
        try:
            self._turn()
        except Exception as error:
            self._fail(error)
        took_s = monotonic() - began
        self.loop.steps.add(took_s)
        if took_s > self.loop.noted_s:
            self.loop.end(took_s, self._did())

    def _did(self) -> str:
        """Return what the latest turn has done."""
        sent, served = self._done
        return (
            f"received {len(self._datagrams)} datagrams, handled {self._inputs} inputs, sent"
            f" {sent} datagrams, served {served} programs"
        )

    def _fail(self, error: Exception) -> None:
        """Stop at once, as a step has not ended: nothing wrong may be sent."""
        self._error = error
        if isinstance(error, MemoryError):
            self._last_words.free()
        self._scope.cancel()

    def _turn(self) -> None:
        connections = self.connections
        self._datagrams = self._udp.drain()
        self._now = trio.current_time()
        if strange := self._udp.pop_strange():
            self._flood.note(strange, strange)
        if asked := self._udp.pop_asked():
            self._roster.joining.answer(asked, self._now, self._nursery)
        inputs, connections.inputs = connections.inputs, []
        self._inputs = len(inputs)
        drive(self.core, self, self._now, self._datagrams, inputs)
        if self._due < self._timer.deadline:  # a later deadline is noticed at the old one
            self._timer.deadline = self._due

    @property
    def _due(self) -> float:
        """Return the time of the next turn if nothing comes before."""
        return min(self.core.deadline, self._answers.due)

    # ---- duties of a step ----

    def use_roster(self, roster: Roster) -> None:
        """See Shell."""
        self._roster.use(roster)
        self._use_places()
        self._wanted = pattern_of(self.config.core)
        if self._udp.filtered:
            self._udp.filter(self._wanted)
        self._host_names.use(self.config.names)

    def _use_places(self) -> None:
        """Send to the daemons where they are now."""
        use_places(self._udp, self.config, self._near)

    def use_near(self, near: frozenset[str]) -> None:
        """See Shell."""
        self._near = near
        self._use_places()

    def use_segmentation(self, segmentation: Segmentation) -> None:
        """See Shell."""
        self._udp.use_segmentation(segmentation)

    def store(self, wanted: Sequence[Store]) -> None:
        """See Shell."""
        for each in wanted:
            self._nursery.start_soon(self._writer.write, each)

    def send(self, output: Output) -> bool:
        """See Shell."""
        datagrams = self._datagrams
        if datagrams:
            self._note_received(output, datagrams)
        if self._networks is not None:  # also about daemons from which no datagram has come
            since = self._now - self._networks.fresh_s
            self._networks.note(self.core.heard(since), self._now)
        if self._trace is not None:
            self._trace.flush()  # before anybody else learns of the events in it
        if output.datagrams:
            self._udp.send(output.datagrams)
        return True

    def _note_received(self, output: Output, datagrams: Sequence[bytes]) -> None:
        """Note the core's verdict about the datagrams of this turn."""
        if output.rejected or self._flood.is_watched:
            self._flood.note(len(datagrams), output.rejected)
        if output.dropped:
            self._rejected_senders.note(output.dropped, datagrams, self._udp, self._now)
            self._copies.note(output.dropped, datagrams, self._udp, self._heard, self._now)
        self._udp.learn(clean=not output.rejected)

    def _heard(self) -> set[str]:
        """Return the daemons that have been heard for a token timeout, and this one."""
        since = self._now - self.config.core.timing.token_timeout_s
        return {name for name, _, hears in self.core.heard(since) if hears} | {self.config.name}

    def serve(self, output: Output) -> None:
        """See Shell."""
        if self._trace is not None:
            self._trace.flush()
        for news in output.news:
            log_news(news, partial(self.core.status, self._now), self._watch.bounded)
            if isinstance(news, DrainOver):
                self.on_leaving()
        if output.news and self._http is not None:
            self._http.note(output.news)
        self._done = len(output.datagrams), len(output.ready)
        self.connections.carry_out(output)
        if output.reports:
            self._cluster.accept(output.reports, self._now)
        if output.questions:
            self._answers.ask(self._without_reload(output.questions), self._now)
        if self._answers.due <= self._now:
            self.connections.feed(self._answers.answer(self._now))

    def finish(self, over: CoreOver) -> None:
        """See Shell."""
        self.over = over
        self._nursery.start_soon(self._linger)

    def _without_reload(self, questions: Sequence[tuple[int, str]]) -> list[tuple[int, str]]:
        """Return the questions that can be answered at once; begin to read keys for the others."""
        left = []
        for connection, question in questions:
            principal = self.connections.principal_of(connection)
            if question.split() == RELOAD_KEYS and principal and may_change_keys(principal):
                self._nursery.start_soon(self._reload_keys, connection)
            else:
                left.append((connection, question))
        return left

    async def _reload_keys(self, connection: int) -> None:
        self.connections.feed([QuestionAnswered(connection, await self._keys.answer_reload())])

    def _answer(self, question: str, principal: str) -> Iterator[bytes]:
        return answer(self._parts(), question, principal)

    def _parts(self) -> DaemonParts:
        return DaemonParts(
            *(self.config, self.core, self.connections, self._udp, self._keys),
            *(self._differences, self._rejected_senders, self._copies),
            *(self._disk, self._cluster, self._drain),
            *(self.loop, self._started),
            self._roster,
            self.reloads,
            self._delays.delays if self._delays is not None else (),
        )

    def _serve_http(self, at: HttpSocket, nursery: trio.Nursery) -> None:
        """Start the process of HTTP; other daemons never load the modules for that."""
        from groupcommd.http.supervisor import (  # noqa: PLC0415 - see above
            HttpSupervisor,
            OwnProcess,
        )

        self._http = HttpSupervisor(at.socket, lambda: self.config, self._parts, OwnProcess)
        nursery.start_soon(self._http.run)

    async def _linger(self) -> None:
        """End once clients have their output and files are written, or after LINGER_S."""
        with trio.move_on_after(LINGER_S):
            await self.connections.drain(LINGER_S)
            while self._writer.writes:
                await trio.sleep(0.01)
        if self._writer.writes:
            _log.error(
                "a write to disk has not ended in %g s: the daemon ends without waiting for it",
                LINGER_S,
            )
        assert self.over is not None
        self._finish(ServiceEnd[self.over.end.name])

    def _finish(self, end: ServiceEnd) -> None:
        self._end = end
        self._scope.cancel()
