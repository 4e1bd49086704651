"""Rosters after changes, the links between their sites, and which of two rosters counts."""

from functools import reduce

import pytest
from hypothesis import given
from hypothesis import strategies as st

from groupcomm.config.core import UNKNOWN_DELAY_S, CoreConfig
from groupcomm.config.roster import (
    AddDaemon,
    MoveDaemon,
    RemoveDaemon,
    RemoveLinks,
    Roster,
    RosterChange,
    RosterEntry,
    SetLinks,
)
from groupcomm.errors import ConfigError

SITES = Roster(
    entries=tuple(RosterEntry(name=name, site=f"{name}-site") for name in "abc"),
    links=(("a-site", "b-site", 10_000), ("b-site", "c-site", 20_000)),
)
ALONE = Roster(entries=(RosterEntry(name="a", site="1"),))


def after(roster: Roster, *changes: RosterChange) -> Roster:
    return reduce(Roster.changed, changes, roster)


def test_a_new_site_comes_with_links_and_goes_with_them() -> None:
    add = AddDaemon(name="d", site="d-site", links=(("a-site", 5000),))
    grown = SITES.changed(add)
    assert grown.links == (("a-site", "b-site", 10_000), ("a-site", "d-site", 5000), SITES.links[1])
    assert grown.changed(RemoveDaemon("d")).links == SITES.links


def test_links_are_added_changed_and_removed() -> None:
    changed = SITES.changed(SetLinks((("c-site", "a-site", 1), ("a-site", "b-site", 2))))
    assert changed.links == (("a-site", "b-site", 2), ("a-site", "c-site", 1), SITES.links[1])
    fewer = changed.changed(RemoveLinks((("b-site", "c-site"),)))
    assert fewer.links == changed.links[:2]
    assert fewer.changed(RemoveLinks((("a-site", "b-site"), ("a-site", "c-site")))).links == ()


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (AddDaemon(name="d", site="new"), "no path of links leads from site a-site to site new"),
        (AddDaemon(name="d", site="a-site", links=(("b-site", 1),)), "is in the roster already"),
        (AddDaemon(name="d", site="new", links=(("moon", 1),)), "link moon-new does not join"),
        (RemoveDaemon("b"), "no path of links leads from site a-site to site c-site"),
        (SetLinks((("a-site", "a-site", 1),)), "does not join two sites"),
        (SetLinks((("a-site", "c-site", -1),)), "it must be 0 to 10000 ms"),
        (SetLinks((("a-site", "c-site", 10_000_001),)), "its delay is 10000 ms; it must be"),
        (RemoveLinks((("a-site", "b-site"),)), "no path of links leads"),
        (RemoveLinks((("a-site", "c-site"),)), "link a-site-c-site is not in the roster; its"),
    ],
)
def test_links_that_leave_a_site_alone_are_refused(change: RosterChange, reason: str) -> None:
    with pytest.raises(ConfigError, match=reason):
        SITES.changed(change)


@pytest.mark.parametrize(
    ("fixed", "changes", "longest_s"),
    [
        (None, (), 0.0),
        (None, (AddDaemon(name="b", site="2"),), UNKNOWN_DELAY_S),
        (None, (AddDaemon(name="b", site="2", links=(("1", 70_000),)),), 0.07),
        (None, (AddDaemon(name="b", site="2", links=(("1", 7),)), RemoveDaemon("b")), 0.0),
        (0.3, (AddDaemon(name="b", site="2", links=(("1", 70_000),)),), 0.3),
    ],
)
def test_the_longest_delay_follows_from_the_roster_alone(
    fixed: float | None, changes: tuple[RosterChange, ...], longest_s: float
) -> None:
    """So it is the same at all daemons, whichever sites and links their files list."""
    config = CoreConfig(sites=(("a",),), fixed_delay_s=fixed)
    roster = after(ALONE, MoveDaemon("a", ("x:1",)), *changes)
    assert config.with_roster(roster).timing.longest_delay_s == longest_s


def moved(roster: Roster, port: int, *, forced: bool) -> Roster:
    return roster.changed(MoveDaemon("a", (f"h:{port}",)), forced=forced)


def test_the_part_that_had_a_majority_at_the_fork_wins_whatever_is_forced_later() -> None:
    agreed = moved(moved(ALONE, 1, forced=False), 2, forced=True)
    forced = moved(ALONE, 3, forced=True)
    for port in range(300):  # the fork is still known
        assert agreed.supersedes(forced), port
        assert not forced.supersedes(agreed), port
        forced = moved(forced, port, forced=False) if port < 250 else forced


@given(st.lists(st.tuples(st.integers(0, 100), st.booleans()), min_size=2, max_size=12))
def test_all_rosters_that_have_followed_from_one_are_in_one_order(
    steps: list[tuple[int, bool]],
) -> None:
    """Whichever daemons meet first, they have the same roster in the end."""
    tree = [moved(ALONE, 0, forced=False)]
    for port, (parent, forced) in enumerate(steps):
        tree.append(moved(tree[parent % len(tree)], port, forced=forced))
    beaten = {one.id: sum(one.supersedes(other) for other in tree) for one in tree}
    assert sorted(beaten.values()) == list(range(len(tree)))
    for one in tree:
        assert all(one.supersedes(other) == (beaten[one.id] > beaten[other.id]) for other in tree)
