"""The key that a view seals with: all members decide it alike, from their reports."""

from typing import Final

import pytest

from groupcomm.errors import LocalProtocolError
from groupcomm.security.keys import KeyRing, Rotation, fingerprint_of
from groupcomm.wire.keys import KeyReport

SECRETS: Final = {number: bytes((number,)) * 32 for number in range(1, 5)}
VIEW: Final = ("a", "b", "c")


def ring(*numbers: int, active: int = 1) -> KeyRing:
    return KeyRing({number: SECRETS[number] for number in numbers}, active)


class Members:
    """Rotations of one view; what one says is heard by all, in one order."""

    def __init__(self, **keys: KeyRing) -> None:
        self.rotations = {name: Rotation(each, name) for name, each in keys.items()}
        for name, rotation in self.rotations.items():
            self.say(name, rotation.begin(tuple(keys)), answered=False)
        for name, rotation in self.rotations.items():
            if any(each.reports[name] is None for each in self.rotations.values()):
                self.say(name, rotation.own_report(), answered=False)

    def say(self, name: str, report: KeyReport | None, *, answered: bool = True) -> None:
        said = [(name, report)]
        while said:
            speaker, report = said.pop(0)
            if report is None:
                continue
            for listener, rotation in self.rotations.items():
                answer = rotation.on_report(speaker, report)
                if answered and answer is not None:
                    said.append((listener, answer))

    def active(self) -> list[int]:
        return [rotation.keys.active for rotation in self.rotations.values()]

    def ids(self) -> list[list[int]]:
        return [sorted(rotation.keys.keys) for rotation in self.rotations.values()]


def test_who_has_one_key_says_nothing_until_another_reports() -> None:
    one = Rotation(ring(1), "a")
    assert one.begin(VIEW) is None
    answer = one.on_report("b", Rotation(ring(1, 2), "b").own_report())
    assert answer == one.own_report()
    assert one.on_report("b", Rotation(ring(1, 2), "b").own_report()) is None, "it has told"
    assert one.begin(VIEW) is None


def test_all_seal_with_the_new_key_once_one_wishes_and_all_have_it() -> None:
    members = Members(a=ring(1, 2), b=ring(1, 2), c=ring(1, 2))
    assert members.active() == [1, 1, 1]
    members.say("b", members.rotations["b"].promote(2))
    assert members.active() == [2, 2, 2]
    assert not any(rotation.stored for rotation in members.rotations.values())


def test_nobody_does_while_one_lacks_the_key_whoever_wishes() -> None:
    members = Members(a=ring(1, 2), b=ring(1, 2), c=ring(1))
    with pytest.raises(LocalProtocolError, match="key 2 is not known at c"):
        members.rotations["a"].promote(2)
    wish = KeyReport(
        active=1, wish=2, retires=None, prints=members.rotations["a"].own_report().prints
    )
    members.say("a", wish)
    assert members.active() == [1, 1, 1]
    members.rotations["c"].load(ring(1, 2))
    members.say("c", members.rotations["c"].report())
    assert members.active() == [2, 2, 2], "the wish stands until then"


def test_nothing_is_agreed_before_all_members_of_the_view_have_reported() -> None:
    """The third may have one key only, and would open nothing any more."""
    one = Rotation(ring(1, 2), "a")
    one.begin(VIEW)
    prints = one.own_report().prints
    one.on_report("a", KeyReport(active=1, wish=2, retires=None, prints=prints))
    one.on_report("b", KeyReport(active=1, wish=1, retires=None, prints=prints))
    assert one.keys.active == 1
    one.begin(VIEW)
    one.on_report("c", KeyReport(active=1, wish=2, retires=None, prints=prints))
    assert one.keys.active == 1, "reports of the view before do not count"
    for name in "ab":
        one.on_report(name, KeyReport(active=1, wish=1, retires=None, prints=prints))
    assert one.keys.active == 2


def test_a_part_that_was_ahead_takes_the_others_along() -> None:
    members = Members(a=ring(1, 2, 3, active=3), b=ring(1, 2, 3, active=2), c=ring(1, 2, 3))
    assert members.active() == [3, 3, 3]


def test_keys_of_one_number_that_differ_are_not_one_key() -> None:
    other = KeyRing({1: SECRETS[1], 2: b"?" * 32}, 1)
    members = Members(a=ring(1, 2), b=other)
    with pytest.raises(LocalProtocolError, match="not known at b"):
        members.rotations["a"].promote(2)
    wish = KeyReport(
        active=1, wish=2, retires=None, prints=members.rotations["a"].own_report().prints
    )
    members.say("a", wish)
    assert members.active() == [1, 1]


def test_a_key_is_erased_by_all_once_nobody_seals_with_it() -> None:
    members = Members(a=ring(1, 2), b=ring(1, 2), c=ring(1, 2))
    with pytest.raises(LocalProtocolError, match="still in use at a, b, c"):
        members.rotations["a"].retire(1)
    members.say("a", members.rotations["a"].promote(2))
    members.say("c", members.rotations["c"].retire(1))
    assert members.ids() == [[2], [2], [2]]
    assert members.active() == [2, 2, 2]


def test_the_key_that_seals_is_never_erased() -> None:
    members = Members(a=ring(1, 2, active=2), b=ring(1, 2, active=2))
    for number in (2, 3):
        wish = KeyReport(
            active=2, wish=2, retires=number, prints=members.rotations["a"].own_report().prints
        )
        members.say("a", wish)
    assert members.ids() == [[1, 2], [1, 2]]


def test_wishes_that_make_no_sense_are_refused_with_what_to_do() -> None:
    rotation = Members(a=ring(1, 2, active=2)).rotations["a"]
    with pytest.raises(LocalProtocolError, match="key 2 seals; only one with a higher number"):
        rotation.promote(1)
    with pytest.raises(LocalProtocolError, match="key 3 is not in the key file here; it has 1, 2"):
        rotation.promote(3)
    with pytest.raises(LocalProtocolError, match="key 3 is not in the key file"):
        rotation.retire(3)
    for keys in (ring(1), KeyRing({1: SECRETS[1], 2: b"?" * 32}, 1)):
        with pytest.raises(LocalProtocolError, match="key 2 seals, and the file lacks it"):
            rotation.load(keys)


def test_fingerprints_tell_keys_apart_and_are_not_the_keys() -> None:
    prints = {fingerprint_of(secret) for secret in SECRETS.values()}
    assert len(prints) == 4
    assert not any(found in secret for found in prints for secret in SECRETS.values())
