"""How much a daemon's sessions give and get: integers that only rise, touched once a bundle."""

from groupcomm.wire.bundle import Bundle, BundleKind

_FRAGMENT = int(BundleKind.FRAGMENT)  # what is above it holds no messages


class Traffic:
    """Counts since the start of one core.

    A message in fragments counts with its last one, joins and leaves do not count. Bytes are those
    of bodies: data with the heads of messages and the names of their groups.

    Attributes:
        taken: messages that local sessions have sent.
        taken_bytes: in their bodies.
        delivered: messages for local sessions, once for each of them.
        delivered_bytes: in their bodies, once for each of them.
    """

    __slots__ = ("delivered", "delivered_bytes", "taken", "taken_bytes")

    def __init__(self) -> None:
        self.taken = 0
        self.taken_bytes = 0
        self.delivered = 0
        self.delivered_bytes = 0

    def count_sent(self, bundle: Bundle) -> None:
        """A local session has sent a bundle."""
        kind = bundle.kind
        if kind < _FRAGMENT:
            self.taken += bundle.count
        elif kind > _FRAGMENT:
            return
        elif bundle.index == bundle.count - 1:
            self.taken += 1
        self.taken_bytes += len(bundle.body)

    def count_delivered(self, bundle: Bundle, receivers: int) -> None:
        """A bundle of messages, or a fragment of one, goes to so many local sessions."""
        if bundle.kind < _FRAGMENT:
            self.delivered += bundle.count * receivers
        elif bundle.index == bundle.count - 1:
            self.delivered += receivers
        self.delivered_bytes += len(bundle.body) * receivers
