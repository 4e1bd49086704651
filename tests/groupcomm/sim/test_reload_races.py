"""Rules change at any daemon at any moment, while programs join, leave, send, come and go."""

from collections import Counter
from collections.abc import Sequence
from random import Random
from typing import Final

import attrs
import pytest

from groupcomm.engine import ProgramSettings
from groupcomm.errors import LocalProtocolError
from groupcomm.events import Event, Message, Refused
from groupcomm.security.access import Access, Rule, Verb
from groupcomm.security.quotas import Quotas
from groupcomm.sim.cluster.clients import SimulatedClient
from groupcomm.sim.cluster.cluster import Cluster
from groupcomm.sim.settings import plain_settings
from tests.groupcomm.sim.captured import running

ALL: Final = frozenset(Verb)
WHO: Final = ("unix:ann", "unix:bob", "token:rude")
GROUPS: Final = ("chat", "prices", "plan")


def allowing(*rows: tuple[str, str]) -> Access:
    return Access(tuple(Rule((who,), (group,), ALL, names=("*",)) for who, group in rows))


RULES: Final = (
    allowing(("unix:*", "*")),
    allowing(("unix:ann", "*"), ("unix:bob", "p*"), ("unix:bob", "#*")),
    allowing(("unix:ann", "*"), ("unix:bob", "chat"), ("token:rude", "yard")),
    allowing(("unix:ann", "chat"), ("unix:bob", "*")),
)
"""The names of sessions may change: all rule sets leave names free."""


class Life:
    """Three daemons whose rules change, and their programs."""

    def __init__(self, seed: int) -> None:
        self.rng = Random(seed)
        settings = plain_settings(daemons=3, seed=seed)
        self.cluster = Cluster(attrs.evolve(settings, suite=1))
        self.clients: list[SimulatedClient] = []
        self.heard: dict[SimulatedClient, list[Event]] = {}
        self.limits: dict[str, int | None] = {}
        for host in self.cluster.daemons:
            self.reload(host.index, RULES[0], None)

    def reload(self, index: int, rules: Access, most: int | None) -> None:
        running(self.cluster.daemons[index])._input(
            ProgramSettings(access=rules, quotas=Quotas() if most is None else Quotas(groups=most))
        )

    def connect(self) -> None:
        principal, daemon = self.rng.choice(WHO), self.rng.randrange(3)
        cluster = self.cluster
        host = cluster.daemons[daemon]
        user = f"{principal[-3:]}{len(self.clients)}"
        client = SimulatedClient(cluster.loop, cluster.record, user, daemon, host.name)
        client.principal = principal
        heard: list[Event] = []
        client.on_event = heard.append
        self.heard[client] = heard
        self.clients.append(client)
        host.accept(client)

    def act(self) -> None:
        """One thing happens somewhere; several may at one moment."""
        rng, open_ones = self.rng, [client for client in self.clients if client.connected]
        lot = rng.random()
        if lot < 0.12 or not open_ones:
            self.connect()
        elif lot < 0.3:
            self.reload(rng.randrange(3), rng.choice(RULES), rng.choice((None, None, 2)))
        else:
            client, group = rng.choice(open_ones), rng.choice(GROUPS)
            try:
                if lot < 0.6:
                    client.join(group)
                elif lot < 0.75:
                    client.leave(group)
                elif lot < 0.95:
                    client.multicast([group], b"x")
                else:
                    client.crash()
            except LocalProtocolError:
                pass  # the session is no member
        self.cluster.run(rng.choice((0.0, 0.0, 0.0, 0.0001, 0.0005, 0.003)))


def memberships(cluster: Cluster, index: int) -> dict[str, list[str]]:
    """Return groups of each session, as a daemon has it."""
    operation = cluster.daemons[index].core.view_state
    assert operation is not None
    sessions = operation.delivery.groups.table.sessions.values()
    return {str(each.id): sorted(each.groups) for each in sessions}


@pytest.mark.parametrize("seed", range(1, 5))
def test_what_rules_end_with_is_what_holds_whatever_was_under_way(seed: int) -> None:
    """Tables are equal, no program is in a forbidden group, and programs know their groups."""
    life = Life(seed)
    cluster = life.cluster
    for _ in range(400):
        life.act()
    for index in range(3):
        life.reload(index, RULES[1], None)
    cluster.run(1.0)
    tables = [memberships(cluster, index) for index in range(3)]
    assert tables[0] == tables[1] == tables[2]
    alive = [client for client in life.clients if client.connected]
    assert {client.identity for client in alive} == tables[0].keys()
    for client in alive:
        groups = tables[0][client.identity]
        assert sorted(client.groups) == groups, client.identity
        assert all(RULES[1].may(client.principal, Verb.JOIN, group) for group in groups)
    check_counts(cluster, alive)
    refused = [each for heard in life.heard.values() for each in heard]
    assert sum(isinstance(each, Refused) and not each.number for each in refused) > 0, "expelled"
    assert sum(isinstance(each, Message) for each in refused) > 10


def check_counts(cluster: Cluster, alive: Sequence[SimulatedClient]) -> None:
    """The count for the quota of groups is the number of memberships."""
    for host in cluster.daemons:
        desk = host.core.sessions
        counted: Counter[str] = Counter()
        for client in alive:
            if client.daemon == host.index:
                counted[client.principal] += len(client.groups)
        assert +desk.access_control._memberships == +counted
