"""One replica of a state machine: applies the commands of a group in their agreed order.

Pure: events of a connection in, actions out. All replicas that have the same state (*holders*) see
    the same commands, joins and leaves in the same order, so they stay equal without further
    messages. Messages are needed when others come:

- A replica that *joins* has no state. The first of the holders sends a snapshot as of the join; the
  joiner keeps the messages ordered after that place until the snapshot is there.
- After a *merge* states may differ. Holders that are more than half of all replicas continue, since
  no others can have continued without them, and send a snapshot to the others. Else all settle: the
  first of each set of holders claims which state they have, and once enough claims have been
  delivered the latest state wins. A majority of all replicas has applied every command that was
  answered, so the latest claim of any majority has it (quorum intersection: Gifford, "Weighted
  voting for replicated data", SOSP 1979). All decide alike, because claims are ordered with all
  else.
- Where states can be merged, a claim only says what a state has. Once there is one of every state,
  each part of a state that others lack is sent by the first of the replicas that have it, in
  pieces; when the last of them is delivered, all make one state of the claims and the pieces.

Claims, pieces and snapshots are sent in parts, one after the other (`parts`), so that neither
daemons nor commands wait for a large state.

Source: Schneider, "Implementing fault-tolerant services using the state machine approach", ACM
Computing Surveys 22(4), 1990; state transfer at views after Birman and Joseph, "Exploiting virtual
synchrony in distributed systems", SOSP 1987.
"""

import enum
from collections.abc import Collection, Iterable, Sequence
from typing import Protocol, TypeAlias, runtime_checkable

import attrs
import msgspec

from groupcomm.clocks.stamp import Position, ViewId
from groupcomm.errors import GroupCommError
from groupcomm.events import Cause, DaemonView, GroupView, MemberId, Message
from groupcomm.level import ServiceLevel
from groupcomm_client.coordination.limits import check_data, text_of
from groupcomm_client.coordination.parts import MOST_STATE_BYTES, PartReceiver, PartSender
from groupcomm_client.coordination.place import Place
from groupcomm_client.coordination.replica_messages import (
    Claim,
    Command,
    NoSnapshot,
    Part,
    Piece,
    ReplicaMessage,
    Snapshot,
    decode_untrusted,
    encode,
)
from groupcomm_client.events import Received

_NOWHERE = Position(ViewId(0, "", 0), 0, 0, 0, 0)


class StateUnavailable(GroupCommError):
    """Raised if a replica has joined, and none that has the state could give it."""


class StateMachine(Protocol):
    """The replicated object. It must depend on nothing but the calls it gets, and must not
    raise.

    An error of `apply`, `members_changed` or `restore` ends this replica's block, and no other one:
    its state may be half of one. An error of `snapshot` ends only the replica that needs the state,
    with `StateUnavailable`, after all that have it have tried.
    """

    def apply(self, command: bytes, sender: MemberId) -> object:
        """Carry out a command; the replica that has submitted it gets the result."""

    def members_changed(self, members: tuple[MemberId, ...]) -> None:
        """Note the replicas that are present from here on, in the order of their joins."""

    def snapshot(self) -> bytes:
        """Return the whole state, up to 127 MiB."""

    def restore(self, state: bytes) -> None:
        """Adopt a state that another replica's `snapshot` returned."""


class Step(msgspec.Struct, frozen=True, gc=False):
    """One input of a mergeable machine; all replicas with one state get the same ones.

    Attributes:
        at: its place in the agreed order; that of a view of daemons precedes all others of it.
        what: a view of the replicas' group, a message to one of the `inputs`, or a command.
        sender: the replica that has submitted a command; None for others.
        transitional: whether replicas that do not come along to the next view may lack it.
        majority: whether its daemons are more than half of all; None if that is unknown.
        number: the number of a command at its replica.
    """

    at: Position
    what: GroupView | Message | bytes
    sender: MemberId | None
    transitional: bool
    majority: bool | None
    number: int = 0


