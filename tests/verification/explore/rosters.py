"""Every order of what can happen to the rosters of two or three daemons: votes, leaves, crashes.

Pure. The bounds that are exhausted stand in test_rosters.py.

The roster managers are the real ones; views, disks and the network are this module. It lets more
happen than they do: each daemon delivers any part of a view, whatever the others deliver, and a
view begins among any daemons with equal rosters at any time. So what holds here holds there.

At each view that may act, it has to share a daemon with the one before it that could (Q3).
"""

import copy
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import combinations

import attrs

from groupcomm.config.roster import Roster, RosterChange, RosterEntry, RosterRecord
from groupcomm.config.votes import Policy, Share
from groupcomm.engine.backlog import Backlog, Submitter
from groupcomm.engine.counters import Counters
from groupcomm.engine.roster import FloodRoster, RosterManager
from groupcomm.errors import LocalProtocolError
from groupcomm.wire.bundle import Bundle
from groupcomm.wire.membership import RosterNotice
from groupcomm.wire.roster import encode_roster

Move = tuple[str, ...]
"""What happens, and to whom."""


@attrs.define
class _View:
    members: tuple[str, ...]
    acts: bool = False  # it has begun with a majority
    is_whole: bool = True  # all members are in it, so that more can be ordered
    steps: list[tuple[int, Bundle]] = attrs.field(factory=list)


@attrs.define
class _Daemon:
    """One daemon: its disk, and its manager while it runs."""

    name: str
    disk: RosterRecord
    manager: RosterManager | None = None
    backlog: Backlog = attrs.field(factory=Backlog)
    view: int | None = None
    delivered: int = 0  # of the steps of its view
    leaves: bool = False
    is_stopped: bool = False  # it delivers no more of its view

    def start(self, first: Roster) -> None:
        """Run, with what the disk holds."""
        self.backlog, self.view, self.delivered, self.leaves = Backlog(), None, 0, False
        self.manager = RosterManager(
            self.name,
            self.disk.agreed or first,
            self.disk,
            Submitter(self.backlog),
            Counters(),
        )

    def stop(self) -> None:
        """Run no more."""
        self.manager, self.view = None, None


@attrs.frozen(kw_only=True)
class Budget:
    """What may still happen.

    Attributes:
        views: the views that begin.
        crashes: the daemons that are killed.
        leaves: the daemons that are told to leave.
        starts: the daemons that start again.
        losses: the disks that are found empty at a start.
        changes: what the operator asks for, one after the other.
        in_turn: whether daemons deliver in turn, each up to any step, and each write is over at
            once: far fewer orders.
    """

    views: int
    crashes: int = 0
    leaves: int = 0
    starts: int = 0
    losses: int = 0
    changes: tuple[RosterChange, ...] = ()
    in_turn: bool = False


