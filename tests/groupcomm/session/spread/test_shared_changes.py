"""Sessions that share changes of a group tell their clients what each would tell them alone."""

import itertools
from collections import deque

from hypothesis import example, given
from hypothesis import strategies as st

from groupcomm.clocks.stamp import Position, ViewId
from groupcomm.events import Cause, DaemonView, GroupView, MemberId
from groupcomm.session.daemon_frames import (
    encode_continued,
    encode_origins,
    encode_transition,
    encode_view,
    encode_view_id,
)
from groupcomm.session.differences import Difference, encode_difference, place_of
from groupcomm.session.spread.session import SpreadSession
from groupcomm.session.spread.views import SharedChanges
from groupcomm.wire.packet import Raw
from tests.groupcomm.session.spread.test_session import ANN, opened

DAEMONS = "abc"
ACTS = st.lists(
    st.tuples(st.sampled_from(["change", "daemons"]), st.integers(0, 7), st.integers(0, 7)),
    max_size=15,
)


class Room:
    """A group as ann's daemon shows it: each change as a whole view, and as a difference."""

    def __init__(self) -> None:
        self.view = ViewId(7, "a", 1)
        self.members = [ANN]
        self.at = Position(self.view, 1, 0, 0, 0)
        self.first = encode_view(self.show(Cause.JOIN, (ANN,), (ANN,)))

    def show(
        self, cause: Cause, changed: tuple[MemberId, ...], together: tuple[MemberId, ...]
    ) -> GroupView:
        return GroupView(
            group="room",
            id=self.at,
            members=tuple(self.members),
            cause=cause,
            changed=changed,
            vs_set=together,
            own=False,
        )

    def act(self, kind: str, number: int, choice: int) -> tuple[bytes, list[bytes]]:
        """Return the frames of a change in both forms, those of the second one by one."""
        if kind == "daemons":
            return self.change_daemons(number, choice)
        one = MemberId(f"#u{number}#{DAEMONS[number % 3]}", number + 2)
        before, self.at = self.at, self.at._replace(time=self.at.time + 1)
        cause = (Cause.LEAVE, Cause.DISCONNECT)[choice % 2] if one in self.members else Cause.JOIN
        stayed = [member for member in self.members if member != one]
        self.members = [*stayed, one] if cause is Cause.JOIN else stayed
        return self.forms(before, cause, (one,), stayed, ())

    def change_daemons(self, gone: int, back: int) -> tuple[bytes, list[bytes]]:
        """Daemons b and c go, with bits of `gone`; some of them return, with bits of `back`.

        Bit 2 of that: it looks as if a's members lost the others to the old view. Bit 2 of `gone`:
        if nobody went, the daemon says that all groups go on.
        """
        went = [name for bit, name in enumerate("bc") if gone & 1 << bit]
        kept = [name for name in DAEMONS if name not in went]
        returned = [name for bit, name in enumerate("bc") if name in went and back & 1 << bit]
        self.view = ViewId(self.view.counter + 1, "a", 1)
        before, self.at = self.at, Position(self.view, 0, 0, 0, 0)
        stayed = [member for member in self.members if member.daemon in kept]
        came = tuple(member for member in self.members if member.daemon in returned)
        self.members = sorted([*stayed, *came], key=lambda member: member.daemon)
        stayed.sort(key=lambda member: member.daemon)
        homes = sorted({*kept, *returned})
        head = (
            encode_origins(dict.fromkeys("a" if back & 4 else kept, 0))
            + encode_transition()
            + encode_view_id(DaemonView(id=self.view, daemons=tuple(homes), majority=True))
            + encode_origins({name: int(name in returned) for name in homes})
        )
        whole, difference = self.forms(before, Cause.NETWORK, came, stayed, tuple(went))
        if gone & 4 and not went:
            difference = [encode_continued()]
        return head + whole, [head, *difference]

    def forms(
        self,
        before: Position,
        cause: Cause,
        changed: tuple[MemberId, ...],
        stayed: list[MemberId],
        went: tuple[str, ...],
    ) -> tuple[bytes, list[bytes]]:
        told = () if cause is Cause.NETWORK else changed
        view = self.show(cause, told, tuple(stayed))
        difference = Difference(
            group="room",
            id=self.at,
            before=place_of(before),
            cause=cause,
            size=len(view.members),
            went=went,
            members=changed,
        )
        return encode_view(view), [encode_difference(difference)]


def translated(session: SpreadSession, frames: list[bytes]) -> bytes:
    """What a client gets for frames that its session gets together: changes in runs."""
    due = deque[Raw]()
    for kind, run in itertools.groupby(frames, type):
        due.append(kind(b"".join(run)))
    told = []
    while due:
        told += session.translate_piece(due)
    return b"".join(told)


def test_the_same_frame_in_another_view_of_the_daemons_is_another_change() -> None:
    shared, room = SharedChanges(), Room()
    (change,) = room.act("change", 1, 0)[1]
    told = []
    for counter in (7, 8):
        session = opened(shared=shared)
        session.translate(room.first)
        later = DaemonView(id=ViewId(counter, "a", 1), daemons=("a",), majority=True)
        told.append(session.translate(encode_view_id(later) + change))
    assert told[0] != told[1]


@given(acts=ACTS, turns=st.lists(st.tuples(st.integers(0, 2), st.integers(1, 4)), max_size=40))
@example([("change", 1, 0)] * 4, [(0, 4)])
@example([("change", 1, 0), ("daemons", 4, 4), ("daemons", 4, 0), ("change", 2, 0)], [])
def test_sessions_that_share_differences_tell_what_one_with_whole_views_tells(
    acts: list[tuple[str, int, int]], turns: list[tuple[int, int]]
) -> None:
    """Whatever the pace of each: some are behind the others, as their clients read slowly, and get
    several changes at once.
    """
    room = Room()
    forms = [room.act(*act) for act in acts]
    alone, shared = opened(), SharedChanges()
    wholes = (room.first, *(each for each, _ in forms))
    expected = b"".join(alone.translate(whole) for whole in wholes)
    sessions = [opened(shared=shared) for _ in range(3)]
    told = [session.translate(room.first) for session in sessions]
    rest = [iter(forms) for _ in sessions]
    for turn, most in (*turns, *((number, len(forms)) for number in range(3))):
        due = itertools.islice(rest[turn], most)
        frames = [frame for _, frames in due for frame in frames]
        told[turn] += translated(sessions[turn], frames)
    assert told == [expected] * 3
