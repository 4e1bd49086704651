"""The report on plans, as a page with charts."""

from collections.abc import Callable, Sequence

from groupcomm_tools.pages.bar_chart import Bar, Chart, Line
from groupcomm_tools.pages.html_page import Page, Section, Tile
from groupcomm_tools.plan.figures import PlanFigures
from groupcomm_tools.plan.tables import (
    cost_table,
    daemon_table,
    delay_table,
    link_table,
    slowest_ms,
    text_of,
)

Series = Sequence[PlanFigures]
"""The same plan in several sizes."""


def page_of(plan: PlanFigures, growing: Sequence[tuple[str, Series]], facts: Sequence[str]) -> Page:
    """Return the page of a plan.

    Args:
        plan: the figures of the plan in the file.
        growing: the growing quantity, and the figures of each size.
        facts: lines about the way in which the figures were measured.
    """
    wrong = [each.wrong for each in (plan, *(one for _, some in growing for one in some))]
    first_wrong = next((each for each in wrong if each), "")
    cost = plan.cost
    return Page(
        title="What these sites cost",
        facts=facts,
        verdict=f"Too much: {first_wrong}" if first_wrong else "All messages came, in one view.",
        wrong=bool(first_wrong),
        tiles=(
            Tile(value=f"{cost.sites} / {cost.daemons}", label="sites / daemons"),
            Tile(
                value=f"{text_of(slowest_ms(plan))} ms",
                label="slowest p99 of all levels and sites",
            ),
            Tile(
                value=f"{text_of(cost.load_kbit_per_s)} kbit/s",
                label="the busiest link carries",
            ),
            Tile(
                value=text_of(cost.datagrams_per_message),
                label="datagrams received for a message",
            ),
        ),
        sections=[
            _delays(plan),
            _links(plan),
            _daemons(plan),
            *(_growth(what, series) for what, series in growing),
        ],
    )


def _bar(value: float | None) -> list[Bar]:
    if value is None:
        return []
    return [Bar(value=value, low=value, high=value, text=text_of(value))]


def _delays(plan: PlanFigures) -> Section:
    return Section(
        key="delays",
        title="Delays",
        note="From multicast to delivery at programs, by group and level, from one site to another."
        " They include the network and the protocol's waiting, but not the work of processors.",
        chart=Chart(
            title="delays by group, level and sites",
            panels=("p50, ms", "p99, ms"),
            lines=[
                Line(
                    label=f"{each.group}, {each.level.lower()}, {each.sender} to {each.receiver}",
                    cells=(_bar(each.p50_ms), _bar(each.p99_ms)),
                )
                for each in plan.delays
            ],
        )
        if plan.delays
        else None,
        table=delay_table(plan),
    )


def _links(plan: PlanFigures) -> Section:
    return Section(
        key="links",
        title="Links",
        note="Each direction by itself, with all headers of IP, UDP and encryption. Bodies are what"
        " messages alone would need, over as few links as lead to their members; overhead is all"
        " that is sent for each byte of these.",
        chart=Chart(
            title="traffic by link",
            panels=("kbit/s under load", "kbit/s while nothing is sent"),
            lines=[
                Line(label=each.link, cells=(_bar(each.kbit_per_s), _bar(each.idle_kbit_per_s)))
                for each in plan.links
            ],
        )
        if plan.links
        else None,
        table=link_table(plan),
    )


def _daemons(plan: PlanFigures) -> Section:
    return Section(
        key="daemons",
        title="Daemons",
        note="In a second under load. A daemon handles everything that has come in one step.",
        chart=None,
        table=daemon_table(plan),
    )


def _growth(what: str, series: Series) -> Section:
    measures: tuple[tuple[str, Callable[[PlanFigures], float | None]], ...] = (
        ("datagrams a message", lambda each: each.cost.datagrams_per_message),
        ("busiest link, kbit/s", lambda each: each.cost.load_kbit_per_s),
        ("until one view, MB", lambda each: each.cost.forming_mb),
    )
    return Section(
        key=what,
        title=f"With more {what}",
        note="The same load in growing clusters. What a view costs is what all daemons receive"
        " until they agree on it; 'to nobody' is sent to sites where nobody hears the sender.",
        chart=Chart(
            title=f"cost against the number of {what}",
            panels=[label for label, _ in measures],
            lines=[
                Line(
                    label=f"{each.cost.sites} sites, {each.cost.daemons} daemons",
                    cells=[_bar(value(each)) for _, value in measures],
                )
                for each in series
            ],
        ),
        table=cost_table(series),
    )
