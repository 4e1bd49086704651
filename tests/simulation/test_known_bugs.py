"""Every known bug is found: its finding seed is replayed.

The core's own invariants are off in these runs. When the core or the load changes, a seed may no
longer find its bug: count_finds.py finds others, for this table and the one in docs/known-bugs.md.
"""

from pathlib import Path

import pytest

from groupcomm.errors import ConfigError
from groupcomm.order import invariants
from groupcomm.sim import known_bugs
from groupcomm.sim.known_bugs import KNOWN_BUGS, find_known_bug
from groupcomm.sim.run import run_seed
from groupcomm.sim.settings import Options
from groupcomm.sim.variants.bug import KnownBug, Right, known_bug
from groupcomm.stream.stream import Stream
from groupcomm.wire.data import DataPacket
from tests.simulation import test_campaign

FOUND_BY: dict[str, tuple[int, frozenset[str]]] = {
    "block-off-by-one": (13, frozenset({"H5", "O4"})),
    "causal-without-agreed": (2, frozenset({"CA"})),
    "clock-ignores-stamps": (1, frozenset({"G1", "G2", "H1", "H4", "H5", "H6", "O1", "O4"})),
    "disconnect-overtakes": (11, frozenset({"P3"})),
    "far-stamp-ignored": (3, frozenset({"G1", "G2", "H1", "H4", "H5", "H6", "O1", "O4"})),
    "fifo-ignores-session": (1, frozenset({"F1", "F2", "M1"})),
    "fifo-on-receipt": (1, frozenset({"F1", "F2", "M1"})),
    "forgets-by-own-frontier": (1, frozenset({"G1", "L5", "P2", "R"})),
    "frontier-is-highest": (1, frozenset({"S1"})),
    "ghost-in-group": (2, frozenset({"G2"})),
    "hop-in-32-bits": (8, frozenset({"L5", "R"})),
    "horizon-beyond-clock": (4, frozenset({"H4"})),
    "horizon-counts-at-once": (13, frozenset({"H4"})),
    "horizon-without-token": (4, frozenset({"H2", "H3"})),
    "join-when-asked": (1, frozenset({"G3", "G5", "MG3", "R", "V3"})),
    "lost-tail-unnoticed": (37, frozenset({"R"})),
    "numbers-reused": (1, frozenset({"H1"})),
    "once-per-group": (1, frozenset({"D2"})),
    "ordered-at-stamping": (1, frozenset({"S1"})),
    "private-by-name": (4, frozenset({"R"})),
    "reassembly-by-sender": (1, frozenset({"G4", "X3"})),
    "replays-taken": (2, frozenset({"D2", "U"})),
    "request-sent-once": (1, frozenset({"R"})),
    "safe-by-own-frontier": (1, frozenset({"S1"})),
    "safe-by-own-ring": (4, frozenset({"S1"})),
    "seal-for-anyone": (3, frozenset({"H3"})),
    "self-discard-ignored": (1, frozenset({"R"})),
    "ties-by-arrival": (13, frozenset({"G1", "O1", "O4"})),
    "token-copy-taken": (1, frozenset({"H1"})),
    "undeliverable-when-taken": (4, frozenset({"P2"})),
    "unreliable-ends-others": (21, frozenset({"R", "X3"})),
    "vector-is-prefix": (34, frozenset({"CA"})),
    "vector-is-shared": (28, frozenset({"CA"})),
    "window-moved-by-forgery": (3, frozenset({"G6", "L5", "R"})),
}
"""By name: a seed, and the properties that do not hold in its run. docs/known-bugs.md has more."""


def test_every_known_bug_has_a_seed_at_which_the_oracles_find_it() -> None:
    assert set(FOUND_BY) == {bug.name for bug in KNOWN_BUGS}
    assert not any("assert" in properties for _, properties in FOUND_BY.values())


def test_the_page_on_known_bugs_has_them_all() -> None:
    page = (Path(__file__).parents[2] / "docs" / "known-bugs.md").read_text()
    rows = [line.split(" | ") for line in page.splitlines() if line.startswith("| `")]
    assert [(row[0], row[1]) for row in rows] == [
        (f"| `{bug.name}`", bug.sentence) for bug in KNOWN_BUGS
    ]
    for row in rows:
        seed, properties = FOUND_BY[row[0].strip("| `")]
        assert row[2:4] == [str(seed), ", ".join(sorted(properties))]


@pytest.mark.parametrize("name", sorted(FOUND_BY))
def test_its_seed_finds_the_bug(name: str) -> None:
    seed, properties = FOUND_BY[name]
    result = run_seed(seed, Options(known_bug=name))
    found = {finding.property for finding in result.findings}
    assert properties <= found, f"run tests/simulation/count_finds.py {name} for another seed"
    assert "assert" not in found, "the oracles have to find it, not the core"


def test_the_right_core_passes_the_same_seeds() -> None:
    assert max(seed for seed, _ in FOUND_BY.values()) <= test_campaign.SEEDS  # which runs them


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
