"""Short forms of messages: digests in place of what most receivers know already.

Pure. ``now`` is in seconds. Beacons and joins list all daemons that are heard, and commits have the
whole proposal: with N daemons N**3 bytes a round. Those who hear each other know the same daemons,
so a digest of the list, with a bit for each daemon, tells it; and most compute the same proposal.
Who cannot make a list or a proposal out of a digest asks its sender for the message in full.

More than a few daemons use short forms, while all that are there understand them, are heard, and do
not say that they do not hear this one: an answer has to arrive. Otherwise all is said in full, and
a join also while some of them do not hear each other: they would have to ask, and a view is sought.
"""

from collections.abc import Callable
from contextlib import suppress
from typing import Final

import attrs
from msgspec import structs

from groupcomm.config.core import CoreConfig
from groupcomm.config.shared import must_equal
from groupcomm.config.versions import DIGESTS
from groupcomm.config.view import Incarnation
from groupcomm.errors import RemoteProtocolError
from groupcomm.membership.failure_detector import FailureDetector
from groupcomm.membership.pace import are_few, paced
from groupcomm.membership.peer import PeerDaemon
from groupcomm.names import daemon_number
from groupcomm.wire.membership import (
    Ask,
    Beacon,
    Commit,
    ControlKind,
    ControlMessage,
    Heard,
    Join,
    Proposal,
    ShortBeacon,
    ShortCommit,
    ShortJoin,
    digest_of,
)

Accept = Callable[[PeerDaemon, ControlMessage, int, bool, float], None]
"""Accepts a message: (its origin, the message, its sequence, whether it came directly, now)."""

MOST_PROPOSALS: Final = 16

MOST_LISTS: Final = 128
"""The lists of heard daemons that are kept; most daemons of a site say one and the same."""

ASK_INTERVAL_S: Final = 0.002
"""The least time between two questions to one daemon for one kind, and between two answers."""


@attrs.frozen
class LateCommit:
    """A commit to a proposal that is not known here yet."""

    incarnation: Incarnation
    message: ShortCommit
    sequence: int
    direct: bool

    def to(self, proposal: Proposal) -> Commit:
        """Return it in full."""
        said = self.message
        return Commit(said.attempt, proposal, said.recovered, said.installed, said.missing)


