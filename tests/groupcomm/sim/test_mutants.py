"""Every mutant is on its page, replaces something of the core, and still fits the core.

`make soak` hunts the bugs: the seed that finds one moves with every change of the protocol, so no
test here depends on a seed. docs/mutants.md keeps the results of the last hunt. Its last
parts belong to test_security_mutants.py and to tests/groupcomm_client/test_crowd_mutants.py.
"""

import inspect
import itertools
import operator
import re
from pathlib import Path
from typing import Any

import pytest

from groupcomm.errors import ConfigError
from groupcomm.level import ServiceLevel
from groupcomm.order import order
from groupcomm.sim.cluster.cluster import Cluster
from groupcomm.sim.cluster.process import CoreFailure
from groupcomm.sim.settings import plain_settings
from groupcomm.stream.stream import Stream
from groupcomm.wire.data import DataPacket
from tests.groupcomm.sim.checked_cluster import with_few_notices
from tests.verification.mutants import catalogue
from tests.verification.mutants.catalogue import MUTANTS, find_mutant
from tests.verification.mutants.mutant import SITES, Mutant, Right, mutant, site_mutant
from tests.verification.mutants.runs import MutantOptions, run_seed
from tests.verification.soak.soak import MISSED, UNHUNTED

PAGE = Path(__file__).parents[3] / "docs" / "mutants.md"

RESULT = re.compile(
    rf"({SITES} sites: )?([a-z,]+: )?\d+ \| [A-Z]+\d*(, [A-Z]+\d*)*"
    rf"|- \| {MISSED} \d+ seeds|- \| {UNHUNTED}"
)
"""The last two cells of a row: the seed and the violated property, or that no seed is known."""


def rows_of(part: str) -> list[list[str]]:
    """Return the cells of a table's rows, without its head."""
    return [line.strip("| ").split(" | ") for line in part.splitlines() if "| `" in line]


ROWS, SECURITY_ROWS, CROWD_ROWS = map(rows_of, PAGE.read_text().split("\n## Of "))


def test_the_page_of_mutants_has_them_all() -> None:
    assert sorted((row[0], row[1]) for row in ROWS) == [
        (f"`{bug.name}`", bug.sentence) for bug in MUTANTS
    ]


def test_the_page_says_for_each_bug_what_the_last_hunt_came_to() -> None:
    assert {row[0]: row[2:] for row in ROWS if not RESULT.fullmatch(" | ".join(row[2:]))} == {}


def test_every_bug_replaces_its_targets_for_the_length_of_a_run() -> None:
    for bug in MUTANTS:
        rights = [vars(owner)[attribute] for owner, attribute in bug.targets]
        with bug.active():
            wrongs = [vars(owner)[attribute] for owner, attribute in bug.targets]
        after = [vars(owner)[attribute] for owner, attribute in bug.targets]
        assert all(map(operator.is_not, rights, wrongs)), bug.name
        assert all(map(operator.is_, rights, after)), bug.name


def test_every_replacement_takes_the_arguments_of_what_it_replaces() -> None:
    misfits = []
    for bug in MUTANTS:
        rights = [vars(owner)[attribute] for owner, attribute in bug.targets]
        with bug.active():
            wrongs = [vars(owner)[attribute] for owner, attribute in bug.targets]
        for right, wrong in zip(rights, wrongs, strict=True):
            if inspect.isfunction(right) and inspect.isfunction(wrong):
                names = inspect.signature(right).parameters.values()
                given = [each.name for each in names if each.kind is not each.KEYWORD_ONLY]
                named = {each.name: 0 for each in names if each.kind is each.KEYWORD_ONLY}
                try:
                    inspect.signature(wrong).bind(*given, **named)
                except TypeError as error:
                    misfits.append(f"{bug.name}: {right.__qualname__}: {error}")
    assert misfits == []


@pytest.mark.long
def test_every_bug_still_fits_the_core() -> None:
    """A variant that uses a removed part of the core would end in an error of Python's own."""
    assert {bug.name: error for bug in MUTANTS if (error := misfit_of(bug))} == {}


def misfit_of(bug: Mutant) -> str | None:
    """Return the error that ends a short scene with this bug, unless an assertion ends it."""
    try:
        with bug.active():
            play_a_partition(sites=1 if bug.sites is None else 2)
    except CoreFailure as failure:
        return None if isinstance(failure.__cause__, AssertionError) else str(failure)
    except AssertionError:
        return None
    return None


