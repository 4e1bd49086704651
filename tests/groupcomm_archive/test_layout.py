"""Which groups an archive records, and in which logs."""

from pathlib import Path

import pytest

from groupcomm_archive.layout import FOLDER, Keep, Layout, matches, note_groups
from groupcomm_log.writer import Limits


def layout(
    folder: Path,
    names: tuple[str, ...] = (),
    patterns: tuple[str, ...] = (),
    keep_s: tuple[Keep, ...] = (),
) -> Layout:
    return Layout(folder, names, patterns, Limits(), keep_s)


def opened(made: Layout) -> dict[str, tuple[str, ...]]:
    """Open all logs of a layout, as an archive does; return the groups of each folder."""
    specs = made.logs()
    for spec in specs:
        spec.folder.mkdir(parents=True, exist_ok=True)
        note_groups(spec.folder, spec.groups)
    return {str(spec.folder.relative_to(made.folder)): spec.groups for spec in specs}


@pytest.mark.parametrize(
    ("pattern", "group", "expected"),
    [
        ("plant.*", "plant.a", True),
        ("plant.*", "plants", False),
        ("*", "anything", True),
        ("*", "groupcomm.history", False),
        ("groupcomm.*", "groupcomm.history", True),
    ],
)
def test_patterns(pattern: str, group: str, expected: bool) -> None:
    assert matches(pattern, group) is expected


def test_named_groups_share_a_log(tmp_path: Path) -> None:
    made = layout(tmp_path, ("orders", "trades"), ("plant.*",))
    assert opened(made) == {".": ("orders", "trades")}
    assert made.records("plant.a")
    assert not made.records("other")


def test_a_group_that_is_named_later_does_not_get_the_past_of_the_common_log(
    tmp_path: Path,
) -> None:
    opened(layout(tmp_path, ("orders", "trades")))
    later = opened(layout(tmp_path, ("orders", "news")))
    assert later == {".": ("orders",), f"{FOLDER}/news": ("news",)}
    again = opened(layout(tmp_path, ("orders", "trades", "news")))
    own = {f"{FOLDER}/news": ("news",), f"{FOLDER}/trades": ("trades",)}
    assert again == {".": ("orders",), **own}


def test_groups_of_patterns_are_known_at_the_next_start(tmp_path: Path) -> None:
    made = layout(tmp_path, (), ("plant.*",))
    assert opened(made) == {}
    names = ["plant.a/b", "plant." + "x" * 200]
    for name in names:
        spec = made.own(name)
        spec.folder.mkdir(parents=True)
        note_groups(spec.folder, spec.groups)
    assert sorted(opened(made).values()) == [(name,) for name in names]
    assert opened(layout(tmp_path, (), ("other.*",))) == {}


def test_limits_of_some_groups(tmp_path: Path) -> None:
    keep = (Keep(None, 9.0), Keep("orders", 5.0), Keep("plant.*", 7.0))
    made = layout(tmp_path, ("orders", "trades"), ("plant.*",), keep)
    limits = {spec.groups: spec.limits.keep_s for spec in made.logs()}
    assert limits == {("trades",): 9.0, ("orders",): 5.0}
    assert made.own("plant.a").limits.keep_s == 7.0


def test_each_group_is_compacted_by_its_own_key_and_in_its_own_log(tmp_path: Path) -> None:
    compact = (("prices", "json:paper"), ("rates.*", "type"))
    names = ("news", "orders", "prices", "rates.eur")
    made = Layout(tmp_path, names, (), Limits(), compact=compact)
    assert {spec.groups: spec.key for spec in made.logs()} == {
        ("news", "orders"): None,
        ("prices",): "json:paper",
        ("rates.eur",): "type",
    }
