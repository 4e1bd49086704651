"""Clients of Spread and of ours at three daemons, under load, with kills and partitions, judged.

    python -m tests.verification.campaigns spread --clients 200 --disasters 20

Each client is in one of some groups, sends, leaves and joins, and connects again when its daemon
has gone. Messages go to its group, or to many groups with long names; they have all marks that
pass. Most clients speak Spread's protocol, some ours, some use SP_ functions. Daemons are killed
and started again, and cut off from each other and joined again; in some of these disasters half of
the clients leave and join at once. Between them visitors connect, to whom others send at once.
`checker.SpreadChecker` checks the events of the clients, and the simulator's checkers check the
traces of the daemons.
"""

import random
from argparse import Namespace
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import attrs
import trio

from groupcomm.errors import GroupCommError, SessionError
from groupcomm.sim.check import check_events
from groupcomm_client import spread_api as sp
from groupcomm_tools.local_cluster import ClusterError, LocalCluster
from groupcomm_tools.relay import Relay
from groupcomm_tools.traces.files import trace_events
from groupcommd.config.config_file import read_addresses
from tests.groupcommd import spread_client as spread
from tests.groupcommd.spread_client import Received, connect
from tests.verification.campaigns.runner import Found, campaign, option
from tests.verification.campaigns.spread.checker import SpreadChecker, numbered
from tests.verification.campaigns.spread.members import Member, OwnMember, open_member
from tests.verification.campaigns.spread.traffic import (
    CHURN,
    draw_groups,
    draw_message,
    group_name,
)

NAMES: Final = "abc"
KINDS: Final = {4: "api", 9: "own"}
"""The kind of every tenth client; all others are Spread's."""

VISITORS: Final = 5
BETWEEN_S: Final = 1.0
"""From one disaster to its end, and on to the next."""

SETTLE_S: Final = 180.0
ATTEMPTS: Final = 12
"""The times in which all daemons must be in one view, each of some seconds."""

_GONE: Final = (
    *(OSError, trio.BrokenResourceError, trio.ClosedResourceError),
    *(spread.Ended, SessionError, sp.SpreadError),
)
"""The end of a session as each kind of program finds it out."""

_UNTRACED: Final = "D1:"
"""Deliveries of sent messages only: that needs traces of clients, which write none here."""


@attrs.define
class Session:
    """A session that is open."""

    number: int
    daemon: str
    group: int
    is_own: bool
    member: Member
    lock: trio.Lock = attrs.field(factory=trio.Lock)


