"""Names of simulated daemons."""

from typing import Final

_WORDS: Final = tuple(
    """
    alfa bravo charlie delta echo foxtrot golf hotel india juliett kilo lima mike november oscar
    papa quebec romeo sierra tango uniform victor whiskey xray yankee zulu
    able baker cast dog easy fox george how item jig king love nan
    """.split()  # noqa: SIM905 - words read better than so many quoted lines
)
"""Today's spelling alphabet, then words of an older one."""


def daemon_names(daemons: int) -> list[str]:
    """So many different names, sorted: words first, then words with a number behind them."""
    words = len(_WORDS)
    names = [
        _WORDS[at % words] + (str(at // words + 1) if at >= words else "") for at in range(daemons)
    ]
    return sorted(names)
