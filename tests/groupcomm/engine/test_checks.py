"""Checks of packets against the view: each field that could point outside it."""

from collections.abc import Callable
from typing import Any

import attrs
import pytest
from msgspec import structs

from groupcomm.clocks.stamp import Stamp, ViewId
from groupcomm.config.versions import LOCAL_SAFE, LOCALITY, Versions
from groupcomm.config.view import DaemonId, Incarnation, View
from groupcomm.engine import checks
from groupcomm.errors import Contradiction, ProtocolViolation
from groupcomm.wire.data import DataPacket, UnreliablePacket
from groupcomm.wire.horizon import HorizonNotice
from groupcomm.wire.link import ResendRequest
from groupcomm.wire.token import RestNotice, Row, Token, TokenRequest

VIEW = View(
    id=ViewId(1, "a", 1),
    daemons=tuple(DaemonId(name, Incarnation(1, 1)) for name in "abc"),
    rings=((0, 2), (1,)),
    links=((0, 1),),
)


def data(**changes: Any) -> None:
    right: dict[str, Any] = {"ring": 0, "number": 1, "time": 1, "daemon": 2, "previous": 0}
    checks.check_data(DataPacket(**{**right, "bundles": [], **changes}), VIEW)


def unreliable(**changes: Any) -> None:
    right: dict[str, Any] = {"daemon": 2, "counter": 1, "bundles": []}
    checks.check_unreliable(UnreliablePacket(**{**right, **changes}), VIEW)


def token(view: View = VIEW, **changes: Any) -> None:
    right: dict[str, Any] = {
        "ring": 0,
        "hop": 1,
        "last": 0,
        "last_sender": 2,
        "clock": 0,
        "burst": 0,
        "rows": rows(2, 2),
        "requests": [(1, 1, 2)],
        "wanted": [0, 2],
    }
    checks.check_token(Token(**{**right, **changes}), view, 0)


def rows(daemons: int, rings: int) -> list[Row]:
    return [Row(frontier=0, sent=0, held=[0] * rings) for _ in range(daemons)]


def rest(**changes: Any) -> None:
    right: dict[str, Any] = {"ring": 0, "hop": 1, "holder": 2, "last": 0, "horizon": 0}
    checks.check_rest(RestNotice(**{**right, "frontiers": [0, 0], **changes}), VIEW)


def test_what_daemons_can_deliver_is_told_where_the_view_has_it_and_only_there() -> None:
    telling = attrs.evolve(VIEW, versions=Versions(features=LOCALITY | LOCAL_SAFE))
    notice = RestNotice(ring=0, hop=1, holder=2, last=0, horizon=0, frontiers=[0, 0])
    checks.check_rest(notice, VIEW)
    checks.check_rest(structs.replace(notice, deliverable=0), telling)
    for told, view in ((notice, telling), (structs.replace(notice, deliverable=0), VIEW)):
        with pytest.raises(ProtocolViolation, match="more, or less"):
            checks.check_rest(told, view)
    for columns, view, other in ((2, VIEW, telling), (3, telling, VIEW)):
        token(view, rows=rows(2, columns))
        with pytest.raises(ProtocolViolation, match="short ones"):
            token(other, rows=rows(2, columns))


def request(**changes: Any) -> None:
    right: dict[str, Any] = {"ring": 0, "daemon": 2, "hop": 1}
    checks.check_request(TokenRequest(**{**right, **changes}), VIEW)


def horizon(**changes: Any) -> None:
    right: dict[str, Any] = {"ring": 1, "horizon": 1, "upto": 0, "frontier": 0}
    notice = HorizonNotice(**{**right, "unsettled": False, "held": [(1, 0)], **changes})
    checks.check_horizon(notice, VIEW)


def resend(**changes: Any) -> None:
    right: dict[str, Any] = {"ring": 1, "asker": 0, "ranges": [(1, 1)]}
    checks.check_resend(ResendRequest(**{**right, **changes}), VIEW)


Check = Callable[..., None]


@pytest.mark.parametrize("check", [data, unreliable, token, rest, request, horizon, resend])
def test_what_fits_the_view_passes(check: Check) -> None:
    check()


@pytest.mark.parametrize(
    ("check", "changes"),
    [
        (data, {"daemon": 3}),
        (data, {"daemon": 1}),  # a daemon of the other ring
        (data, {"ring": 1}),
        (data, {"vector": (1,), "agreed": Stamp(1, 0)}),
        (data, {"vector": (1, 2, 3), "agreed": Stamp(1, 0)}),
        (unreliable, {"daemon": 3}),
        (token, {"ring": 1}),
        (token, {"last_sender": 1}),
        (token, {"rows": rows(1, 2)}),
        (token, {"rows": rows(3, 2)}),
        (token, {"rows": rows(2, 1)}),
        (token, {"wanted": [0, 1]}),
        (token, {"requests": [(0, 1, 1), (2, 1, 1)]}),
        (rest, {"ring": 2}),
        (rest, {"holder": 1}),
        (rest, {"frontiers": [0]}),
        (rest, {"frontiers": [0, 0, 0]}),
        (request, {"ring": 2}),
        (request, {"daemon": 1}),
        (request, {"daemon": 3}),
        (horizon, {"ring": 2}),
        (horizon, {"held": [(0, 0), (2, 0)]}),
        (resend, {"ring": 2}),
        (resend, {"asker": 3}),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_what_points_outside_the_view_is_refused(check: Check, changes: dict[str, Any]) -> None:
    with pytest.raises(ProtocolViolation) as caught:
        check(**changes)
    assert not isinstance(caught.value, Contradiction), "its sender is to blame"


def test_a_vector_of_the_right_length_passes() -> None:
    data(vector=(1, 2), agreed=Stamp(1, 0))
    assert attrs.evolve(VIEW, rings=((0,), (1, 2))).ring_of == (0, 1, 1)
