"""Targets in programs that are machines: the layers between a session and its program.

The first byte of an input is the level of a message, the rest are its data.
"""

from collections.abc import Mapping
from functools import lru_cache
from typing import Final

from groupcomm.clocks.stamp import Position, ViewId
from groupcomm.events import Cause, GroupView, MemberId, Message
from groupcomm.level import LEVELS
from groupcomm_client import filters
from groupcomm_client.end_to_end import SharedSecret
from groupcomm_client.events import Unfiltered
from groupcomm_client.filters.filtering import Filtering
from groupcomm_client.filters.roles import Outgoing
from tests.groupcomm_client.end_to_end.group_model import GROUP, GroupModel, Program
from tests.verification.campaigns.fuzz.checks import Target

INPUTS_EACH: Final = 1000
"""The inputs of one machine."""

ANN: Final = MemberId("#ann#a", 1)
BOB: Final = MemberId("#bob#a", 2)
_AT: Final = Position(ViewId(1, "a", 1), 1, 0, 0, 0)
_VIEW: Final = GroupView(
    group=GROUP,
    id=_AT,
    members=(ANN, BOB),
    cause=Cause.JOIN,
    changed=(ANN,),
    vs_set=(ANN,),
    own=True,
)


def message(sender: MemberId, raw: bytes) -> Message:
    """Return a message to the group."""
    level = LEVELS[raw[0] % len(LEVELS)] if raw else LEVELS[0]
    return Message(sender, 1, (GROUP,), level, 0, raw[1:], None)


class _Program:
    """Replaces a client protocol: a program that has opened a connection with filters."""

    def __init__(self) -> None:
        self.member = ANN
        self.groups: Mapping[str, GroupView] = {GROUP: _VIEW}
        self.is_open = True
        self.given: list[Message | Unfiltered] = []
        self.inputs = 0
        chosen = [filters.causal, filters.compression]
        self.filtering = Filtering(self, chosen, lambda: float(self.inputs))
        self.filtering.start()
        self.filtering.notified(_VIEW)

    def send_below(self, message: Outgoing, data: bytes) -> int:
        return 1

    def give(self, event: Message | Unfiltered) -> None:
        self.given.append(event)


_program = lru_cache(maxsize=1)(_Program)


def _filters(raw: bytes) -> None:
    """Check that the program gets a message once, or is told the reason, or that it waits for
    causes."""
    program = _program()
    program.inputs += 1
    if program.inputs >= INPUTS_EACH:
        _program.cache_clear()
    before = len(program.given)
    program.filtering.receive(message(BOB, raw))
    assert len(program.given) - before <= program.inputs
    program.given.clear()


class Members:
    """Two members of a group with a secret, which have its key."""

    def __init__(self, secret: bytes) -> None:
        self.world = GroupModel(1, lambda number: SharedSecret(secret))
        self.ann, self.bob = self.world.join(0), self.world.join(0)
        self.world.settle()
        self.inputs = 0

    def key(self, program: Program) -> object:
        return program.sealing._agreements[GROUP].keys.latest


@lru_cache(maxsize=1)
def _members() -> Members:
    return Members(b"s" * 32)


def _sealing(raw: bytes) -> None:
    """Nothing is believed that a daemon has made up, whomever it names as its sender."""
    members = _members()
    members.inputs += 1
    if members.inputs >= INPUTS_EACH:
        _members.cache_clear()
    ann = members.ann
    key = members.key(ann)
    ann.sealing.receive(message(members.bob.member, raw))
    assert not ann.texts()
    assert members.key(ann) == key
    ann.got.clear()


MACHINE_TARGETS: Final[dict[str, Target]] = {
    "client.filters.receive": _filters,
    "client.end_to_end.receive": _sealing,
}
