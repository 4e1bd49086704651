"""Wrong ways to join segments, and to cut them, and large packets at the end of a view."""

from typing import Any

from groupcomm.membership.flood import Flood
from groupcomm.wire import segments
from groupcomm.wire.membership import ControlMessage
from groupcomm.wire.segments import Joiner
from tests.verification.mutants.mutant import Right, mutant

_COUNTER_AT = 25


@mutant((segments, "train_of"), (segments, "_join_whole"), segments=True, faults="loss,reorder")
def trains_of_any_counter(_right: Right, _whole: Right) -> tuple[Right, Right]:
    """Segments of two datagrams of one daemon are joined, if these have equally many."""

    def train_of(segment: bytes) -> bytes:
        return segment[1:2] + segment[3:_COUNTER_AT]

    return train_of, lambda _data, _size: None


@mutant((Joiner, "_accept"), segments=True, faults="loss,duplication")
def copies_count_as_segments(right: Right) -> Right:
    """A segment that comes twice counts as one that is missing."""

    def accept(self: Joiner, source: Any, segment: bytes) -> bytes | None:
        train = self._of.get(source, {}).get(segments.train_of(segment))
        if train is not None and segment[2] in train.segments:
            missing = next(at for at in range(segment[3]) if at not in train.segments)
            segment = segment[:2] + bytes((missing,)) + segment[3:]
        found: bytes | None = right(self, source, segment)
        return found

    return accept


@mutant((Joiner, "_accept"), segments=True, faults="loss")
def last_segment_completes(right: Right) -> Right:
    """The last segment completes a datagram, whether the others have come or not."""

    def accept(self: Joiner, source: Any, segment: bytes) -> bytes | None:
        found: bytes | None = right(self, source, segment)
        train = self._of.get(source, {}).get(segments.train_of(segment))
        if found is None and train is not None and segment[2] == segment[3] - 1:
            return b"".join(train.segments[at] for at in sorted(train.segments))
        return found

    return accept


@mutant((Flood, "_cut_again"), segments=True)
def large_repairs_begin_anew(_right: Right) -> Right:
    """Each repetition of a large packet of the old view is a message of its own."""

    def cut(self: Flood, message: ControlMessage, **_: bool) -> list[bytes]:
        return self._cut(message)

    return cut


BUGS = (
    copies_count_as_segments,
    large_repairs_begin_anew,
    last_segment_completes,
    trains_of_any_counter,
)
