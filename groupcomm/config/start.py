"""What a daemon knows of itself before its first packet: who it is, and what its disk says."""

import attrs

from groupcomm.config.view import DaemonId, Incarnation


@attrs.frozen
class Adoption:
    """What others know of a daemon's earlier starts, and its disk does not: to be written there.

    Attributes:
        restarts: its highest restart count.
        counter: numbers up to it may have been used, for views and for its connections.
    """

    restarts: int = 0
    counter: int = 0

    def united(self, restarts: int, counter: int) -> "Adoption":
        """Return what is known with this besides: the higher of each."""
        return Adoption(max(self.restarts, restarts), max(self.counter, counter))


@attrs.frozen(kw_only=True)
class Start:
    """One start of one daemon.

    Attributes:
        name: of the daemon, unique in its cluster.
        incarnation: its restart count, on disk already, and a random id that no start had before.
        counter: numbers up to it, of views and of connections, may have been used by earlier
            starts; 0 if there were none.
        mark: numbers up to it are reserved on disk; 0 if none are.
        write_s: how long the disk took to count this start.
        daemon: its identity in views.
    """

    name: str
    incarnation: Incarnation
    counter: int = 0
    mark: int = 0
    write_s: float = 0.0
    daemon: DaemonId = attrs.field(init=False, repr=False, eq=False)

    def __attrs_post_init__(self) -> None:
        object.__setattr__(self, "daemon", DaemonId(self.name, self.incarnation))
