"""The sections of the matrix's page: what stands together, and which figures are drawn."""

from collections.abc import Callable, Sequence
from typing import Final

import attrs

from groupcomm_tools.bench.figures import Figures
from groupcomm_tools.bench.matrix import Result

Values = Sequence[float]


@attrs.frozen(kw_only=True)
class Measure:
    """One thing that rounds are drawn by.

    Attributes:
        label: with its unit.
        values: of all rounds of a row.
        floors: the same of the bare relays; empty where they have none.
        is_own: whether it follows from no other one beside it, so that its spread is told.
    """

    label: str
    values: Callable[[Result], Values]
    floors: Callable[[Result], Values] = lambda _: ()
    is_own: bool = True


@attrs.frozen(kw_only=True)
class Part:
    """A section of the page: rows that are compared with each other."""

    key: str
    title: str
    note: str
    measures: Sequence[Measure]
    series: Sequence[str] = ()


def _of_runs(value: Callable[[Figures], float | None]) -> Callable[[Result], Values]:
    return lambda result: [value(figures) or 0.0 for figures in result.runs.values()]


def _of_floors(part: float) -> Callable[[Result], Values]:
    return lambda result: [d[int(part * len(d))] / 1000 for d in result.floors.values()]


def _ms(value: float | None) -> float | None:
    return None if value is None else value / 1000


RATE: Final = Measure(label="messages/s", values=_of_runs(lambda f: f.msgs_per_s_each))
BYTES: Final = Measure(label="MB/s", values=_of_runs(lambda f: f.mb_per_s_each), is_own=False)
COST: Final = Measure(
    label="daemons, s for a million deliveries",
    values=_of_runs(lambda f: f.cpu_s_per_million),
    is_own=False,
)
P50: Final = Measure(
    label="delay p50, ms",
    values=_of_runs(lambda f: _ms(f.delay_p50_us)),
    floors=_of_floors(0.5),
)
P99: Final = Measure(
    label="delay p99, ms",
    values=_of_runs(lambda f: _ms(f.delay_p99_us)),
    floors=_of_floors(0.99),
)
VIEW: Final = Measure(
    label="new view without it, ms", values=lambda r: [e.view_ms for e in r.events.values()]
)
MERGED: Final = Measure(
    label="one view again, ms", values=lambda r: [e.merged_ms for e in r.events.values()]
)

PARTS: Final = (
    Part(
        key="three",
        title="Three daemons, a receiver at each",
        note="AGREED, encrypted, unix sockets, as many messages as pass; rates are those of the"
        " slowest receiver. One sender gives many messages at once, unless it says otherwise.",
        measures=(RATE, BYTES),
    ),
    Part(
        key="one",
        title="One daemon, one receiver",
        note="The same without a network between daemons; programs use unix sockets or TCP.",
        measures=(RATE, BYTES),
        series=("unix sockets", "TCP"),
    ),
    Part(
        key="five",
        title="One daemon, five receivers",
        note="What each of the five gets.",
        measures=(RATE, BYTES),
    ),
    Part(
        key="encryption",
        title="Encryption",
        note="Three daemons, large and small datagrams, with AES-GCM or a checksum only, in turn.",
        measures=(RATE,),
        series=("encrypted", "not encrypted"),
    ),
    Part(
        key="idle",
        title="Programs that do nothing",
        note="Three daemons, 200,000 messages of 100 B a second: alone, and with 1,000 sessions"
        " in 10,000 groups, in turn.",
        measures=(COST,),
        series=("nobody else", "1,000 idle sessions"),
    ),
    Part(
        key="delay",
        title="Delay of a lone message",
        note="One way, 200 messages of 100 B a second, in turn with bare relays: the same hops"
        " over unix sockets and UDP, trio, and no protocol at all.",
        measures=(P50, P99),
        series=("groupcomm", "bare relays"),
    ),
    Part(
        key="level",
        title="Levels",
        note="One-way delay of 200 messages of 100 B a second, three daemons.",
        measures=(P50, P99),
    ),
    Part(
        key="event",
        title="When a daemon goes and comes back",
        note="Three daemons, nothing else under way: until the last program concerned is told."
        " What is started again is timed from the start of its process.",
        measures=(VIEW, MERGED),
        series=("timings of one host (local)", "timings of a network (lan)"),
    ),
)
