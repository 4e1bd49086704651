"""The output of one step of a daemon's core, and the loop of duties that every shell performs.

The fields of `Output` stand in the order in which their duties must be done. `DaemonCore.step`
fills in the duties that must not wait, `DaemonCore.deliver` the rest. So other daemons have their
datagrams before this one works out the deliveries to its own clients.

Daemon, simulator and tests all call `drive`. They differ in how a duty is performed, never in the
duties or in their order. A duty that takes long is only begun; its outcome is an input of a later
step.
"""

import enum
from collections.abc import Collection, Sequence
from typing import Protocol, TypeAlias

import attrs
import msgspec

from groupcomm.config.roster import Roster, RosterRecord
from groupcomm.engine.inputs import Input
from groupcomm.engine.news import News
from groupcomm.engine.segmentation import Segmentation
from groupcomm.security.identity import Roll
from groupcomm.security.keys import KeyRing

Transmission = tuple[str | None, bytes]
"""A sealed datagram and its target: a daemon's name, or None for all others of the site."""


@attrs.frozen
class StoreMark:
    """Write this mark of view counters to disk; answer with `MarkStored` or `MarkNotStored`."""

    mark: int


@attrs.frozen
class StoreKeys:
    """Write these keys to the key file; answer with `KeysStored`."""

    keys: KeyRing


@attrs.frozen
class StoreRoll:
    """Write the evicted identities to the identities' file; answer with `RollStored`."""

    roll: Roll


@attrs.frozen
class StoreRoster:
    """Write the rosters to disk; answer with `RosterStored` or `RosterNotStored`."""

    record: RosterRecord


Store: TypeAlias = StoreMark | StoreKeys | StoreRoll | StoreRoster


class EndReason(enum.Enum):
    """The way in which a start of a daemon ends."""

    LEFT = enum.auto()  # an operator stopped it, and it left in order
    CUT_SHORT = enum.auto()  # an operator stopped it, and an orderly leave took too long
    REMOVED = enum.auto()  # the cluster's roster does not have it any more


@attrs.frozen(kw_only=True)
class CoreOver:
    """The end of one start of a daemon.

    Attributes:
        end: the way in which it ends.
        unfinished: the duties that were not done in time; "" unless `end` is CUT_SHORT.
        roster: with REMOVED, the roster that does not have this daemon.
    """

    end: EndReason
    unfinished: str = ""
    roster: Roster | None = None


class Output(msgspec.Struct, eq=False):
    """The duties of the shell after one step of a core, in order.

    Attributes:
        roster: the roster that counts from now on, whose addresses datagrams go to; None while it
            stays.
        near: the daemons to which datagrams for the site go from now on; None while they stay.
        segmentation: the datagrams that go in segments from now on; None while that stays.
        store: writes to begin. No other duty waits for them: the core waits for the answer where it
            has to, and asks for no second write of a kind before it.
        datagrams: the datagrams to send now.
        rejected: the number of this step's datagrams that were dropped as invalid.
        dropped: the first of these, each with its reason (`Counters.latest`).
        news: entries for the log.
        greeted: connections that have sent their user's name.
        ready: connections with new output; see `DaemonCore.pop_output`.
        ended: connections to close once their output is written.
        readable: connections to read from again. After each `ClientBytes` nothing is read from the
            connection until it is named here.
        questions: the questions of connections about this daemon; answer each with
            `QuestionAnswered`.
        reports: the reports of daemons since the last step, by name, this one included.
        over: the way in which the daemon ended; None while it runs. It is set once. After LEFT
            and CUT_SHORT clients may still be served for a while.
    """

    datagrams: list[Transmission]
    roster: Roster | None = None
    near: frozenset[str] | None = None
    segmentation: Segmentation | None = None
    store: Sequence[Store] = ()
    rejected: int = 0
    dropped: Sequence[tuple[bytes, str]] = ()
    news: Sequence[News] = ()
    greeted: Sequence[int] = ()
    ready: Collection[int] = ()
    ended: Sequence[int] = ()
    readable: Sequence[int] = ()
    questions: Sequence[tuple[int, str]] = ()
    reports: Sequence[tuple[str, bytes]] = ()
    over: CoreOver | None = None


class Steppable(Protocol):
    """A core, as `drive` sees it: a `DaemonCore`."""

    def step(self, now: float, datagrams: Sequence[bytes], inputs: Sequence[Input]) -> Output:
        """Process everything that has arrived; return the duties of the shell."""

    def deliver(self) -> None:
        """Complete the output of the last step."""


class Shell(Protocol):
    """Performs the duties of one core."""

    def use_roster(self, roster: Roster) -> None:
        """Send to the daemons of this roster from now on."""

    def use_near(self, near: frozenset[str]) -> None:
        """Send datagrams for the site to these daemons from now on."""

    def use_segmentation(self, segmentation: Segmentation) -> None:
        """Cut these datagrams into segments from now on."""

    def store(self, wanted: Sequence[Store]) -> None:
        """Begin to write."""

    def send(self, output: Output) -> bool:
        """Send the datagrams, if there are any; return whether the daemon continues.

        A simulated daemon may have been killed in between.
        """

    def serve(self, output: Output) -> None:
        """Serve clients and write the log: every duty that `deliver` adds, except for the end."""

    def finish(self, over: CoreOver) -> None:
        """End, now or once work in progress is done."""


def drive(
    core: Steppable,
    shell: Shell,
    now: float,
    datagrams: Sequence[bytes],
    inputs: Sequence[Input],
) -> None:
    """Take one step with everything that has arrived, and have the shell perform its duties.

    Args:
        core: the daemon's core.
        shell: the shell of the same daemon.
        now: seconds of its monotonic clock, never less than before.
        datagrams: the received datagrams.
        inputs: all other events, in order.
    """
    output = core.step(now, datagrams, inputs)
    if output.roster is not None or output.near is not None:
        _use_daemons(shell, output)
    if output.segmentation is not None:
        shell.use_segmentation(output.segmentation)
    if output.store:
        shell.store(output.store)
    if not shell.send(output):
        return
    core.deliver()
    if output.roster is not None or output.near is not None:
        _use_daemons(shell, output)
    shell.serve(output)
    if output.over is not None:
        shell.finish(output.over)


def _use_daemons(shell: Shell, output: Output) -> None:
    """Have the shell send to other daemons from now on, if there are others."""
    roster, near = output.roster, output.near
    output.roster = output.near = None
    if roster is not None:
        shell.use_roster(roster)
    if near is not None:
        shell.use_near(near)
