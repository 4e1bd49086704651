"""Senders whose messages come exactly once, in the simulator, while everything else fails.

The line of the groups is computed from what daemons deliver, independently of the table of lines.
`FaultySenders` has all faults of the simulator (docs/simulator.md), in one site or several.
"""

from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, ClassVar

from groupcomm.clocks.stamp import ViewId
from groupcomm.errors import InDoubt
from groupcomm.events import Event, LineGranted, MemberId, Message
from groupcomm.level import ServiceLevel
from groupcomm.sim.checkers import Checkers
from groupcomm.sim.settings import plain_settings
from groupcomm.sim.virtual_time import SECOND
from groupcomm.trace.events import TraceEvent
from groupcomm_client.continuity import continues
from groupcomm_client.line import Line, Sent
from tests.groupcomm_client.all_faults import settings_for
from tests.groupcomm_client.history.lines import (
    GROUPS,
    Lines,
    Observer,
    Program,
    Reference,
)

LEVELS = (ServiceLevel.FIFO, ServiceLevel.CAUSAL, ServiceLevel.AGREED, ServiceLevel.SAFE)
LARGE = 20_000
SENDERS = 3
ONE_SITE = (3,)
SITES = (2, 2, 1)
"""The daemons of each site; the last one stays."""

REST_S = 30.0


class Sender:
    """A sender over all of its sessions, as `ReconnectingConnection` is one."""

    def __init__(self, crowd: "Senders", name: str) -> None:
        self.crowd, self.name = crowd, name
        self.line = Line()
        self.line.last += crowd.cluster.settings.start_message  # above all of any session
        self.sent: list[bytes] = []
        self.agreed: list[bytes] = []  # those of them that have a place on the line
        self.session: Session | None = None
        self.doubt: InDoubt | None = None

    @property
    def in_doubt(self) -> set[bytes]:
        """Return the messages of which nobody knows whether they were delivered."""
        return set() if self.doubt is None else {sent.data for sent in self.line.kept}

    def tick(self) -> None:
        if self.doubt is not None:
            return
        if self.session is None or self.session.is_over:
            up = self.crowd.cluster.up()
            if up and self.crowd.rng.random() < 0.2:
                self.session = self.crowd.SESSION(self.crowd, self.crowd.rng.choice(up), self)
        elif self.session.began:
            self.line.answer(self.session.client.accepted)

    def send(self) -> None:
        session, rng = self.session, self.crowd.rng
        if session is None or not session.is_ready:
            return
        data = f"{self.name}.{len(self.sent)}".encode()
        data = data.ljust(LARGE) if rng.random() < 0.05 else data
        groups = rng.choice([("orders",), ("trades",), GROUPS])
        level = rng.choice(LEVELS)
        number = session.client.multicast(groups, data, level=level, more=rng.random() < 0.5)
        self.line.add(Sent(number, groups, data, level, 0, False, False))
        self.sent.append(data)
        if level >= ServiceLevel.AGREED:
            self.agreed.append(data)


class Session(Program):
    """One session of a sender."""

    def __init__(self, crowd: "Senders", daemon: int, sender: Sender) -> None:
        self.sender, self.began = sender, False
        super().__init__(crowd, daemon)

    @property
    def is_ready(self) -> bool:
        return self.began and not self.is_over and self.client.writable

    def begin(self, me: MemberId) -> None:
        if self.sender.crowd.rng.random() < 0.3:
            self.client.join("other")
        self.client.go_on_with(self.sender.line.id)

    def handle(self, event: Event) -> None:
        if not isinstance(event, LineGranted):
            return
        client, line = self.client, self.sender.line
        try:
            again = line.begin(event)
        except InDoubt as error:
            self.sender.doubt = error
            return
        self.began = True
        for sent in again:
            client.count_from(sent.number - 1)
            client.multicast(sent.groups, sent.data, level=sent.level, more=True)
        client.count_from(max(line.last, event.last))
        client.flush()

    def _on_end(self) -> None:
        super()._on_end()
        if self.began:
            self.sender.line.answer(self.client.accepted)


