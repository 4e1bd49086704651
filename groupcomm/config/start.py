"""What a daemon knows of itself before its first packet: who it is, and what its disk says."""

import attrs

from groupcomm.config.view import DaemonId, Incarnation


@attrs.frozen(kw_only=True)
class Start:
    """One start of one daemon.

    Attributes:
        name: of the daemon, unique in its cluster.
        incarnation: its restart count, on disk already, and a random id that no start had before.
        counter: view counters up to it may have been used by earlier starts; 0 if there were none.
        mark: view counters up to it are reserved on disk; 0 if none are.
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