class World:
    """Some daemons, and all that can happen to them.

    Args:
        first: the roster that their disks hold in the beginning.
        budget: what may happen.

    Attributes:
        acting: the members of the last view that could act.
        broken: what is wrong; "" if nothing is.
    """

    def __init__(self, first: Roster, budget: Budget) -> None:
        self.budget, self._file = budget, attrs.evolve(first, number=0, policy=Policy())
        record = RosterRecord(agreed=first)
        self.daemons = {name: _Daemon(name, record) for name in first.names}
        self._views: list[_View] = []
        self.acting: tuple[str, ...] = first.names
        self.broken = ""
        for daemon in self.daemons.values():
            daemon.start(self._file)
        self._begin(first.names)
        self._carry_out()

    # ---- what can happen ----

    def moves(self) -> Iterator[Move]:
        """Yield what can happen next."""
        for name, daemon in self.daemons.items():
            if daemon.manager is not None:
                yield from self._moves_of(name, daemon, daemon.manager)
            elif self.budget.starts:
                yield "start", name
                if self.budget.losses:
                    yield "start-empty", name
        if self.budget.views:
            yield from (("view", *members) for members in self._sides())

    def _moves_of(self, name: str, daemon: _Daemon, manager: RosterManager) -> Iterator[Move]:
        if self._is_next(name, daemon):
            yield "deliver", name
            if self.budget.in_turn:
                yield "stop", name
        if manager.unstored:
            yield "store", name
        if self.budget.crashes:
            yield "crash", name
            if manager.unstored:
                yield "crash-late", name  # the write has lasted
        if self.budget.leaves and not daemon.leaves:
            yield "leave", name
        if self.budget.changes and daemon.view is not None:
            yield "ask", name
        if daemon.leaves and self._may_go(daemon):
            yield "go", name
        yield from (("learn", name, other) for other in self.daemons if self._tells(other, name))

    def _is_next(self, name: str, daemon: _Daemon) -> bool:
        """Return whether a daemon may deliver the next step of its view."""
        if not self._has_more(daemon):
            return False
        rivals = [each for each in self.daemons.values() if each.view == daemon.view]
        left = [(each.delivered, each.name) for each in rivals if self._has_more(each)]
        return not self.budget.in_turn or (daemon.delivered, name) == min(left)

    def _has_more(self, daemon: _Daemon) -> bool:
        if daemon.view is None or daemon.is_stopped:
            return False
        return daemon.delivered < len(self._views[daemon.view].steps)

    def _sides(self) -> Iterator[tuple[str, ...]]:
        up = [name for name, daemon in self.daemons.items() if daemon.manager is not None]
        for count in range(1, len(up) + 1):
            for members in combinations(up, count):
                rosters = {self._manager(name).roster.id for name in members}
                views = {self.daemons[name].view for name in members}
                if len(rosters) == 1 and not self._is_present(members, views):
                    yield members

    def _is_present(self, members: Sequence[str], views: set[int | None]) -> bool:
        """Return whether these are the daemons of one view, with nothing new to tell programs."""
        (view,) = views if len(views) == 1 else (None,)
        if view is None or self._views[view].members != members:
            return False
        return self._views[view].acts or not self._manager(members[0]).roster.has_majority(members)

    def _may_go(self, daemon: _Daemon) -> bool:
        manager = daemon.manager
        assert manager is not None
        if manager.unstored or not manager.may_leave:
            return False
        if not manager.is_away or daemon.view is None:
            return True
        others = [self.daemons[name] for name in self._views[daemon.view].members]
        present = [each.manager for each in others if each.view == daemon.view]
        return all(each is not None and each.roster.id == manager.roster.id for each in present)

    def _tells(self, teller: str, name: str) -> bool:
        one, other = self.daemons[teller], self.daemons[name].manager
        if one.manager is None or other is None or teller == name:
            return False
        roster = one.manager.roster
        held = one.disk.agreed is not None and one.disk.agreed.id == roster.id
        learning = other.record.agreed is not None and other.record.agreed.id == roster.id
        return held and not learning and roster.supersedes(other.roster)

    def _manager(self, name: str) -> RosterManager:
        found = self.daemons[name].manager
        assert found is not None
        return found

    # ---- and what follows ----

    def after(self, move: Move) -> "World":
        """Return the world after a move."""
        made = copy.copy(self)
        made._views = [attrs.evolve(view, steps=list(view.steps)) for view in self._views]
        made.daemons = {name: _copied(daemon) for name, daemon in self.daemons.items()}
        made._do(*move)
        return made

    def _do(self, kind: str, name: str, *others: str) -> None:
        daemon = self.daemons[name]
        match kind:
            case "deliver":
                self._deliver(name, daemon)
            case "stop":
                daemon.is_stopped = True
            case "store":
                self._store(daemon)
            case "crash" | "crash-late" | "go":
                self._end(daemon, kind)
            case "start":
                self._spend(starts=1)
                daemon.start(self._file)
            case "start-empty":
                self._spend(starts=1, losses=1)
                daemon.disk = RosterRecord()
                daemon.start(self._file)
            case "leave":
                daemon.leaves = True
                self._spend(leaves=1)
                self._manager(name).leave()
            case "ask":
                self._ask(name)
            case "learn":
                roster = self._manager(others[0]).roster
                notice = RosterNotice(others[0], True, encode_roster(roster))
                self._manager(name).on_notice(notice, 0.0)
            case _:
                self._spend(views=1)
                self._begin((name, *others))
        self._carry_out()

    def _spend(self, **what: int) -> None:
        left = {key: getattr(self.budget, key) - by for key, by in what.items()}
        self.budget = attrs.evolve(self.budget, **left)

    def _store(self, daemon: _Daemon) -> None:
        assert daemon.manager is not None
        daemon.disk = daemon.manager.record
        daemon.manager.stored(daemon.disk)

    def _deliver(self, name: str, daemon: _Daemon) -> None:
        assert daemon.view is not None
        sender, bundle = self._views[daemon.view].steps[daemon.delivered]
        daemon.delivered += 1
        self._manager(name).on_step(sender, bundle)

    def _end(self, daemon: _Daemon, kind: str) -> None:
        if kind == "crash-late":
            self._store(daemon)
        if kind != "go":
            self._spend(crashes=1)
        self._leave_view(daemon)
        daemon.stop()

    def _ask(self, name: str) -> None:
        change, *later = self.budget.changes
        self.budget = attrs.evolve(self.budget, changes=tuple(later))
        with suppress(LocalProtocolError):
            self._manager(name).change(change, forced=False)

    def _leave_view(self, daemon: _Daemon) -> None:
        if daemon.view is not None:
            self._views[daemon.view].is_whole = False
        daemon.view = None

    def _begin(self, members: tuple[str, ...]) -> None:
        """Begin a view; its daemons leave the views that they are in."""
        for name in members:
            self._leave_view(self.daemons[name])
            self._manager(name).end_regular()
        majority = self._manager(members[0]).roster.has_majority(members)
        self._views.append(_View(members, bool(majority)))
        number = len(self._views)
        if majority:
            if not set(members) & set(self.acting):
                self.broken = f"{members} may act, and so may {self.acting}"
            self.acting = members
        for name in members:
            daemon = self.daemons[name]
            daemon.view, daemon.delivered, daemon.is_stopped = number - 1, 0, False
            self._manager(name).begin_view(members, number, majority=majority)

    def _carry_out(self) -> None:
        """Order what daemons have submitted, and give all of a view the rosters that are sent."""
        for name, daemon in self.daemons.items():
            if daemon.manager is None:
                continue
            if daemon.manager.unstored and self.budget.in_turn:
                self._store(daemon)
            effects, daemon.manager.effects = daemon.manager.effects, []
            view = None if daemon.view is None else self._views[daemon.view]
            for effect in effects:
                if isinstance(effect, FloodRoster) and view is not None:
                    for other in view.members:
                        if other != name and self.daemons[other].view == daemon.view:
                            self._manager(other).on_notice(effect.notice, 0.0)
            if view is not None and view.is_whole:
                at = view.members.index(name)
                view.steps += [(at, bundle) for bundle in daemon.backlog.clear()]

    def key(self) -> object:
        """Return what makes two worlds the same."""
        return (
            self.budget,
            self.acting,
            tuple(
                (
                    view.members,
                    view.acts,
                    view.is_whole,
                    tuple((at, b.body) for at, b in view.steps),
                )
                for view in self._views
            ),
            tuple(
                (
                    _names_of(daemon.disk),
                    daemon.view,
                    daemon.delivered,
                    daemon.leaves,
                    daemon.is_stopped,
                    tuple(bundle.body for bundle in daemon.backlog),
                    daemon.manager and _facts(daemon.manager),
                )
                for daemon in self.daemons.values()
            ),
        )


