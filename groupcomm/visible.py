"""Characters that do something to a text instead of being seen in it, and how to show them.

A terminal obeys control characters. Some of Unicode's format characters (category Cf) turn the
direction of the text beside them (U+202E), others are invisible (U+200B); U+2028 and U+2029 begin
lines. No name may have such characters, and texts of others are shown with escapes in their place.

Two format characters belong to scripts: the joiners, U+200C and U+200D. They stay where Unicode has
a use for them:

- both directly after a virama (RFC 5892, appendices A.1 and A.2), as in Hindi;
- U+200C between two letters of Arabic script, as in Persian. RFC 5892 asks for the joining types of
  these letters; that they are letters is enough here;
- U+200D between two emoji, each perhaps with a variation selector or a skin tone (UTS #51).

The tables are those of Unicode 16 and do not come from Python's database: daemons of one cluster
must agree on valid names, under every version of Python.
"""

import re
from typing import Final

_CONTROL: Final = "\x00-\x1f\x7f-\x9f"
_SURROGATES: Final = "\ud800-\udfff"
_LINES: Final = "\u2028\u2029"
_JOINERS: Final = "\u200c\u200d"
_FORMAT: Final = (
    "\u00ad\u0600-\u0605\u061c\u06dd\u070f\u0890\u0891\u08e2\u180e\u200b\u200e\u200f\u202a-\u202e"
    "\u2060-\u2064\u2066-\u206f\ufeff\ufff9-\ufffb\U000110bd\U000110cd\U00013430-\U0001343f"
    "\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0001\U000e0020-\U000e007f"
)
_VIRAMAS: Final = (
    "\u094d\u09cd\u0a4d\u0acd\u0b4d\u0bcd\u0c4d\u0ccd\u0d3b\u0d3c\u0d4d\u0dca\u0e3a\u0eba\u0f84"
    "\u1039\u103a\u1714\u1715\u1734\u17d2\u1a60\u1b44\u1baa\u1bab\u1bf2\u1bf3\u2d7f\ua806\ua82c"
    "\ua8c4\ua953\ua9c0\uaaf6\uabed\U00010a3f\U00011046\U00011070\U0001107f\U000110b9\U00011133"
    "\U00011134\U000111c0\U00011235\U000112ea\U0001134d\U000113ce-\U000113d0\U00011442\U000114c2"
    "\U000115bf\U0001163f\U000116b6\U0001172b\U00011839\U0001193d\U0001193e\U000119e0\U00011a34"
    "\U00011a47\U00011a99\U00011c3f\U00011d44\U00011d45\U00011d97\U00011f41\U00011f42\U0001612f"
)
_ARABIC: Final = re.compile("[\u0620-\u064a\u066e\u066f\u0671-\u06d3\u06fa-\u06ff\u0750-\u077f]")
_EMOJI: Final = re.compile(
    "[\u2190-\u21ff\u2300-\u23ff\u2600-\u27bf\u2b00-\u2bff\U0001f000-\U0001faff]"
)
_BEHIND_EMOJI: Final = "\ufe0f\U0001f3fb\U0001f3fc\U0001f3fd\U0001f3fe\U0001f3ff"

_SHORT: Final = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}
_HIDDEN: Final = re.compile(f"[{_CONTROL}{_SURROGATES}{_LINES}{_JOINERS}{_FORMAT}]")
_VIRAMA: Final = re.compile(f"[{_VIRAMAS}]")


def find_hidden(text: str) -> str:
    """Return the first invisible character of a text; "" if there is none."""
    if text.isprintable():
        return ""
    for found in _HIDDEN.finditer(text):
        if not _joins(text, found.start()):
            return found[0]
    return ""


def visible(text: str, *, kept: str = "\t") -> str:
    """Return a text that does nothing to a terminal but appear on it.

    Args:
        text: any text.
        kept: control characters that stay as they are.

    Returns:
        The text, with escapes for invisible characters, such as ``\\u001b`` and ``\\u202e``. They
        are those of JSON, so a text in JSON stays the same JSON.
    """
    if text.isprintable():
        return text

    def shown(found: re.Match[str]) -> str:
        letter = found[0]
        return letter if letter in kept or _joins(text, found.start()) else _escape(letter)

    return _HIDDEN.sub(shown, text)


def _escape(letter: str) -> str:
    short = _SHORT.get(letter)
    if short is not None:
        return short
    units = letter.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at : at + 2].hex()}" for at in range(0, len(units), 2))


def _joins(text: str, at: int) -> bool:
    """Return whether a joiner stands where Unicode has a use for it; False for others."""
    letter = text[at]
    if letter not in _JOINERS or at == 0:
        return False
    if _VIRAMA.match(text, at - 1):
        return True
    if letter == "\u200c":
        return bool(_ARABIC.match(text, at - 1) and _ARABIC.match(text, at + 1))
    before = at - 1
    for _ in range(2):  # two rounds at most, as texts may be long
        before -= before > 0 and text[before] in _BEHIND_EMOJI
    return bool(_EMOJI.match(text, before) and _EMOJI.match(text, at + 1))
