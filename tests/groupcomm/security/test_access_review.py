"""A review of rules says what they make impossible, and compares patterns as sets of texts."""

from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from groupcomm.security.access import Access, Rule, Verb
from groupcomm.security.access_review import contains, meet, opened, review

ANN, ROOT = "unix:ann", "unix:root"
ARRIVALS = ("unix:*", "uid:*")


def rule(
    who: str | tuple[str, ...],
    *verbs: Verb,
    groups: str = "*",
    taken: frozenset[Verb] = frozenset(),
) -> Rule:
    return Rule((who,) if isinstance(who, str) else who, (groups,), frozenset(verbs), taken=taken)


def said(*rules: Rule) -> list[str]:
    return review(Access(rules), ARRIVALS, (ANN, ROOT))


ALL = rule("unix:*", *Verb)
NO_ADMIN = frozenset((Verb.ADMIN,))


def test_nothing_is_said_of_rules_that_make_nothing_impossible() -> None:
    assert said() == []
    assert said(ALL) == []
    assert said(rule("uid:7", Verb.JOIN, Verb.SEND, groups="lab.*"), ALL) == []
    assert said(rule(ANN, Verb.JOIN), rule("unix:bob", Verb.SEND, groups="lab.*")) == []


def test_the_past_that_rules_open_is_named() -> None:
    assert opened(Access(())) == [
        "access: without a rule every program that connects may join and send to every group,"
        " and read its history from archives"
    ]
    joined = rule(ANN, Verb.JOIN, Verb.SEND, groups="lab.*")
    sends = rule("*", Verb.SEND, groups="groupcomm.history")
    assert opened(Access((sends, joined))) == [
        "access: 'unix:ann' may read the history of 'lab.*' from archives: rule 2 allows join, and"
        " no rule mentions read-history"
    ]
    assert opened(Access((joined, rule("cert:*", Verb.READ_HISTORY, groups="open")))) == [
        "access: 'cert:*' may read the history of 'open' from archives: rule 2 allows read-history"
    ]


def test_a_rule_is_never_reached_if_nobody_comes_in_as_it_says() -> None:
    (found,) = said(ALL, rule(("cert:*", "token:x"), Verb.JOIN))
    assert found == (
        "access: rule 2 is never reached: no program comes in as 'cert:*' or 'token:x';"
        " they come in as 'unix:*' or 'uid:*'"
    )


def test_a_group_is_named_that_nobody_may_join_or_send_to() -> None:
    assert said(rule("*", Verb.SEND, groups="lab.*"), rule("*", Verb.JOIN, groups="open")) == [
        "access: nobody may join 'lab.*': rule 1 allows send there, and no rule allows join",
        "access: nobody may send to 'open': rule 2 allows join there, and no rule allows send",
    ]
    unreached = rule("cert:*", Verb.JOIN, groups="lab.*")
    assert any("nobody may join" in each for each in said(rule("*", Verb.SEND), unreached))


def test_a_verb_is_named_for_which_there_is_no_such_name() -> None:
    (found,) = said(ALL, rule("uid:7", Verb.UNICAST, groups="lab.*"))
    assert found.startswith("access: rule 2 allows unicast for nothing: 'lab.*' matches no private")
    (found,) = said(ALL, rule("uid:7", Verb.JOIN, groups="#ann#a"))
    assert found.endswith("rule 2 allows join for nothing: '#ann#a' matches no group")


def test_of_rules_that_allow_the_same_the_first_one_counts() -> None:
    assert said(ALL, rule(ANN, Verb.JOIN, groups="lab")) == [
        "access: rule 2 changes nothing: rule 1 allows all that it does"
    ]
    assert said(rule(ANN, Verb.JOIN, groups="lab"), ALL) == [
        "access: rule 1 changes nothing: rule 2 allows all that it does"
    ]
    assert said(ALL, ALL) == ["access: rule 2 changes nothing: rule 1 allows all that it does"]
    assert said(ALL, rule(ANN, taken=NO_ADMIN)) == []


def test_rules_of_which_none_allows_anything_refuse_everything() -> None:
    (found,) = said(rule(ANN, taken=NO_ADMIN))
    assert found.startswith("access: no program may do anything")
    assert found in said(rule("cert:*", Verb.JOIN), rule(ANN, Verb.ADMIN))


def test_somebody_may_admin_unless_rules_take_it_from_all() -> None:
    both = rule("*", Verb.JOIN, Verb.SEND)
    assert said(both, rule(ANN, taken=NO_ADMIN)) == [], "root may"
    (found,) = said(both, rule((ANN, ROOT), taken=NO_ADMIN))
    assert "nobody may admin" in found
    assert said(both, rule((ANN, ROOT), taken=NO_ADMIN), rule("unix:bob", Verb.ADMIN)) == []
    assert len(said(both, rule("unix:*", taken=NO_ADMIN), rule("unix:bob", Verb.ADMIN))) == 1


PATTERNS = st.text("ab*", max_size=5)
TEXTS = ["".join(text) for size in range(7) for text in product("abc", repeat=size)]


def matches(pattern: str) -> set[str]:
    access = Access((Rule(("x" + pattern,), ("*",), NO_ADMIN),))
    return {text for text in TEXTS if access.may("x" + text, Verb.ADMIN)}


@pytest.mark.parametrize(
    ("one", "other", "common"),
    [
        ("a*", "*b", True),
        ("a*b", "a", False),
        ("*", "", True),
        ("a", "b", False),
        ("**", "*", True),
    ],
)
def test_patterns_meet_where_a_text_matches_both(one: str, other: str, common: bool) -> None:
    assert meet(one, other) == meet(other, one) == common


@settings(max_examples=40, deadline=None)
@given(one=PATTERNS, other=PATTERNS)
def test_patterns_are_compared_as_sets_of_texts(one: str, other: str) -> None:
    assert meet(one, other) == bool(matches(one) & matches(other))
    assert contains(one, other) == (matches(other) <= matches(one))