class Senders(Lines):
    """A cluster with senders and observers."""

    SESSION: ClassVar[type[Session]] = Session
    rest_s = REST_S

    def __init__(self, seed: int, daemons: int = 3, **options: Any) -> None:
        self._checkers = Checkers()
        super().__init__(seed, daemons, archives=0, record=self.record, **options)
        self.senders = [Sender(self, f"s{number}") for number in range(SENDERS)]

    def record(self, event: TraceEvent) -> None:
        """Have an event of the trace checked."""
        self._checkers.feed(event)

    def connect(self, daemon: int) -> Any:
        self._users += 1
        return self.cluster.connect(f"p{self._users}", daemon, origins=True, daemon_timeout_s=5.0)

    def send(self) -> None:
        self.rng.choice(self.senders[-SENDERS:]).send()

    def tick(self) -> None:
        for sender in self.senders:
            sender.tick()
        if any(sender.doubt is not None for sender in self.senders[-SENDERS:]):
            self.senders.append(Sender(self, f"s{len(self.senders)}"))

    def trouble(self, kinds: str) -> None:
        what = self.rng.choice(kinds.split())
        sessions = [s.session for s in self.senders if s.session and not s.session.is_over]
        if what == "session" and sessions:
            self._kill(self.rng.choice(sessions))
        elif what == "cut" and sessions:  # the daemon does not know that nobody is there
            session = self.rng.choice(sessions)
            session.client.set_cut(True)
            session.client.crash()
        elif what == "few" and self._is_whole:  # not the last one, so that it has a majority
            host = self.rng.choice(self.cluster.daemons[:-1])
            host.kill()
            host.boot()
        elif what == "site" and self._is_whole:  # not that of the last one
            alone = self.rng.choice(self.cluster.settings.sites[:-1])
            others = set(range(len(self.cluster.daemons))) - set(alone)
            pairs = tuple(
                (a, b) for one in alone for other in others for a, b in [(one, other), (other, one)]
            )
            self.cluster.network.cut(pairs)
            self._cuts.append(pairs)
        else:
            super().trouble(what)

    @property
    def _is_whole(self) -> bool:
        """Return whether all daemons are in one view, and nothing cuts them off."""
        hosts = self.cluster.daemons
        if self._cuts or not all(host.is_up for host in hosts):
            return False
        views = [host.core.view for host in hosts]
        return all(view and view == views[0] and len(view.daemons) == len(hosts) for view in views)

    def finish(self) -> None:
        """Mend everything, and wait until each sender has the answers to all that it has sent."""
        self.mend()
        limit = self.rest_s
        while any(sender.line.kept for sender in self.senders if sender.doubt is None):
            assert limit > 0, "senders do not come to rest"
            self.cluster.run(0.05)
            limit -= 0.05
            self._observe()
            self.tick()
        self.cluster.run(2.0)

    def check_trace(self) -> None:
        """The checkers find nothing, and nothing is missing in the end."""
        self.cluster.settle()
        self._checkers.finish()
        found = self._checkers.violations
        assert not found, f"the checkers find {found[0].property}: {found[0].text}"

    @property
    def reference(self) -> Reference:
        """Return the line of the groups."""
        return Reference(observer.deliveries for observer in self.observers)

    def check_line(self) -> int:
        """Each agreed message is on the line once; return the number of messages.

        One that nobody got may be lost only if there was a time without observers.
        """
        reference = self.reference
        is_seen = all(map(self._is_seen, reference.views))
        least: Counter[str] = Counter()
        most: Counter[str] = Counter()
        for view in reference.views:
            must, may = reference.of_view(view)
            least.update(text for _, text in must)
            most.update(text for _, text in may)
        count = 0
        for sender in self.senders:
            in_doubt = sender.in_doubt
            count += len(sender.agreed)
            for data in sender.agreed:
                text = f"message {data.decode()}"
                is_there = most[text] or data in in_doubt or not is_seen
                assert is_there, f"a message is lost: {text[:20]}"
                assert least[text] <= 1, f"a message is there twice: {text[:20]}"
        return count

    def _is_seen(self, view: ViewId) -> bool:
        """Return whether an observer was there all the time, once the first one had joined."""
        joins = [o.deliveries.joined_at for o in self.observers if o.deliveries.joined_at]
        first = min(joins, default=None)
        if first is None or view < first.view:
            return True
        return any(
            (each.joined_at == first or (each.whole_from and each.whole_from <= view))
            and (each.views[-1].id > view or not each.is_over)
            for each in (observer.deliveries for observer in self.observers)
            if view in each.seen
        )

    def check_observers(self) -> int:
        """Each observer got each message once, in order, while its views continued one another.

        Return the number of messages.
        """
        count = 0
        for deliveries in (observer.deliveries for observer in self.observers):
            came: list[bytes] = []
            for before, view in pairwise([None, *deliveries.views]):
                assert view is not None
                if before is None or not continues(before, view):
                    count += self._check_unbroken(came)
                    came = []
                if deliveries.whole_from is not None and deliveries.whole_from <= view.id:
                    events = deliveries.seen[view.id]
                    came += [event.data for event in events if isinstance(event, Message)]
            count += self._check_unbroken(came)
        return count

    def _check_unbroken(self, came: list[bytes]) -> int:
        """No message of a sender is left out, is there twice, or overtakes another one."""
        for sender in self.senders:
            own = [each for each in came if each.startswith(f"{sender.name}.".encode())]
            first = sender.sent.index(own[0]) if own else 0
            right = sender.sent[first : first + len(own)]
            assert own == right, f"messages are lost or twice or out of order: of {sender.name}"
        return len(came)

    def check_observer(self, observer: Observer) -> int:
        """An observer that stayed got each message once, in order; return their number."""
        assert not observer.is_over
        events = [event for seen in observer.deliveries.seen.values() for event in seen]
        assert all(view.majority for view in observer.deliveries.views)
        data = [event.data for event in events if isinstance(event, Message)]
        for sender in self.senders:
            own = [each for each in data if each.startswith(f"{sender.name}.".encode())]
            assert own == sender.sent, f"who stays has other messages: of {sender.name}"
        return len(data)

    @property
    def simulated_s(self) -> float:
        return self.cluster.loop.now / SECOND

    def summary(self) -> dict[str, int]:
        """Return how much has happened."""
        return {
            "messages": sum(len(sender.sent) for sender in self.senders),
            "in_doubt": sum(len(sender.in_doubt) for sender in self.senders),
            "senders_in_doubt": sum(sender.doubt is not None for sender in self.senders),
            "killed": self.killed,
        }