class ShortForms:
    """What one daemon knows by digests.

    Args:
        config: the settings.
        detector: knows the other daemons.
        own_proposal: returns the proposal of this daemon at a time, while it looks for one.
        latest: returns the latest message of this daemon of a kind, by its number, at a time.
    """

    __slots__ = (
        "_asked",
        "_detector",
        "_kept",
        "_late",
        "_latest",
        "_latest_lists",
        "_lists",
        "_own_proposal",
        "_places",
        "_proposals",
        "_reads",
        "_relayed",
        "_repeat_s",
        "_said",
        "_says",
        "_unclear",
    )

    def __init__(
        self,
        config: CoreConfig,
        detector: FailureDetector,
        own_proposal: Callable[[float], Proposal | None],
        latest: Callable[[int, float], ControlMessage | None],
    ) -> None:
        self._detector = detector
        self._own_proposal = own_proposal
        self._latest = latest
        self._proposals: dict[bytes, Proposal] = {}
        self._kept: tuple[Proposal, bytes] | None = None  # the last one, and its digest
        self._late: dict[int, LateCommit] = {}
        self._lists: dict[bytes, Heard] = {}  # the last lists that were told, by their digests
        self._latest_lists: dict[int, tuple[bytes, Heard]] = {}  # of each daemon, without it
        self._asked: dict[tuple[int, int], float] = {}
        self._unclear: dict[int, ShortJoin] = {}  # latest joins whose lists could not be told
        self._said: bytes = b""  # the proposal of the last commit of this daemon
        self.use_config(config)

    def use_config(self, config: CoreConfig) -> None:
        """Number the daemons of these settings from now on."""
        self._reads = bool(config.versions.features & DIGESTS)
        self._says = self._reads and not are_few(config)
        self._relayed, self._repeat_s = config.has_relays, paced(config).repeat_s
        numbers = sorted(daemon_number(name) for name in config.daemons)
        self._places = {number: place for place, number in enumerate(numbers)}
        self._latest_lists.clear()

    # ---- messages of this daemon ----

    def shorten(self, message: Beacon | Join | Commit, now: float) -> ControlMessage:
        """Return the form in which to send a message to all now.

        The daemon that a proposal lists first says it in full once, for those that have another.
        """
        if self._relayed and isinstance(message, Join):
            return message  # most lists have the site alone, and few could tell the others
        if self._relayed and isinstance(message, Commit):
            return self._short_commit(message)
        if not self._says or not self._detector.all_read(DIGESTS, now):
            return message
        if isinstance(message, Commit):
            return self._short_commit(message)
        if isinstance(message, Join) and not self._detector.all_mutual(message.heard, now):
            return message  # who does not hear all of them cannot tell the list
        return self._with_digest(message)

    def _with_digest(self, message: Beacon | Join) -> ControlMessage:
        present = tuple(sorted((*message.heard, self._detector.key)))
        try:
            bits = sum([1 << self._places[number] for number, _ in present])
        except KeyError:
            return message  # it hears a daemon that the settings do not have
        found = bits.to_bytes((len(self._places) + 7) // 8, "little")
        rest = structs.replace(message, heard=())
        if isinstance(rest, Join):
            return ShortJoin(found, digest_of(present), rest)
        return ShortBeacon(found, digest_of(present), rest)

    def _short_commit(self, commit: Commit) -> ControlMessage:
        digest = self._keep(commit.proposal)
        is_first, self._said = digest != self._said, digest
        if is_first and commit.proposal.seats[0].number == self._detector.key[0]:
            return commit
        flags = commit.recovered, commit.installed
        return ShortCommit(commit.attempt, digest, *flags, commit.missing)

    # ---- messages of others ----

    def restore(
        self, peer: PeerDaemon, message: ControlMessage, sequence: int, direct: bool, now: float
    ) -> ControlMessage | None:
        """Return a message in full.

        A join or a beacon whose digest says nothing here counts with the daemons that its sender
        heard before, until the answer comes.

        Returns:
            None for a question, which is answered, for a commit to a proposal that is not known
            here yet (see `release`), and for all that this daemon's release does not have.
        """
        if not self._reads and isinstance(message, ShortJoin | ShortBeacon | ShortCommit | Ask):
            return None
        match message:
            case ShortJoin():
                return self._restore_join(peer, message, now)
            case ShortBeacon():
                return self._restore_beacon(peer, message, now)
            case ShortCommit():
                late = LateCommit(peer.incarnation, message, sequence, direct)
                return None if peer.differs else self._commit(peer, late, now)
            case Ask(kind=kind):
                full = self._latest(kind, now)
                if full is not None and peer.name is not None and self._may(peer, kind, now):
                    self._detector.send_to(peer.name, full)
                return None
            case Join():
                self._unclear.pop(peer.number, None)
            case _:
                pass  # it has no short form, or came in full
        return message

    def _restore_join(self, peer: PeerDaemon, short: ShortJoin, now: float) -> Join:
        known, join = peer.join, short.join
        heard = self._heard(peer, short.present, short.digest, join.digests)
        if heard is not None:
            self._unclear.pop(peer.number, None)
            return structs.replace(join, heard=heard)
        if peer.number in self._unclear:
            self._ask(peer, ControlKind.JOIN, now)
        self._unclear[peer.number] = short
        is_same = known is not None and known.attempt == join.attempt
        return structs.replace(join, heard=known.heard if known is not None and is_same else ())

    def _restore_beacon(self, peer: PeerDaemon, short: ShortBeacon, now: float) -> Beacon:
        heard = self._heard(peer, short.present, short.digest, short.beacon.digests)
        if heard is None:
            self._ask(peer, ControlKind.BEACON, now)
            heard = () if peer.beacon is None else peer.beacon.heard
        return structs.replace(short.beacon, heard=heard)

    def clear_up(self) -> None:
        """Tell the lists of joins that name daemons which are heard only now.

        Daemons that start together hear each other in any order.
        """
        for number, said in list(self._unclear.items()):
            peer = self._detector.peers[number]
            join = peer.join
            heard = self._heard(peer, said.present, said.digest, said.join.digests)
            if heard is None and join is not None and join.attempt == said.join.attempt:
                continue
            del self._unclear[number]
            if heard is not None and join is not None and join.attempt == said.join.attempt:
                peer.join = structs.replace(join, heard=heard)

    def _heard(
        self, peer: PeerDaemon, present: bytes, digest: bytes, digests: bytes
    ) -> Heard | None:
        """Return the daemons that another one hears; None if they cannot be told."""
        own = self._detector.comparison.digests
        if digests != own and must_equal(digests) != must_equal(own):
            return ()  # its daemons have other places, and nothing that it says counts
        known = self._latest_lists.get(peer.number)
        if known is not None and known[0] == digest:
            return known[1]  # the usual case
        bits = int.from_bytes(present, "little")
        if bits >> len(self._places):
            return None
        found = self._lists.get(digest)  # those who hear each other have one list
        if found is None:
            found = self._list(bits)
            if digest_of(found) != digest:
                return None
            if len(self._lists) == MOST_LISTS:
                self._lists.clear()
            self._lists[digest] = found
        heard = tuple(each for each in found if each != peer.key)
        self._latest_lists[peer.number] = digest, heard
        return heard

    def _list(self, bits: int) -> Heard:
        """Return the daemons that have these places, as they are known here."""
        peers, me = self._detector.peers, self._detector.key
        said = zip(self._places, format(bits, "b")[::-1], strict=False)
        return tuple(
            me if number == me[0] else (number, peers[number].incarnation.random_id)
            for number, bit in said
            if bit == "1" and (number in peers or number == me[0])
        )

    def _commit(self, peer: PeerDaemon, late: LateCommit, now: float) -> Commit | None:
        digest = late.message.proposal
        if digest not in self._proposals and not self._is_awaited(digest):
            own = self._own_proposal(now)
            if own is not None:
                self._keep(own)
        proposal = self._proposals.get(digest)
        if proposal is not None:
            return late.to(proposal)
        before = self._late.get(peer.number)
        if before is None or not self._is_present(peer, before) or late.sequence > before.sequence:
            self._late[peer.number] = late
        self._ask_for_proposal(peer, now)
        return None

    def _ask_for_proposal(self, peer: PeerDaemon, now: float) -> None:
        """Ask for a proposal; where there are relays one of the site, if nobody sends it soon."""
        if not self._relayed:
            self._ask(peer, ControlKind.COMMIT, now)
        elif self._detector.is_near(peer.number):
            first_at = self._asked.setdefault((0, -ControlKind.COMMIT), now)
            if now >= first_at + self._repeat_s:
                self._asked[0, -ControlKind.COMMIT] = now
                self._ask(peer, ControlKind.COMMIT, now)

    def _is_awaited(self, digest: bytes) -> bool:
        return any(late.message.proposal == digest for late in self._late.values())

    @staticmethod
    def _is_present(peer: PeerDaemon, late: LateCommit) -> bool:
        return late.incarnation == peer.incarnation

    def release(self, proposal: Proposal, accept: Accept, now: float) -> None:
        """Note a proposal, and hand over the commits to it that have come before, once each."""
        digest = self._keep(proposal)
        for number, late in list(self._late.items()):
            peer = self._detector.peers[number]
            is_over = not self._is_present(peer, late)
            if is_over or late.message.proposal == digest:
                self._late.pop(number, None)
            if not is_over and late.message.proposal == digest:
                with suppress(RemoteProtocolError):  # who sent the proposal is not to blame
                    accept(peer, late.to(proposal), late.sequence, late.direct, now)

    def _keep(self, proposal: Proposal) -> bytes:
        """Note a proposal; of too many the one goes that was noted first. Return its digest."""
        if self._kept is not None and self._kept[0] is proposal:
            return self._kept[1]  # the usual case
        digest = digest_of(proposal)
        self._kept = proposal, digest
        self._proposals[digest] = proposal
        if len(self._proposals) > MOST_PROPOSALS:
            del self._proposals[next(iter(self._proposals))]
        return digest

    def forget(self) -> None:
        """Forget proposals and what was asked: another attempt begins."""
        self._proposals.clear()
        self._kept = None
        self._late.clear()
        self._asked.clear()
        self._said = b""

    # ---- questions and answers ----

    def _ask(self, peer: PeerDaemon, kind: ControlKind, now: float) -> None:
        if peer.name is not None and self._may(peer, -kind, now):
            self._detector.send_to(peer.name, Ask(int(kind)))

    def _may(self, peer: PeerDaemon, kind: int, now: float) -> bool:
        """Return whether to answer for a kind of messages now, or to ask (-kind), and note that."""
        at = self._asked.get((peer.number, kind))
        if at is not None and now < at + ASK_INTERVAL_S:
            return False
        self._asked[peer.number, kind] = now
        return True
