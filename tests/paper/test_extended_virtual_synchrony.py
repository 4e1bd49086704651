"""Moser, Amir, Melliar-Smith, Agarwal, "Extended Virtual Synchrony", ICDCS 1994.

Two histories are recorded: a partition while messages of three levels are on their way, and the
merge of its sides. One is of four daemons on one site, one of five on two sites whose network loses
datagrams. A configuration of the paper is a view here. The tests are named after the paper's
specifications of the model, from basic to safe delivery, and after its primary component.
"""

import functools
from collections.abc import Iterator
from itertools import combinations, pairwise
from random import Random

import attrs
import pytest

from groupcomm.clocks.stamp import ViewId
from groupcomm.config.view import DaemonId, View
from groupcomm.engine.probe import NoProbe
from groupcomm.level import ServiceLevel
from groupcomm.wire.bundle import Bundle, BundleKind
from tests.groupcomm.engine.cluster import Cluster

LEVELS = (ServiceLevel.CAUSAL, ServiceLevel.AGREED, ServiceLevel.SAFE)

Id = tuple[str, int]
"""Private name of the sender, and number of the message."""

Configuration = tuple[ViewId, ViewId | None]
"""A regular configuration (its view, None), or the transitional one between two views."""


@attrs.frozen
class Course:
    """The events of a history.

    Attributes:
        sites: the daemons of each site.
        sides: the sides of the partition.
        lost: the share of datagrams that is lost, until both sides have views.
    """

    sites: tuple[str, ...]
    sides: tuple[str, ...]
    lost: float

    @property
    def names(self) -> str:
        return "".join(self.sites)


COURSES = (Course(("abcd",), ("ab", "cd"), 0.0), Course(("abc", "de"), ("abd", "ce"), 0.1))
each_course = pytest.mark.parametrize("course", COURSES, ids=["a site", "two sites"])


@attrs.frozen
class Change:
    """A configuration change message; `members` are daemons' names."""

    configuration: Configuration
    members: frozenset[str]


@attrs.frozen
class Delivery:
    """A message that was delivered."""

    message: Id
    level: int
    place: tuple[int, int, int]


@attrs.define
class Recorder(NoProbe):
    """The events of one daemon, and the messages that its clients have sent, in order."""

    events: list[Change | Delivery] = attrs.field(factory=list)
    sent: list[tuple[int, Id]] = attrs.field(factory=list)  # (events before it, message)

    def installed(self, view: View) -> None:
        members = frozenset(daemon.name for daemon in view.daemons)
        self.events.append(Change((view.id, None), members))

    def transitional(self, old: ViewId, new: ViewId, members: tuple[DaemonId, ...]) -> None:
        self.events.append(Change((old, new), frozenset(daemon.name for daemon in members)))

    def accepted(self, sender: str, connection: int, first: int, last: int) -> None:
        numbers = range(max(first, 2), last + 1)  # 1 is the request to join
        self.sent += [(len(self.events), (sender, number)) for number in numbers]

    def released(
        self, ring: int, number: int, time: int, bundle_index: int, bundle: Bundle, sender: str
    ) -> None:
        if bundle.kind == BundleKind.MESSAGES:
            place = (time, ring, bundle_index)
            self.events += [
                Delivery((sender, bundle.message + at), bundle.level, place)
                for at in range(bundle.count)
            ]


@functools.cache
def history(course: Course) -> dict[str, Recorder]:
    """Record a partition into two sides under load, and their merge."""
    cluster = Cluster(*course.sites)
    loss = Random(1)
    recorders = {name: Recorder() for name in course.names}
    cluster.probes = recorders.__getitem__
    cluster.start(course.names)
    cluster.run(1.0)
    programs = {name: cluster.connect(name, f"p{name}") for name in course.names}
    for program in programs.values():
        program.session.join("g")
    cluster.run(0.2)

    def talk(rounds: int) -> None:
        for turn in range(rounds):
            for name, program in programs.items():
                level = LEVELS[(turn + ord(name)) % len(LEVELS)]
                program.session.multicast("g", b"%d" % turn, level=level)
            cluster.run(0.0007)

    talk(30)
    cluster.lost = lambda _: loss.random() < course.lost
    talk(40)
    cluster.isolate(*course.sides)
    talk(200)
    cluster.lost = lambda _: False
    cluster.run(2.0)
    assert {cluster.members(name) for name in course.names} == set(course.sides)
    talk(10)
    cluster.cut = set()
    talk(30)
    cluster.run(3.0)
    assert {cluster.members(name) for name in course.names} == {course.names}
    talk(10)
    cluster.run(1.0)
    return recorders


def by_configuration(recorder: Recorder) -> dict[Configuration, list[Delivery]]:
    """Return the deliveries of a daemon in each of its configurations, in order."""
    found: dict[Configuration, list[Delivery]] = {}
    present: list[Delivery] = []
    for event in recorder.events:
        if isinstance(event, Change):
            present = found[event.configuration] = []
        else:
            present.append(event)
    return found


def changes(recorder: Recorder) -> list[Change]:
    return [event for event in recorder.events if isinstance(event, Change)]


def deliveries(recorder: Recorder) -> list[Delivery]:
    return [event for event in recorder.events if isinstance(event, Delivery)]


