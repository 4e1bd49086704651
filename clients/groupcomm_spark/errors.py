"""What went wrong, without forty lines of Java around it."""

import re
from typing import Final

_TRACEBACK: Final = "Traceback (most recent call last):"
_RAISED: Final = re.compile(r"^(?:[\w.]+\.)?(\w+(?:Error|Exception|Damaged|Removed|Busy))?: ?(.*)$")
_CLASS: Final = re.compile(r"^\[[A-Z0-9_.]+\] ")


def plain(error: BaseException) -> str:
    """The sentence that helps: of an error in Python code on a worker, what that one said.

    Args:
        error: as pyspark raises it.
    """
    text = str(error)
    if _TRACEBACK in text:
        return _last_raised(text)
    first = text.strip().splitlines()[0] if text.strip() else type(error).__name__
    return _CLASS.sub("", first)


def _last_raised(text: str) -> str:
    """The last line of the traceback that stands first: the innermost cause is told last."""
    lines = text[text.rindex(_TRACEBACK) :].splitlines()[1:]
    for line in lines:
        if line and not line.startswith((" ", "\t")):
            match = _RAISED.match(line.strip())
            return (match[2] or line).strip() if match else line.strip()
    return text.strip().splitlines()[0]
