"""The bounds within which the specification is explored: each part in several small worlds."""

import enum
from collections.abc import Callable, Mapping
from typing import Any, Final

from tests.verification.specification.form import Model
from tests.verification.specification.locality import Cluster, Content, Kind, Locality
from tests.verification.specification.locality_model import LocalityModel, Step
from tests.verification.specification.order import Order
from tests.verification.specification.order_model import OrderModel
from tests.verification.specification.recovery import Recovery
from tests.verification.specification.recovery_model import RecoveryModel
from tests.verification.specification.views import Views
from tests.verification.specification.views_model import ViewsModel

Dropped = frozenset[enum.Enum]
"""Conditions that are left out."""

MakeModel = Callable[[Dropped], Model[Any]]

_ONE_RING: Final = (("a", "b"),)
_TWO_RINGS: Final = (("a",), ("b",))
_THREE: Final = (("a", "b", "c"),)
_RINGS_OF_2_AND_1: Final = (("a", "c"), ("b",))
_THREE_RINGS: Final = (("a",), ("b",), ("c",))


def _views(attempts: dict[str, int], *, forms: int = 1, common: bool = False) -> MakeModel:
    return lambda dropped: ViewsModel(
        specification=Views(dropped), attempts=attempts, forms=forms, common=common
    )


def _order(
    rings: tuple[tuple[str, ...], ...],
    packets: tuple[int, ...],
    latest: int,
    promises: int,
    *safe: tuple[int, int],
) -> MakeModel:
    return lambda dropped: OrderModel(
        specification=Order(rings, dropped=dropped),
        packets=packets,
        latest=latest,
        promises=promises,
        safe=frozenset(safe),
    )


def _recovery(
    rings: tuple[tuple[str, ...], ...], authors: str, attempts: dict[str, int], *safe: int
) -> MakeModel:
    return lambda dropped: RecoveryModel(
        specification=Recovery(rings, dropped=dropped, exact=True),
        authors=tuple(authors),
        safe=frozenset(safe),
        attempts=attempts,
    )


_APART: Final = {"p": "a", "t": "a", "q": "b", "s": "c"}
_INSIDE: Final = {"p": "a", "r": "c", "q": "b"}
"""The daemons of sessions: t sends, and is in no group."""


def _locality(
    rings: tuple[tuple[str, ...], ...],
    homes: dict[str, str],
    groups: dict[str, str],
    latest: int,
    promises: set[int],
    *script: str,
) -> MakeModel:
    """Return a model of locality.

    Args:
        rings: the daemons of each ring.
        homes: the daemon of each session; others than those of the rings do not count.
        groups: the members of each group.
        latest: the highest stamp and promise.
        promises: the rings that promise.
        script: what is said: KIND SESSION NAMES, or KIND DAEMON NAME; after ">" what the same one
            says next.
    """
    known = {daemon for ring in rings for daemon in ring}
    cluster = Cluster(
        rings,
        tuple(sorted((s, daemon) for s, daemon in homes.items() if daemon in known)),
        frozenset((session, group) for group, members in groups.items() for session in members),
    )
    steps: list[Step] = []
    for line in script:
        for place, said in enumerate(line.split(" > ")):
            kind, who, *names = said.split()
            content = Content(
                Kind[kind.removeprefix("SAFE_")],
                tuple(names),
                session="" if who in known else who,
                safe=kind.startswith("SAFE_"),
            )
            after = len(steps) - 1 if place else None
            steps.append(Step(daemon=homes.get(who, who), content=content, after=after))
    return lambda dropped: LocalityModel(
        specification=Locality(cluster, dropped),
        script=tuple(steps),
        latest=latest,
        promises=frozenset(promises),
    )


