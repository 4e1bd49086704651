"""Words that were retired from names stay out of them, and docstrings begin with their verbs."""

import functools
import re

from tests.sources import ROOT, label, read

RETIRED = frozenset(
    """
    announcer cast conversation desk door doors ending facts farewell fellow fellows gathering guard
    guest handover hear heritage histories judge judges judgement keeper neighbours oracle oracles
    operation outside patience scene seat story surroundings take teller told trouble union variants
    verb verbs visit withheld world
    """.split()  # noqa: SIM905 - words read better than forty quoted strings
)
"""Words of an earlier version; docs/glossary.md has those that replaced them."""

WITHIN = frozenset("facts outside patience seat told verbs".split())  # noqa: SIM905
"""Those of them that parameters and variables still have: no further ones come."""

NO_VERBS = frozenset(("A", "All", "An", "How", "Its", "The", "What", "Whether", "Who", "Whom"))
"""Words with which the docstring of a function does not begin."""

STANDARD = {
    "SUBGROUP_CAST": "a flag of Spread's flush layer",
    "visit_bytes": "a key of the configuration: bytes in a visit of the token",
    "Seat": "a place in a packet of the wire format",
    "Verb": "the word of the access rules, as in docs/security.md",
    "verb": "the field of an access rule",
    "_read_verbs": "reads the verbs of access rules",
    "_review_verbs": "reviews the verbs of access rules",
    "story": "the name of a command",
}
"""Names that hold such a word in its standard meaning, with the reason."""


PACKAGES = sorted(
    path for folder in ("groupcomm", "daemon", "clients") for path in (ROOT / folder).rglob("*.py")
)


def words_of(name: str) -> set[str]:
    """Return the words of a name in snake or camel case, in lower case."""
    return {word.lower() for word in re.findall(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])", name)}


@functools.cache
def declared() -> frozenset[str]:
    """Return all names that the packages declare."""
    return frozenset(name for path in PACKAGES for name in read(path).names)


@functools.cache
def within() -> frozenset[str]:
    """Return all names of parameters and variables."""
    return frozenset(name for path in PACKAGES for name in read(path).inner)


def check(names: frozenset[str], retired: frozenset[str]) -> None:
    found = {name for name in names if words_of(name) & retired}
    wrong = sorted(found - STANDARD.keys())
    assert not wrong, f"docs/glossary.md has the words to use in place of those of {wrong}"


def test_retired_words_are_in_no_name() -> None:
    check(declared(), RETIRED)


def test_retired_words_are_in_no_parameter_and_no_variable() -> None:
    check(within(), RETIRED - WITHIN)
    unused = WITHIN - {word for name in within() for word in words_of(name)}
    assert not unused, f"take them out of the list of exceptions: {unused}"


def test_docstrings_of_functions_begin_with_what_the_function_does() -> None:
    """A question or a noun at the beginning has the reader guess what is returned."""
    found = [
        f"{label(path)}: {name}: {word}"
        for path in PACKAGES
        for name, word in read(path).docstrings
        if word in NO_VERBS
    ]
    assert not found, "\n".join(["write: Return, Send, Raise ...", *found])


def test_every_exception_is_needed() -> None:
    assert not STANDARD.keys() - declared() - within(), "delete the names that are gone"


def test_words_are_found_in_snake_and_camel_case() -> None:
    assert words_of("_take_secret") == {"take", "secret"}
    assert words_of("ToldCause") == {"told", "cause"}