@runtime_checkable
class MergeableMachine(Protocol):
    """A replicated object whose states can be merged. It depends on nothing but its calls, and
    must not raise.

    States are merged in an exchange: `claim` at all, then `compare` with the claims, then `missing`
    at some and `add` at all, until nothing `is_missing`; then `merge`.
    """

    def step(self, step: Step) -> object:
        """Carry out one input; the replica that has submitted a command gets the result."""

    def snapshot(self) -> bytes:
        """Return the whole state, up to 127 MiB."""

    def restore(self, state: bytes) -> None:
        """Adopt a state that another replica's `snapshot` returned."""

    def claim(self) -> bytes:
        """Return what this state has, without its data; added pieces included."""

    def compare(self, claims: Sequence[Claim]) -> None:
        """Begin an exchange between states that have claimed this, in the same order at all."""

    def missing(self, mine: int, present: Collection[int]) -> list[bytes]:
        """Return the pieces to be sent by the replicas with this state.

        Args:
            mine: the place of this state among the claims.
            present: the places of the states that are still there.
        """

    def is_missing(self, present: Collection[int]) -> bool:
        """Return whether a present state lacks something that another one of them has, and that
        was not added yet."""

    def add(self, piece: bytes) -> None:
        """Keep a piece, also if this exchange fails, until a state is adopted."""

    def merge(self) -> None:
        """Adopt the one state that is made of all claims and pieces; all make the same one."""


class Plain:
    """A `StateMachine` that gets steps."""

    def __init__(self, machine: StateMachine) -> None:
        self._machine = machine
        self.snapshot = machine.snapshot
        self.restore = machine.restore

    def step(self, step: Step) -> object:
        """See `MergeableMachine`."""
        if isinstance(step.what, GroupView):
            self._machine.members_changed(step.what.members)
            return None
        assert isinstance(step.what, bytes), "a plain machine has no inputs"
        assert step.sender is not None
        return self._machine.apply(step.what, step.sender)


class Status(enum.Enum):
    """The status of a replica's state, compared with that of the group."""

    SETTLING = enum.auto()  # the state may be out of date; no command is applied to it
    CURRENT = enum.auto()


@attrs.frozen
class Send:
    """An action: multicast this to the group, AGREED."""

    data: bytes


@attrs.frozen
class Done:
    """An action: a command of this replica was applied, and stays so.

    Attributes:
        number: the number of the command.
        result: the result of the state machine.
    """

    number: int
    result: object


@attrs.frozen
class Unknown:
    """An action: nobody can know whether the group's state has a command of this replica."""

    number: int


Action: TypeAlias = Send | Done | Unknown


