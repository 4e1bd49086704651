"""One worker of a set: which jobs its program gets, and what it says to the others.

Pure: events of a connection in, actions out; `look` gets the time of the own clock. The queue
itself is a `WorkQueue`, which is equal at all workers; here is what only this worker knows.

*Batches.* One command of a worker is under way at a time. What happens until it is delivered is in
the next one, so the busier a worker is, the more jobs share a message.

*Deadlines.* Clocks differ, so none is compared with another. Each worker measures by its own clock
for how long it has known of each assignment; if that is longer than the deadline, it says so, and
the assignment is late from the place of that message in the agreed order on: for all, and only if
it still lasts there. The first member of the view says so first, the others a little later, should
that one hang.
"""

import enum
from typing import Any, Final, TypeAlias

import attrs

from groupcomm.events import MemberId
from groupcomm_client.coordination.limits import clean
from groupcomm_client.coordination.replica import Done, Replica, Send, Status, Unknown
from groupcomm_client.coordination.work_messages import (
    Discard,
    Entry,
    JobId,
    PutBack,
    Ready,
    Report,
    Settings,
    WorkCommand,
    encode,
)
from groupcomm_client.coordination.work_queue import (
    Given,
    Key,
    Replaced,
    WasRefused,
    WasSetAside,
    Withdrawn,
    WorkQueue,
)
from groupcomm_client.events import Received

LOOKS: Final = 8
"""A worker looks for late jobs this often within a deadline."""

MOST_REPORTED: Final = 10_000
"""The most jobs in one report."""


class Held(enum.Enum):
    """The state of a job that the program has."""

    GIVEN = enum.auto()
    WITHDRAWN = enum.auto()  # it is this worker's no longer, and the program has not let it go


@attrs.define
class _Holding:
    given: int
    state: Held = Held.GIVEN


@attrs.frozen
class Withdraw:
    """An action: end the work on a job."""

    id: JobId


Action: TypeAlias = Send | Withdraw | WasSetAside | WasRefused