def test_a_bug_that_does_not_fit_the_core_any_more_is_noticed() -> None:
    def variant(right: Right) -> Right:
        def accept(self: Any, packet: DataPacket) -> object:
            return right(self, packet, self.what_there_was_once)

        return accept

    bug = Mutant(name="old", sentence="It is.", targets=((Stream, "accept"),), variant=variant)
    assert "AttributeError" in (misfit_of(bug) or "")


def play_a_partition(sites: int) -> None:
    """Run four daemons that send at every level before, during and after a partition."""
    hosts = range(4)
    cluster = Cluster(with_few_notices(plain_settings(daemons=len(hosts), sites=sites)))
    cluster.run(0.7)
    clients = [cluster.connect(f"user{host}", host) for host in hosts]
    cluster.run(0.1)
    clients = [client for client in clients if client.connected]  # some bugs end all views
    for client in clients:
        client.join("g")
    halves = [(a, b) for a, b in itertools.permutations(hosts, 2) if (a < 2) != (b < 2)]
    for change in (lambda _: None, cluster.network.cut, cluster.network.mend):
        change(halves)
        for client, level in itertools.product(clients, ServiceLevel):
            client.multicast(["g"], bytes(2000), level=level)
        cluster.run(0.5)


def test_names_are_sorted_and_differ_and_sentences_end() -> None:
    names = [bug.name for bug in MUTANTS]
    assert names == sorted(set(names))
    for bug in MUTANTS:
        assert bug.sentence[0].isupper(), bug.name
        assert bug.sentence.endswith("."), bug.name
        assert bug.sentence.count(".") == 1, bug.name


class Lamp:
    """Something to get wrong."""

    def colour(self) -> str:
        return "green"

    def shape(self) -> str:
        return "round"


@mutant((Lamp, "colour"))
def red_lamp(right: Right) -> Right:
    """The lamp
    is red.
    """

    def colour(self: Lamp) -> str:
        return str(right(self)).replace("green", "red")

    return colour


@mutant((Lamp, "colour"), (Lamp, "shape"))
def swapped(colour: Right, shape: Right) -> tuple[Right, Right]:
    """Colour and shape are swapped."""
    return shape, colour


def test_a_bug_has_the_name_and_the_sentence_of_its_function() -> None:
    assert red_lamp.name == "red-lamp"
    assert red_lamp.sentence == "The lamp is red."


def test_a_bug_between_sites_says_in_how_many_it_is_looked_for() -> None:
    assert red_lamp.sites is None
    assert site_mutant((Lamp, "colour"))(red_lamp.variant).sites == SITES


def test_a_bug_may_replace_several_things() -> None:
    with swapped.active():
        assert (Lamp().colour(), Lamp().shape()) == ("round", "green")
    assert (Lamp().colour(), Lamp().shape()) == ("green", "round")


def test_the_core_does_not_check_itself_while_a_bug_is_active() -> None:
    def check() -> None:
        order.assert_in_order(make_packet(time=5), (6, 0), 9)

    with red_lamp.active():
        check()
    with pytest.raises(AssertionError, match="stamp 5 is delivered after"):
        check()


def make_packet(time: int) -> DataPacket:
    """Return a packet with nothing in it."""
    return DataPacket(ring=0, number=1, time=time, daemon=0, previous=0, bundles=[])


def test_a_bug_is_there_for_a_run_and_gone_after_it() -> None:
    with red_lamp.active():
        assert Lamp().colour() == "red"
    assert Lamp().colour() == "green"


def test_a_bug_is_gone_after_a_run_that_failed() -> None:
    with pytest.raises(ZeroDivisionError), red_lamp.active():
        raise ZeroDivisionError
    assert Lamp().colour() == "green"


def test_a_bug_of_the_core_is_active_in_a_run(monkeypatch: pytest.MonkeyPatch) -> None:
    def variant(_right: object) -> object:
        def accept(_stream: Stream, _packet: object) -> bool:
            raise AssertionError("this core accepts nothing")

        return accept

    bug = Mutant(
        name="accepts-nothing",
        sentence="No packet is ever accepted.",
        targets=((Stream, "accept"),),
        variant=variant,
    )
    monkeypatch.setattr(catalogue, "MUTANTS", (bug,))
    result = run_seed(1, MutantOptions(mutant="accepts-nothing", duration_s=1.0))
    assert [finding.property for finding in result.findings] == ["assert"]
    assert "this core accepts nothing" in result.findings[0].text
    assert result.last_events


def test_an_unknown_name_is_refused_with_those_that_exist() -> None:
    with pytest.raises(ConfigError, match="no mutant is named 'heat'; there are: "):
        find_mutant("heat")
