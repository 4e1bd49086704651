"""Hosts and their daemons: deaths at any moment, starts, clones, pauses, departures, healing."""

import attrs
import pytest

from groupcomm.events import Closed, Message
from groupcomm.sim.cluster.clients import SimulatedClient
from groupcomm.sim.cluster.cluster import Cluster
from groupcomm.sim.cluster.disk import DiskRecord
from groupcomm.sim.cluster.host import SimulatedHost
from groupcomm.sim.cluster.process import SimulatedProcess
from groupcomm.sim.settings import plain_settings
from groupcomm.sim.virtual_time import SECOND
from groupcomm.trace.events import Boot, Conf, Fail, Heal, Left, Rejects, TraceEvent
from groupcomm.trace.recorders import FUSE_KINDS, Fuse


class Traced:
    """A cluster, and its trace."""

    def __init__(self, daemons: int = 3, seed: int = 1) -> None:
        self.trace: list[TraceEvent] = []
        self.cluster = Cluster(plain_settings(daemons=daemons, seed=seed), self.trace.append)
        self.hosts = self.cluster.daemons

    def of(self, process: str) -> list[TraceEvent]:
        """Return the events of one process."""
        return [event for event in self.trace if getattr(event, "p", "") == process]

    def kinds(self, process: str) -> list[str]:
        """Their kinds."""
        return [type(event).__name__ for event in self.of(process)]

    def member(self, daemon: int, user: str = "user") -> SimulatedClient:
        """Return a member of group g."""
        client = self.cluster.connect(user, daemon)
        self.cluster.run(0.2)
        client.join("g")
        self.cluster.run(0.2)
        return client


def running(host: SimulatedHost) -> SimulatedProcess:
    assert host.process is not None
    return host.process


def test_a_cluster_starts_in_one_view_that_all_have_completed() -> None:
    traced = Traced(5)
    assert traced.cluster.agree(range(5))
    assert [type(event) for event in traced.trace[:5]] == [Boot] * 5
    assert {conf.view for conf in traced.trace if isinstance(conf, Conf)} == {
        str(traced.cluster.view.id)
    }


def test_a_start_is_counted_on_disk_before_the_daemon_exists() -> None:
    traced = Traced()
    host = traced.hosts[0]
    before = host.disk.record.restarts
    host.kill()
    host.boot()
    traced.cluster.run(0.00005)
    assert host.process is None
    assert traced.kinds("alfa/2") == []
    traced.cluster.form()
    assert host.disk.record.restarts == running(host).restarts == before + 1
    boot = traced.of("alfa/2")[0]
    assert isinstance(boot, Boot)
    assert boot.incarnation.startswith(f"{before + 1}.")


@pytest.mark.parametrize("seed", range(10))
def test_a_crash_while_the_start_is_written_leaves_no_trace_but_a_later_count(seed: int) -> None:
    traced = Traced(seed=seed)
    host = traced.hosts[0]
    before = host.disk.record.restarts
    host.kill()
    host.boot()
    host.kill()
    traced.cluster.run(0.1)
    assert host.is_idle
    assert host.disk.record.restarts in (before, before + 1)
    assert traced.kinds("alfa/2") == []
    host.boot()
    traced.cluster.form()
    assert running(host).name == "alfa/2"
    assert running(host).restarts > before


@pytest.mark.parametrize("sends", [0, 1, 3])
def test_a_daemon_can_die_between_two_datagrams(sends: int) -> None:
    traced = Traced()
    host = traced.hosts[1]
    sent = []
    traced.cluster.network.observers.append(
        lambda source, target, datagram, goes_on: sent.append((source, target))
    )
    client = traced.member(1)
    running(host).sends_left = sends
    sent.clear()
    client.multicast(["g"], b"x")
    traced.cluster.run(1.0)
    assert host.process is None
    heard = sum(source == 1 for source, _ in sent)
    assert sends <= heard <= 2 * sends, "a multicast is heard by two"
    assert traced.kinds("bravo/1")[-1] == "Fail"


