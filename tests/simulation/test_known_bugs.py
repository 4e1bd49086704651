"""Every known bug is found: its finding seed is replayed, with the wrong core and the right one.

`make soak` hunts the bugs anew, and so finds the seeds for this table.
"""

import pytest

from groupcomm.errors import ConfigError
from groupcomm.sim import known_bugs
from groupcomm.sim.known_bugs import KNOWN_BUGS, KnownBug, find_known_bug
from groupcomm.sim.run import run_seed
from groupcomm.sim.settings import Options
from groupcomm.stream.stream import Stream

FOUND_BY: dict[str, tuple[int, frozenset[str]]] = {
    "clock-ignores-stamps": (1, frozenset({"H3", "assert"})),
}
"""By name: the seed, and the properties that do not hold in its run."""


def test_every_known_bug_has_a_seed_that_finds_it() -> None:
    assert set(FOUND_BY) == {bug.name for bug in KNOWN_BUGS}


@pytest.mark.parametrize("name", sorted(FOUND_BY))
def test_its_seed_finds_the_bug(name: str) -> None:
    seed, properties = FOUND_BY[name]
    result = run_seed(seed, Options(known_bug=name))
    assert properties <= {finding.property for finding in result.findings}


@pytest.mark.parametrize("seed", sorted({seed for seed, _ in FOUND_BY.values()}))
def test_the_right_core_passes_the_same_seed(seed: int) -> None:
    assert run_seed(seed, Options()).findings == ()


def test_names_are_sorted_and_differ_and_sentences_end() -> None:
    names = [bug.name for bug in KNOWN_BUGS]
    assert names == sorted(set(names))
    for bug in KNOWN_BUGS:
        assert bug.sentence[0].isupper(), bug.name
        assert bug.sentence.endswith("."), bug.name


class Lamp:
    """Something to get wrong."""

    def colour(self) -> str:
        return "green"


RED = KnownBug(
    name="red-lamp",
    sentence="The lamp is red.",
    owner=Lamp,
    attribute="colour",
    variant=lambda right: lambda self: right(self).replace("green", "red"),
)


def test_a_bug_is_there_for_a_run_and_gone_after_it() -> None:
    with RED.active():
        assert Lamp().colour() == "red"
    assert Lamp().colour() == "green"


def test_a_bug_is_gone_after_a_run_that_failed() -> None:
    with pytest.raises(ZeroDivisionError), RED.active():
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
        owner=Stream,
        attribute="accept",
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
