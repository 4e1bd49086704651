"""The key of a view: daemons under different releases of Python compute the same one."""

import sys
import unicodedata

from groupcomm.clocks.stamp import ViewId
from groupcomm.config.view import DaemonId, Incarnation, View, quoted
from groupcomm.names import check_daemon
from groupcomm.visible import find_hidden


def view_of(name: str) -> View:
    """Return a view of one daemon."""
    daemon = DaemonId(name, Incarnation(1, 7))
    return View(id=ViewId(3, name, 7), daemons=(daemon,), rings=((0,),))


def test_names_are_quoted_as_earlier_releases_did() -> None:
    """They used `repr`, and daemons of them and of this one have to form views together."""
    letters = [
        letter
        for letter in map(chr, range(sys.maxunicode + 1))
        if unicodedata.category(letter) not in ("Cn", "Cs") and not find_hidden(letter)
    ]
    assert len(letters) > 100_000
    for start in range(0, len(letters), 100):
        text = "".join(letters[start : start + 100])
        assert quoted(text) == repr(text)
    for text in ("a'b", 'a"b', "a'b\"c", "a\\b", "\u0915\u094d\u200d\u0937", "\U0010fffd"):
        assert quoted(text) == repr(text)


def test_a_letter_that_is_newer_than_a_release_of_python_does_not_change_the_key_of_a_view() -> (
    None
):
    """U+1E4D0 came with Unicode 15; `repr` under Python 3.11 and 3.12 differs, and keys did."""
    name = check_daemon("\U0001e4d0")
    assert quoted(name) == f"'{name}'"
    assert view_of(name).key.hex() == "6f4fefccaba85b8bb3e4bcbb16b81503"


def test_two_starts_of_a_daemon_have_views_of_different_keys() -> None:
    one, other = DaemonId("a", Incarnation(1, 7)), DaemonId("a", Incarnation(2, 7))
    views = [View(id=ViewId(3, "a", 7), daemons=(each,), rings=((0,),)) for each in (one, other)]
    assert views[0].key != views[1].key