@pytest.mark.parametrize("kind", FUSE_KINDS)
def test_a_fuse_kills_in_the_middle_of_a_step(kind: str) -> None:
    """The awaited event is the last one but the death; no datagram of that step is sent."""
    last = {"installed": "Conf", "transitional": "Conf", "held": "Hold", "accepted": "Accept"}
    traced = Traced()
    clients = [traced.member(0), traced.member(1)]
    running(traced.hosts[1]).probe.fuse = Fuse(kind)
    for client in clients:
        client.multicast(["g"], b"x")
    traced.cluster.run(0.1)
    if traced.hosts[1].process is not None:
        traced.hosts[2].kill()
        traced.cluster.run(2.0)
    kinds = traced.kinds("bravo/1")
    assert kinds[-1] == "Fail"
    assert kinds[-2] == last.get(kind, {"released": "Release"}.get(kind, kind.capitalize()))
    if kind == "transitional":
        conf = traced.of("bravo/1")[-2]
        assert isinstance(conf, Conf)
        assert conf.kind == "T"


def test_clients_of_a_dead_daemon_see_the_end_and_nothing_else() -> None:
    traced = Traced()
    victim, sender = traced.member(0), traced.member(1)
    sender.multicast(["g"], b"too late")
    traced.hosts[0].kill()
    assert not victim.alive
    told = len(victim.events)
    assert isinstance(victim.events[-1], Closed)
    traced.cluster.run(1.0)
    assert len(victim.events) == told
    again = traced.cluster.connect("user", 1 if sender.user != "user" else 2)
    traced.cluster.run(0.5)
    assert again.connected


@pytest.mark.parametrize("timeouts", [0.6, 5, 20])
def test_a_paused_daemon_takes_its_backlog_in_one_step_and_comes_back(timeouts: float) -> None:
    traced = Traced()
    sender = traced.member(0)
    receiver = traced.member(1, "late")
    process = running(traced.hosts[1])
    steps: list[int] = []
    step = process.core.step

    def counted(now: float, datagrams: list[bytes], inputs: list[object]) -> object:
        steps.append(len(datagrams))
        return step(now, datagrams, inputs)  # type: ignore[arg-type]

    process.core.step = counted  # type: ignore[method-assign, assignment]
    process.pause(traced.cluster.loop.now + int(timeouts * 0.6 * SECOND))
    for _ in range(20):
        sender.multicast(["g"], b"x")
        traced.cluster.run(timeouts * 0.6 / 21)
    assert steps == []
    traced.cluster.run(timeouts * 0.6 / 21 + 0.02)
    assert steps[0] > 10, "all that came meanwhile at once"
    traced.cluster.run(2.0)
    assert traced.cluster.agree(range(3))
    assert process.alive
    assert receiver.connected
    sender.multicast(["g"], b"last")
    traced.cluster.run(0.5)
    last = receiver.events[-1]
    assert isinstance(last, Message)
    assert last.data == b"last"


def test_a_daemon_that_left_serves_its_clients_first() -> None:
    traced = Traced()
    client = traced.member(0)
    host = traced.hosts[0]
    client.set_reading(False)
    running(host).leave()
    assert not host.is_up
    traced.cluster.run(0.5)
    assert host.process is not None, "its client has not read all yet"
    client.set_reading(True)
    traced.cluster.run(0.1)
    assert host.process is None
    assert isinstance(client.events[-1], Closed)
    assert isinstance(traced.of("alfa/1")[-1], Left)


def test_a_daemon_whose_disk_was_rolled_back_is_in_the_view_with_the_count_of_its_disk() -> None:
    traced = Traced()
    host = traced.hosts[0]
    count = running(host).restarts
    host.kill()
    traced.cluster.run(1.5)
    host.disk.record = DiskRecord(restarts=count - 1)
    host.boot()
    traced.cluster.run(3.0)
    assert traced.cluster.agree(range(3))
    assert running(host).restarts == count
    assert host.disk.record.restarts == count
    assert running(host).name == "alfa/2", "no further start was needed"