def _facts(manager: RosterManager) -> object:
    chosen, learned = manager._chosen, manager._learned
    return (
        manager.roster.id,
        _names_of(manager.record),
        manager.unstored,
        manager._may_change,
        manager._in_view,
        manager._leaves,
        manager._removed,
        tuple(manager._proposed),
        learned and learned.id,
        chosen
        and (
            chosen.id,
            chosen.ballot,
            chosen.is_own,
            chosen.roster is not None,
            chosen.reported,
            chosen.is_used,
            frozenset(chosen.stored),
        ),
    )


def _copied(daemon: _Daemon) -> _Daemon:
    """Return a daemon of its own; what never changes is shared."""
    made = copy.copy(daemon)
    made.backlog = Backlog()
    made.backlog.extend(daemon.backlog)
    if daemon.manager is None:
        return made
    made.manager = manager = copy.copy(daemon.manager)
    manager._submitter = Submitter(made.backlog)
    manager.effects, manager.news = [], deque(maxlen=1)
    manager._proposed = dict(daemon.manager._proposed)
    chosen = daemon.manager._chosen
    if chosen is not None:
        manager._chosen = attrs.evolve(chosen, stored=set(chosen.stored))
    return made


def _names_of(record: RosterRecord) -> object:
    agreed, pending = record.agreed, record.pending
    return agreed and agreed.id, pending and pending.id, record.ballot


def roster_of(policy: Policy, *, settled: bool = False, **votes: int) -> Roster:
    """Return an agreed roster of daemons with these votes, by name."""
    entries = tuple(
        RosterEntry(name=name, site="1", share=Share(votes=held, held=held))
        for name, held in votes.items()
    )
    return Roster(entries=entries, number=1, policy=policy, settled=settled)


def explore(world: World, most: int) -> tuple[int, list[Move] | None, bool]:
    """Try every order of what can happen.

    Args:
        world: the beginning.
        most: the most worlds to visit.

    Returns:
        The number of worlds, the moves to one that is broken or None, and whether all were visited.
    """
    seen, left = {world.key()}, deque[tuple[World, tuple[Move, ...]]]([(world, ())])
    while left and len(seen) <= most:
        at, path = left.popleft()
        for move in at.moves():
            made = at.after(move)
            if made.broken:
                return len(seen), [*path, move], False
            key = made.key()
            if key not in seen:
                seen.add(key)
                left.append((made, (*path, move)))
    return len(seen), None, not left