SMALL: Final[Mapping[str, MakeModel]] = {
    "views: 2 daemons start, 2 attempts each": _views({"a": 2, "b": 2}),
    "views: 2 daemons of one view, 2 attempts each": _views({"a": 2, "b": 2}, common=True),
    "views: 3 daemons start, 1 attempt each": _views({"a": 1, "b": 1, "c": 1}),
    "order: 2 rings of 1, 2 packets, 2 promises": _order(_TWO_RINGS, (1, 1), 2, 2),
    "order: the same, 1 of them SAFE": _order(_TWO_RINGS, (1, 1), 2, 2, (0, 1)),
    "order: 1 ring of 2, 2 packets, 1 SAFE": _order(_ONE_RING, (2,), 2, 0, (0, 2)),
    "recovery: 2 daemons, 2 packets of one": _recovery(_ONE_RING, "bb", {"a": 1, "b": 1}),
    "recovery: 2 daemons, 2 packets, 1 SAFE": _recovery(_ONE_RING, "ab", {"a": 1, "b": 1}, 1),
    "recovery: 2 daemons, 1 SAFE packet, 3 attempts": _recovery(
        _ONE_RING, "b", {"a": 2, "b": 1}, 1
    ),
    "locality: a member of a wide group": _locality(
        _TWO_RINGS, _APART, {"g": "p", "k": "pq"}, 3, {1}, "MESSAGE p g", "MESSAGE q k"
    ),
    "locality: one message to both": _locality(
        _TWO_RINGS, _APART, {"g": "p", "k": "qt"}, 3, {1}, "MESSAGE t g k", "MESSAGE p g"
    ),
    "locality: the right is kept": _locality(
        _TWO_RINGS,
        _APART,
        {"g": "pq"},
        3,
        set(),
        "MESSAGE q g > MESSAGE q g > UNSUBSCRIBE b g",
        "MESSAGE p g",
    ),
    "locality: 2 messages in a ring of 2, 1 SAFE": _locality(
        _RINGS_OF_2_AND_1, _INSIDE, {"g": "pr"}, 2, set(), "SAFE_MESSAGE p g", "MESSAGE r g"
    ),
    "locality: a member leaves the wide group": _locality(
        _TWO_RINGS,
        _APART,
        {"g": "p", "k": "pq"},
        3,
        {1},
        "LEAVE p k > MESSAGE p g",
        "MESSAGE q k",
    ),
    "locality: the last member leaves": _locality(
        _TWO_RINGS, _APART, {"g": "p"}, 3, {1}, "LEAVE p g", "MESSAGE t g"
    ),
    "locality: one sender, both lines": _locality(
        _TWO_RINGS,
        {**_APART, "s": "a"},
        {"g": "p", "k": "sq"},
        3,
        {1},
        "MESSAGE t k > MESSAGE t g",
        "MESSAGE q k",
    ),
    "locality: a stranger gets a right": _locality(
        _TWO_RINGS, _APART, {"g": "p"}, 4, {1}, "SUBSCRIBE b g > MESSAGE q g", "MESSAGE p g"
    ),
    "locality: the right is given back": _locality(
        _TWO_RINGS,
        _APART,
        {"g": "pq"},
        5,
        {1},
        "MESSAGE q g > LEAVE q g > UNSUBSCRIBE b g",
        "MESSAGE p g",
    ),
}
"""Some thousand states each; the tests explore them."""

LARGE: Final[Mapping[str, MakeModel]] = {
    "views: 2 daemons start, 2 attempts each, 2 forms": _views({"a": 2, "b": 2}, forms=2),
    "views: 3 daemons of one view, 1 attempt each": _views(dict.fromkeys("abc", 1), common=True),
    "views: 2 daemons of one view, 3 attempts each": _views({"a": 3, "b": 3}, common=True),
    "order: 2 rings of 1, 3 packets, 2 promises": _order(_TWO_RINGS, (2, 1), 2, 2, (1, 1)),
    "order: 2 rings of 2 and 1, 2 packets, 2 promises": _order(
        (("a", "b"), ("c",)), (1, 1), 2, 2, (0, 1)
    ),
    "recovery: 2 daemons, 2 packets, 3 attempts": _recovery(_ONE_RING, "ab", {"a": 1, "b": 2}, 2),
    "recovery: 2 daemons, 3 packets": _recovery(_ONE_RING, "aba", {"a": 1, "b": 1}, 2),
    "recovery: 3 daemons, 2 packets": _recovery(_THREE, "ab", {"a": 1, "b": 1, "c": 1}, 1),
    "locality: a stranger of 3 rings": _locality(
        _THREE_RINGS, _APART, {"g": "p"}, 4, {1, 2}, "SUBSCRIBE b #p > MESSAGE q #p", "MESSAGE p g"
    ),
    "locality: a telephone of 3 rings": _locality(
        _THREE_RINGS,
        _APART,
        {"g": "p", "k": "qst"},
        3,
        {1, 2},
        "MESSAGE t k > MESSAGE t g",
        "MESSAGE q k",
    ),
    "locality: both rings come to a group": _locality(
        _TWO_RINGS,
        _APART,
        {},
        5,
        {1},
        "SUBSCRIBE a g > JOIN p g",
        "SUBSCRIBE b g > MESSAGE q g",
        "MESSAGE t g",
    ),
    "locality: a wide group in a ring of 2": _locality(
        _RINGS_OF_2_AND_1,
        _INSIDE,
        {"g": "pr", "k": "rq"},
        3,
        {1},
        "MESSAGE p g",
        "MESSAGE q k > LEAVE q k > UNSUBSCRIBE b k",
    ),
    "locality: SAFE behind a join in a ring of 2": _locality(
        _RINGS_OF_2_AND_1,
        {**_INSIDE, "t": "a"},
        {"g": "pr"},
        3,
        {1},
        "JOIN t g > SAFE_MESSAGE p g",
        "MESSAGE r g",
    ),
}
"""Up to millions of states each: `make specification`."""
