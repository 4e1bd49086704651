"""C1 to C8, C11, D3, D5, G1, L1, L2: the view of each process, its members, and the times.

A *process* is one start of a daemon; a view stands for its text, an *index* for an event's place in
the trace. This module decides in one pass which events are void, for all events of processes.
"""

from math import inf

from groupcomm.trace.events import (
    Accept,
    Boot,
    Conf,
    Count,
    Fail,
    Heal,
    Hold,
    Horizon,
    Left,
    Quiet,
    Release,
    Stamped,
    Table,
    TraceEvent,
)
from tests.verification.reference.terms import NO_VIEW, name_of, order_of

Daemonly = Boot | Fail | Left | Conf | Accept | Stamped | Hold | Horizon | Count | Release | Table

_NEEDS_VIEW = Accept | Stamped | Hold | Horizon | Count | Release | Table


class Views:
    """The views of one trace.

    Attributes:
        found: ids of violated properties.
        void: the indices of events that other rules ignore.
        processes: the processes that booted or installed a view, in the order of their first event.
        booted: for each process the index of its Boot.
        ends: per process the index of its Fail or Left.
        confs: per process its Confs, with their indices.
        rings: per regular view the rings that its first Conf names.
        healed: the index of Heal; None without.
        quiet: whether the trace ends with Quiet.
    """

    def __init__(self, events: list[TraceEvent]) -> None:
        self.events = events
        self.found: set[str] = set()
        self.void: set[int] = set()
        self.processes: list[str] = []
        self.booted: dict[str, int] = {}
        self.ends: dict[str, int] = {}
        self.confs: dict[str, list[tuple[int, Conf]]] = {}
        self.rings: dict[str, tuple[tuple[str, ...], ...]] = {}
        self.healed: int | None = None
        self.quiet = any(isinstance(event, Quiet) for event in events)
        self._begun: dict[str, int] = {}  # the Boot or first Conf of each process
        self._complete: dict[tuple[str, str], int] = {}
        for index, event in enumerate(events):
            if (rule := self._why_void(event, index)) is not None:
                self.found.add(rule)
                self.void.add(index)
            else:
                self._add(event, index)
        self._find_repeated_incarnations()

    def _find_repeated_incarnations(self) -> None:
        boots = (self.events[index] for index in self.booted.values())
        starts = [(name_of(e.p), e.incarnation) for e in boots if isinstance(e, Boot)]
        if len(set(starts)) < len(starts):
            self.found.add("C11")

    # ---- void events ----

    def _why_void(self, event: TraceEvent, index: int) -> str | None:
        """Return the first rule that makes an event void: D5, then in the order of the page."""
        if isinstance(event, Heal):
            return None if self.healed is None else "D5"
        process = getattr(event, "p", None)
        if process is None:
            return None
        rule = "D5" if process in self.ends else self._why_unborn(event, process)
        if rule is None and isinstance(event, Conf):
            rule = self._why_wrong(event, index)
        if rule is None:
            rule = self._why_elsewhere(event, process)
        if rule is None and isinstance(event, Table):
            rule = self._why_too_soon(event)
        if rule is None and isinstance(event, Release | Table):
            rule = self._why_incomplete(event)
        return rule

    def _why_unborn(self, event: TraceEvent, process: str) -> str | None:
        """Return the violated part of C1, or None."""
        if isinstance(event, Boot):
            return "C1" if process in self.confs else None
        if self.booted and process not in self.booted:
            return "C1"
        if isinstance(event, Fail | Left) and process not in self.confs:
            return "C1"
        transitional = isinstance(event, Conf) and event.kind == "T"
        if (transitional or isinstance(event, _NEEDS_VIEW)) and not self._installs(process):
            return "C1"
        return None

    def _why_wrong(self, conf: Conf, index: int) -> str | None:
        """Return the violated property among C2 to C6 and C10, or None."""
        if conf.p not in flat(conf):
            return "C2"
        if conf.kind == "R":
            if any(order_of(view) >= order_of(conf.view) for view in self._earlier(conf.p, index)):
                return "C4"
            if conf.rings != self.rings.get(conf.view, conf.rings):
                return "C3"
            return self._why_no_way(conf)
        if order_of(conf.view) <= order_of(conf.old):
            return "C4"
        return self._why_no_turn(conf)

    def _earlier(self, process: str, index: int) -> list[str]:
        """Return the views of a process, and of those of its name that had ended before it began.

        Where a restart count shows that a disk was lost, earlier views do not count; nor do those
        of a clone, or its original, that only one of them may have had on its disk.
        """
        first = self._begun.get(process, index)
        lost = self._lost_disk(process)
        found = self._installs(process)
        for other, end in self.ends.items():
            if name_of(other) == name_of(process) and lost <= self._begun[other] and end < first:
                found = found + self._known_views(other)
        return found

    def _known_views(self, process: str) -> list[str]:
        """Return the views that any next start knows, as it has the disk of this process, which has
        ended, or that of a clone."""
        found = self._installs(process)
        least = max(map(order_of, found), default=None)
        for clone in self._clones(process):
            views = [
                conf.view
                for index, conf in self.confs.get(clone, ())
                if conf.kind == "R" and index < self.ends[process]
            ]
            if not views or least is None:
                return []
            least = min(least, max(map(order_of, views)))
            found = found + views
        return [view for view in found if least is not None and order_of(view) <= least]

    def _clones(self, process: str) -> list[str]:
        """Return the other processes of the name of a process that ran at the same time."""
        begun, end = self._begun[process], self.ends[process]
        return [
            other
            for other, at in self._begun.items()
            if name_of(other) == name_of(process)
            and other != process
            and at < end
            and begun < self.ends.get(other, inf)
        ]

    def _lost_disk(self, process: str) -> int:
        """Return the index of the last Boot with a restart count not above all earlier ones."""
        found, highest = -1, -1
        for other, index in self.booted.items():
            if name_of(other) == name_of(process):
                boot = self.events[index]
                assert isinstance(boot, Boot)
                restarts = int(boot.incarnation.partition(".")[0])
                if restarts <= highest:
                    found = index
                highest = max(highest, restarts)
            if other == process:
                return found
        return found

    def _why_no_way(self, conf: Conf) -> str | None:
        """Return the violation of C5, for regular views, or None."""
        before = self.confs.get(conf.p)
        if not before:
            return None
        last = before[-1][1]
        if last.kind != "T" or last.view != conf.view or not set(flat(last)) <= set(flat(conf)):
            return "C5"
        return None

    def _why_no_turn(self, conf: Conf) -> str | None:
        """Return the violated property among C5, C6 and C10, for transitional views, or None."""
        members = flat(conf)
        if self.confs[conf.p][-1][1].kind == "T" or self._installs(conf.p)[-1] != conf.old:
            return "C5"
        if not set(members) <= set(self.members(conf.old)):
            return "C5"
        turns = [c for _, c in self._all_confs() if c.kind == "T" and c.old == conf.old]
        same = [c for c in turns if c.view == conf.view]
        if same and set(flat(same[0])) != set(members):
            return "C5"
        for other in turns:
            mutual = other.p in members and conf.p in flat(other)
            if mutual and (other.view != conf.view or set(flat(other)) != set(members)):
                return "C6"
        if any(conf.old not in self._installs(member) for member in members):
            return "C10"
        return None

    def _all_confs(self) -> list[tuple[int, Conf]]:
        return sorted((entry for confs in self.confs.values() for entry in confs), key=_index)

    def _why_too_soon(self, table: Table) -> str | None:
        """Return the violation of C8, or None."""
        view, *place = table.pos
        if any(place):
            return None
        if any(view not in self._installs(member) for member in self.members(view)):
            return "C8"
        return None

    def _why_elsewhere(self, event: TraceEvent, process: str) -> str | None:
        """Return the violation of D3, or None."""
        installs = self._installs(process)
        view = installs[-1] if installs else NO_VIEW
        if isinstance(event, Stamped | Horizon) and event.view != view:
            return "D3"
        if isinstance(event, Table) and event.pos[0] != view:
            return "D3"
        regular = not installs or self.confs[process][-1][1].kind == "R"
        if isinstance(event, Stamped | Hold | Horizon | Count) and not regular:
            return "D3"
        if isinstance(event, Stamped | Hold | Horizon | Count | Release):
            return None if event.ring < len(self.rings[view]) else "D3"
        return None

    def _why_incomplete(self, event: Release | Table) -> str | None:
        """Return the violation of G1, or None."""
        view = self._installs(event.p)[-1]
        complete = self.booted.get(event.p) is None or (event.p, view) in self._complete
        if isinstance(event, Release):
            return None if complete else "G1"
        if not any(event.pos[1:]):
            transitional = self.confs[event.p][-1][1].kind == "T"
            return "G1" if complete or transitional else None
        return None

    # ---- events that count ----

    def _installs(self, process: str) -> list[str]:
        return [conf.view for _, conf in self.confs.get(process, []) if conf.kind == "R"]

    def _add(self, event: TraceEvent, index: int) -> None:
        if isinstance(event, Heal):
            self.healed = index
        process = getattr(event, "p", None)
        if process is None:
            return
        if isinstance(event, Boot | Conf) and process not in self.confs:
            self._begun[process] = index
            self.processes.append(process)
            self.confs[process] = []
        if isinstance(event, Boot):
            self.booted[process] = index
        elif isinstance(event, Fail | Left):
            self.ends[process] = index
        elif isinstance(event, Conf):
            self.confs[process].append((index, event))
            if event.kind == "R":
                self.rings.setdefault(event.view, event.rings)
                if process in self.booted and any(p not in self.booted for p in flat(event)):
                    self.found.add("C7")
        elif isinstance(event, Table) and not any(event.pos[1:]):
            self._complete[process, event.pos[0]] = index

    # ---- members of views ----

    def members(self, view: str) -> list[str]:
        """Return the members of a regular view, by name."""
        return sorted(
            (p for ring in self.rings.get(view, ()) for p in ring), key=lambda p: (name_of(p), p)
        )

    def ring_of(self, process: str, view: str) -> int | None:
        """Return the index of a process's ring; None if it is not in the view."""
        for index, ring in enumerate(self.rings.get(view, ())):
            if process in ring:
                return index
        return None

    # ---- a process's way through views ----

    def installs(self, process: str) -> list[tuple[int, str]]:
        """Return the regular views of a process, with the indices of their Confs."""
        return [(i, conf.view) for i, conf in self.confs.get(process, []) if conf.kind == "R"]

    def installed_at(self, process: str, view: str) -> int | None:
        """Return the index at which a process installed a view; None if it never did."""
        return next((i for i, v in self.installs(process) if v == view), None)

    def left_at(self, process: str, view: str) -> int | None:
        """Return the index at which a process left a view for another; None if it never did."""
        at = self.installed_at(process, view)
        if at is None:
            return None
        return next((i for i, _ in self.installs(process) if i > at), None)

    def next_view(self, process: str, view: str) -> str:
        """Return the view that a process went to from another; NO_VIEW if none."""
        at = self.left_at(process, view)
        return next((v for i, v in self.installs(process) if i == at), NO_VIEW)

    def view(self, process: str | None, index: int) -> str:
        """Return the view of a process before an index; NO_VIEW if none."""
        found = [v for i, v in self.installs(process or "") if i < index]
        return found[-1] if found else NO_VIEW

    def is_regular(self, process: str, index: int) -> bool:
        """Return whether a process was in the regular part of its view before an index."""
        found = [conf for i, conf in self.confs.get(process, []) if i < index]
        return bool(found) and found[-1].kind == "R"

    def turn(self, process: str, view: str) -> tuple[int, Conf] | None:
        """Return the Conf T with which a process ended a view's regular part."""
        for i, conf in self.confs.get(process, []):
            if conf.kind == "T" and conf.old == view:
                return i, conf
        return None

    def fellows(self, process: str, view: str) -> list[str]:
        """Return the members of that Conf T; none without it."""
        turn = self.turn(process, view)
        return [] if turn is None else flat(turn[1])

    def completed_at(self, process: str, view: str) -> int | None:
        """Return the index from which a view was complete at a process; None if it never was."""
        if process not in self.booted:
            return self.installed_at(process, view)
        return self._complete.get((process, view))

    # ---- the end ----

    @property
    def core(self) -> list[str]:
        """Return the processes of which nothing may be missing at Quiet; none without Quiet."""
        if not self.quiet:
            return []
        if self.healed is not None:
            heal = self.events[self.healed]
            assert isinstance(heal, Heal)
            return [p for p in heal.core if p in self.confs and p not in self.ends]
        return [p for p in self.processes if p not in self.ends and self.installs(p)]


def flat(conf: Conf) -> list[str]:
    """Return the members that a Conf lists."""
    return [p for ring in conf.rings for p in ring]


def _index(entry: tuple[int, Conf]) -> int:
    return entry[0]
