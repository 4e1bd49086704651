"""The settings that daemons compare: those that must be equal, those that should be, no others."""

import attrs
import pytest

from groupcomm.config.core import CoreConfig, CounterStarts, Rekeying, Timing, Windows
from groupcomm.config.shared import (
    DIGEST_BYTES,
    MAX_ITEMS,
    MAX_ROWS,
    Difference,
    differences,
    shared_settings,
)
from groupcomm.wire.membership import Settings, decode_message_untrusted, encode_message

CONFIG = CoreConfig(
    sites=(("a", "b"), ("c",)),
    site_names=("hall", "yard"),
    link_delays_us=((0, 1, 20_000),),
    timing=Timing(longest_delay_s=0.02),
)


def halves(config: CoreConfig) -> tuple[bytes, bytes]:
    digests = shared_settings(config).digests
    return digests[:DIGEST_BYTES], digests[DIGEST_BYTES:]


def changed(**changes: object) -> CoreConfig:
    return attrs.evolve(CONFIG, **changes)  # type: ignore[arg-type]  # whatever a test changes


def keys(config: CoreConfig) -> list[str]:
    """The keys of the settings that must be equal, and are not."""
    ours, theirs = shared_settings(CONFIG).required, shared_settings(config).required
    return [found.key for found in differences(ours, theirs)]


REQUIRED = {
    "a daemon less": (changed(sites=(("a",), ("c",))), ["sites.hall.daemons"]),
    "a daemon in another site": (
        changed(sites=(("a",), ("b", "c"))),
        ["sites.hall.daemons", "sites.yard.daemons"],
    ),
    "another delay": (changed(link_delays_us=((0, 1, 5),)), ["links.hall-yard.delay_ms"]),
    "no link": (changed(link_delays_us=()), ["links.hall-yard.delay_ms"]),
    "other packets": (changed(packet_limit=1400), ["packet_bytes"]),
    "another majority": (changed(expected_daemons=4), ["expected_daemons"]),
}


@pytest.mark.parametrize("what", REQUIRED)
def test_what_views_are_computed_from_must_be_equal(what: str) -> None:
    config, expected = REQUIRED[what]
    assert halves(config)[0] != halves(CONFIG)[0]
    assert halves(config)[1] == halves(CONFIG)[1]
    assert keys(config) == expected


@pytest.mark.parametrize("name", attrs.fields_dict(Timing))
def test_each_timing_must_be_equal(name: str) -> None:
    longer = attrs.evolve(CONFIG.timing, **{name: getattr(CONFIG.timing, name) * 1.01})
    assert halves(changed(timing=longer))[0] != halves(CONFIG)[0]
    assert keys(changed(timing=longer)) == [f"timing.{name}"]


@pytest.mark.parametrize(
    "config",
    [
        changed(windows=Windows(visit_bytes=1000)),
        changed(rekeying=Rekeying(epoch_s=5.0)),
        changed(advised=(("sites.hall.daemons.a", ("10.0.0.1:4803",)),)),
    ],
)
def test_what_only_should_be_equal_does_not_part_daemons(config: CoreConfig) -> None:
    assert halves(config)[0] == halves(CONFIG)[0]
    assert halves(config)[1] != halves(CONFIG)[1]


@pytest.mark.parametrize(
    "config",
    [
        changed(sites=(("b", "a"), ("c",))),
        changed(sites=(("c",), ("a", "b")), site_names=("yard", "hall")),
        changed(link_delays_us=((1, 0, 20_000),)),
        changed(site_names=("one", "other")),
        changed(site_names=()),
        changed(expected_daemons=3),
        changed(starts=CounterStarts(stream=5)),
        changed(leave_timeout_s=1.0),
    ],
)
def test_what_changes_no_view_is_not_compared(config: CoreConfig) -> None:
    assert halves(config) == halves(CONFIG)


def test_a_difference_has_both_values() -> None:
    theirs = shared_settings(changed(sites=(("b",), ("c",))))
    assert differences(shared_settings(CONFIG).required, theirs.required) == (
        Difference("sites.hall.daemons", ("a", "b"), ("b",)),
    )
    assert differences((("k", ("1",)),), ()) == (Difference("k", ("1",), None),)


def test_settings_of_the_largest_cluster_can_be_reported() -> None:
    names = tuple(f"{place:04}{'x' * 200}" for place in range(1024))
    advised = tuple((f"sites.main.daemons.{name}", ("10.0.0.1:4803",)) for name in names)
    sites = tuple(names[at : at + 64] for at in range(0, 1024, 64))
    shared = shared_settings(CoreConfig(sites=sites, advised=advised))
    told = Settings("a", shared.digests, shared.required, shared.advised)
    assert decode_message_untrusted(*encode_message(told)) == told
    assert len(shared.advised) == MAX_ROWS


def test_a_setting_of_many_items_is_cut_and_has_a_digest_of_the_whole() -> None:
    items = tuple(map(str, range(2 * MAX_ITEMS)))
    shared, fewer = (
        shared_settings(CoreConfig(advised=(("k", each),))) for each in (items, items[:-1])
    )
    assert len(dict(shared.advised)["k"]) == MAX_ITEMS
    assert [each.key for each in differences(shared.advised, fewer.advised)] == ["k"]


def test_site_names_are_as_many_as_sites() -> None:
    with pytest.raises(Exception, match="site_names"):
        changed(site_names=("hall",))


def test_equal_files_have_the_same_digests_in_all_releases() -> None:
    """Daemons of two releases form no view otherwise: leave new settings out while not set."""
    assert shared_settings(CONFIG).digests.hex() == "93535ef0e0edafa02a55428eba61cfe6"