class FaultySenders(Senders):
    """A cluster with all faults of the simulator; sessions end, and connections go silent."""

    rest_s = 4 * REST_S

    def __init__(self, seed: int, faults: str = "all", duration_s: float = 6.0) -> None:
        settings = settings_for(seed, faults, duration_s, small_caps=False)
        super().__init__(seed, settings=settings)
        self._troubles_per_s = self.rng.uniform(0.5, 4.0)
        self._duration_s = duration_s

    def send(self) -> None:
        if any(each.deliveries.joined_at and not each.is_over for each in self.observers):
            super().send()

    def play(self) -> None:
        """Run load and faults, then mend everything, wait for all answers, and check."""
        self.run(self._duration_s, self._troubles_per_s, "session cut", sends=0.6)
        self.cluster.end_faults()
        self.finish()
        self.check_line()
        self.check_observers()
        self.check_trace()


def play(seed: int, faults: str = "all", duration_s: float = 6.0) -> FaultySenders:
    """Run one seed with all faults, and check it."""
    senders = FaultySenders(seed, faults, duration_s)
    senders.play()
    return senders


def play_parted(seed: int) -> Senders:
    """Run one seed with partitions, and check it."""
    senders = Senders(seed, daemons=4, loss=0.02)
    senders._observe()
    senders.run(1.0, 0.0, "none", sends=0.0)
    senders.run(8.0, 3.0, "part part mend mend session cut", sends=0.7)
    senders.finish()
    assert senders.check_line() > 50
    senders.check_observers()
    senders.check_trace()
    return senders


def play_with_one_that_stays(seed: int, sites: Sequence[int] = ONE_SITE) -> Senders:
    """Run one seed in which the last daemon always has a majority; check what it gave.

    With several sites, of these numbers of daemons, sites are cut off, too.
    """
    settings = plain_settings(daemons=sites, seed=seed)
    kinds = "few session cut" if len(sites) == 1 else "few site mend mend session cut"
    senders = Senders(seed, settings=settings)
    senders._observe()
    senders.run(1.0, 0.0, "none", sends=0.0)
    senders.run(6.0, 3.0, kinds, sends=0.7)
    senders.finish()
    last = len(senders.cluster.daemons) - 1
    (observer,) = [each for each in senders.observers if each.daemon == last]
    assert senders.check_observer(observer) > 100
    assert senders.check_line() > 50
    assert all(sender.doubt is None for sender in senders.senders)
    senders.check_trace()
    return senders


def play_one_way(seed: int) -> Senders:
    """Run one seed under all faults, with partitions, or over several sites, in turn."""
    match seed % 3:
        case 0:
            return play_parted(seed)
        case 1:
            return play(seed)
        case _:
            return play_with_one_that_stays(seed, SITES)
