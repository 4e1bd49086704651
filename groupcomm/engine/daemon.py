"""DaemonCore: one whole daemon as a state machine.

Pure. Datagrams, what clients did, and the time go in; datagrams, what clients are to be told, and
one deadline come out. It wires the parts together and decides nothing that a part could decide:
membership says which view is next, an Operation (operation.py) is all there is of one view, the
desk and the clocks go on from view to view.

One call of `step` is one step: first everything that has arrived is taken, then membership and
the ring act once. Then, with what comes of it on its way, `deliver` gives out everything that can
be. So the work for a burst is done once, not per datagram, and nobody waits for others' clients.

A shell drives it by engine/drive.py, and uses nothing else of it but `deadline`, `next_connection`,
`pop_output`, `command`, and what it tells: `status`, `groups`, `members` and `heard`.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from math import inf

from groupcomm.clocks.physical import PhysicalClock
from groupcomm.config.core import CoreConfig
from groupcomm.config.view import Incarnation, Start, View
from groupcomm.engine import inputs as given
from groupcomm.engine.commands import Command, Evict, LoadKeys, PromoteKey, RetireKey
from groupcomm.engine.counters import Counters
from groupcomm.engine.desk import Desk
from groupcomm.engine.ending import Ending
from groupcomm.engine.heritage import Heritage
from groupcomm.engine.inputs import Input, ProgramSettings
from groupcomm.engine.keeper import Keeper
from groupcomm.engine.leaving import Leaving
from groupcomm.engine.news import AccessNews, News, ProtocolNews, TokenWatch, ViewHistory
from groupcomm.engine.operation import Operation
from groupcomm.engine.output import End, Output, Over, Transmission
from groupcomm.engine.probe import NoProbe, Probe
from groupcomm.engine.status import Status, status_of
from groupcomm.engine.storage import Storage
from groupcomm.engine.suites import make_gate
from groupcomm.errors import BadDatagram, RemoteProtocolError
from groupcomm.groups.table import Member
from groupcomm.membership.membership import Membership
from groupcomm.membership.reservation import reserved_by
from groupcomm.membership.states import Reason, State
from groupcomm.membership.union import Union
from groupcomm.ring.ring import TokenState as RingState
from groupcomm.security.identity import DaemonCredentials
from groupcomm.security.keys import KeyRing
from groupcomm.stream.packer import bundle_room
from groupcomm.stream.ranges import Range
from groupcomm.stream.stream import Stream
from groupcomm.wire.control import decode_control_untrusted
from groupcomm.wire.membership import Past
from groupcomm.wire.packet import PacketKind, peek_untrusted
from groupcomm.wire.raw import Raw

MAX_EARLY = 1024
"""Packets of a view that others have installed already, kept until this daemon has."""

_CONTROL = PacketKind.CONTROL


class DaemonCore:
    """One daemon.

    Args:
        config: its settings; of one cluster all cores have the same.
        start: who it is, with its restart count already on disk.
        keys: the key ring, needed with suites 1 and 2.
        credentials: its identity, and the others'; needed with suite 2.
        now: seconds of its monotonic clock.
        wall: seconds of its wall clock.
        settings: what holds for programs; else anything is allowed.
        probe: an observer for traces.

    Attributes:
        deadline: take a step at this time even if nothing arrives; inf if never.
        desk: the local sessions; the shell takes their output.
        keeper: of the keys.
        counters: what happened so far.
        membership: which view is next.
        operation: all there is of the present view; None before the first.
        reservation: of view counters, on disk.
        leaving: how it ends.
    """

    def __init__(
        self,
        config: CoreConfig,
        start: Start,
        *,
        keys: KeyRing | None,
        now: float,
        wall: float,
        settings: ProgramSettings | None = None,
        probe: Probe | None = None,
        credentials: DaemonCredentials | None = None,
    ) -> None:
        self.config = config
        self.start = start
        self.probe = probe or NoProbe()
        self._gate = make_gate(config, start, keys, now, credentials)
        self.counters = Counters()
        self.physical = PhysicalClock(now, wall)
        self._room = bundle_room(config.packet_limit)
        self.reservation = reserved_by(start, self.physical.read, now)
        self.desk = Desk(
            start.name,
            self._room,
            first_connection=self.reservation.used + config.starts.connection,
            settings=settings or ProgramSettings(),
            probe=self.probe,
        )
        self.keeper = Keeper(self, self._gate, keys)
        self._storage = Storage(self.reservation, self.keeper)
        self.operation: Operation | None = None
        self._frozen = True  # no view, or it stands still
        self._begun = False  # a view was installed in this step
        self._touched = False  # packets of the view have come in this step
        self._operation_due = inf  # when the view has something to do
        self._heritage = Heritage()
        self._early: list[tuple[int, bytes]] = []  # (sender, packet)
        self._output = Output([])  # of this step
        self._out: list[Transmission] = self._output.datagrams
        self._history = ViewHistory(now)
        self._token_watch = TokenWatch(config.timing.token_timeout_s)
        self._is_over = False  # and the shell knows
        self._now = now
        self._pause_s = config.timing.token_timeout_s / 2  # so late a call shows a pause
        self.leaving = Leaving(self, config.leave_timeout_s)
        self.membership = Membership(config, start, self, self.reservation)
        self.membership.gather(Reason.STARTED, now)
        self.deadline = now

    @property
    def view(self) -> View | None:
        """The regular view that was installed last."""
        return self.membership.view

    @property
    def state(self) -> State:
        """How far it is on the way from view to view."""
        return self.membership.state

    @property
    def streams(self) -> list[Stream]:
        """Of the present view, by ring."""
        return [] if self.operation is None else self.operation.streams

    # ---- one step ----

    def step(self, now: float, datagrams: Sequence[bytes], inputs: Sequence[Input]) -> Output:
        """Take everything that has arrived, act once, and return what the shell has to do.

        What programs are to be told is not known before `deliver`, which completes the output.

        Args:
            now: seconds of the monotonic clock, never less than before.
            datagrams: as received; nothing is raised, whatever they hold.
            inputs: what else has happened; whatever bytes clients sent, nothing is raised.
        """
        out: list[Transmission] = []
        output = self._output = Output(out)
        self._out = out
        paused = now > self.deadline + self._pause_s
        self._now = now
        self._gate.begin(now)
        counters = self.counters
        bad = counters.bad
        if paused and self.membership.state is not State.LEFT:
            self.membership.gather(Reason.PAUSED, now)
        for datagram in datagrams:
            self._receive(datagram, drop=paused)
        gate = self._gate
        if (gate.hellos or gate.met) and gate.greet(out):
            self.membership.say_again(now)
        for event in inputs:
            self._accept(event)
        served = self.desk.serve(now)
        self._step(now, clients=served or bool(inputs))
        counters.sent += len(out)
        if counters.latest:
            output.dropped, counters.latest = counters.latest, []
            output.rejected = counters.bad - bad
        if self.reservation.to_store is not None or self.keeper.unstored:
            output.store = self._storage.begin()
        return output

    def _accept(self, event: Input) -> None:
        """Take one input, in its turn; most are of clients."""
        match event:
            case given.ClientBytes():
                self.desk.feed(event)
            case given.MarkStored(mark):
                self._storage.mark_stored(mark, self._now)
            case given.MarkNotStored(reason):
                self._storage.mark_not_stored(reason, self._now)
            case given.KeysStored(keys):
                self._storage.keys_stored(keys)
            case given.RollStored(roll):
                self._storage.roll_stored(roll)
            case given.WallClockRead(now, wall):
                self.physical.observe_wall(now, wall)
            case given.LeaveRequested():
                self.leave()
            case _:
                self.desk.feed(event)

    def _step(self, now: float, *, clients: bool) -> None:
        membership = self.membership
        if clients:
            self.reservation.keep_ahead(self.desk.last - self.config.starts.connection, now)
        if now >= self.reservation.due and membership.state is not State.LEFT:
            self.reservation.step(now)
        due = self._touched or self._begun or now >= self._operation_due or self._is_freed()
        if due or clients:
            self._operate(now, clients=clients)
        membership.step(now)
        if membership.state is State.LEFT:
            self._stand_still()
        if self._begun:
            self._operate(now, clients=clients)
        if membership.flood.out:
            for destination, packet in membership.flood.out:
                self.seal_and_send(destination, packet)
            membership.flood.out.clear()

    def _set_deadline(self) -> None:
        # Never in the past: else the next call would look as if it came after a pause.
        due = min(self.membership.deadline, self._operation_due, self.leaving.due)
        desk = self.desk
        due = min(due, desk.intake.due, desk.names.due, desk.blocking.due)
        if self.membership.state is not State.LEFT:
            due = min(due, self.reservation.due)
        self.deadline = max(self._now, due)

    def deliver(self) -> None:
        """Give out what the last step has made deliverable, and complete its output."""
        operation, output = self.operation, self._output
        if operation is not None and not self._frozen:
            operation.deliver()
            self._operation_due = operation.deadline
        if self.leaving.begun and not self.membership.leaving and self.leaving.may_go(self._now):
            self.membership.leave(self._now)
        self.desk.complete(output)
        self._tell(output)
        self._set_deadline()
        if self.keeper.unstored and self._storage.may_begin:
            self.deadline = self._now  # what was delivered was about keys

    def _tell(self, output: Output) -> None:
        """Add what there is to say about this daemon: in most steps nothing."""
        now, membership, operation = self._now, self.membership, self.operation
        access, protocol = self.desk.guard.news, membership.trust.news
        news: list[News] = []
        if self._history.installed is not None:
            news.append(self._history.tell(membership.reasons, now))
        if operation is not None and not self._frozen:
            ring = operation.ring
            silent = ring.state is RingState.AWAY and now > ring.monitor.heard_at + self._pause_s
            if silent or self._token_watch.is_late:
                news += self._token_watch.look(ring, now)
        while access:
            news.append(AccessNews(access.popleft()))
        while protocol:
            news.append(ProtocolNews(protocol.popleft()))
        if news:
            output.news = news
        if membership.state is State.LEFT or membership.adopt is not None:
            output.over = self._tell_end()

    def _tell_end(self) -> Over | None:
        """Return how this start ends, once; None while it goes on."""
        if self._is_over:
            return None
        self._is_over = True
        membership, leaving = self.membership, self.leaving
        how = End.OUTDATED
        if membership.state is State.LEFT:
            how = End.CUT_SHORT if leaving.unfinished else End.LEFT
        return Over(
            end=how,
            unfinished=leaving.unfinished,
            adopt=membership.adopt,
            keys=self.keeper.keys,
            roll=self.keeper.roll,
        )

    def _is_freed(self) -> bool:
        """Whether all senders have waited for a client that has read meanwhile."""
        operation = self.operation
        blocked = operation is not None and operation.ring.flow.blocked
        return blocked and not self.desk.blocking

    def _operate(self, now: float, *, clients: bool) -> None:
        operation = self.operation
        if operation is None or self._frozen:
            return
        self._touched = False
        if self._begun:
            self._begun = False
            early, self._early = self._early, []
            for sender, packet in early:  # sent before the view was installed here
                self._take(sender, packet)
            if self._frozen:
                return  # they contradict each other
        if self.desk.limits.block_bytes is not None:
            operation.ring.flow.blocked = bool(self.desk.blocking)
        operation.step(now, clients=clients)
        self._operation_due = operation.deadline
        if operation.ring.monitor.token_losses:  # nothing was heard of it for a token timeout
            self.membership.gather(Reason.TOKEN_LOST, now)

    def leave(self) -> None:
        """Leave in order: end the sessions, see that all is held everywhere, tell the others.

        `Output.over` says so once that is done, or after `leave_timeout_s`, and what was not done.
        """
        if not self.leaving.begun:
            self.leaving.begun = True
            self.desk.close_all("the daemon is being stopped")
            self.wake()

    def wake(self) -> None:
        """Have the next step look at what waits, and soon."""
        self._touched = True
        self.deadline = self._now

    # ---- besides steps ----

    def next_connection(self) -> int:
        """Return the number for a client that connects now; never given twice."""
        return self.desk.open()

    def pop_output(self, connection: int, limit: int) -> list[Raw]:
        """Return parts of whole frames for a client, until `limit` bytes are reached.

        If they have fewer bytes there is nothing more. If all senders have waited for this client
        to read and do not any more, `deadline` is now.
        """
        session = self.desk.sessions.get(connection)
        if session is None:
            return []
        parts = session.pop_output(limit)
        operation = self.operation
        if operation is not None and operation.ring.flow.blocked and not self.desk.blocking:
            self.deadline = self._now
        return parts

    def command(self, command: Command) -> None:
        """Carry out what an operator wishes. Raises LocalProtocolError if it cannot be."""
        keeper = self.keeper
        match command:
            case LoadKeys(keys, roll):
                keeper.load(keys, roll)
            case PromoteKey(number):
                keeper.promote(number)
            case Evict(name):
                keeper.evict(name)
            case RetireKey(number=number, without_missing=anyway):
                keeper.retire(number, without_missing=anyway)

    def status(self, now: float) -> Status:
        """Return what there is to tell about this daemon, but for the groups."""
        return status_of(self, now)

    def groups(self) -> Mapping[str, int]:
        """Return how many members each group has, as far as this daemon has delivered."""
        return {name: len(members) for name, members in self._groups.items()}

    def members(self, group: str) -> Sequence[Member]:
        """Return the members of a group, in the order in which they joined; () if it has none."""
        return tuple(self._groups.get(group, ()))

    @property
    def _groups(self) -> Mapping[str, Collection[Member]]:
        operation = self.operation
        if operation is None or not operation.delivery.complete:
            return {}
        return operation.delivery.groups.table.groups

    def heard(self, since: float) -> Iterator[tuple[str, bool, bool]]:
        """Yield of each other daemon that is known by name, for those that choose among networks:

        its name, whether a datagram of its came with the last step, and whether it has said since a
        time that it hears this daemon.
        """
        daemon = self.start.daemon
        me = (daemon.number, daemon.incarnation.random_id)
        for peer in self.membership.peers.values():
            if peer.name is not None:
                yield peer.name, peer.heard_at == self._now, peer.hears(me, since)

    # ---- datagrams ----

    def _receive(self, datagram: bytes, *, drop: bool) -> None:
        """Take a datagram; after a pause drop it: all is old, and what matters is repeated."""
        self.counters.received += 1
        try:
            opened = self._gate.open_untrusted(datagram)
        except BadDatagram as error:
            self.counters.reject(datagram, error.reason)
            return
        if opened is None or drop:
            self.counters.stale += opened is not None  # else it was for the gate
        elif self.membership.on_datagram(opened.sender, opened.incarnation, self._now):
            self._take(opened.sender, opened.packet)
        else:
            self.counters.foreign += 1

    def _take(self, sender: int, packet: bytes) -> None:
        """Take a packet of a daemon of the cluster, or count that it breaks the protocol."""
        operation = self.operation
        try:
            kind, key = peek_untrusted(packet)
            if kind == _CONTROL:
                self.membership.on_control(decode_control_untrusted(packet), sender, self._now)
            elif operation is not None and key == operation.key:
                if not self._frozen:
                    self._touched = True
                    operation.receive(kind, packet, sender, self._now)
            elif (coming := self.membership.coming) is not None and key == coming.key:
                if len(self._early) < MAX_EARLY:
                    self._early.append((sender, packet))
            else:
                self.counters.foreign += 1
        except RemoteProtocolError as error:
            self.counters.note_violation(error)
            self.membership.on_broken(sender, error, self._now)

    def seal_and_send(self, destination: str | None, packet: bytes) -> None:
        """Send to a daemon, or to all others of the site."""
        self._out.append((destination, self._gate.seal(destination, packet)))

    # ---- the host of membership ----

    def freeze(self) -> None:
        """From now on the present view stands still: nothing is numbered or delivered in it."""
        if not self._frozen:
            self._history.stop(self._now)
        self._stand_still()
        self._early.clear()

    def _stand_still(self) -> None:
        self._frozen = True
        self._touched = False
        self._operation_due = inf

    @property
    def past(self) -> Past | None:
        """What is held of the view that stands still; None before the first view."""
        return self.operation.ending.past if self.operation is not None else None

    @property
    def clock(self) -> int:
        """The last stamp known, microseconds."""
        return self.operation.clock.value if self.operation is not None else 0

    @property
    def used(self) -> int:
        """Connection numbers up to this one may have been used, here or by others."""
        seen = 0 if self.operation is None else self.operation.delivery.highest_connection
        return max(self.desk.last, seen) - self.config.starts.connection

    def reading(self, now: float) -> int:
        """Physical time, microseconds."""
        return self.physical.read(now)

    def set_reading(self, now: float, reading: int) -> None:
        """Physical time was wrong by more than is followed: correct it."""
        self.physical.correct(now, reading)

    def missing(self, union: Union) -> list[list[Range]]:
        """Per ring, what of the union is not held here."""
        assert self.operation is not None
        return self.operation.ending.missing(union)

    def old_packet(self, ring: int, number: int) -> bytes | None:
        """A packet of the view that stands still, whole."""
        assert self.operation is not None
        packet = self.operation.streams[ring].packets.get(number)
        return packet.raw if packet is not None else None

    def take_repair(self, packet: bytes, union: Union) -> tuple[int, int] | None:
        """Take a packet of the view that stands still; its ring and number if it is taken."""
        assert self.operation is not None
        return self.operation.ending.take(packet, union)

    @property
    def old(self) -> Ending:
        """What is left to do with the view that stands still; there is one."""
        assert self.operation is not None
        return self.operation.ending

    def bind(self, union: Union, fellows: frozenset[int]) -> None:
        """This daemon holds the union and has told so: it treats the old view as these do."""
        assert self.operation is not None
        self.operation.ending.bind(union, fellows)

    def install(self, view: View, union: Union | None, fellows: frozenset[int]) -> None:
        """Deliver what is left of the old view, then begin this one."""
        if self.operation is not None and union is not None:
            self._finish(self.operation, view, fellows)
        self.probe.installed(view)
        self._history.installed = view
        self.reservation.renew(self._now)
        self._gate.begin_view(view)
        me = view.daemons.index(self.start.daemon)
        self.operation = Operation(view, me, self._heritage.announce(self._room), self, self._now)
        self._frozen = False
        self._begun = True

    def reroute(self, links: tuple[tuple[int, int], ...]) -> None:
        """Packets of the present view take these of its links from now on."""
        assert self.operation is not None
        self.operation.reroute(links, self._now)
        self._operation_due = self._now

    def forget(self, number: int, incarnation: Incarnation) -> None:
        """A start of a daemon is over."""
        self._gate.forget(number, incarnation)

    def _finish(self, old: Operation, view: View, fellows: frozenset[int]) -> None:
        members = tuple(old.view.daemons[index] for index in sorted(fellows))
        was_complete = old.delivery.complete

        def turn() -> None:
            self.probe.transitional(old.view.id, view.id, members)
            if old.delivery.complete:
                self.desk.end_regular()

        finished = old.ending.finish(turn)
        assert finished or not was_complete
        if finished:
            self._heritage.take(old.delivery.groups.table, old.key, old.view.daemons)
        self._heritage.keep(members)
        self.desk.end()