class Sharing:
    """One worker: call `handle` for every event; carry out the actions it returns.

    After each call, `next_job` may have jobs, and `pop_command` a message.

    Attributes:
        queue: the jobs of the set.
        replica: what keeps the queue equal to that of the others.
        at_once: the number of jobs that the program has at a time.
    """

    def __init__(
        self,
        me: MemberId,
        group: str,
        control: str,
        *,
        settings: Settings,
        at_once: int,
        key: Key | None = None,
    ) -> None:
        """Begin before the first view.

        Args:
            me: this worker's session, which joins `group` first, and then `control`.
            group: the group whose messages are jobs.
            control: the group of the workers of the set, and of nobody else.
            settings: the rules of the set.
            at_once: the number of jobs that the program takes at a time; 0: it only looks on.
            key: see `WorkQueue`.
        """
        self.queue = WorkQueue(me, key)
        self.replica = Replica(me, control, self.queue, inputs=frozenset((group,)))
        self.at_once = at_once
        self._me = me
        self._settings = settings
        self._ready: dict[JobId, Entry] = {}  # given, and not taken by the program yet
        self._held: dict[JobId, _Holding] = {}
        self._withdrawn = 0  # the number of held jobs in that state
        self._aside: set[JobId] = set()  # of which the program knows that they were set aside
        self._done: list[JobId] = []
        self._failed: list[tuple[JobId, int, str]] = []
        self._late: list[tuple[JobId, int, int]] = []
        self._extended: list[tuple[JobId, int]] = []
        self._returned: list[tuple[JobId, int]] = []
        self._operations: list[WorkCommand] = []
        self._sent = Report()  # the report that is not delivered yet
        self._under_way: int | None = None  # the number of the command that is not delivered yet
        self._watched: dict[JobId, tuple[int, int, float]] = {}

    def succeed(self, earlier: "Sharing") -> None:
        """Take over from the machine of an earlier session what its program still has.

        The jobs that it held are others' by now. Those that are done need not be done again, so
        this is said anew.
        """
        self._held = {
            id: _Holding(each.given, Held.WITHDRAWN) for id, each in earlier._held.items()
        }
        self._withdrawn = len(self._held)
        self._done = [*earlier._sent.done, *earlier._done]
        self._operations = earlier._operations
        self._aside = earlier._aside

    @property
    def is_current(self) -> bool:
        """Return whether the queue is up to date."""
        return self.replica.status is Status.CURRENT

    @property
    def fits(self) -> bool:
        """Return whether the rules of the set are those of this worker."""
        settings = self.queue.settings
        if not self.at_once or settings is None or not self.is_current:
            return True
        return settings == self._settings or not self.queue.workers

    def handle(self, event: Received) -> list[Action]:
        """Handle one event; return the actions, in order. Never raises."""
        actions: list[Action] = []
        for action in self.replica.handle(event):
            match action:
                case Send():
                    actions.append(action)
                case Done(number) | Unknown(number) if number == self._under_way:
                    self._under_way, self._sent = None, Report()
        if self.queue.news and self.is_current:
            self._follow(actions)
        return actions

    def _follow(self, actions: list[Action]) -> None:
        news, self.queue.news = self.queue.news, []
        for each in news:
            match each:
                case Given(entry):
                    self._ready[entry.id] = entry
                case Withdrawn(id):
                    self._withdraw(id, actions)
                case Replaced():
                    self._replace(actions)
                case _:
                    actions.append(each)
                    if isinstance(each, WasSetAside):
                        self._aside.add(each.entry.id)

    def _replace(self, actions: list[Action]) -> None:
        """Compare this worker's jobs with those of a state that has come as a whole."""
        mine = self.queue.jobs_of(self._me)
        for id, holding in self._held.items():
            if holding.state is Held.GIVEN:
                entry = mine.get(id)
                if entry is None or entry.given != holding.given:
                    self._withdraw(id, actions)
        reported = self._reported()
        self._ready = {
            id: entry
            for id, entry in mine.items()
            if not self._has(id)
            and (id, entry.given) not in reported
            and (id, None) not in reported
        }
        aside = self.queue.aside
        actions += [WasSetAside(entry) for id, entry in aside.items() if id not in self._aside]
        self._aside = set(aside)

    def _reported(self) -> set[tuple[JobId, int | None]]:
        """Return the jobs that are done (None) or have failed here, unknown to the queue yet."""
        reported: set[tuple[JobId, int | None]] = {(id, None) for id in self._done}
        reported |= {(id, None) for id in self._sent.done}
        reported |= {(id, given) for id, given, _ in (*self._failed, *self._sent.failed)}
        return reported | {*self._returned, *self._sent.returned}

    def _has(self, id: JobId) -> bool:
        holding = self._held.get(id)
        return holding is not None and holding.state is Held.GIVEN

    def _withdraw(self, id: JobId, actions: list[Action]) -> None:
        self._ready.pop(id, None)
        if self._has(id):
            self._held[id].state = Held.WITHDRAWN
            self._withdrawn += 1
            actions.append(Withdraw(id))

    # ---- the program ----

    @property
    def has_job(self) -> bool:
        """Return whether the program may get a job now."""
        return len(self._held) < self.at_once and any(id not in self._held for id in self._ready)

    def next_job(self) -> Entry | None:
        """Hand the next job to the program; None if there is none, or if it has enough."""
        if not self._ready or len(self._held) >= self.at_once:
            return None
        for id, entry in self._ready.items():
            if id not in self._held:  # else it has not let go of an earlier assignment
                del self._ready[id]
                self._held[id] = _Holding(entry.given)
                return entry
        return None

    def done(self, id: JobId) -> None:
        """Let go of a job that is done; also if it was withdrawn, as it need not be done again."""
        if self._let_go(id) is not None:
            self._done.append(id)
            self._ready.pop(id, None)

    def fail(self, id: JobId, why: str) -> None:
        """Let go of a job that has failed."""
        holding = self._let_go(id)
        if holding is not None and holding.state is Held.GIVEN:
            self._failed.append((id, holding.given, clean(why)))

    def give_back(self, id: JobId) -> None:
        """Let go of a job that this worker cannot do, and another one perhaps can."""
        holding = self._let_go(id)
        if holding is not None and holding.state is Held.GIVEN:
            self._returned.append((id, holding.given))

    def extend(self, id: JobId) -> None:
        """Begin the deadline of a job anew."""
        if self._has(id):
            self._extended.append((id, self._held[id].given))

    def has(self, id: JobId) -> bool:
        """Return whether a job that the program has is still this worker's."""
        return self._has(id)

    def put_back(self, jobs: tuple[JobId, ...]) -> None:
        """Have jobs that were set aside given again."""
        self._operations.append(PutBack(jobs))

    def discard(self, jobs: tuple[JobId, ...]) -> None:
        """Forget jobs that were set aside."""
        self._operations.append(Discard(jobs))

    def _let_go(self, id: JobId) -> _Holding | None:
        holding = self._held.pop(id, None)
        if holding is not None and holding.state is Held.WITHDRAWN:
            self._withdrawn -= 1
        return holding

    # ---- commands ----

    @property
    def is_quiet(self) -> bool:
        """Return whether everything that the program has said is delivered."""
        said = (self._done, self._failed, self._extended, self._returned, self._operations)
        return not any(said) and self._under_way is None

    def pop_command(self) -> bytes | None:
        """Return the next message to the control group, AGREED; None if there is none now."""
        if self._under_way is not None:
            return None
        command = self._next_command()
        if command is None:
            return None
        self._under_way, data = self.replica.command(encode(command))
        return data

    def _next_command(self) -> WorkCommand | None:
        if any(self._parts):
            return self._report()
        if self._operations:
            return self._operations.pop(0)
        # A worker whose program does not let go of jobs that were withdrawn takes fewer.
        room = max(0, self.at_once - self._withdrawn)
        limit = self.queue.limit_of(self._me)
        if self.is_current and self.fits and limit != room and (room or limit):
            return Ready(room, self._settings)
        return None

    @property
    def _parts(self) -> tuple[list[Any], ...]:
        return (self._done, self._failed, self._late, self._extended, self._returned)

    def _report(self) -> Report:
        self._sent = Report(*(tuple(part[:MOST_REPORTED]) for part in self._parts))
        for part in self._parts:
            del part[:MOST_REPORTED]
        return self._sent

    # ---- deadlines ----

    @property
    def look_s(self) -> float | None:
        """Return the seconds between two calls of `look`; None if there is no deadline."""
        deadline_ms = self._settings.deadline_ms
        return None if deadline_ms is None else deadline_ms / 1000 / LOOKS

    def look(self, now: float) -> None:
        """Note the jobs that are late; `now` is in seconds on a clock of this worker alone."""
        view, settings = self.replica.view, self.queue.settings
        watched: dict[JobId, tuple[int, int, float]] = {}
        if self.is_current and view is not None and settings and settings.deadline_ms:
            rank = view.members.index(self._me)
            patience_s = settings.deadline_ms / 1000 * (1 + rank / LOOKS)
            for entry in self.queue.in_flight():
                known = self._watched.get(entry.id)
                if known is None or known[:2] != (entry.given, entry.extended):
                    known = (entry.given, entry.extended, now)
                elif now - known[2] >= patience_s:
                    self._late.append((entry.id, *known[:2]))
                    known = (*known[:2], now)
                watched[entry.id] = known
        self._watched = watched