class Campaign:
    """All clients, and the disasters of their daemons.

    Attributes:
        is_calm: whether what is sent must come: no daemon goes or comes.
        sent, wide, changes, visits: messages, those to many groups, leaves with their joins, and
            messages to names of programs that have just connected.
    """

    def __init__(self, cluster: LocalCluster, relay: Relay, options: Namespace) -> None:
        self._cluster = cluster
        self._relay = relay
        self._options = options
        self._random = random.Random(options.seed)
        self.checker = SpreadChecker()
        self.sent = self.sessions = self.wide = self.changes = self.visits = 0
        self._open: dict[int, Session] = {}
        self._undisturbed = 0  # the transitions when calm began
        self.is_loaded, self.is_calm = True, False

    async def live(self, index: int) -> None:
        """Be one client for ever: connect, be a member, send, and begin again at an end."""
        daemon, kind = NAMES[index % len(NAMES)], KINDS.get(index % 10, "spread")
        while True:
            with suppress(*_GONE, GroupCommError, spread.Rejected, trio.TooSlowError):
                async with open_member(kind, self._cluster[daemon], index) as member:
                    group = index // len(NAMES) % self._options.groups  # at all daemons
                    self.sessions += 1
                    session = Session(self.sessions, daemon, group, kind != "spread", member)
                    await self._be_member(session)
            await trio.sleep(0.1 + self._random.random() / 10)

    async def _be_member(self, session: Session) -> None:
        self._open[session.number] = session
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._receive, session)
                async with session.lock:
                    await session.member.join(group_name(session.group))
                while True:
                    pause_s = self._options.clients / self._options.rate
                    await trio.sleep(pause_s * (0.5 + self._random.random()))
                    if self.is_loaded:
                        await self._act(session)
        except* _GONE:
            pass
        finally:
            del self._open[session.number]

    async def _receive(self, session: Session) -> None:
        member = session.member
        while True:
            self.checker.see(session.number, member.name, await member.receive(patient=True))

    async def _act(self, session: Session) -> None:
        if self._random.random() < CHURN:
            await self._change(session)
        groups = draw_groups(self._random, session.group, self._options.groups)
        await self._send(session, groups, session)

    async def _change(self, session: Session) -> None:
        """Leave the group, and join it again."""
        async with session.lock:
            self.changes += 1
            await session.member.leave(group_name(session.group))
            await session.member.join(group_name(session.group))

    async def _send(self, session: Session, groups: list[str], receiver: Session) -> None:
        """Send a message that this receiver must get, if all is calm."""
        draft = draw_message(self._random, groups, is_own=session.is_own)
        async with session.lock:
            self.sent += 1
            number = self.sent
            self.wide += draft.is_wide
            data = numbered(number, draft.padding)
            self.checker.send(
                Received(
                    type=draft.service,
                    sender=session.member.name,
                    groups=tuple(groups),
                    tag=draft.tag,
                    mismatch=False,
                    data=data,
                )
            )
            is_discarded = draft.service & spread.SELF_DISCARD and receiver is session
            owed = self.checker.owed[receiver.number]
            if self.is_calm and not is_discarded:
                owed.add(number)
            try:
                await session.member.multicast(groups, data, draft.service, draft.tag)
            except _GONE:
                owed.discard(number)
                raise

    # ---- what happens ----

    async def calm(self) -> None:
        """Let all be calm for a time, and see that what was sent meanwhile comes."""
        self.is_loaded = False
        await self.settle()
        self.is_loaded = True
        self._undisturbed, self.is_calm = self.checker.transitions, True
        async with trio.open_nursery() as nursery:
            for number in range(VISITORS):
                nursery.start_soon(self._visit, number)
            await trio.sleep(BETWEEN_S)
        self.is_calm = False
        with trio.move_on_after(SETTLE_S):
            while any(self.checker.owed.values()) and not self._is_disturbed:
                await trio.sleep(0.01)
        if self._is_disturbed:
            self.checker.owed.clear()
        self.checker.end_owing()

    @property
    def _is_disturbed(self) -> bool:
        """Return whether daemons that are busy have lost each other since calm began."""
        return self.checker.transitions != self._undisturbed

    async def _visit(self, number: int) -> None:
        """Connect, and have clients of the other daemons send at once."""
        daemon = NAMES[number % len(NAMES)]
        try:
            member = await connect(self._cluster[daemon].spread, f"v{number}", views=False)
        except trio.TooSlowError:
            if self._is_disturbed:
                return
            raise
        async with member:
            self.sessions += 1
            visitor = Session(self.sessions, daemon, 0, False, member)
            others = [each for each in self._open.values() if each.daemon != daemon]
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._receive, visitor)
                for sender in self._random.sample(others, min(3, len(others))):
                    with suppress(*_GONE):
                        await self._send(sender, [member.name], visitor)
                        self.visits += 1
                owed = self.checker.owed[visitor.number]
                with trio.move_on_after(SETTLE_S):
                    while owed and not self._is_disturbed:
                        await trio.sleep(0.005)
                nursery.cancel_scope.cancel()

    async def _storm(self) -> None:
        """Have half of all clients leave and join at once."""
        async with trio.open_nursery() as nursery:
            for session in self._random.sample([*self._open.values()], len(self._open) // 2):
                nursery.start_soon(self._change_if_open, session)

    async def _change_if_open(self, session: Session) -> None:
        with suppress(*_GONE):
            await self._change(session)

    async def disaster(self) -> None:
        """Have one thing happen to a daemon, and mend it."""
        victim, is_killed = self._random.choice(NAMES), self._random.random() < 0.5
        others = [name for name in NAMES if name != victim]
        if is_killed:
            self._cluster[victim].kill()
        else:
            self._relay.cut(list(self._relay.between([victim], others)))
        if self._random.random() < 0.5:
            await self._storm()
        await self._agree(others)
        await trio.sleep(BETWEEN_S)
        if is_killed:
            await self._cluster[victim].start(within_s=SETTLE_S)
        else:
            self._relay.mend()
        await self._agree(NAMES)

    async def _agree(self, names: Sequence[str]) -> None:
        """Wait until these daemons are in one view, however long a busy machine takes for that."""
        for _ in range(ATTEMPTS):
            with suppress(ClusterError):
                await self._cluster.settle(names)
                return
        await self._cluster.settle(names)

    async def settle(self) -> None:
        """Wait until all members of each group are in one view of it.

        Raises:
            ClusterError: they are not in time; the text says which.
        """
        with trio.move_on_after(SETTLE_S):
            while self._unsettled():
                await trio.sleep(0.02)
        if late := self._unsettled():
            raise ClusterError(f"not settled: {late}")

    def _unsettled(self) -> str:
        """Return what lacks for all members of each group to be in one view of it; "" if nothing
        does.
        """
        if len(self._open) < self._options.clients:
            return f"{len(self._open)} sessions are open"
        for group in range(self._options.groups):
            members = [
                each.number
                for each in self._open.values()
                if each.group == group and not isinstance(each.member, OwnMember)
            ]
            views = self.checker.members_now(members, group_name(group))
            if [len(found) for found in views.values()] != [len(members)]:
                return f"of {group_name(group)}'s {members} these share views: {views.values()}"
        return ""


@campaign(
    option("clients", 200),
    option("groups", 10),
    option("rate", 200.0, "messages a second, of all"),
    option("disasters", 20),
    option("seed", 1),
)
async def run(options: Namespace) -> Found:
    """Run a campaign; return its figures."""
    with TemporaryDirectory() as folder:
        via = Path(folder) / "via.json"
        traces = Path(folder) / "traces"
        traces.mkdir()
        cluster = LocalCluster(NAMES, options=("--trace", str(traces), "--via", str(via)))
        relay = Relay(read_addresses(cluster.config))
        relay.write(via)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(relay.run)
            async with cluster:
                await cluster.settle(NAMES)
                campaign = Campaign(cluster, relay, options)
                for index in range(options.clients):
                    nursery.start_soon(campaign.live, index)
                await campaign.calm()
                for _ in range(options.disasters):
                    await campaign.disaster()
                    await campaign.calm()
                nursery.cancel_scope.cancel()
        campaign.checker.finish()
        checked = check_events("daemons", trace_events(traces))
        told = map(str, checked.violations)
        broken = [f"daemons: {text}" for text in told if not text.startswith(_UNTRACED)]
        return {
            "sessions": campaign.sessions,
            "sent": campaign.sent,
            "to_many_groups": campaign.wide,
            "left_and_joined": campaign.changes,
            "to_new_programs": campaign.visits,
            "messages": campaign.checker.messages,
            "views": campaign.checker.views,
            "compared": campaign.checker.compared,
            "daemons_events": checked.events,
            "violations": campaign.checker.violations + broken[:20],
        }
