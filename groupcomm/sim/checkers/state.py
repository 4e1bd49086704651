"""All records: daemons, views, clients and messages. Complete ones are forgotten in time."""

from collections import deque
from typing import Final

from groupcomm.sim.checkers.places import (
    LOWEST,
    Order,
)
from groupcomm.sim.checkers.records import (
    ClientRecord,
    Item,
    ProcessRecord,
    Stay,
    TableRecord,
    ViewRecord,
    name_of,
)
from groupcomm.trace.events import view_order

KEPT: Final = 50_000
"""The complete records of each kind that are remembered; for later ones see D2."""

KEPT_CLIENTS: Final = 1000
"""The ended clients whose full records are remembered; of earlier ones only names are kept."""

KEPT_VIEWS: Final = 1000
"""The views whose members and sort keys are remembered."""


class ObservedState:
    """All records of a trace so far.

    Attributes:
        processes: all starts of daemons by identity, ended ones included.
        stays: the stays of running daemons in their present views, by identity.
        views: the views in which any daemon may still act, by id.
        shapes: the rings of the latest views.
        clients: the clients by identity.
        events: the number of events that were fed.
        boots: whether the trace has a start of a daemon.
        plain: whether the trace began without one: it then has one view that does not change.
        core: the daemons that all faults have spared in the end; None before that is known.
        aside: the daemons whose disks are still unwell then.
    """

    def __init__(self) -> None:
        self.processes: dict[str, ProcessRecord] = {}
        self.stays: dict[str, Stay] = {}
        self.views: dict[str, ViewRecord] = {}
        self.shapes: dict[str, tuple[tuple[str, ...], ...]] = {}
        self.clients: dict[str, ClientRecord] = {}
        self.events = 0
        self.boots = False
        self.plain = False
        self.core: tuple[str, ...] | None = None
        self.aside: frozenset[str] = frozenset()
        self._floors: dict[tuple[str, int], Order] = {}  # by name and generation
        self._disks: dict[str, tuple[int, int]] = {}  # by name: generation, most restarts
        self._by_name: dict[str, ProcessRecord] = {}  # the processes of a plain trace
        self._orders: dict[str, Order] = {}
        self._items: deque[Item] = deque()
        self._ended: deque[ClientRecord] = deque()

    # ---- daemons ----

    def order_of(self, view: str) -> Order:
        """Return the key by which a view's id is sorted."""
        order = self._orders.get(view)
        if order is None:
            if len(self._orders) >= KEPT_VIEWS:
                self._orders.clear()
            order = self._orders[view] = view_order(view)
        return order

    def start(self, identity: str, restarts: int | None) -> ProcessRecord:
        """Enter a start of a daemon; `restarts` is its restart count, if the trace has it."""
        name, booted = name_of(identity), restarts is not None
        generation, most = self._disks.get(name, (0, -1))
        if restarts is not None:
            if restarts <= most:
                generation += 1  # its disk was lost or rolled back, and may have forgotten views
            self._disks[name] = (generation, max(most, restarts))
        floor = self._floors.get((name, generation), LOWEST)
        process = ProcessRecord(identity, booted, self.events, floor, generation)
        for other in self.processes.values():
            if other.name == name and not other.ended:
                other.clones.append(process)
                process.clones.append(other)
        if not self.processes:
            self.plain = not booted
        self.boots |= booted
        self.processes[identity] = process
        first = self._by_name.setdefault(process.name, process) is process
        if self.plain and first:
            self._settle_early(process)
        return process

    def _settle_early(self, home: ProcessRecord) -> None:
        """Settle clients of a plain trace that were there before their daemon."""
        for client in self.clients.values():
            if client.daemon_name == home.name:
                self.settle(client, home)
                if client.ended:
                    del home.clients[client]

    def end_process(self, process: ProcessRecord) -> None:
        """End a start of a daemon."""
        process.ended, process.ended_at = True, self.events
        self.stays.pop(process.identity, None)
        disk = (process.name, process.generation)
        # The next start has the disk of this process, or that of one of its clones: the others may
        # be gone, and with them all knowledge of views in which none of its next members was.
        known = process.floor
        if process.clones:
            known = min(process.latest, *(clone.latest for clone in process.clones))
        self._floors[disk] = max(self._floors.get(disk, LOWEST), known)
        for view in process.views:
            self._has_gone(process, view)
        process.views.clear()
        process.table = TableRecord()

    def install(self, process: ProcessRecord, view: ViewRecord) -> Stay:
        """Enter a view that a daemon has installed."""
        process.floor = process.latest = view.order
        still = []
        for other in process.views:
            if other is view or other.order > view.order:
                still.append(other)
            else:
                self._has_gone(process, other)
        if view not in still:
            still.append(view)
        process.views = still
        stay = process.stay = Stay(process, view)
        view.stays[process.identity] = self.stays[process.identity] = stay
        return stay

    def add_view(self, view: ViewRecord) -> None:
        """Enter a view, at its first mention."""
        self.views[view.text] = view
        self.shapes[view.text] = view.rings
        if len(self.shapes) > KEPT_VIEWS:
            del self.shapes[next(iter(self.shapes))]
        for identity in list(view.remaining):
            process = self.processes.get(identity)
            if process is None:
                continue  # it may start yet: the trace is broken
            if process.ended or process.floor > view.order:
                view.remaining.discard(identity)
            else:
                process.views.append(view)

    def _has_gone(self, process: ProcessRecord, view: ViewRecord) -> None:
        view.remaining.discard(process.identity)
        if not view.remaining:
            view.close()
            self.views.pop(view.text, None)

    @property
    def final(self) -> list[ProcessRecord]:
        """Return the daemons that must be complete at Quiet."""
        if self.core is None:
            found = (p for p in self.processes.values() if p.stay is not None)
        else:
            found = (self.processes[i] for i in self.core if i in self.processes)
        return [process for process in found if not process.ended]

    # ---- clients ----

    def client(self, identity: str) -> ClientRecord:
        """Return the record of a client; made at its first mention."""
        client = self.clients.get(identity)
        if client is None:
            client = self.clients[identity] = ClientRecord(identity, deque(maxlen=KEPT))
            if self.plain:
                self.settle(client, self._by_name.get(client.daemon_name))
        return client

    def settle(self, client: ClientRecord, home: ProcessRecord | None) -> None:
        """Set the daemon of a client, once it is known."""
        client.home = home
        if home is not None:
            home.clients[client] = None
            if not home.booted and home.stay is not None:
                client.stage = home.stay.regular

    def announce(self, process: ProcessRecord) -> None:
        """Note that a daemon without a start has a view, which its clients know at once."""
        assert process.stay is not None
        for client in process.clients:
            client.stage = process.stay.regular

    def end(self, client: ClientRecord) -> None:
        """Note that a client has ended; of those long gone only the name is kept."""
        self._ended.append(client)
        if client.home is not None:
            client.home.clients.pop(client, None)
        if len(self._ended) > KEPT_CLIENTS:
            oldest = self._ended.popleft()
            tables = (oldest.owed, oldest.views, oldest.knows, oldest.highest, oldest.due_from)
            for table in tables:
                table.clear()
            for known in (oldest.needs, oldest.agreed, oldest.stages, oldest.due):
                known.clear()

    # ---- messages ----

    def remember(self, item: Item) -> None:
        """Enter an item; the oldest complete ones are forgotten."""
        sender = item.sender
        sender.sent[item.number] = item
        if sender.unsent and item.number in sender.unsent:
            item.claims = [sender.unsent.pop(item.number)]
        items = self._items
        items.append(item)
        if len(items) > KEPT:
            oldest = items.popleft()
            if self._is_complete(oldest):
                self._forget(oldest)
            else:
                items.append(oldest)

    def _forget(self, item: Item) -> None:
        sender = item.sender
        sender.sent.pop(item.number, None)
        sender.forgotten = max(sender.forgotten, item.number)
        item.causes = ()
        if item.waiting:  # an UNRELIABLE message, for which a client was too slow
            for client in self.clients.values():
                client.owed.pop(item, None)

    def is_open(self, item: Item) -> bool:
        """Return whether a client may still get the item."""
        view = item.view
        if item.waiting > 0 or view is None:
            return True
        return item.released < len(view.members) and not view.over

    def _is_complete(self, item: Item) -> bool:
        """Return whether no more events of an item are expected."""
        sender = item.sender
        if sender.ended and item.accepted < item.count:
            return True  # the message was never accepted, or was cut
        home = sender.home
        if item.view is None and home is not None and home.ended:
            return home.stay is None or home.stay.view.over
        return item.level == 0 or not self.is_open(item)
