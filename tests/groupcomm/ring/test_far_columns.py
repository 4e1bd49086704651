"""A token that has left something out does not stay at rest."""

from math import inf

import pytest

from groupcomm.config.core import Timing
from groupcomm.ring.far_columns import FarColumns
from groupcomm.stream.stream import Stream
from groupcomm.wire.columns import Far
from groupcomm.wire.token import Row, Token

TIMING = Timing()


def token(far: Far | None) -> Token:
    return Token(
        ring=0,
        hop=1,
        last=0,
        last_sender=0,
        clock=0,
        burst=0,
        rows=[Row(frontier=0, sent=0, held=[0] * 5) for _ in range(2)],
        requests=[],
        wanted=[],
        far=far,
    )


def streams(*held: int) -> list[Stream]:
    return [Stream(ring, number) for ring, number in enumerate(held)]


@pytest.mark.parametrize(
    ("far", "held", "goes_round"),
    [
        (Far(0, 2, 0), [9, 9, 9, 8], True),
        (Far(0, 2, 0), [9, 9, 9, 9], False),
        (Far(0, 3, 0), [9, 9, 9, 8], False),
        (None, [9, 9, 9, 8], False),
    ],
    ids=["left out", "all is known", "all told", "rows in full"],
)
def test_it_goes_round_again_while_what_it_left_out_is_not_known(
    far: Far | None, held: list[int], *, goes_round: bool
) -> None:
    columns = FarColumns(0, 5, TIMING)
    columns.on_rest(token(far), held, streams(9, 9, 9, 9), 7.0)
    assert columns.due == (7.0 + TIMING.request_retry_s if goes_round else inf)
    columns.on_pass(passed := token(far))
    assert columns.due == inf
    assert passed.far == (Far(0, 3, 0) if far is None else far).passed(2, 3)
