"""The agreement of archives: each tells the others its digests, and compares theirs with its own.

Pure: events of a session, the time and own digests in, messages and differences out. What differs
is told and never repaired: no archive can know which of two is right. See docs/history.md.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final

import attrs

from groupcomm.clocks.stamp import Position
from groupcomm.events import GroupView, MemberId, Message
from groupcomm.level import ServiceLevel
from groupcomm_archive.comparing import (
    Ask,
    Claim,
    Claims,
    Compared,
    Comparing,
    GroupReport,
    Report,
    decode_comparing_untrusted,
    encode_comparing,
)
from groupcomm_archive.digests import Digest, Range
from groupcomm_client.history.frames import ARCHIVES, Interval
from groupcomm_client.history.subscriber import Send

CLAIM_S: Final = 5.0
"""The time from one message with new digests to the next."""

CLAIMS: Final = 1000
"""The digests of one message."""

MOST_PENDING: Final = 100_000
"""The digests of one archive that wait until this one has come as far; later ones are ignored."""

MOST_DIFFERING: Final = 100
"""The differing ranges of one archive that are reported."""


@attrs.frozen(kw_only=True)
class Difference:
    """A range that another archive holds, too, with other events.

    Attributes:
        archive: the private name of the other archive.
        group: the group.
        after, upto: the range: the events behind one place, up to the other.
        own, other: the number of events here and there.
    """

    archive: str
    group: str
    after: Position
    upto: Position
    own: int
    other: int


@attrs.define
class _Peer:
    """What is known of another archive and a group.

    Attributes:
        upto, ranges: see `Compared`; the ranges are counted.
        same: the ranges that were the same as a whole.
        differing: the ranges that were not.
        pending: claims to compare once this archive has come as far.
    """

    upto: Position | None = None
    same: set[Range] = attrs.field(factory=set)
    differing: dict[Range, None] = attrs.field(factory=dict)
    pending: dict[Range, Claim] = attrs.field(factory=dict)


class Agreement:
    """What the other archives hold; call `handle`, `update` and `wake`.

    Attributes:
        is_live: whether this archive gets the events of the line as they happen.
    """

    def __init__(self) -> None:
        """Begin without a session, and without a digest."""
        self.is_live = False
        self._me: MemberId | None = None
        self._archives: Collection[MemberId] = ()
        self._peers: dict[tuple[MemberId, str], _Peer] = {}
        self._held: dict[str, tuple[Interval, ...]] = {}
        self._digested: dict[str, Position] = {}
        self._whole: dict[str, dict[Range, Digest]] = {}
        self._open: dict[str, tuple[Range, Digest]] = {}
        self._quiet: dict[str, tuple[Range, Digest]] = {}  # what was open when it was last awake
        self._claimed: dict[str, tuple[Range, Digest]] = {}
        self._new: list[Claim] = []
        self._has_asked = False
        self._next_claim = 0.0
        self._actions: list[Send] = []
        self._differences: list[Difference] = []

    def begin_session(self, me: MemberId) -> None:
        """Begin a session, in which nothing is known of other archives yet."""
        self._me = me
        self.is_live = self._has_asked = False
        self._archives = ()
        self._peers.clear()
        self._claimed.clear()
        self._new.clear()

    # ---- own digests ----

    def update(
        self,
        held: Mapping[str, Sequence[Interval]],
        digested: Mapping[str, Position],
        whole: Iterable[tuple[str, Range, Digest]],
        still_open: Iterable[tuple[str, Range, Digest]],
    ) -> None:
        """Note what this archive holds.

        Args:
            held: the intervals of each group.
            digested: the place up to which there are digests, of each group.
            whole: digests of ranges that have ended, which are new.
            still_open: digests of the ranges in which more may come.
        """
        self._held = {group: tuple(intervals) for group, intervals in held.items()}
        self._digested = dict(digested)
        for group, at, digest in whole:
            self._whole.setdefault(group, {})[at] = digest
            if self._holds(group, at.first, at.last):
                self._new.append(_claim(group, at, digest, is_whole=True))
        self._open = {group: (at, digest) for group, at, digest in still_open}
        for group, ranges in self._whole.items():
            first = self._held[group][0][0] if self._held.get(group) else None
            while ranges and (first is None or next(iter(ranges)).last <= first):
                del ranges[next(iter(ranges))]  # retention has removed it
        for (peer, group), known in self._peers.items():
            for claim in list(known.pending.values()):
                self._compare(peer, group, known, claim)

    def _holds(self, group: str, first: Position, last: Position) -> bool:
        return any(begin <= first and last <= end for begin, end in self._held.get(group, ()))

    # ---- the session ----

    def handle(self, event: object) -> None:
        """Handle an event of the session."""
        if isinstance(event, GroupView) and event.group == ARCHIVES:
            self._archives = event.members
            for key in [key for key in self._peers if key[0] not in event.members]:
                del self._peers[key]
        elif isinstance(event, Message) and event.sender != self._me:
            match decode_comparing_untrusted(event.data):
                case Claims(wants_all, claims) if event.sender in self._archives:
                    for claim in claims:
                        self._on_claim(event.sender, claim)
                    if wants_all:
                        self._send_claims(event.sender.name, self._all())
                case Ask(number, groups):
                    self._send(event.sender.name, self._report(number, groups))
                case _:
                    pass

    def is_archive(self, member: MemberId) -> bool:
        """Return whether a session is one of the archives."""
        return member in self._archives

    def wake(self, now: float) -> None:
        """Send digests that are new to the others, now and then."""
        if not self.is_live or now < self._next_claim:
            return
        self._next_claim = now + CLAIM_S
        if not self._has_asked:
            self._has_asked = True
            self._new = self._all()
            self._send_claims(ARCHIVES, self._new, wants_all=True)
        else:
            for group, (at, digest) in self._open.items():
                if self._quiet.get(group) == (at, digest) != self._claimed.get(group):
                    self._claimed[group] = at, digest
                    if self._holds(group, at.first, digest.last):
                        self._new.append(_claim(group, at, digest, is_whole=False))
            if self._new:
                self._send_claims(ARCHIVES, self._new)
        self._new = []
        self._quiet = dict(self._open)

    def _all(self) -> list[Claim]:
        return [
            _claim(group, at, digest, is_whole=True)
            for group, ranges in self._whole.items()
            for at, digest in ranges.items()
            if self._holds(group, at.first, at.last)
        ] + [
            _claim(group, at, digest, is_whole=False)
            for group, (at, digest) in self._open.items()
            if self._holds(group, at.first, digest.last)
        ]

    def _send_claims(self, to: str, claims: Sequence[Claim], *, wants_all: bool = False) -> None:
        for start in range(0, max(1, len(claims)), CLAIMS):
            page = tuple(claims[start : start + CLAIMS])
            self._send(to, Claims(wants_all and not start, page))

    # ---- comparing ----

    def _on_claim(self, sender: MemberId, claim: Claim) -> None:
        if claim.group not in self._held:
            return
        known = self._peers.setdefault((sender, claim.group), _Peer())
        self._compare(sender, claim.group, known, claim)

    def _compare(self, peer: MemberId, group: str, known: _Peer, claim: Claim) -> None:
        """Compare a claim with what this archive has, as soon as it can."""
        at = Range(claim.view, claim.span)
        known.pending.pop(at, None)
        needed = at.last if claim.is_whole else claim.last
        digested = self._digested.get(group)
        if digested is None or digested < needed:
            if len(known.pending) < MOST_PENDING:
                known.pending[at] = claim
            return
        if not self._holds(group, at.first, needed):
            return
        own = self._whole.get(group, {}).get(at)
        if own is None and self._open.get(group, (None,))[0] == at:
            own = self._open[group][1]
        if own is None:
            own = Digest(0, at.first, b"")
        if not claim.is_whole and claim.last < own.last:
            return  # it is compared once it has ended there, too
        if (own.count, own.value) == (claim.count, claim.digest):
            known.upto = max(known.upto or own.last, own.last)
            known.same.add(at)
            known.differing.pop(at, None)
        elif at not in known.differing:
            known.differing[at] = None
            self._differences.append(
                Difference(
                    archive=peer.name,
                    group=group,
                    after=at.first,
                    upto=at.last,
                    own=own.count,
                    other=claim.count,
                )
            )

    def _report(self, number: int, groups: Collection[str]) -> Report:
        return Report(
            number,
            self.is_live,
            tuple(
                GroupReport(
                    group,
                    self._held[group],
                    self._digested.get(group),
                    tuple(
                        Compared(
                            peer.name,
                            known.upto,
                            len(known.same),
                            tuple((at.first, at.last) for at in known.differing)[:MOST_DIFFERING],
                        )
                        for (peer, of), known in self._peers.items()
                        if of == group
                    ),
                )
                for group in dict.fromkeys(groups)
                if group in self._held
            ),
        )

    # ---- output ----

    def pop_actions(self) -> list[Send]:
        """Remove and return the messages to send, in order."""
        actions, self._actions = self._actions, []
        return actions

    def pop_differences(self) -> list[Difference]:
        """Remove and return the differences that were found."""
        found, self._differences = self._differences, []
        return found

    def _send(self, to: str, frame: Comparing) -> None:
        self._actions.append(Send(to, encode_comparing(frame), ServiceLevel.FIFO))


def _claim(group: str, at: Range, digest: Digest, *, is_whole: bool) -> Claim:
    return Claim(group, at.view, at.span, is_whole, digest.count, digest.last, digest.value)
