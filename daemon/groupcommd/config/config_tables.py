"""The keys of a configuration file, and their meanings; the tables in it have modules of their own.

docs/reference/configuration.md is made of these classes and their docstrings.
"""

import attrs

from groupcomm.config.core import CoreConfig
from groupcommd.config.client_tables import ClientsTable, RuleTable
from groupcommd.config.daemon_config import DEFAULT_DISK_TIMEOUT_S
from groupcommd.config.http_table import HttpTable
from groupcommd.config.site_tables import DEFAULT_PACKET_BYTES, LinkTable, SiteTable


@attrs.frozen(kw_only=True)
class ConfigFile:
    """The contents of a configuration file.

    Attributes:
        cluster: the name of the cluster; a daemon drops datagrams of other clusters.
        name: the name of this daemon; ``--name`` has precedence.
        key_file: the secret of the cluster, with which datagrams are encrypted (docs/security.md);
            ``groupcomm keygen FILE`` makes it. Daemons of one user on one host need not name one:
            the first daemon that starts makes CLUSTER.key in the state folder. The file must belong
            to the daemon's user or to root, nobody else may be able to read it, and nobody else may
            be able to write to its folder.
        identity: the file of this daemon's private key (docs/security.md#identities); also needs a
            ``key_file``.
        identities: the file of all daemons' public keys; goes with ``identity``.
        insecure: without a ``key_file``, also beyond loopback: datagrams carry only a checksum, and
            any host that can send to a daemon can join.
        state_dir: the folder of the restart count; each daemon has its own, and refuses another
            one's. By default CLUSTER/NAME in the state folder: ``$STATE_DIRECTORY``, which systemd
            sets for services with ``StateDirectory=``, else ``~/.local/state/groupcomm``, for root
            ``/var/lib/groupcomm``.
        disk_timeout_s: seconds, above 0: a disk that has not completed a write to ``state_dir`` in
            this time counts as not answering, also while a start waits for it; the log, ``status``
            and ``doctor`` report it. A healthy disk takes some milliseconds, an overloaded one a
            second or two. With any value, views of the other daemons never wait for the disk
            (docs/membership.md#disks-that-are-slow-or-hang).
        drain_s: seconds, 0 to 3600: a daemon that a signal stops first asks its programs to move
            (docs/operating.md#stopping-a-daemon-for-an-upgrade); it leaves once all have gone, or
            after this time.
        seeds: the daemons that a daemon asks which joins with a token
            (docs/operating.md#adding-a-daemon-with-a-token): ``HOST``, ``HOST:PORT``, ``dns:NAME``
            (all addresses of the name) and ``srv:NAME`` (SRV records; needs ``dnspython``).
            ``--join`` has precedence.
        expected_daemons: the number of daemons of which more than half are a majority, from 1; by
            default, how many are listed.
        leave_timeout_s: seconds, 0 to 3600: a daemon that was asked to leave, and cannot complete
            an orderly leave in this time, leaves anyway (docs/configuration.md#signals).
        packet_bytes: bytes of one datagram before sealing that every path carries, 600 to 60,000;
            the same at all daemons. In a cluster with one site larger packets go in segments, so
            the default serves every network.
            On networks with jumbo frames, and on loopback, more bytes are faster. With several
            sites the links also set a limit.
        preset: timings: ``local`` (all daemons on one host), ``lan``, ``wan`` (round trips of up to
            100 ms).
        spin: the daemon never sleeps: it need not be woken, and it uses a whole processor. Set it
            only where each daemon has a processor for itself; with fewer processors than daemons,
            delays grow tenfold.
        sites: the sites by name. A site is one fast network (docs/configuration.md#several-sites);
            without any, the daemon is alone, on loopback.
        links: the links between sites, by the names of the two sites with a hyphen between them.
        timing: single timings, in seconds, in place of those of the preset.
        windows: limits of the ring's flow control. Windows find their own size below these limits:
            there is nothing to tune.
        clients: the listeners for programs, and the limits of each program.
        access: rules for programs (docs/security.md#access-control); without any, every program may
            do everything.
        http: the address at which the daemon answers HTTP, and who may ask.
    """

    cluster: str = "groupcomm"
    name: str | None = None
    key_file: str | None = None
    identity: str | None = None
    identities: str | None = None
    insecure: bool = False
    state_dir: str | None = None
    disk_timeout_s: float = DEFAULT_DISK_TIMEOUT_S
    drain_s: float = 0.0
    seeds: list[str] = attrs.field(factory=list)
    expected_daemons: int | None = None
    leave_timeout_s: float = CoreConfig().leave_timeout_s
    packet_bytes: int = DEFAULT_PACKET_BYTES
    preset: str = "lan"
    spin: bool = False
    sites: dict[str, SiteTable] = attrs.field(factory=dict)
    links: dict[str, LinkTable] = attrs.field(factory=dict)
    timing: dict[str, float] = attrs.field(factory=dict)
    windows: dict[str, int] = attrs.field(factory=dict)
    clients: ClientsTable = attrs.field(factory=ClientsTable)
    access: list[RuleTable] = attrs.field(factory=list)
    http: HttpTable = attrs.field(factory=HttpTable)
