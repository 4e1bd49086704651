"""Ranges of versions: what daemons have in common, and which of them can share a view."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from groupcomm.config.versions import (
    FEATURES,
    SPOKEN,
    Versions,
    feature_names,
    shared,
    speakers,
)
from groupcomm.errors import ConfigError

RANGES = st.tuples(st.integers(1, 5), st.integers(0, 3), st.integers(0, 7)).map(
    lambda drawn: Versions(lowest=drawn[0], highest=drawn[0] + drawn[1], features=drawn[2])
)


def test_a_view_uses_the_highest_version_and_the_features_that_all_have() -> None:
    """The range in common ends with the least of the highest versions."""
    found = shared(
        [
            Versions(lowest=1, highest=3, features=0b111),
            Versions(lowest=2, highest=5, features=0b101),
        ]
    )
    assert found == Versions(lowest=2, highest=3, features=0b101)


def test_ranges_without_a_common_version_are_named() -> None:
    """The error says what both speak."""
    with pytest.raises(ConfigError, match="version 1 and versions 2 to 3 have none in common"):
        shared([Versions(), Versions(lowest=2, highest=3)])


@pytest.mark.parametrize(("lowest", "highest", "features"), [(0, 1, 0), (2, 1, 0), (1, 1, 2**64)])
def test_impossible_ranges_are_refused(lowest: int, highest: int, features: int) -> None:
    """Versions rise from 1; features fit 64 bits."""
    with pytest.raises(ConfigError):
        Versions(lowest=lowest, highest=highest, features=features)


def test_the_features_of_this_release_have_names() -> None:
    """Bits of later releases are numbered."""
    names = feature_names(SPOKEN.features | 1 << 63)
    assert names == sorted([*FEATURES.values(), "feature 63"])


def test_most_daemons_decide_then_the_highest_version() -> None:
    """The others form a view among themselves."""
    old, new = Versions(), Versions(lowest=2, highest=2)
    both = Versions(lowest=1, highest=2)
    assert speakers({1: old, 2: both, 3: new}, 2) == {2, 3}
    assert speakers({1: old, 2: both, 3: new}, 1) == {1}
    assert speakers({1: old, 2: both, 3: new, 4: old}, 2) == {1, 2, 4}


@given(found=st.dictionaries(st.integers(0, 20), RANGES, min_size=1, max_size=8))
def test_all_daemons_compute_the_same_sets(found: dict[int, Versions]) -> None:
    """The sets are disjoint, cover all, and each has a version in common."""
    sets = {me: speakers(found, me) for me in found}
    for me, among in sets.items():
        assert me in among
        assert all(sets[other] == among for other in among)
        assert shared(found[number] for number in among).lowest >= 1
