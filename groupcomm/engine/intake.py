"""Intake: processes the input of local programs in turn, a bounded amount in each step.

Pure. ``now`` is in seconds. Every frame has a price (groupcomm/session/requests.py), which counts
the sessions that its bundle goes to. A step does STEP_WORK units of work and leaves the rest for
the next one, which processes datagrams first: so no program keeps the token waiting. Principals
have turns, and so have the sessions of one principal: so a principal waits for at most one step of
each other one. A session whose request has cost more than a turn misses as many turns, if others
wait. A session that joins large groups again and again waits for the time that these joins are
worth. A principal in debt by its quotas has no turn until the debt is paid. Nor has a session whose
client does not read the replies to its own frames, or whose requests under way cause much work.
Messages that translate to nothing need no right and bring no reply, so who sends them waits while
all of them together have taken more than VOID_A_S.
"""

from collections import deque
from collections.abc import Callable, Mapping
from heapq import heappop, heappush
from math import inf
from typing import Final

from groupcomm.errors import BadDatagram, Code, SessionError
from groupcomm.security.quotas import Account, Bucket, Quotas
from groupcomm.session.daemon_session import DaemonSession, DaemonSessionState
from groupcomm.session.requests import JOIN_WORK, NOTHING, Price, Request

STEP_WORK: Final = 64
"""Units of work for programs in one step: some 0.4 ms."""

SESSION_WORK: Final = 16
"""Units of these for one session, before it is the turn of another one."""

STEP_WASTE: Final = 16
"""Units of these for one principal that no one else wants: refusals, hellos, answers, errors."""

VOID_A_S: Final = 2_500
"""Units of work in a second for messages that translate to nothing: 39 reads of 64 units, each with
the two turns that follow it, or 1 to 2 % of a processor."""

JOINS_A_S: Final = 5_000
"""Units of work in a second that the joins of one session may cause at other sessions: 40 joins of
a group of a thousand."""

JOINS_BURST_S: Final = 0.25
"""The time whose joins may come at once."""

STALL_S: Final = 0.005
"""The time between checks whether clients that did not read have read meanwhile."""

STALL_EACH_S: Final = 1e-5
"""The part of that time for each of many such clients: a check takes a microsecond."""

LEAST_WAIT_S: Final = 0.001
"""The shortest wait: during a shorter one a clock may not move, however often it is repeated."""

_DRAINING: Final = DaemonSessionState.DRAINING


class Reading:
    """The connections that the shell reads from again.

    That is so once all their input was processed, and little of it still waits for a number.

    Attributes:
        fed: the connections that sent something in this step.
        held_back: the connections that are not read at present.
    """

    __slots__ = ("_backlogged", "fed", "held_back")

    def __init__(self) -> None:
        self.fed: list[int] = []
        self.held_back: set[int] = set()
        self._backlogged: set[int] = set()  # those with more submitted than numbered bundles

    def pop(self, sessions: Mapping[int, DaemonSession], done: list[int]) -> list[int]:
        """Return the connections to read from again; `done`: those whose input was processed."""
        fed, self.fed = self.fed, []
        self.held_back.update(fed)
        found = []
        looked_at = self.held_back.intersection(done)
        for number in sorted(looked_at.union(fed, self._backlogged)):
            session = sessions.get(number)
            if session is None or session.reading:
                self.forget(number)
                found.append(number)
            elif not session.has_input:
                self._backlogged.add(number)
        return found

    def forget(self, connection: int) -> None:
        """Forget a connection that is read again, or is over."""
        self.held_back.discard(connection)
        self._backlogged.discard(connection)


