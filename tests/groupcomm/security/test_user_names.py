"""The user names that a principal's sessions may have."""

import pytest

from groupcomm.security.access import RESERVED, Access, Rule, Verb, own_name

JOIN_ALL = Rule(("*",), ("*",), frozenset([Verb.JOIN]))
RULES = Access(
    (
        JOIN_ALL,
        Rule(("token:boss",), ("*",), frozenset(), names=("boss", "line-*", "caf\u00e9")),
        Rule(("token:any",), ("*",), frozenset(), names=("*",)),
        Rule(("unix:spark",), ("*",), frozenset(), names=("sink.*",)),
    )
)


@pytest.mark.parametrize(
    ("principal", "name", "may"),
    [
        ("unix:ann", "ann", True),
        ("unix:ann", "ann/chat", True),
        ("unix:ann", "anna", False),
        ("unix:ann", "an", False),
        ("unix:ann", "/ann", False),
        ("unix:ann", "Ann", False),
        ("unix:ann", "u0123456789ab", True),
        ("unix:ann", "u0123456789a", False),
        ("unix:ann", "u0123456789abc", False),
        ("unix:ann", "u0123456789aB", False),
        ("token:sensor", "ann", False),
        ("cert:robot.plant", "robot.plant", True),
        ("cert:robot.plant", "robot", False),
        ("token:boss", "boss", True),
        ("token:boss", "line-7", True),
        ("token:boss", "line", False),
        ("token:boss", "cafe\u0301", True),
        ("token:boss", "ann", False),
        ("token:any", "ann", True),
        ("token:any", "sink.0000", False),
        ("unix:spark", "sink.0000", True),
        ("unix:spark", "sink", False),
        ("token:sink.0000", "sink.0000", False),
        ("local", "local", False),
        ("local", "u0123456789ab", True),
        ("", "u0123456789ab", False),
    ],
)
def test_a_principal_has_its_own_names_random_ones_and_those_that_rules_give(
    principal: str, name: str, may: bool
) -> None:
    assert RULES.may_be_called(principal, name) == may


def test_without_rules_every_name_is_free() -> None:
    for name in ("ann", "sink.0000", "u0123456789ab"):
        assert Access().may_be_called("token:sensor", name)
        assert not Access((JOIN_ALL,)).may_be_called("", name)


def test_names_that_receivers_trust_are_reserved() -> None:
    assert "sink.0000".startswith(RESERVED)


@pytest.mark.parametrize(
    ("principal", "name"),
    [
        ("unix:ann", "ann"),
        ("token:a.b", "a.b"),
        ("local", ""),
        ("", ""),
        ("cert:spiffe://x", "spiffe://x"),
        ("uid:7", ""),
    ],
)
def test_what_a_principal_is_called(principal: str, name: str) -> None:
    assert own_name(principal) == name
