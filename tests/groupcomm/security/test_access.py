"""Rules decide as a reference of twenty lines does, whatever names and patterns are."""

import unicodedata
from collections.abc import Sequence

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from groupcomm.errors import ConfigError
from groupcomm.security.access import VERBS, Access, Rule, Verb

Row = tuple[Sequence[str], Sequence[str], Sequence[Verb]]


def matches(pattern: str, text: str) -> bool:
    if not pattern:
        return not text
    if pattern[0] == "*":
        return matches(pattern[1:], text) or (bool(text) and matches(pattern, text[1:]))
    return bool(text) and pattern[0] == text[0] and matches(pattern[1:], text[1:])


def nfc(text: str) -> str:
    return unicodedata.normalize("NFC", text)


def reference(rows: Sequence[Row], principal: str, verb: Verb, name: str) -> bool:
    """The meaning of rules, in the plainest form."""
    private = name.startswith("#")
    if verb is not Verb.ADMIN:
        parts = name.split("#")
        if not 0 < len(name.encode(errors="replace")) <= 255 or any(
            unicodedata.category(c) in ("Cc", "Cf", "Cs", "Zl", "Zp") for c in name
        ):
            return False
        if private != (verb is Verb.UNICAST):
            return False
        if private and (len(parts) != 3 or not all(parts[1:])):
            return False
    if not rows:
        return verb is not Verb.ADMIN or principal[:5] == "unix:"
    return bool(principal) and any(
        verb in verbs
        and any(matches(nfc(p), nfc(principal)) for p in who)
        and (verb is Verb.ADMIN or any(matches(nfc(p), nfc(name)) for p in groups))
        for who, groups, verbs in rows
    )


PRINCIPALS = st.sampled_from(["unix:ann", "unix:an", "cert:ann", "token:sensor-7", "a", ""])
NAMES = st.sampled_from(
    [
        *("chat", "cha", "chat2", "chat.a", "*", "", "chat\n", "a\0b", "\ud800"),
        *("chat\u202e", "chat\u200b", "chat\u2028", "#ann\u2066#a"),
        *("#ann#a", "#bob#b", "#", "##", "#a#", "caf\u00e9", "cafe\u0301"),
        *("x" * 255, "x" * 256, "\u00e9" * 128),
    ]
)
PATTERNS = st.sampled_from(
    [
        *("*", "chat", "chat*", "*t", "c*a*t", "**", "x*", "."),
        *("caf\u00e9", "cafe\u0301*", "#*", "#ann#a"),
    ]
)
WHO = st.sampled_from(["*", "unix:*", "unix:ann", "cert:*", "token:sensor-*", "*:ann", "a"])
ROWS = st.lists(
    st.tuples(
        st.lists(WHO, min_size=1, max_size=2),
        st.lists(PATTERNS, min_size=1, max_size=3),
        st.lists(st.sampled_from(list(Verb)), min_size=1, max_size=4),
    ),
    max_size=3,
)


ANY_NAME = Rule(("*",), ("*",), frozenset(), names=("*",))
"""Sessions may be called as they like, so that only what they do is decided."""


def access_of(rows: Sequence[Row]) -> Access:
    rules = tuple(Rule(tuple(w), tuple(g), frozenset(v)) for w, g, v in rows)
    return Access((*rules, ANY_NAME) if rules else ())


@given(rows=ROWS, principal=PRINCIPALS, verb=st.sampled_from(list(Verb)), name=NAMES)
@example(rows=[(["*"], ["chat"], [Verb.JOIN])], principal="unix:x", verb=Verb.JOIN, name="chat2")
@example(rows=[(["*"], ["*"], [Verb.SEND])], principal="unix:x", verb=Verb.SEND, name="#ann#a")
@example(rows=[(["*"], ["*"], [Verb.JOIN])], principal="", verb=Verb.JOIN, name="chat")
def test_rules_decide_as_the_reference(
    rows: Sequence[Row], principal: str, verb: Verb, name: str
) -> None:
    expected = reference(rows, principal, verb, name)
    assert access_of(rows).may(principal, verb, name) == expected


@given(rows=ROWS, extra=ROWS, principal=PRINCIPALS, verb=st.sampled_from(list(Verb)), name=NAMES)
def test_one_rule_more_forbids_nothing(
    rows: Sequence[Row], extra: Sequence[Row], principal: str, verb: Verb, name: str
) -> None:
    if rows and access_of(rows).may(principal, verb, name):
        assert access_of([*rows, *extra]).may(principal, verb, name)


def test_with_one_rule_all_else_is_forbidden() -> None:
    access = access_of([(["cert:ann"], ["chat"], [Verb.JOIN])])
    allowed = [
        (principal, verb, name)
        for principal in ("cert:ann", "cert:anna", "unix:root")
        for verb in Verb
        for name in ("chat", "chats", "#ann#a", "")
        if access.may(principal, verb, name)
    ]
    assert allowed == [("cert:ann", Verb.JOIN, "chat")]


def test_a_pattern_takes_no_time_however_many_stars_it_has() -> None:
    access = access_of([(["*"], ["*" * 200 + "b"], [Verb.JOIN])])
    assert not access.may("unix:ann", Verb.JOIN, "a" * 255)


@pytest.mark.parametrize("empty", [((), ("*",)), (("*",), ()), (("",), ("*",)), (("*",), ("",))])
def test_a_rule_without_a_part_is_a_mistake(
    empty: tuple[tuple[str, ...], tuple[str, ...]],
) -> None:
    with pytest.raises(ConfigError, match="access: "):
        Rule(*empty, frozenset([Verb.JOIN]))


def test_verbs_are_written_as_words() -> None:
    words = ["join", "send", "see-members", "unicast", "admin", "read-history"]
    assert list(VERBS) == words


def test_what_a_rule_takes_no_other_one_gives() -> None:
    every = frozenset(Verb)
    all_, none = Rule(("*",), ("*",), every), frozenset[Verb]()
    access = Access((all_, Rule(("unix:a*",), ("*",), none, taken=frozenset((Verb.ADMIN,)))))
    for principal, may in (("unix:ann", False), ("unix:bob", True), ("uid:7", True), ("", False)):
        assert access.may(principal, Verb.ADMIN) == may
        assert access.takes_away(principal, Verb.ADMIN) == (principal == "unix:ann")
    assert access.may("unix:ann", Verb.JOIN, "chat")
    assert not access.takes_away("unix:ann", Verb.JOIN)


def test_only_admin_can_be_taken_away() -> None:
    with pytest.raises(ConfigError, match="may_not has 'join'; only 'admin' can be taken away"):
        Rule(("*",), ("*",), frozenset(), taken=frozenset((Verb.ADMIN, Verb.JOIN)))


def test_history_is_for_those_who_may_join_until_a_rule_mentions_it() -> None:
    """Rules of a file that does not mention history open no past that they close to members."""
    before = [(["unix:ann"], ["chat"], [Verb.JOIN]), (["*"], ["groupcomm.history"], [Verb.SEND])]
    assert access_of([]).may_read_history("cert:bob", "chat")
    assert access_of(before).may_read_history("unix:ann", "chat")
    for principal, group in (("cert:bob", "chat"), ("unix:ann", "other"), ("", "chat")):
        assert not access_of(before).may_read_history(principal, group)
    rule = (["unix:ann"], ["chat*"], [Verb.READ_HISTORY])
    access = access_of([*before, rule])
    assert access.may_read_history("unix:ann", "chat2")
    for principal, group in (("cert:bob", "chat"), ("unix:ann", "other"), ("", "chat")):
        assert not access.may_read_history(principal, group)
