"""Flooding: control messages to every daemon that may be a member, also over others.

Pure. A message goes to all directly: by multicast in the site, by unicast to other sites. A daemon
that gets it for the first time passes it on once, to the daemons that it hears and that are not
known to hear the origin themselves. Repetitions are messages of their own, so that a lost one is
passed on again.

Of the many parts of a large message a narrow link drops the last ones, at each repetition. So
repetitions to some daemons complete each other: where none has to be passed on the 2nd and 3rd are
one message, the 4th to 7th, and so on, and each of these begins with another part. As parts are
passed on once, elsewhere only the 2nd and 3rd are, the 5th and 6th, and so on.
"""

import hashlib
from collections.abc import Callable, Iterable
from typing import Final

from groupcomm.config.core import CoreConfig
from groupcomm.config.view import SAFE_PACKET_BYTES, Start
from groupcomm.names import daemon_number
from groupcomm.security.layout import WINDOW, ReplayWindow
from groupcomm.wire.control import ControlPacket, cut_message
from groupcomm.wire.membership import ControlMessage, encode_message

MAX_UNFINISHED = 64
"""The most messages of which only some parts have come, and four for each site beyond these: what
relays of a hundred sites pass on may come at once."""

MOST_BETWEEN: Final = WINDOW // 2
"""After so many other messages a repetition would come too late to complete an earlier one."""

Outgoing = tuple[str | None, bytes]
"""The name of a daemon, or None for all others of its site; and a packet."""

_Key = tuple[int, int, int, bool]  # origin, random id, sequence, whether it came directly