class Intake:
    """The input of sessions that was not processed yet.

    Args:
        carry_out: carries out a request of a session, or raises SessionError.
        end: ends a session, with a code and a reason.
        depart: is called once all input from before the end of a client's stream is processed.

    Attributes:
        quotas: the use of each principal, see `set_quotas`.
        due: the time, in seconds, at which there is something to process; inf if there is nothing,
            -inf for at once.
        quota_waits: the number of times that a principal had no turn because it was in debt.
        work_done: the units of work of the last step.
        done: sessions whose input was all processed in that step.
    """

    def __init__(
        self,
        carry_out: Callable[[DaemonSession, Request], None],
        end: Callable[[DaemonSession, int, str], None],
        depart: Callable[[DaemonSession], None],
    ) -> None:
        self._carry_out = carry_out
        self._end = end
        self._drained = depart
        self.quotas = Quotas()
        self._limited = False
        self.due = inf
        self.quota_waits = self.work_done = 0
        self.done: list[int] = []
        self._turns: dict[str, dict[int, DaemonSession]] = {}  # by principal, then by connection
        self._fresh: dict[int, DaemonSession] = {}  # stalled in the last step: soon read
        self._stalled: dict[int, DaemonSession] = {}
        self._look_at = 0.0  # the time to look at these sessions again
        self._paced: list[tuple[float, int, DaemonSession]] = []  # a heap: when they go on
        self._accounts: dict[str, Account] = {}
        self._void = Bucket(VOID_A_S, 0.0)
        self._void_senders: set[str] = set()  # principals, since it was last in debt

    def set_quotas(self, quotas: Quotas) -> None:
        """Apply other quotas from now on; all debts are forgotten."""
        self.quotas = quotas
        self._limited = quotas.limit_rates
        self._accounts.clear()

    def add(self, session: DaemonSession) -> None:
        """Queue a session that has sent bytes, or whose client has gone."""
        number = session.connection
        self._fresh.pop(number, None)
        self._stalled.pop(number, None)
        self._turns.setdefault(session.principal, {})[number] = session
        self.due = -inf

    def serve(self, now: float) -> bool:
        """Process waiting input, in turn, as much as one step may; return whether there was any."""
        self.work_done = 0
        self.done = []
        if self._fresh or self._stalled:
            self._wake(now)
        while self._paced and self._paced[0][0] <= now:
            self.add(heappop(self._paced)[2])
        self.due = self._look_at if self._stalled else inf
        if self._paced:
            self.due = min(self.due, self._paced[0][0])
        return bool(self._turns) and self._serve_turns(now)

    def _serve_turns(self, now: float) -> bool:
        ready, wasted = deque(self._turns), dict.fromkeys(self._turns, 0)
        if self._accounts:
            ready = deque(name for name in self._turns if not self._owes(name, now))
        if self._void_senders:
            ready = self._without_void_senders(ready, now)
        served = bool(ready)
        while ready and self.work_done < STEP_WORK:
            principal = ready.popleft()
            sessions = self._turns.pop(principal)
            session = sessions.pop(next(iter(sessions)))
            if not (session.overdrawn and (ready or sessions) and self._misses_turn(session)):
                waste = STEP_WASTE - wasted[principal]
                wasted[principal] += self._serve_session(session, waste, now)
            if session.has_input:
                self._queue(session, sessions, now)
            else:
                self.done.append(session.connection)
            if sessions:
                self._turns[principal] = sessions  # the principal's turn comes after all others
                if not (self._accounts and self._owes(principal, now)):
                    self.due = now  # unless the turn comes in this step
                    if wasted[principal] < STEP_WASTE:
                        ready.append(principal)
        if ready:
            self.due = now
        return served

    def _without_void_senders(self, ready: deque[str], now: float) -> deque[str]:
        """Return the principals that have turns; the senders of nothing wait for their debt."""
        wait_s = self._void.debt_s(now)
        if wait_s <= 0.0:
            self._void_senders.clear()
            return ready
        self.due = min(self.due, now + max(wait_s, LEAST_WAIT_S))
        return deque(name for name in ready if name not in self._void_senders)

    def _queue(
        self, session: DaemonSession, sessions: dict[int, DaemonSession], now: float
    ) -> None:
        """Queue a session after its principal's others, or until its client reads."""
        number = session.connection
        if session.stalled:
            self._fresh[number] = session
            self.due = now  # the reply may be read within this step
        elif (at := session.joins_paid_at - JOINS_BURST_S) > now:
            heappush(self._paced, (at, number, session))
            self.due = min(self.due, at)
        else:
            sessions[number] = session

    def _wake(self, now: float) -> None:
        """Queue again the sessions whose clients have read meanwhile."""
        looked_at, self._fresh = self._fresh, {}
        if now >= self._look_at:
            self._look_at = now + max(STALL_S, STALL_EACH_S * len(self._stalled))
            looked_at |= self._stalled
            self._stalled = {}
        for number, session in looked_at.items():
            if session.stalled:
                self._stalled[number] = session
            else:
                self.add(session)

    def _misses_turn(self, session: DaemonSession) -> bool:
        """Return True, as the turn of a session pays for what it has used beyond earlier ones."""
        self.work_done += 1
        session.overdrawn = max(0, session.overdrawn - SESSION_WORK)
        return True

    def _serve_session(self, session: DaemonSession, waste: int, now: float) -> int:
        """Process frames of a session while it has its turn.

        Args:
            session: the session that has its turn.
            waste: the units of work that may be wasted.
            now: the time of the step.

        Returns:
            The units of work that were wasted.
        """
        account = self._account(session.principal, now)
        begun, most = self.work_done, min(STEP_WORK, self.work_done + SESSION_WORK)
        self.work_done += 1  # looking costs work, too
        wasted = 0
        if session.owed is not NOTHING:
            wasted, session.owed = self._charge(session.owed, account, now), NOTHING
            if wasted:
                self._void.charge(wasted, now)
                self._void_senders.add(session.principal)
        while (
            self.work_done < most
            and wasted < waste
            and not session.stalled
            and session.joins_paid_at - JOINS_BURST_S <= now
            and not (account is not None and account.debt_s(now) > 0.0)
            and self._read(session)
        ):
            price = session.price
            wasted += self._charge(price, account, now)
            if price.joins and price.work > JOIN_WORK:
                worth_s = (price.work - JOIN_WORK) / JOINS_A_S
                session.joins_paid_at = max(session.joins_paid_at, now) + worth_s
        used = self.work_done - begun
        session.overdrawn = used - SESSION_WORK if used >= 2 * SESSION_WORK else 0
        return wasted

    def _charge(self, price: Price, account: Account | None, now: float) -> int:
        """Charge work that was done; return the units of it that were wasted."""
        self.work_done += price.work
        if account is not None:
            account.charge(now, messages=price.messages, size=price.size, joins=price.joins)
        return price.wasted

    def _read(self, session: DaemonSession) -> bool:
        """Carry out the request in the next frame of a session; return whether there was one."""
        try:
            request = session.next_request()
            if request is not None:
                self._carry_out(session, request)
                if session.state is _DRAINING and not session.has_input:
                    self._drained(session)
                return True
        except SessionError as error:
            self._end(session, error.code, str(error))
            return True
        except BadDatagram as error:
            self._end(
                session,
                Code.NET_ERROR,
                f"the client has sent a frame that does not decode ({error}): check its library",
            )
            return True
        if session.state is _DRAINING:
            self._drained(session)
        return False

    # ---- quotas ----

    def _account(self, principal: str, now: float) -> Account | None:
        if not self._limited:
            return None
        account = self._accounts.get(principal)
        if account is None:
            idle = [name for name, other in self._accounts.items() if other.is_idle(now)]
            for name in idle:
                del self._accounts[name]
            account = self._accounts[principal] = Account(self.quotas, now)
        return account

    def _owes(self, principal: str, now: float) -> bool:
        """Return whether a principal has to wait until its debt is paid."""
        account = self._accounts.get(principal)
        wait_s = account.debt_s(now) if account is not None else 0.0
        if wait_s > 0.0:
            self.quota_waits += 1
            self.due = min(self.due, now + max(wait_s, LEAST_WAIT_S))
        return wait_s > 0.0
