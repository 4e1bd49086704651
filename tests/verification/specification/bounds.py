"""The bounds within which the specification is explored: each part in several small worlds."""

import enum
from collections.abc import Callable, Mapping
from typing import Any, Final

from tests.verification.specification.form import Model
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
}
"""Up to millions of states each: `make specification`."""