class Flood:
    """The control messages that one daemon sends.

    Attributes:
        out: packets to be sealed and sent.
        remote: the names of all listed daemons of other sites.
        targets: returns the daemons of other sites to which messages to all go, by name; None: to
            all of them.
        sequence: the sequence number of the last message.
    """

    __slots__ = (
        "_limit",
        "_me",
        "_most_unfinished",
        "_names",
        "_parts",
        "_site_members",
        "_start",
        "_tries",
        "out",
        "remote",
        "sequence",
        "targets",
    )

    def __init__(self, config: CoreConfig, start: Start) -> None:
        self._start = start
        self._me = start.daemon.number
        self.sequence = 0
        self._parts: dict[_Key, tuple[ReplayWindow, dict[int, bytes]]] = {}
        self.out: list[Outgoing] = []
        self.targets: Callable[[], list[str]] | None = None
        self.use_config(config)

    def use_config(self, config: CoreConfig) -> None:
        """Send to the daemons of these settings from now on."""
        start = self._start
        site = config.site_of(start.name)
        self._site_members = {daemon_number(name) for name in site if name != start.name}
        self.remote = [name for other in config.sites if start.name not in other for name in other]
        untried = self.remote or config.segmented_limit  # other sites, or any path
        self._limit = min(config.packet_limit, SAFE_PACKET_BYTES if untried else 2**16)
        # How often large messages were sent, and the last sequence number of each, by digest: from
        # now on they may have other parts, which do not fit those that were sent before.
        self._tries: dict[bytes, tuple[int, int]] = {}
        self._names = {daemon_number(name): name for name in config.daemons}
        self._most_unfinished = MAX_UNFINISHED + (4 * len(config.sites) if config.has_relays else 0)

    def _cut(self, message: ControlMessage) -> list[bytes]:
        """Return the packets of a message of its own."""
        self.sequence += 1
        return self._packets_of(encode_message(message), self.sequence)

    def _packets_of(self, encoded: tuple[int, bytes], sequence: int) -> list[bytes]:
        start = self._start.incarnation
        return cut_message(self._me, start, sequence, *encoded, self._limit)

    def _cut_again(self, message: ControlMessage, *, direct: bool) -> list[bytes]:
        """Return the packets of a message that may be a repetition, in the order to send them."""
        encoded = encode_message(message)
        digest = hashlib.blake2b(encoded[1], digest_size=16).digest()
        tries, sequence = self._tries.pop(digest, (0, 0))
        if direct:
            together = 1 << (tries + 1).bit_length() - 1  # repetitions that complete each other
            place = tries + 1 - together
        else:
            together, place = 2, int(tries % 3 == 2)
        if not place or self.sequence - sequence >= MOST_BETWEEN:
            self.sequence = sequence = self.sequence + 1
        packets = self._packets_of(encoded, sequence)
        if len(packets) > 1:
            self._tries[digest] = tries + 1, sequence
            if len(self._tries) > self._most_unfinished:
                del self._tries[next(iter(self._tries))]
        first = len(packets) * place // together
        return packets[first:] + packets[:first]

    def send_all(self, message: ControlMessage) -> None:
        """Send to the site, and to the daemons of other sites."""
        self._send_near(self._cut(message), self._far_targets())

    def send_near(
        self, message: ControlMessage, names: Iterable[str], *, site: bool = True
    ) -> None:
        """Send to the daemons of the site, if it is for them, and to these."""
        self._send_near(self._cut(message), names, site=site)

    def _far_targets(self) -> list[str]:
        return self.remote if self.targets is None else self.targets()

    def _send_near(
        self, packets: Iterable[bytes], names: Iterable[str], *, site: bool = True
    ) -> None:
        for packet in packets:
            if self._site_members and site:
                self.out.append((None, packet))
            self.out += [(name, packet) for name in names]

    def send_to(self, name: str, message: ControlMessage) -> None:
        """Send to one daemon, which does not pass it on."""
        self.out += [(name, packet) for packet in self._cut(message)]

    def send_some(
        self, message: ControlMessage, targets: Iterable[int], *, direct: bool = False
    ) -> None:
        """Send, perhaps again, to these daemons, by number; they pass it on like one to all.

        Where relays pass messages on, they have it passed on to several of other sites.

        Args:
            message: the message.
            targets: the daemons.
            direct: whether all that need it hear this daemon, so that none has to pass it on.
        """
        numbers = frozenset(targets)
        relayed = self.targets is not None and len(numbers - self._site_members) > 1
        packets = self._cut_again(message, direct=direct and not relayed)
        if relayed:
            self._send_near(packets, self._far_targets())
            return
        for packet in packets:
            self._spread(packet, numbers)

    def pass_on(self, packet: ControlPacket, targets: Iterable[int]) -> None:
        """Send another's message on to these daemons, by number."""
        self._spread(packet.raw, frozenset(targets))

    def _spread(self, packet: bytes, numbers: frozenset[int]) -> None:
        if len(numbers & self._site_members) > 1:
            self.out.append((None, packet))
            numbers -= self._site_members
        for number in sorted(numbers):
            name = self._names.get(number)
            if name is not None:
                self.out.append((name, packet))

    def is_new(self, seen: ReplayWindow, packet: ControlPacket, *, own: bool) -> bool:
        """Return whether a packet has not come yet: from its origin itself, or from others."""
        if not seen.check(packet.sequence):
            return False
        if not self._parts:
            return True
        begun = self._parts.get((packet.origin, packet.incarnation.random_id, packet.sequence, own))
        return begun is None or packet.part not in begun[1]

    def assemble(self, packet: ControlPacket, seen: ReplayWindow, *, own: bool) -> bytes | None:
        """Return the body of a message once all its parts are here; None before.

        Parts from the origin and parts that were passed on are not mixed. If there are too many
        unfinished messages the oldest is given up. Its sequence then counts as accepted: otherwise
        daemons would pass parts of it to each other for ever.
        """
        if packet.parts == 1:
            seen.accept(packet.sequence)
            return packet.payload
        key = (packet.origin, packet.incarnation.random_id, packet.sequence, own)
        _, parts = self._parts.setdefault(key, (seen, {}))
        parts[packet.part] = packet.payload
        if len(parts) < packet.parts:
            if len(self._parts) > self._most_unfinished:
                self._give_up(next(iter(self._parts)))
            return None
        del self._parts[key]
        seen.accept(packet.sequence)
        return b"".join(parts[part] for part in sorted(parts))

    def _give_up(self, key: _Key) -> None:
        seen, _ = self._parts.pop(key)
        if seen.check(key[2]):
            seen.accept(key[2])
