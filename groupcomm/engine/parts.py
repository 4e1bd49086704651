"""The parts of a core that go on from view to view; each is made of those before it. Pure."""

from groupcomm.clocks.ring_clock import PhysicalClock
from groupcomm.config.core import CoreConfig
from groupcomm.config.roster import RosterRecord
from groupcomm.config.view import Start
from groupcomm.engine.backlog import Submitter
from groupcomm.engine.counters import Counters
from groupcomm.engine.inputs import ProgramSettings
from groupcomm.engine.keys import KeyManager
from groupcomm.engine.probe import NoProbe, Probe
from groupcomm.engine.protection import make_protection
from groupcomm.engine.reports import Reports
from groupcomm.engine.roster import RosterManager
from groupcomm.engine.segmentation import Segments
from groupcomm.engine.sender import Sender
from groupcomm.engine.sessions import LocalSessions
from groupcomm.engine.storage import Storage
from groupcomm.groups.carried import CarriedGroups
from groupcomm.membership.reservation import reserved_by
from groupcomm.security.identity import DaemonCredentials
from groupcomm.security.keys import KeyRing
from groupcomm.stream.packer import bundle_room


class Parts:
    """The parts of one start of a daemon; for the arguments see DaemonCore.

    Attributes:
        start: the start.
        probe: an observer for traces.
        protection: seals and opens datagrams.
        counters: counts of datagrams.
        physical: physical time.
        segments: sizes of packets and datagrams.
        sender: makes datagrams of packets.
        reservation: the view counters that its disk reserves.
        sessions: the local sessions.
        submitter: has the next step process the view: packets of it, or bundles, have arrived.
        key_manager: manages keys and identities.
        reports: carries what daemons tell operators at other daemons.
        roster_manager: agrees on the daemons that may be members.
        storage: the writes to its disk.
        carried_groups: the groups that go from view to view.
    """

    def __init__(
        self,
        config: CoreConfig,
        start: Start,
        *,
        keys: KeyRing | None,
        now: float,
        wall: float,
        settings: ProgramSettings | None,
        probe: Probe | None,
        credentials: DaemonCredentials | None,
        rosters: RosterRecord | None,
    ) -> None:
        self.start = start
        self.probe = NoProbe() if probe is None else probe  # a probe with a length may be empty
        self.protection = make_protection(config, start, keys, now, credentials)
        if (agreed := config.agreed) is not None:
            self.protection.use_daemons(agreed.names, config.former, agreed.number)
        self.counters = Counters()
        self.physical = PhysicalClock(now, wall)
        self.segments = Segments(config.packet_limit, start.name)
        self.sender = Sender(self.protection, self.segments)
        self.reservation = reserved_by(start, self.physical.read, now)
        self.sessions = LocalSessions(
            start.name,
            bundle_room(config.packet_limit),
            first_connection=self.reservation.used + config.starts.connection,
            settings=settings or ProgramSettings(),
            probe=self.probe,
        )
        self.submitter = Submitter(self.sessions.backlog)
        self.key_manager = KeyManager(
            start.name, self.protection, keys, self.submitter, self.counters
        )
        self.reports = Reports(self.submitter)
        self.roster_manager = RosterManager(
            start.name, config.roster, rosters or RosterRecord(), self.submitter, self.counters
        )
        self.storage = Storage(self.reservation, self.key_manager, self.roster_manager)
        self.carried_groups = CarriedGroups()
