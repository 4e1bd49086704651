"""Who is in a scene: the line of a scenario that begins with ``daemons``."""

from string import ascii_lowercase

import attrs

from groupcomm.config.core import CounterStarts
from groupcomm.sim.links import equal_links
from groupcomm.sim.loop import SECOND
from groupcomm.sim.scenario.words import Words
from groupcomm.sim.settings import Settings


@attrs.frozen(kw_only=True)
class Cast:
    """Which daemons a scene has.

    Attributes:
        sites: their indices, by site.
        apart_us: one-way delay between sites.
        counters: where all counters start.
        reader_cap_bytes: output that may wait for a program; 0 for the usual cap.
        absent: those that are not started.
    """

    sites: tuple[tuple[int, ...], ...]
    apart_us: int = 50_000
    counters: int = 0
    reader_cap_bytes: int = 0
    absent: tuple[int, ...] = ()

    def settings(self) -> Settings:
        """As the cluster takes them: nothing goes wrong by itself."""
        settings = Settings(
            seed=1,
            sites=self.sites,
            links=equal_links(len(self.sites), self.apart_us / SECOND),
            starts=CounterStarts(**dict.fromkeys(attrs.fields_dict(CounterStarts), self.counters)),
            start_message=self.counters,
        )
        if self.reader_cap_bytes:
            settings = attrs.evolve(settings, session_cap_bytes=self.reader_cap_bytes)
        return settings


def read_cast(words: Words) -> Cast:
    """``daemons a b | c d, apart 40ms, counters 2^31-5, cap 100000 bytes, without c``."""
    letters: list[str] = []
    sites: list[tuple[int, ...]] = []
    while True:
        start = len(letters)
        while len(letters) < len(ascii_lowercase) and words.got(ascii_lowercase[len(letters)]):
            letters.append(ascii_lowercase[len(letters)])
        if len(letters) == start:
            words.fail(f"daemon {ascii_lowercase[start]}; they are called a, b, c and so on")
        sites.append(tuple(range(start, len(letters))))
        if not words.got("|"):
            break
    words.know(len(letters))
    apart_us, counters, cap = 50_000, 0, 0
    absent: tuple[int, ...] = ()
    while words.got(","):
        option = words.one_of(("apart", "counters", "cap", "without"))
        if option == "apart":
            apart_us = words.duration()
        elif option == "counters":
            counters = words.power()
        elif option == "cap":
            cap = words.number("a number of bytes")
            words.got("bytes")
        else:
            absent = words.daemons()
    if words.more:
        words.fail("the next daemon's letter, '|', or ', ' and an option")
    return Cast(
        sites=tuple(sites),
        apart_us=apart_us,
        counters=counters,
        reader_cap_bytes=cap,
        absent=absent,
    )
