"""Invisible characters are in no name, and are shown with escapes everywhere."""

import json
import sys
import unicodedata

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from groupcomm.errors import LocalProtocolError
from groupcomm.names import check_daemon, check_destination, check_group, check_user
from groupcomm.visible import find_hidden, visible

HIDDEN = ("Cc", "Cf", "Cs", "Zl", "Zp")

KSHA = "\u0915\u094d\u200d\u0937"
"""Half forms of Hindi: a virama, and U+200D behind it."""

MIKHAHAM = "\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645"
"""Persian: U+200C keeps the two parts of a word apart."""

CODER = "\U0001f469\U0001f3fd\u200d\U0001f4bb"
HEART = "\u2764\ufe0f\u200d\U0001f525"

LETTERS = st.text(
    st.sampled_from(
        "a \t\n\x1b\x7f\x9b\u00ad\u200b\u200c\u200d\u202e\u2028\u2066\ufeff\u094d\u0645"
    )
    | st.sampled_from("\U0001f469\ufe0f\U0001f3fd\U000e0041")
    | st.characters(exclude_categories=["Cs"]),
    max_size=20,
)


def test_all_that_unicode_calls_control_format_or_separator_is_hidden() -> None:
    missed = [
        hex(number)
        for number in range(sys.maxunicode + 1)
        if (unicodedata.category(chr(number)) in HIDDEN) and not find_hidden(f"a{chr(number)}b")
    ]
    assert not missed, "of a newer Unicode? then the tables want these, too"


def test_what_is_hidden_by_the_tables_is_nothing_that_this_python_knows_otherwise() -> None:
    wrong = [
        hex(number)
        for number in range(sys.maxunicode + 1)
        if find_hidden(f"a{chr(number)}b")
        and unicodedata.category(chr(number)) not in (*HIDDEN, "Cn")
    ]
    assert not wrong


@pytest.mark.parametrize("check", [check_group, check_user, check_daemon])
@pytest.mark.parametrize("letter", ["\u202e", "\u2066", "\u200b", "\u2028", "\ufeff", "\u00ad"])
def test_a_name_with_a_letter_that_nobody_sees_is_refused(check: object, letter: str) -> None:
    assert callable(check)
    with pytest.raises(LocalProtocolError, match=rf"contains U\+{ord(letter):04X}, .*is invisible"):
        check(f"ann{letter}")


def test_a_private_name_with_one_is_no_destination() -> None:
    assert check_destination("#ann#press") == "#ann#press"
    with pytest.raises(LocalProtocolError, match=r"contains U\+202E, RIGHT-TO-LEFT OVERRIDE"):
        check_destination("#ann\u202e#press")


@pytest.mark.parametrize("name", [KSHA, MIKHAHAM, CODER, HEART])
def test_joiners_stay_where_unicode_has_a_use_for_them(name: str) -> None:
    assert check_group(name) == name
    assert visible(name) == name


@pytest.mark.parametrize(
    "name",
    [
        *("\u200dann", "ann\u200d", "a\u200cb", "a\u200db", "\u0645\u200c", "\u0645\u200ca"),
        *("\u0645\u200d\u062e", "\U0001f469\u200d", "\U0001f469\u200da", "\ufe0f\u200d\U0001f469"),
        *("\U0001f469\u200c\U0001f4bb", "\u0915\u094d\u200d\u200d"),
    ],
)
def test_elsewhere_a_joiner_is_hidden_like_the_others(name: str) -> None:
    with pytest.raises(LocalProtocolError, match="JOINER, which is invisible"):
        check_group(name)
    assert "\\u200" in visible(name)


@given(text=LETTERS)
@example(text="ann\u202e\x1b[2J\u2028")
def test_nothing_hidden_is_left_and_all_else_stays(text: str) -> None:
    shown = visible(text, kept="")
    assert not find_hidden(shown)
    if not find_hidden(text):
        assert shown == text


@given(text=LETTERS)
@example(text="\u009b\U000e0041\u202e")
def test_json_stays_the_same_json(text: str) -> None:
    line = json.dumps({text: [text]}, ensure_ascii=False)
    assert json.loads(visible(line)) == json.loads(line)


def test_a_text_does_nothing_to_a_terminal() -> None:
    assert visible("\x1b[2Jx\r\n\ty\u202e") == "\\u001b[2Jx\\r\\n\ty\\u202e"
    assert visible("a\nb", kept="\n") == "a\nb"