class Replica:
    """One replica: call `handle` for every event; carry out the actions it returns, in order.

    Attributes:
        status: whether the state is up to date.
        holders: the replicas that have the same state, this one included.
        view: the view of the group; None before the first.
        as_of: the place of the last message that was applied; None without any state.
    """

    def __init__(
        self,
        me: MemberId,
        group: str,
        machine: StateMachine | MergeableMachine,
        *,
        replicas: int | None = None,
        inputs: frozenset[str] = frozenset(),
        as_of: Position | None = None,
        needs_majority: bool = False,
    ) -> None:
        """Begin before the first view of the group.

        Args:
            me: this replica's session, which joins `group` and sends nothing else to it.
            group: a group of all replicas, and of nobody else.
            machine: a new state machine, or one that an earlier session of this program has left.
            replicas: the number of replicas, absent ones included: then more than half of them must
                be together to continue. None: each part of a partition continues by itself, and
                when parts meet again all but one of their states are lost, unless the machine is
                mergeable.
            inputs: groups that this replica has joined before; a mergeable machine gets their
                AGREED and SAFE messages.
            as_of: the place of the last message that the machine has applied in an earlier session;
                None for a new one. It counts like the state of a part of the network.
            needs_majority: whether a part whose daemons are known to be less than half of all does
                not continue: then no state that was made there wins over that of the others.
        """
        self._merging = machine if isinstance(machine, MergeableMachine) else None
        self._machine = self._merging or Plain(machine)  # type: ignore[arg-type]  # the other one
        self._inputs = inputs
        self._majority: bool | None = None
        self.status = Status.SETTLING
        self.holders: frozenset[MemberId] = frozenset((me,))
        self.view: GroupView | None = None
        self.as_of: Position | None = as_of
        self._me = me
        self._group = group
        self._replicas = replicas
        self._needs_majority = needs_majority
        self._quorum = 0 if replicas is None else replicas // 2 + 1
        self._numbers = 0
        self._actions: list[Action] = []
        self._place = Place(me, group)
        self._held: list[Done] = []  # commands that are applied, but perhaps not for good
        # While it settles:
        self._since = _NOWHERE  # the backlog has all messages ordered after this position
        self._backlog: list[Step] = []
        self._exchange = _NOWHERE
        self._claims: dict[MemberId, Claim] = {}
        self._compared: list[Claim] | None = None  # all claims, once the machine compares them
        self._winners: frozenset[MemberId] | None = None
        self._spokesman: MemberId | None = None  # of the snapshot that some wait for
        self._unable: frozenset[MemberId] = frozenset()  # holders that could not give the state
        self._sender, self._receiver = PartSender(), PartReceiver()

    @property
    def has_quorum(self) -> bool:
        """Return whether enough replicas have this state that it will outlast all others."""
        if self._place.is_transitional or self.status is not Status.CURRENT:
            return False
        return len(self.holders) >= self._quorum

    def command(self, data: bytes) -> tuple[int, bytes]:
        """Number a command; return the message to multicast, AGREED or SAFE."""
        self._numbers += 1
        return self._numbers, encode(Command(self._numbers, data))

    def handle(self, event: Received) -> list[Action]:
        """Handle one event; return the actions, in order.

        Raises:
            StateUnavailable: no replica could give its state to this one.
            Exception: the machine's own, but of its `snapshot`; this replica is over then.
        """
        self._place.note(event)
        match event:
            case GroupView() if event.group == self._group and self._me in event.members:
                self._on_view(event)
            case Message() if self._group in event.groups and event.position is not None:
                self._on_message(event, event.position)
            case Message() if self._inputs and not self._inputs.isdisjoint(event.groups):
                self._on_input(event)
            case DaemonView():
                self._majority = event.majority
            case _:
                pass
        self._actions += map(Send, self._sender.pop())
        actions, self._actions = self._actions, []
        return actions

    # ---- views ----

    def _on_view(self, view: GroupView) -> None:
        before, self.view = self.view, view
        if view.cause is Cause.NETWORK:
            self.holders &= frozenset(view.vs_set)
            self._receiver.clear()
        self.holders &= frozenset(view.members)
        if self.status is Status.CURRENT:
            if self._may_go_on(view):
                self._go_on(view)
            else:
                self._enter_settling(view)
        elif before is None or view.cause is Cause.NETWORK:
            self._enter_settling(view)
        else:
            self._settle_on(view)

    def _may_go_on(self, view: GroupView) -> bool:
        """Return whether no replica in the view can have a later state than the holders."""
        if view.cause is not Cause.NETWORK:
            return True  # a replica that joins has none
        if self._is_minor:
            return False
        if self._replicas is not None:
            return len(self.holders) >= self._quorum
        return self.holders == frozenset(view.members)

    @property
    def _is_minor(self) -> bool:
        return self._needs_majority and self._majority is False

    def _go_on(self, view: GroupView) -> None:
        self._apply(self._step_of(view))
        if view.cause is Cause.JOIN and self._merging is not None:
            self._since = view.id  # others that settle do so anew: earlier snapshots do not help
        if view.cause in (Cause.JOIN, Cause.NETWORK) or self._spokesman not in view.members:
            self._bring_up_to_date(view)
        self._release()

    def _enter_settling(self, view: GroupView) -> None:
        self._since = view.id
        if self._merging is None:
            self._lose(self._backlog)
        else:
            self._apply_backlog()
        self.status = Status.SETTLING
        self._backlog = [self._step_of(view)]
        self._begin_exchange(view)

    def _apply_backlog(self) -> None:
        """Bring the state up to the present place, so that a claim has all that came so far."""
        known = self.as_of
        self._catch_up(_NOWHERE)
        if known is None:
            self.as_of = None  # what came before this replica's join is missing

    def _settle_on(self, view: GroupView) -> None:
        """Continue to compare states after a replica has come or gone."""
        if self._merging is not None and view.cause is Cause.JOIN:
            self._enter_settling(view)  # claims are as of the view with which the newcomer begins
            return
        self._backlog.append(self._step_of(view))
        if self._compared is not None:
            self._send_missing(view)
            self._merge_if_whole(view, view.id)
        elif self._winners is not None:
            if not self._winners.isdisjoint(view.members):
                return  # their snapshot is in flight
            self._begin_exchange(view)
        elif view.cause is Cause.JOIN:
            self._begin_exchange(view)
        else:
            self._claim(view)
            self._decide(view, view.id)

    # ---- the choice of a state ----

    def _begin_exchange(self, view: GroupView) -> None:
        self._exchange = view.id
        self._claims, self._compared = {}, None
        self._winners = None
        self._claim(view)

    def _claim(self, view: GroupView) -> None:
        """Claim the state of the holders, if it is this replica's turn and nobody has."""
        spoken = any(self._me in claim.holders for claim in self._claims.values())
        if self._speaks(view) and not spoken:
            holders = tuple(sorted(self.holders))
            state = None if self._merging is None else self._merging.claim()
            self._sender.clear()
            self._sender.post(Claim(self._exchange, holders, self.as_of, state))

    def _speaks(self, view: GroupView) -> bool:
        return self._me == next(member for member in view.members if member in self.holders)

    def _on_claim(self, view: GroupView, sender: MemberId, claim: Claim, at: Position) -> None:
        if self.status is Status.CURRENT:
            return  # the snapshot that it asks for is in flight, or will be
        if claim.exchange == view.id != self._exchange and self._merging is None:
            self._begin_exchange(view)  # all winners have gone; this replica did not know of them
        decided = self._winners is not None or self._compared is not None
        if claim.exchange == self._exchange and not decided:
            self._claims[sender] = claim
            self._decide(view, at)

    def _decide(self, view: GroupView, at: Position) -> None:
        """Choose the state to continue with, once no better one can turn up."""
        if self._is_minor:
            return
        members = frozenset(view.members)
        covered: set[MemberId] = set()
        with_state: set[MemberId] = set()
        for claim in self._claims.values():
            present = members.intersection(claim.holders)
            covered |= present
            if claim.version is not None:
                with_state |= present
        all_there = covered == members and len(members) >= (self._replicas or 0)
        if self._merging is not None:
            if all_there:
                self._compare(self._merging, view, at)
            return
        enough = self._replicas is not None and len(with_state) >= self._quorum
        if all_there or enough:
            best = max(self._claims.values(), key=lambda claim: _rank(view, claim))
            self._winners = members.intersection(best.holders)
            if self._me in self._winners:
                self._win(view, self._winners, at)

    def _win(self, view: GroupView, winners: frozenset[MemberId], at: Position) -> None:
        self.holders = winners
        self._catch_up(_NOWHERE)
        self.as_of = at
        self._bring_up_to_date(view)
        self._release()

    # ---- the one state that is made of several ----

    def _compare(self, machine: MergeableMachine, view: GroupView, at: Position) -> None:
        """Compare all claims, those of whoever has gone since included."""
        claims = sorted(self._claims.values(), key=lambda claim: claim.version is None)
        self._compared = claims
        machine.compare(claims)
        self._send_missing(view)
        self._merge_if_whole(view, at)

    def _present(self, view: GroupView) -> dict[int, MemberId]:
        """Return by place among the claims who speaks for a state, if anybody there has it."""
        assert self._compared is not None
        found: dict[int, MemberId] = {}
        rest = list(view.members)
        for place, claim in enumerate(self._compared):
            there = [member for member in rest if member in claim.holders]
            if there:
                found[place] = there[0]
                rest = [member for member in rest if member not in claim.holders]
        return found

    def _send_missing(self, view: GroupView) -> None:
        """Send what others lack, if it is this replica's turn."""
        present = self._present(view)
        assert self._merging is not None
        self._sender.clear()
        for place, speaker in present.items():
            if speaker == self._me:
                for piece in self._merging.missing(place, present):
                    self._sender.post(Piece(self._exchange, piece))

    def _on_piece(self, view: GroupView, piece: Piece, at: Position) -> None:
        if self._merging is None or self._compared is None or piece.exchange != self._exchange:
            return
        self._merging.add(piece.data)
        self._merge_if_whole(view, at)

    def _merge_if_whole(self, view: GroupView, at: Position) -> None:
        """Continue with one state made of all, once everybody has what any of those there has."""
        assert self._merging is not None
        if self._merging.is_missing(self._present(view)):
            return
        self._merging.merge()
        self._compared = None
        self._sender.clear()
        self.holders = frozenset(view.members)
        self._catch_up(_NOWHERE)
        self.as_of = at
        self._release()

    # ---- snapshots ----

    def _bring_up_to_date(self, view: GroupView) -> None:
        """Have the first of the holders send the state, if a replica lacks it."""
        self._unable = frozenset()
        self._spokesman = next(member for member in view.members if member in self.holders)
        if self._spokesman == self._me and self.holders != frozenset(view.members):
            self._send_state(view)

    def _send_state(self, view: GroupView) -> None:
        """Send the state, or that its machine does not give it: that ends no replica that has it.

        The next one of the holders tries then.
        """
        assert self.as_of is not None
        self._sender.clear()
        try:
            state = self._machine.snapshot()
            check_data("the snapshot", state, MOST_STATE_BYTES)
        except Exception as error:  # the machine's own
            others = self.holders.intersection(view.members) - self._unable - {self._me}
            self._sender.post(NoSnapshot(self.as_of, text_of(error), not others))
        else:
            self._sender.post(Snapshot(self.as_of, view.members, state))

    def _on_no_snapshot(self, view: GroupView, sender: MemberId, found: NoSnapshot) -> None:
        if found.as_of.view != view.id.view or found.as_of < self._since:
            return  # it was for earlier newcomers
        if self.status is not Status.CURRENT:
            if found.is_last:
                raise StateUnavailable(
                    f"no replica of {self._group} can give its state; {sender.name} says:"
                    f" {found.why}. Repair snapshot() there, then join again"
                )
            return
        self._unable |= {sender}
        able = [each for each in view.members if each in self.holders - self._unable]
        self._spokesman = able[0] if able else None
        if self._spokesman == self._me and self.holders != frozenset(view.members):
            self._send_state(view)

    def _on_snapshot(self, view: GroupView, snapshot: Snapshot) -> None:
        if snapshot.as_of.view != view.id.view:
            return  # an earlier view of daemons: a replica without the state was heard since
        if snapshot.as_of < self._since:
            return  # messages ordered in between are missing here; another snapshot will come
        if self.status is not Status.CURRENT:
            self._machine.restore(snapshot.state)
            self._lose(step for step in self._backlog if step.at <= snapshot.as_of)
            self._actions += [Unknown(done.number) for done in self._held]
            self._held = []
            self.as_of = snapshot.as_of
            self._catch_up(snapshot.as_of)
            self._spokesman = None
        self.holders = frozenset(snapshot.members) & frozenset(view.members)
        self._release()

    # ---- commands ----

    def _on_message(self, message: Message, at: Position) -> None:
        found, view = decode_untrusted(message.data), self.view
        if view is None or message.sender not in view.members:
            return  # any program can send to a group; only replicas know the state
        if message.sender == self._me and not isinstance(found, Command):
            self._sender.delivered()
        if isinstance(found, Part):
            found = self._receiver.accept(message.sender, found)
        self._on_found(view, message, found, at)

    def _on_found(
        self, view: GroupView, message: Message, found: ReplicaMessage | None, at: Position
    ) -> None:
        if isinstance(found, Claim):
            self._on_claim(view, message.sender, found, at)
        elif isinstance(found, Piece):
            self._on_piece(view, found, at)
        elif isinstance(found, Snapshot):
            self._on_snapshot(view, found)
        elif isinstance(found, NoSnapshot):
            self._on_no_snapshot(view, message.sender, found)
        elif isinstance(found, Command):
            self._accept(
                Step(
                    at,
                    found.data,
                    message.sender,
                    self._place.is_transitional,
                    self._majority,
                    found.number,
                )
            )

    def _on_input(self, message: Message) -> None:
        at = message.position
        if self.view is not None and at is not None and message.level >= ServiceLevel.AGREED:
            self._accept(Step(at, message, None, self._place.is_transitional, self._majority))

    def _step_of(self, view: GroupView) -> Step:
        return Step(view.id, view, None, self._place.is_transitional, self._majority)

    def _accept(self, step: Step) -> None:
        if self.status is Status.CURRENT:
            self._apply(step)
        else:
            self._backlog.append(step)

    def _apply(self, step: Step) -> None:
        self.as_of = step.at
        result = self._machine.step(step)
        if step.sender == self._me:
            self._held.append(Done(step.number, result))
            self._release()

    def _catch_up(self, after: Position) -> None:
        """Apply the backlog after a place: from there on the state is up to date."""
        self.status = Status.CURRENT
        backlog, self._backlog = self._backlog, []
        for step in backlog:
            if step.at > after:
                self._apply(step)

    def _release(self) -> None:
        """Report own commands that were applied, if that will not be undone."""
        if self.has_quorum:
            self._actions += self._held
            self._held = []

    def _lose(self, steps: Iterable[Step]) -> None:
        """Report own commands of which nobody knows whether they are in the state."""
        self._actions += [Unknown(step.number) for step in steps if step.sender == self._me]


def _rank(view: GroupView, claim: Claim) -> tuple[bool, bool, Position, int]:
    """Return the rank of a claim: the latest state that is still there, else the oldest one's."""
    there = [place for place, member in enumerate(view.members) if member in claim.holders]
    version = claim.version or _NOWHERE
    return bool(there), claim.version is not None, version, -min(there, default=0)
