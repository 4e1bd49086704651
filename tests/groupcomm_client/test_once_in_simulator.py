"""Senders whose messages come exactly once, in the simulator, while everything else fails.

The line of the groups is computed from what daemons deliver, independently of the table of lines.
"""

from collections import Counter
from typing import Any

import pytest

from groupcomm.errors import InDoubt
from groupcomm.events import Event, LineGranted, MemberId, Message
from groupcomm.level import ServiceLevel
from groupcomm_client.line import Line, Sent
from tests.groupcomm_client.history.lines import GROUPS, Lines, Observer, Program, Reference

LEVELS = (ServiceLevel.FIFO, ServiceLevel.CAUSAL, ServiceLevel.AGREED, ServiceLevel.SAFE)
LARGE = 20_000
REST_S = 30.0


class Sender:
    """A sender over all of its sessions, as `ReconnectingConnection` is one."""

    def __init__(self, crowd: "Crowd", name: str) -> None:
        self.crowd, self.name = crowd, name
        self.line = Line()
        self.sent: list[bytes] = []
        self.agreed: list[bytes] = []  # those of them that have a place on the line
        self.session: Session | None = None
        self.doubt: InDoubt | None = None

    def tick(self) -> None:
        if self.doubt is not None:
            return
        if self.session is None or self.session.is_over:
            up = self.crowd.cluster.up()
            if up and self.crowd.rng.random() < 0.2:
                self.session = Session(self.crowd, self.crowd.rng.choice(up), self)
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

    def __init__(self, crowd: "Crowd", daemon: int, sender: Sender) -> None:
        self.sender, self.began = sender, False
        super().__init__(crowd, daemon)

    @property
    def is_ready(self) -> bool:
        return self.began and not self.is_over and self.client.writable

    def begin(self, me: MemberId) -> None:
        session = self.client._session
        if self.sender.crowd.rng.random() < 0.3:
            session.join("other")
        session.go_on_with(self.sender.line.id)
        self.client.flush()

    def handle(self, event: Event) -> None:
        if not isinstance(event, LineGranted):
            return
        session, line = self.client._session, self.sender.line
        try:
            again = line.begin(event)
        except InDoubt as error:
            self.sender.doubt = error
            return
        self.began = True
        for sent in again:
            session.count_from(sent.number - 1)
            session.multicast(sent.groups, sent.data, level=sent.level)
        session.count_from(max(line.last, event.last))
        self.client.flush()

    def _on_end(self) -> None:
        super()._on_end()
        if self.began:
            self.sender.line.answer(self.client.accepted)


class Crowd(Lines):
    """A cluster with senders and observers."""

    def __init__(self, seed: int, daemons: int = 3, senders: int = 3, **options: Any) -> None:
        super().__init__(seed, daemons, archives=0, **options)
        self.senders = [Sender(self, f"s{number}") for number in range(senders)]

    def connect(self, daemon: int) -> Any:
        self._users += 1
        return self.cluster.connect(f"p{self._users}", daemon, origins=True, daemon_timeout_s=5.0)

    def send(self) -> None:
        self.rng.choice(self.senders).send()

    def tick(self) -> None:
        for sender in self.senders:
            sender.tick()

    def trouble(self, kinds: str) -> None:
        what = self.rng.choice(kinds.split())
        sessions = [s.session for s in self.senders if s.session and not s.session.is_over]
        if what == "session" and sessions:
            self._kill(self.rng.choice(sessions))
        elif what == "cut" and sessions:  # the daemon does not know that nobody is there
            session = self.rng.choice(sessions)
            session.client.set_cut(True)
            session._on_end()
        elif what == "few":  # of the first two daemons one at a time, so that a majority stays
            host = self.rng.choice(self.cluster.daemons[:2])
            view = self.cluster.daemons[2].core.view
            if host.is_up and view is not None and len(view.daemons) == 3:
                host.kill()
                host.boot()
        else:
            super().trouble(what)

    def finish(self) -> None:
        """Mend everything, and wait until each sender has the answers to all that it has sent."""
        self.mend()
        limit = REST_S
        while any(sender.line.kept for sender in self.senders if sender.doubt is None):
            assert limit > 0, "senders do not come to rest"
            self.cluster.run(0.05)
            limit -= 0.05
            self._observe()
            self.tick()
        self.cluster.run(2.0)

    def check_line(self) -> int:
        """Each agreed message is on the line once; return the number of messages."""
        reference = Reference(observer.deliveries for observer in self.observers)
        least: Counter[str] = Counter()
        most: Counter[str] = Counter()
        for view in reference.views:
            must, may = reference.of_view(view)
            least.update(text for _, text in must)
            most.update(text for _, text in may)
        count = 0
        for sender in self.senders:
            assert sender.doubt is None, str(sender.doubt)
            count += len(sender.agreed)
            for data in sender.agreed:
                text = f"message {data.decode()}"
                assert most[text] >= 1, f"{text[:20]} is lost"
                assert least[text] <= 1, f"{text[:20]} is there {least[text]} times"
        return count

    def check_observer(self, observer: Observer) -> int:
        """An observer that stayed got each message once, in order; return their number."""
        assert not observer.is_over
        events = [event for seen in observer.deliveries.seen.values() for event in seen]
        assert all(view.majority for view in observer.deliveries.views)
        data = [event.data for event in events if isinstance(event, Message)]
        for sender in self.senders:
            assert sender.doubt is None, str(sender.doubt)
            own = [each for each in data if each.startswith(f"{sender.name}.".encode())]
            assert own == sender.sent
        return len(data)


@pytest.mark.parametrize(
    "seed", [1, 2, *(pytest.param(s, marks=pytest.mark.long) for s in range(3, 40))]
)
def test_each_message_comes_once_to_who_stays(seed: int) -> None:
    crowd = Crowd(seed)
    crowd._observe()
    crowd.run(1.0, 0.0, "none")
    crowd.run(6.0, 3.0, "few session cut", sends=0.7)
    crowd.finish()
    (observer,) = [o for o in crowd.observers if o.daemon == 2]
    assert crowd.check_observer(observer) > 100
    assert crowd.check_line() > 50


@pytest.mark.parametrize(
    "seed", [1, *(pytest.param(s, marks=pytest.mark.long) for s in range(2, 40))]
)
def test_each_message_is_on_the_line_once_through_partitions(seed: int) -> None:
    crowd = Crowd(seed, daemons=4, loss=0.02)
    crowd._observe()
    crowd.run(1.0, 0.0, "none")
    crowd.run(8.0, 3.0, "part part mend mend session cut", sends=0.7)
    crowd.finish()
    assert crowd.check_line() > 50


def test_what_nobody_can_know_is_in_doubt() -> None:
    """If all daemons lose their memory nothing is sent again: it may have been delivered."""
    crowd = Crowd(7)
    crowd._observe()
    crowd.run(2.0, 0.0, "none", sends=0.7)
    sender = next(s for s in crowd.senders if s.session is not None and s.session.is_ready)
    while not sender.line.kept:
        sender.send()
    for host in crowd.cluster.daemons:
        host.kill()
        host.boot()
    for _ in range(1000):
        crowd.cluster.run(0.01)
        sender.tick()
    assert sender.doubt is not None
    assert "nobody knows" in str(sender.doubt)
