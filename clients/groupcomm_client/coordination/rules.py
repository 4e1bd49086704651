"""The rules of a group: its members tell each other theirs, as one that has others is a fault.

Pure. A member tells its rules when it joins, when parts of the network meet, and once to each that
has said others. Members of releases before this tell none, and are not judged.
"""

import msgspec

from groupcomm.errors import GroupCommError
from groupcomm.events import Cause, GroupView, MemberId, Message
from groupcomm_client.events import Received
from groupcomm_client.undecodable import UNDECODABLE


class RulesDiffer(GroupCommError):
    """Raised if other members of a group have other rules, such as another form of a mutex."""


class Rules(msgspec.Struct, frozen=True, tag="rules", array_like=True):
    """The rules of one member of a mutex, as a message to the group.

    Attributes:
        form: the name of its form.
        programs: the number of programs that it counts with; None for daemons.
    """

    form: str
    programs: int | None

    def __str__(self) -> str:
        return f"form={self.form!r}, programs={self.programs}"


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(Rules)


class SameRules:
    """What one member knows of the rules of the others.

    Args:
        me: its session.
        group: the group.
        mine: its rules.
    """

    def __init__(self, me: MemberId, group: str, mine: Rules) -> None:
        self._me = me
        self._group = group
        self._mine = mine
        self._others: dict[MemberId, Rules] = {}  # the members with other rules

    def handle(self, event: Received) -> list[bytes]:
        """Handle one event; return messages to the group."""
        if isinstance(event, GroupView) and event.group == self._group:
            members = frozenset(event.members)
            self._others = {who: said for who, said in self._others.items() if who in members}
            news = event.own or (event.cause is Cause.NETWORK and members != set(event.vs_set))
            return [_encoder.encode(self._mine)] if news and self._me in members else []
        if isinstance(event, Message) and self._group in event.groups:
            said = _decode_untrusted(event.data)
            if said is not None and said != self._mine and event.sender not in self._others:
                self._others[event.sender] = said
                return [_encoder.encode(self._mine)]
        return []

    def error(self) -> RulesDiffer | None:
        """Return the error if a member has other rules."""
        for who, said in self._others.items():
            return RulesDiffer(
                f"{who} is in the group {self._group!r} with {said}, and this program with"
                f" {self._mine}: nobody could rely on the mutex. Give the same form and programs to"
                " join_mutex and keep_resource in all programs of the group"
            )
        return None


def _decode_untrusted(data: bytes) -> Rules | None:
    try:
        return _decoder.decode(data)
    except UNDECODABLE:
        return None
