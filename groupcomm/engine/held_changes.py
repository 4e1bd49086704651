"""Held changes: changes of groups that follow each other fast are written together.

Pure. ``now`` is in seconds. Where N programs join a group at once, each of the N members gets N
changes, and to handle each one for each member would be most of the work of its daemon. The first
change after a quiet time goes out to all at once. Those that follow are appended to the log of
their group, once for all of its readers; each reader has a place in it. What is behind that place
goes out before whatever else the session gets, so no order changes, and after a while in any case:
some readers every few milliseconds, in turn. So these writes take a small part of the processor
however large the group is, never much of it at a time, and readers are not all awake at the same
time. Readers at the same places share the same bytes.
"""

from itertools import chain
from math import ceil, inf
from typing import Final

from groupcomm.session.differences import ChangeRun

MANY: Final = 32
"""The local members from which on changes of a group are held: to fewer they go out at once."""

WRITES_A_S: Final = 2_000
"""The writes of held changes in a second: a twentieth of a processor."""

MOST_HOLD_S: Final = 0.5
"""The longest time for which a change waits, however many members get it."""

SESSIONS_A_PART: Final = 16
"""The sessions that get what waits for them at a time, or more if the group is so large..."""

PART_S: Final = SESSIONS_A_PART / WRITES_A_S
"""... and the time until the next ones do."""

MOST_BYTES: Final = 64 * 1024
"""The bytes of changes that wait; with more they go out at once."""

SESSIONS_A_STEP: Final = 256
"""The sessions to which one step sends changes that do not wait; the next steps serve others."""

RUN_CHANGES: Final = 32
"""The changes that are one part of the output: a session translates a part in one go."""

SHARED_A_FRAME: Final = 4
"""The sessions that begin to share the changes of a group in the time of a frame and its write."""


def hold_s(receivers: int) -> float:
    """Return the time in which each of so many sessions has its turn."""
    return min(MOST_HOLD_S, receivers / WRITES_A_S)


def sessions_a_part(receivers: int) -> int:
    """Return the number of these sessions that are served at a time."""
    return max(SESSIONS_A_PART, ceil(receivers * PART_S / MOST_HOLD_S))


class ChangeLog:
    """The changes of one group that wait for some of its members.

    Attributes:
        entries: the changes, each with its number among those of all logs.
        first: the place of the first entry.
        sent: at the end of the present round all readers have what is before this place.
        others: the connections of local members that cannot share them, and get a frame for each.
    """

    __slots__ = ("entries", "first", "others", "sent")

    def __init__(self) -> None:
        self.entries: list[tuple[int, bytes]] = []
        self.first = self.sent = 0
        self.others: dict[int, None] = {}

    @property
    def end(self) -> int:
        """Return the place of a session that has everything."""
        return self.first + len(self.entries)


class HeldChanges:
    """The changes that wait, and the sessions that they wait for.

    Attributes:
        logs: by group, the logs of the groups of which changes wait.
        waiting: by connection, the places of its readers in these logs; also sessions without any,
            for which frames wait in their output.
        due: when they go out; inf if nothing waits.
    """

    __slots__ = (
        "_appended",
        "_bytes",
        "_joined",
        "_paced",
        "_quiet_from",
        "_round",
        "due",
        "logs",
        "waiting",
    )

    def __init__(self) -> None:
        self._quiet_from = -inf  # a round that begins then or later is not paced
        self._appended = 0
        self.clear()

    def clear(self) -> None:
        """Begin anew: nothing waits."""
        self.logs: dict[str, ChangeLog] = {}
        self.waiting: dict[int, dict[ChangeLog, int]] = {}
        self.due = inf
        self._bytes = 0  # of all entries
        self._round: list[int] = []  # those that did not get what waits for them yet
        self._paced = False  # whether this round serves some at a time
        # What readers at the same places lack of the logs.
        self._joined: dict[tuple[tuple[ChangeLog, int], ...], tuple[ChangeRun, ...]] = {}

    def append(self, log: ChangeLog, frame: bytes) -> None:
        """Hold a change of a group for all readers of its log."""
        self._appended += 1
        log.entries.append((self._appended, frame))
        self._joined.clear()
        self._bytes += len(frame)
        if self.due == inf or self._bytes >= MOST_BYTES:
            self.due = -inf

    def read(self, connection: int, log: ChangeLog) -> None:
        """Let a session read what comes into a log from now on."""
        self.waiting.setdefault(connection, {})[log] = log.end

    def hold(self, connection: int) -> None:
        """Note that a frame for a session waits in its output, besides those in a log."""
        self.waiting.setdefault(connection, {})

    def pop(self, connection: int) -> tuple[ChangeRun, ...]:
        """Return all changes that a session lacks, in their order and in parts."""
        places = self.waiting[connection]
        key = tuple(places.items())
        found = self._joined.get(key)
        if found is None:
            lacking = (log.entries[place - log.first :] for log, place in key)
            frames = [frame for _, frame in sorted(chain.from_iterable(lacking))]
            starts = range(0, len(frames), RUN_CHANGES)
            runs = [ChangeRun(b"".join(frames[at : at + RUN_CHANGES])) for at in starts]
            found = self._joined[key] = tuple(runs)
        for log in places:
            places[log] = log.end
        return found

    def pop_due(self, now: float) -> list[tuple[int, tuple[ChangeRun, ...]]]:
        """Return connections, as many as one step may serve, and what they lack of the logs."""
        if now < self.due:
            return []
        if not self._round:
            self._round, self._paced = list(self.waiting), now < self._quiet_from
            for log in self.logs.values():
                log.sent = log.end
        paced = self._paced and self._bytes < MOST_BYTES
        most = sessions_a_part(len(self.waiting)) if paced else SESSIONS_A_STEP
        self.due = now + PART_S if paced else -inf
        now_served, self._round = self._round[:most], self._round[most:]
        found = [(each, self.pop(each)) for each in now_served if each in self.waiting]
        self._joined.clear()
        if not self._round:
            self._end_round(now)
        return found

    def _end_round(self, now: float) -> None:
        """Forget what was sent; begin anew if nothing has come since this round began."""
        self._quiet_from = now + hold_s(len(self.waiting))
        self._bytes = 0
        for log in self.logs.values():
            del log.entries[: log.sent - log.first]
            log.first = log.sent
            self._bytes += sum(len(frame) for _, frame in log.entries)
        if self._bytes:
            self.due = now + PART_S
        else:
            self.clear()

    def leave(self, connection: int, group: str) -> None:
        """Note that a session, which lacks nothing, is no member of a group any more."""
        log = self.logs.get(group)
        if log is not None:
            log.others.pop(connection, None)
            self.waiting.get(connection, {}).pop(log, None)
