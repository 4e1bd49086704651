"""Member lists: versions share what they have in common, and stay as they were."""

import pickle
from collections.abc import Iterator
from random import Random

import msgspec
import pytest

from groupcomm.clocks.stamp import Position, ViewId
from groupcomm.events import Cause, GroupView, MemberId
from groupcomm.member_lists import MOST_CHANGES, ListVersion, MemberList, most_changes

PLACE = Position(ViewId(1, "alfa", 2), 3, 4, 5, 6)


def changed(members: MemberList[int], steps: int, rng: Random) -> Iterator[tuple[int, ...]]:
    """Make random changes; yield the list that an ordinary dict gives after each."""
    known = dict.fromkeys(members.version)
    for _ in range(steps):
        member = rng.randrange(60)
        if rng.random() < 0.5:
            assert members.join(member) == (member not in known)
            known[member] = None
        else:
            assert members.leave(member) == (member in known)
            known.pop(member, None)
        yield tuple(known)


@pytest.mark.parametrize("seed", range(10))
def test_each_version_stays_as_it_was(seed: int) -> None:
    members = MemberList(range(seed))
    found = [(whole, members.version) for whole in changed(members, 400, Random(seed))]
    for whole, version in found:
        assert all((member in version) == (member in whole) for member in range(60))
        assert version.whole() == tuple(version) == whole
    assert members.size == len(members.version.whole())


def test_a_version_costs_little_more_than_its_list() -> None:
    """Joins and leaves for ever: no version has more changes to go through than the bound."""
    members = MemberList(range(1000))
    longest = 0
    for step in range(3000):
        (members.leave if step % 2 else members.join)(5000)
        longest = max(longest, members.version._count)
        assert len(members.version._shared.base) <= 1001
    assert longest == most_changes(1000) == 125
    assert most_changes(0) == MOST_CHANGES


def test_a_change_copies_no_list() -> None:
    members = MemberList(range(1000))
    versions = []
    for new in range(1000, 1000 + MOST_CHANGES):
        members.join(new)
        versions.append(members.version)
    assert len({id(version._shared) for version in versions}) == 1
    assert all(version._whole is None for version in versions)


def test_a_copy_of_a_list_goes_on_by_itself() -> None:
    members = MemberList([1, 2])
    members.join(3)
    copied = pickle.loads(pickle.dumps(members))
    assert copied.leave(1)
    assert (copied.version.whole(), members.version.whole()) == ((2, 3), (1, 2, 3))


def view_of(members: tuple[MemberId, ...] | ListVersion[MemberId]) -> GroupView:
    return GroupView(
        group="chat",
        id=PLACE,
        members=members,  # type: ignore[arg-type]  # as the session makes them
        cause=Cause.JOIN,
        changed=(),
        vs_set=members,  # type: ignore[arg-type]
        own=False,
    )


def test_a_view_that_shares_its_list_is_like_any_other() -> None:
    ann, bob = (MemberId(f"#{user}#alfa", 1) for user in ("ann", "bob"))
    members = MemberList([ann])
    members.join(bob)
    shared, plain = view_of(members.version), view_of((ann, bob))
    assert shared.includes(bob)
    assert not shared.includes(MemberId("#bob#alfa", 2))
    assert members.version._whole is None, "nobody has asked for the list"
    assert shared == plain == shared
    assert hash(shared) == hash(plain)
    assert repr(shared) == repr(plain)
    assert str(shared) == str(plain)
    assert type(shared.members) is type(shared.vs_set) is tuple
    assert pickle.loads(pickle.dumps(shared)) == plain
    assert msgspec.structs.replace(shared, group="hall") == msgspec.structs.replace(
        plain, group="hall"
    )