def together(course: Course) -> Iterator[tuple[list[Delivery], list[Delivery]]]:
    """Yield the deliveries of two members of the same transitional configuration.

    These are in the regular configuration from which they come, and in the transitional one.
    """
    for one, other in combinations(history(course).values(), 2):
        mine, theirs = by_configuration(one), by_configuration(other)
        for configuration in mine.keys() & theirs.keys():
            old, new = configuration
            if new is not None:
                yield (
                    [*mine[old, None], *mine[configuration]],
                    [*theirs[old, None], *theirs[configuration]],
                )


@each_course
def test_the_history_has_a_partition_with_messages_in_transitional_configurations(
    course: Course,
) -> None:
    transitional = [
        delivery
        for recorder in history(course).values()
        for (_, new), found in by_configuration(recorder).items()
        if new is not None
        for delivery in found
    ]
    assert {delivery.level for delivery in transitional} >= {ServiceLevel.SAFE}
    assert all(len(deliveries(recorder)) > 300 for recorder in history(course).values())


@each_course
def test_basic_delivery(course: Course) -> None:
    """A message is delivered only if it was sent, once at each daemon, and in one configuration."""
    sent = [message for recorder in history(course).values() for _, message in recorder.sent]
    assert len(sent) == len(set(sent)), "one event sends it"
    regular: dict[Id, set[ViewId]] = {}
    for recorder in history(course).values():
        ids = [delivery.message for delivery in deliveries(recorder)]
        assert len(ids) == len(set(ids))
        assert set(ids) <= set(sent)
        for (view, _), found in by_configuration(recorder).items():
            for delivery in found:
                regular.setdefault(delivery.message, set()).add(view)
    assert all(len(views) == 1 for views in regular.values()), "or in what follows it"


@each_course
def test_delivery_of_configuration_changes(course: Course) -> None:
    """Each is delivered once, by members only; members that continue together agree on the rest."""
    members: dict[Configuration, frozenset[str]] = {}
    for name, recorder in history(course).items():
        own = changes(recorder)
        assert len({change.configuration for change in own}) == len(own)
        for change in own:
            assert name in change.members
            assert members.setdefault(change.configuration, change.members) == change.members
        for before, after in pairwise(own):
            old, new = before.configuration
            if new is None and after.configuration[1] is not None:
                assert after.configuration[0] == old, "the transitional one is between the two"
                assert after.members <= before.members
            else:
                assert after.configuration == (new, None)
                assert before.members <= after.members


@each_course
def test_self_delivery(course: Course) -> None:
    """A daemon delivers each message that it has sent."""
    for recorder in history(course).values():
        delivered = {delivery.message for delivery in deliveries(recorder)}
        assert {message for _, message in recorder.sent} <= delivered


@each_course
def test_failure_atomicity(course: Course) -> None:
    """Daemons that go on together have delivered the same set of messages in the old one."""
    compared = 0
    for mine, theirs in together(course):
        assert {delivery.message for delivery in mine} == {each.message for each in theirs}
        compared += len(mine)
    assert compared > 300


@each_course
def test_causal_delivery(course: Course) -> None:
    """A message is delivered after all that its sender had delivered and sent before it."""
    for sender in history(course).values():
        for recorder in history(course).values():
            there = {delivery.message: at for at, delivery in enumerate(deliveries(recorder))}
            sent_before: Id | None = None
            for events_before, message in sender.sent:
                before = deliveries(Recorder(sender.events[:events_before]))
                causes = [
                    delivery.message for delivery in before[-40:] if delivery.message in there
                ]
                if sent_before is not None and sent_before in there:
                    causes.append(sent_before)
                if message in there:
                    assert all(there[cause] < there[message] for cause in causes)
                sent_before = message


@each_course
def test_totally_ordered_delivery(course: Course) -> None:
    """No two daemons deliver two AGREED or SAFE messages in different orders."""
    orders = [
        [
            delivery.message
            for delivery in deliveries(recorder)
            if delivery.level >= ServiceLevel.AGREED
        ]
        for recorder in history(course).values()
    ]
    for one, other in combinations(orders, 2):
        both = set(one) & set(other)
        assert [message for message in one if message in both] == [
            message for message in other if message in both
        ]


@each_course
def test_safe_delivery(course: Course) -> None:
    """A SAFE message of a configuration is delivered by all of its members, or they failed.

    In a regular configuration these are all members, whatever side of a partition they are on; in a
    transitional one the members of that configuration.
    """
    recorders = history(course)
    members = {
        change.configuration: change.members
        for recorder in recorders.values()
        for change in changes(recorder)
    }
    delivered = {
        name: {delivery.message for delivery in deliveries(recorder)}
        for name, recorder in recorders.items()
    }
    safe = 0
    for recorder in recorders.values():
        for configuration, found in by_configuration(recorder).items():
            for delivery in found:
                if delivery.level == ServiceLevel.SAFE:
                    safe += 1
                    for name in members[configuration]:
                        assert delivery.message in delivered[name]
    assert safe > 300


@each_course
def test_the_primary_component_is_unique_and_continuous(course: Course) -> None:
    """Of concurrent configurations one at most has a majority, and two with one share a member."""
    config = Cluster(*course.sites).config
    regular = {
        change.configuration[0]: change.members
        for recorder in history(course).values()
        for change in changes(recorder)
        if change.configuration[1] is None
    }
    primary = [members for members in regular.values() if config.has_majority(members)]
    assert primary
    for one, other in combinations(primary, 2):
        assert one & other
    assert [config.has_majority(side) for side in course.sides] == [
        len(side) == 3 for side in course.sides
    ]
    assert {frozenset(side) for side in course.sides} <= set(regular.values())
