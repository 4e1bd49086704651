"""Every known bug is found: its finding seed is replayed.

The core's own invariants are off in these runs. Bugs, seeds and properties are read from
docs/known-bugs.md, which says how to make its table anew when the core or the load changes. Its
last part is for test_security_bugs.py.
"""

from pathlib import Path

import pytest

from groupcomm.errors import ConfigError
from groupcomm.order import invariants
from groupcomm.sim import known_bugs
from groupcomm.sim.known_bugs import KNOWN_BUGS, find_known_bug
from groupcomm.sim.run import run_seed
from groupcomm.sim.settings import Options
from groupcomm.sim.variants.bug import SITES, KnownBug, Right, known_bug, site_bug
from groupcomm.stream.stream import Stream
from groupcomm.wire.data import DataPacket
from tests.simulation import test_campaign

PAGE = Path(__file__).parents[2] / "docs" / "known-bugs.md"


def rows_of(part: str) -> list[list[str]]:
    """The cells of a table's rows, without its head."""
    return [line.strip("| ").split(" | ") for line in part.splitlines() if "| `" in line]


ROWS, SECURITY_ROWS = map(rows_of, PAGE.read_text().split("\n## Of security\n"))


def read_seed(text: str) -> tuple[int | None, int]:
    """From ``17`` or ``3 sites: 17``: the sites of a run, None where they are drawn; its seed."""
    sites, separator, seed = text.rpartition(" sites: ")
    return (int(sites) if separator else None), int(seed)


FOUND_BY = {
    row[0].strip("`"): (*read_seed(row[2]), set(row[3].split(", ")))
    for row in ROWS
    if len(row) == 4
}
"""By name: sites, seed, and the properties that do not hold in the run. The other row has none."""


def test_the_page_on_known_bugs_has_them_all() -> None:
    assert sorted((row[0], row[1]) for row in ROWS) == [
        (f"`{bug.name}`", bug.sentence) for bug in KNOWN_BUGS
    ]
    assert len(FOUND_BY) >= len(KNOWN_BUGS) - 1
    assert all(1 <= seed <= 1000 for _, seed, _ in FOUND_BY.values())
    assert not any("assert" in ids for _, _, ids in FOUND_BY.values())
    assert {name: sites for name, (sites, _, _) in FOUND_BY.items()} == {
        bug.name: bug.sites for bug in KNOWN_BUGS if bug.name in FOUND_BY
    }


@pytest.mark.parametrize("name", sorted(FOUND_BY))
def test_its_seed_finds_the_bug(name: str) -> None:
    sites, seed, properties = FOUND_BY[name]
    result = run_seed(seed, Options(known_bug=name, sites=sites))
    found = {finding.property for finding in result.findings}
    assert properties <= found, f"`make soak` finds another seed of {name} for docs/known-bugs.md"
    assert "assert" not in found, "the oracles have to find it, not the core"


OTHERS = sorted(
    {
        (sites or 0, seed)
        for sites, seed, _ in FOUND_BY.values()
        if sites is not None or seed > test_campaign.SEEDS
    }
)


@pytest.mark.parametrize(("sites", "seed"), OTHERS)
def test_the_right_core_passes_the_same_seed(sites: int, seed: int) -> None:
    """Those that test_campaign.py does not run anyway; 0 sites are as many as the seed draws."""
    assert run_seed(seed, Options(sites=sites or None)).findings == ()


def test_names_are_sorted_and_differ_and_sentences_end() -> None:
    names = [bug.name for bug in KNOWN_BUGS]
    assert names == sorted(set(names))
    for bug in KNOWN_BUGS:
        assert bug.sentence[0].isupper(), bug.name
        assert bug.sentence.endswith("."), bug.name
        assert bug.sentence.count(".") == 1, bug.name


class Lamp:
    """Something to get wrong."""

    def colour(self) -> str:
        return "green"

    def shape(self) -> str:
        return "round"


@known_bug((Lamp, "colour"))
def red_lamp(right: Right) -> Right:
    """The lamp
    is red.
    """

    def colour(self: Lamp) -> str:
        return str(right(self)).replace("green", "red")

    return colour


@known_bug((Lamp, "colour"), (Lamp, "shape"))
def swapped(colour: Right, shape: Right) -> tuple[Right, Right]:
    """Colour and shape are swapped."""
    return shape, colour


def test_a_bug_has_the_name_and_the_sentence_of_its_function() -> None:
    assert red_lamp.name == "red-lamp"
    assert red_lamp.sentence == "The lamp is red."


def test_a_bug_between_sites_says_in_how_many_it_is_looked_for() -> None:
    assert red_lamp.sites is None
    assert site_bug((Lamp, "colour"))(red_lamp.variant).sites == SITES


def test_a_bug_may_replace_several_things() -> None:
    with swapped.active():
        assert (Lamp().colour(), Lamp().shape()) == ("round", "green")
    assert (Lamp().colour(), Lamp().shape()) == ("green", "round")


def test_the_core_does_not_check_itself_while_a_bug_is_active() -> None:
    def check() -> None:
        invariants.assert_in_order(make_packet(time=5), (6, 0), 9)

    with red_lamp.active():
        check()
    with pytest.raises(AssertionError, match="stamp 5 is delivered after"):
        check()


def make_packet(time: int) -> DataPacket:
    """A packet with nothing in it."""
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

    bug = KnownBug(
        name="accepts-nothing",
        sentence="No packet is ever accepted.",
        targets=((Stream, "accept"),),
        variant=variant,
    )
    monkeypatch.setattr(known_bugs, "KNOWN_BUGS", (bug,))
    result = run_seed(1, Options(known_bug="accepts-nothing", duration_s=1.0))
    assert [finding.property for finding in result.findings] == ["assert"]
    assert "this core accepts nothing" in result.findings[0].text
    assert result.last_events


def test_an_unknown_name_is_refused_with_those_that_exist() -> None:
    with pytest.raises(ConfigError, match="no known bug is named 'heat'; there are: "):
        find_known_bug("heat")
