"""What a daemon knows of itself before its first packet: who it is, and what its disk says."""

import attrs

from groupcomm.config.view import DaemonId, Incarnation


@attrs.frozen(kw_only=True)
class Start:
    """One start of one daemon.

    Attributes:
        name: of the daemon, unique in its cluster.
        incarnation: its restart count, on disk already, and a random id that no start had before.
        counter: the high-water mark of view counters that the disk held; 0 on an empty disk.
        daemon: its identity in views.
    """

    name: str
    incarnation: Incarnation
    counter: int = 0
    daemon: DaemonId = attrs.field(init=False, repr=False, eq=False)

    def __attrs_post_init__(self) -> None:
        object.__setattr__(self, "daemon", DaemonId(self.name, self.incarnation))
