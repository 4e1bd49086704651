"""The other members, as one peer knows them."""

from collections.abc import Iterable, Iterator

import attrs

from groupcomm_lessons.algorithms.direct.channel import Channel
from groupcomm_lessons.algorithms.direct.datagrams import (
    Bye,
    Contact,
    Joined,
    Payload,
    encode_payload,
)
from groupcomm_lessons.algorithms.direct.settings import Timing
from groupcomm_lessons.algorithms.process import Name


@attrs.define
class Other:
    """One other member.

    Attributes:
        contact: its name and address.
        channel: the channel to and from it.
        heard_at, sent_at: the times of the last datagram from it and to it; seconds.
        has_answered: whether an item has come on its channel.
        sponsor: the member that has welcomed it; "" if it is a founder.
        knows: the members that it has reported to know.
        done: the members of which it needs nothing more.
        bye: its leave, once it is about to leave.
        said_bye: whether it has said goodbye itself, after all its other items.
    """

    contact: Contact
    channel: Channel
    heard_at: float
    sent_at: float
    has_answered: bool = False
    sponsor: Name = ""
    knows: set[Name] = attrs.field(factory=set)
    done: set[Name] = attrs.field(factory=set)
    bye: Bye | None = None
    said_bye: bool = False

    @property
    def joined(self) -> Joined:
        """Return the message by which others learn of it."""
        return Joined(self.contact, self.sponsor, self.bye)

    def put(self, payload: Payload, *, in_order: bool = True) -> None:
        """Put something on the channel; see `Channel.put`."""
        self.channel.put(encode_payload(payload), in_order=in_order)


class Others:
    """All peers that this one has met, and those that were members once."""

    def __init__(self, timing: Timing) -> None:
        self._timing = timing
        self._found: dict[Name, Other] = {}
        self._gone: dict[Name, int | None] = {}  # names, and the incarnations if met

    def __iter__(self) -> Iterator[Other]:
        return iter(list(self._found.values()))

    def __contains__(self, name: Name) -> bool:
        return name in self._found

    def get(self, name: Name, incarnation: int) -> Other | None:
        """Return the member with this name and incarnation."""
        other = self._found.get(name)
        return other if other and other.contact.incarnation == incarnation else None

    def named(self, name: Name) -> Other | None:
        """Return the member with this name."""
        return self._found.get(name)

    def add(self, contact: Contact, now: float, sponsor: Name = "") -> Other:
        """Add a peer that was met."""
        other = Other(contact, Channel(self._timing), heard_at=now, sent_at=now, sponsor=sponsor)
        self._found[contact.name] = other
        return other

    def drop(self, name: Name) -> Other:
        """Drop a member."""
        other = self._found.pop(name)
        self._gone[name] = other.contact.incarnation
        return other

    def had_gone(self, names: Iterable[Name]) -> None:
        """Note members that had left before this peer came."""
        self._gone |= dict.fromkeys(names)

    def has_gone(self, name: Name, incarnation: int | None = None) -> bool:
        """Return whether a member was here once; with `incarnation`, exactly this start of it."""
        return name in self._gone and incarnation in (None, self._gone[name])

    @property
    def deadline(self) -> float | None:
        """Return the time at which a datagram to one of them is due, or one counts as gone."""
        found: list[float] = []
        for other in self:
            found.append(other.sent_at + self._timing.alive_s)
            found.append(other.heard_at + self._timing.silence_s)
            if other.channel.deadline is not None:
                found.append(other.channel.deadline)
        return min(found, default=None)

    @property
    def names(self) -> set[Name]:
        """Return the names of all present members."""
        return set(self._found)

    @property
    def contacts(self) -> tuple[Contact, ...]:
        """Return the contacts of all present members, by name."""
        return tuple(sorted(other.contact for other in self))