def test_a_clone_at_another_address_hears_nothing() -> None:
    traced = Traced()
    host = traced.hosts[0]
    host.start_clone(hears=False)
    traced.cluster.run(2.0)
    clone = host.clone
    assert clone is not None
    assert clone.core.view is not None
    assert {daemon.name for daemon in clone.core.view.daemons} == {host.name}
    assert [*clone.core.membership.peers.values()] == []
    assert clone.steps > 10, "it sends"
    host.kill_clone()
    traced.cluster.end_faults()


def test_a_clone_may_replace_its_original() -> None:
    traced = Traced()
    host = traced.hosts[0]
    original = host.process
    host.replace_by_clone()
    assert host.process is original, "there is none yet"
    host.start_clone()
    traced.cluster.run(0.1)
    clone = host.clone
    assert clone is not None
    host.replace_by_clone()
    assert (host.process, host.clone) == (clone, None)
    assert host.disk is clone.disk
    assert original is not None
    assert "Fail" in traced.kinds(original.name)
    traced.cluster.end_faults()


def test_a_clone_is_a_process_of_its_own_and_its_end_is_survived() -> None:
    traced = Traced()
    host = traced.hosts[0]
    host.start_clone()
    traced.cluster.run(0.5)
    host.kill_clone()
    assert isinstance(traced.of("alfa/2")[0], Boot)
    assert isinstance(traced.of("alfa/2")[-1], Fail)
    traced.cluster.run(10.0)
    assert host.clone is None
    assert traced.cluster.agree(range(3))


@pytest.mark.parametrize("seed", range(1, 11))
def test_after_healing_the_core_runs_and_the_rest_is_dead_or_cut_off(seed: int) -> None:
    traced = Traced(5, seed)
    cluster = traced.cluster
    traced.hosts[1].kill()
    traced.hosts[4].kill()
    running(traced.hosts[2]).leave()
    cluster.run(0.001)
    cluster.heal([1, 2, 3])
    heal = traced.trace[-1]
    assert isinstance(heal, Heal)
    assert heal.core == tuple(running(traced.hosts[at]).name for at in (1, 2, 3))
    assert heal.core[0] == "bravo/2"
    cluster.run(1.5)
    assert cluster.agree([1, 2, 3])
    for at in (0, 4):
        for member in (1, 2, 3):
            assert cluster.network.paths[at, member].loss == 1.0
            assert cluster.network.paths[member, at].loss == 1.0
    cluster.settle()
    checked = {event.p for event in traced.trace if isinstance(event, Rejects)}
    assert checked == {host.process.name for host in traced.hosts if host.process is not None}


@pytest.mark.parametrize("source", [0, 1], ids=["of one who is cut off", "of the core itself"])
def test_healing_waits_for_what_was_sent_before(source: int) -> None:
    """Found at seed 676: a beacon of a cut-off daemon came a second later, and caused a view."""
    traced = Traced(4, 1)
    cluster = traced.cluster
    arrival = cluster.network.paths[source, 2].transfer(b"late", 3 * SECOND // 2, True)
    cluster.network.paths[2, 0].transfer(b"to nobody in the core", 5 * SECOND, True)
    cluster.heal([1, 2, 3])
    heal = traced.trace[-1]
    assert isinstance(heal, Heal)
    assert arrival <= heal.t < arrival + SECOND // 10


def test_a_cold_start_is_not_all_at_once() -> None:
    settings = plain_settings(daemons=5)
    settings = attrs.evolve(settings, faults=attrs.evolve(settings.faults, cold_s=1.0))
    trace: list[TraceEvent] = []
    cluster = Cluster(settings, trace.append, start=False)
    cluster.start(form=False)
    cluster.run(1.1)
    boots = [event.t for event in trace if isinstance(event, Boot)]
    assert len(boots) == 5
    assert max(boots) - min(boots) > SECOND // 4
    cluster.form()
