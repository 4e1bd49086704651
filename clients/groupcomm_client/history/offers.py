"""The choice among the offers of archives. Pure."""

from collections.abc import Mapping

from groupcomm.clocks.stamp import Position
from groupcomm.events import MemberId
from groupcomm_client.history.frames import Offer


def reach(offer: Offer, place: Position) -> Position | None:
    """Return up to where an archive has everything behind a place; None if nowhere.

    If that is the place itself the archive can have more later: it is the last that it has.
    """
    for first, last in offer.intervals:
        if first <= place < last or (first <= place == last == offer.intervals[-1][1]):
            return last
    return None


def best_of(
    offers: Mapping[MemberId, Offer], after: Position | None
) -> tuple[Position, MemberId] | None:
    """Return the archive that has most behind a place, and its last place."""
    if after is None:
        return None
    found = [
        (last, archive)
        for archive, offer in offers.items()
        if (last := reach(offer, after)) is not None
    ]
    return max(found, default=None)


def lowest_of(
    offers: Mapping[MemberId, Offer], after: Position | None, *, compacted: bool
) -> tuple[Position, MemberId, bool] | None:
    """Return where to go on if nobody has the next events: the place, who, and if compacted.

    It is the lowest place above the present one at which an archive has an interval; or the present
    one, if an archive has a compacted part there.

    Args:
        offers: the offers.
        after: the present place; None before the first event.
        compacted: whether compacted parts count.
    """
    found = [
        (first, False, archive)
        for archive, offer in offers.items()
        for first, _ in offer.intervals
        if after is None or first > after
    ]
    for archive, offer in offers.items():
        if compacted and offer.compacted is not None:
            first, horizon = offer.compacted
            if after is None or after < horizon:
                found.append((first if after is None else max(first, after), True, archive))
    if not found:
        return None
    first, is_compacted, archive = min(found)
    return first, archive, is_compacted
