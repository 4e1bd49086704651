"""The daemon's UDP socket: sends a burst with one call, and receives all datagrams with few.

Linux segments a large buffer into equal datagrams (UDP_SEGMENT, "GSO") and returns several
datagrams of one sender as one (UDP_GRO). The socket probes both, and works without them.
"""

import errno
import ipaddress
import logging
import socket
import struct
from bisect import bisect_right
from collections.abc import Collection, Mapping, Sequence
from operator import itemgetter
from typing import Final

from groupcomm.engine import Segmentation
from groupcomm.host.addresses import Address
from groupcomm.wire.joining import FIRST_BYTE
from groupcomm.wire.segments import SEGMENT_VERSION, Cutter, Joiner
from groupcommd.network.junk import ClusterPattern, attach, detach, program
from groupcommd.network.path_mtu import PathMtu

SOL_UDP: Final = 17
UDP_SEGMENT: Final = 103
UDP_GRO: Final = 104

BUFFER_BYTES: Final = 4 * 1024 * 1024
"""Requested in both directions, as the loss of a burst is silent."""

READ_BYTES: Final = 65_536
MAX_SEGMENTS: Final = 64
MAX_BURST_BYTES: Final = 60_000
MAX_RUN_BYTES: Final = 65_507
MAX_READS: Final = 256
"""Reads in one turn; the rest makes the socket readable again at once."""

_SO_MEMINFO: Final = 55
_MEMINFO = struct.Struct("=9I")  # from <linux/sock_diag.h>; the last field counts drops

MAX_SOURCES: Final = 64
"""The number of sources of valid datagrams that are remembered, the latest ones."""

_U16 = struct.Struct("=H")
_INT = struct.Struct("=i")
_OUTSIDE: Final = bytes((FIRST_BYTE,))
_GRO_SPACE: Final = socket.CMSG_SPACE(_INT.size)
_PASSING: Final = frozenset(
    (
        errno.EAGAIN,
        errno.ECONNREFUSED,
        errno.EHOSTDOWN,
        errno.EHOSTUNREACH,
        errno.ENETDOWN,
        errno.ENETUNREACH,
        errno.ENOBUFS,
        errno.EPERM,
    )
)
"""Errors that count as the loss of a datagram, which the protocol repairs."""

_UNSUPPORTED: Final = frozenset((errno.EINVAL, errno.EMSGSIZE, errno.EIO, errno.EOPNOTSUPP))
"""Errors of a burst that the system does not segment, or not into such large datagrams."""

Destination = tuple[str, int]

Asked = tuple[socket.socket, Destination, bytes]
"""A datagram of a daemon outside, the socket that has received it, and its source."""

MAX_ASKED: Final = 256
"""The datagrams of daemons outside that wait to be answered; further ones are dropped."""
_log = logging.getLogger("groupcommd")


class _Train:
    """The segments of one datagram, one directly behind the other."""

    __slots__ = ("data", "size")

    def __init__(self, data: bytes, size: int) -> None:
        self.data = data
        self.size = size


_Burst = list[bytes | _Train]


class UdpSocket:
    """One socket for all daemons, those of other sites included.

    Attributes:
        lost: the number of datagrams that the system has not accepted.
        sent_bytes, received_bytes: the bytes of datagrams; one to several daemons counts for each.
        gso, gro: whether the system segments and coalesces bursts.
        filtered: whether the system filters junk.
        asked: datagrams of daemons outside, to be answered at their sources.
        joiner: joins the segments that come.
    """

    def __init__(
        self,
        own: Address,
        others: Mapping[str, Address],
        *,
        multicast: Address | None = None,
        remote: Collection[str] = (),
        absent: Collection[str] = (),
    ) -> None:
        """Bind the socket.

        Args:
            own: this daemon's address.
            others: the addresses of the other daemons, by name.
            multicast: the group of all other daemons of this site.
            remote: the names of the daemons of other sites.
            absent: the names of daemons whose addresses are not known: they get nothing.

        Raises:
            OSError: the address is in use, or not one of this host.
        """
        family = socket.AF_INET6 if ":" in own.host else socket.AF_INET
        self.socket = socket.socket(family, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
        self._multicast = multicast
        self._sources: dict[Destination, None] = {}
        self.joiner = Joiner()
        self._strange = 0  # segments from unknown places that completed nothing
        self._cutter = Cutter()
        self._path_mtu = PathMtu()
        self._segmentation = Segmentation(frozenset(), MAX_RUN_BYTES)
        self._use(others, remote, {}, absent)
        self.lost = 0
        self.sent_bytes = self.received_bytes = 0
        self.filtered = False
        self.asked: list[Asked] = []
        self._can_filter = True
        self._wanted: ClusterPattern | None = None
        self._seen: set[Destination] = set()  # sources of the latest datagrams
        self._runs: list[tuple[int, Destination]] = []  # latest drain: first index, source
        try:
            for option in (socket.SO_RCVBUF, socket.SO_SNDBUF):
                self.socket.setsockopt(socket.SOL_SOCKET, option, BUFFER_BYTES)
            self.socket.bind((own.host, own.port))
            # The address belongs to another daemon of this name: an earlier start, or a clone.
            self._own: Destination = (self.address.host, self.address.port)
            self.gso = self._probe(UDP_SEGMENT)
            self.gro = self._probe(UDP_GRO, 1)
            self._groups: list[socket.socket] = []
            if multicast is not None:
                self._join(own, multicast)
        except OSError:
            self.socket.close()
            raise

    def use(
        self,
        others: Mapping[str, Address],
        remote: Collection[str],
        former: Mapping[str, Address],
        absent: Collection[str] = (),
    ) -> None:
        """Send to these daemons from now on, and expect datagrams from them.

        Args:
            others: the addresses of the other daemons, by name.
            remote: the names of those that a datagram for the own site does not go to.
            former: the former addresses of daemons that have moved, which get all their datagrams,
                too, until something has come from the new one: it has not started there yet.
            absent: the names of daemons whose addresses are not known: they get nothing.
        """
        self._use(others, remote, former, absent)
        if self.filtered and self._wanted is not None:
            self._attach(self._wanted)

    def _use(
        self,
        others: Mapping[str, Address],
        remote: Collection[str],
        former: Mapping[str, Address],
        absent: Collection[str],
    ) -> None:
        self._absent = frozenset(absent)
        self._targets = {name: (a.host, a.port) for name, a in others.items()}
        self._site_targets = [
            target for name, target in self._targets.items() if name not in remote
        ]
        if self._multicast is not None:
            self._site_targets = [(self._multicast.host, self._multicast.port)]
        self._former = {
            name: (a.host, a.port)
            for name, a in former.items()
            if name in others and a != others[name]
        }
        self._near = frozenset(others.keys() - set(remote))
        self.use_segmentation(self._segmentation)
        self._sources |= dict.fromkeys((*self._targets.values(), *self._former.values()))

    def use_segmentation(self, segmentation: Segmentation) -> None:
        """Cut these datagrams into segments from now on."""
        self._segmentation = segmentation
        names = segmentation.names & self._near
        self._joining_targets = [self._targets[name] for name in sorted(names)]
        if self._multicast is not None:
            self._joining_targets = list(self._site_targets)

    def measure_path(self) -> int | None:
        """Return the bytes of the largest datagram that the paths within the site carry.

        None: nothing is known.
        """
        return self._path_mtu.measure(self._site_targets)

    @property
    def address(self) -> Address:
        """Return the address of the socket."""
        host, port, *_ = self.socket.getsockname()
        return Address(host, port)

    @property
    def buffer_bytes(self) -> int:
        """Return the receive buffer; smaller than BUFFER_BYTES if net.core.rmem_max limits it."""
        return self.socket.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF) // 2

    @property
    def sockets(self) -> list[socket.socket]:
        """Return the sockets that may become readable."""
        return [self.socket, *self._groups]

    @property
    def dropped(self) -> int:
        """Return the datagrams that the system had no room for or has filtered; 0 if unknown."""
        try:
            told = [s.getsockopt(socket.SOL_SOCKET, _SO_MEMINFO, 36) for s in self.sockets]
            return sum(_MEMINFO.unpack(each)[-1] for each in told)
        except (OSError, struct.error):
            return 0

    def filter(self, wanted: ClusterPattern | None) -> None:
        """Have the system drop unwanted datagrams, if it can; None removes the filter."""
        was, self._wanted = self._wanted, wanted
        if wanted is None and self.filtered:
            self._detach()
        elif wanted is not None and self._can_filter and not (self.filtered and wanted == was):
            self._attach(wanted)

    def learn(self, *, clean: bool) -> None:
        """After a drain: whether all was right that has come; then it may come from there again."""
        if self._former:
            self._former = {
                name: at
                for name, at in self._former.items()
                if not (clean and self._targets[name] in self._seen)
            }
        new = self._seen - self._sources.keys() if clean else None
        self._seen.clear()
        if new:
            self._sources |= dict.fromkeys(new)
            kept = set(self._targets.values())
            while len(self._sources) > MAX_SOURCES + len(self._targets):
                del self._sources[next(at for at in self._sources if at not in kept)]
            if self.filtered and self._wanted is not None:
                self._attach(self._wanted)

    def _attach(self, wanted: ClusterPattern) -> None:
        instructions = program(wanted, self._sources)
        self.filtered = self._can_filter = all(attach(s, instructions) for s in self.sockets)
        if not self.filtered:
            self._detach()

    def _detach(self) -> None:
        for each in self.sockets:
            detach(each)
        self.filtered = False

    def close(self) -> None:
        """Close the sockets."""
        for each in self.sockets:
            each.close()

    def _probe(self, option: int, value: int = 0) -> bool:
        try:
            self.socket.setsockopt(SOL_UDP, option, value)
        except OSError:
            return False
        return True

    def _join(self, own: Address, group: Address) -> None:
        """Receive a multicast group on a socket of its own, and send to it from the other one."""
        listener = socket.socket(self.socket.family, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
        self._groups.append(listener)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, BUFFER_BYTES)
        listener.bind((group.host, group.port))
        packed, interface = ipaddress.ip_address(group.host).packed, ipaddress.ip_address(own.host)
        if self.socket.family == socket.AF_INET:
            request = packed + interface.packed
            listener.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, request)
            self.socket.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, interface.packed)
        else:
            listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_JOIN_GROUP, packed + bytes(4))

    # ---- input ----

    def drain(self) -> list[bytes]:
        """Return the datagrams that have come, in order, of up to MAX_READS calls."""
        datagrams: list[bytes] = []
        self._runs.clear()
        for each in self.sockets if self._groups else (self.socket,):
            self._drain(each, datagrams)
        return datagrams

    def source_of(self, index: int) -> Address | None:
        """Return the source of a datagram of the latest drain, by its index."""
        at = bisect_right(self._runs, index, key=itemgetter(0)) - 1
        return Address(*self._runs[at][1]) if at >= 0 else None

    def _drain(self, source: socket.socket, datagrams: list[bytes]) -> None:
        receive, last = source.recvmsg, None
        for _ in range(MAX_READS):
            try:
                data, extra, _, sender = receive(READ_BYTES, _GRO_SPACE)
            except BlockingIOError:
                return
            except OSError as error:  # an error of an earlier datagram: its receiver does not exist
                if error.errno not in _PASSING:
                    raise
                continue
            self.received_bytes += len(data)
            if data[:1] == _OUTSIDE:
                self._note_asked(source, data, extra, sender[:2])
                continue
            segment = _INT.unpack(extra[0][2][:4])[0] if extra else 0
            whole = self._split(data, segment, sender[:2])
            if not whole:
                continue
            if sender != last:
                last = sender
                self._seen.add(sender[:2])
                self._runs.append((len(datagrams), sender[:2]))
            datagrams += whole

    def _split(self, data: bytes, size: int, sender: Destination) -> list[bytes]:
        """Return the datagrams that were received as one, or that their segments complete.

        The system joins what one sender has sent in a row, segments and whole datagrams alike.
        """
        size = size or len(data) or 1
        segments = data[::size].count(SEGMENT_VERSION)
        if not segments:
            if size >= len(data):
                return [data]
            return [data[at : at + size] for at in range(0, len(data), size)]
        if segments * size >= len(data):
            return self._complete(data, size, sender)
        found: list[bytes] = []
        for at in range(0, len(data), size):
            piece = data[at : at + size]
            is_segment = piece[0] == SEGMENT_VERSION
            found += self._complete(piece, size, sender) if is_segment else [piece]
        return found

    def _complete(self, data: bytes, size: int, sender: Destination) -> list[bytes]:
        known = sender if sender in self._sources else None
        joined = self.joiner.accept_untrusted(known, data, size)
        if known is None and not joined:
            self._strange += -(-len(data) // size)
        return joined

    def _note_asked(
        self,
        source: socket.socket,
        data: bytes,
        extra: Sequence[tuple[int, int, bytes]],
        sender: Destination,
    ) -> None:
        size = _INT.unpack(extra[0][2][:4])[0] if extra else len(data)
        for at in range(0, len(data), max(1, size)):
            if len(self.asked) < MAX_ASKED:
                self.asked.append((source, sender, data[at : at + size]))

    def pop_strange(self) -> int:
        """Return the number of segments from unknown places, since the last call, that completed
        no datagram.
        """
        strange, self._strange = self._strange, 0
        return strange

    @property
    def segments(self) -> dict[str, int]:
        """Return the counts of segments; see `Joiner`."""
        joiner = self.joiner
        return {
            "joined": joiner.joined,
            "given_up": joiner.given_up,
            "junk": joiner.junk,
            "kept_bytes": joiner.kept_bytes,
        }

    def pop_asked(self) -> list[Asked]:
        """Return the datagrams of daemons outside that have come since the last call."""
        asked, self.asked = self.asked, []
        return asked

    # ---- output ----

    def send(self, transmissions: Sequence[tuple[str | None, bytes]]) -> None:
        """Send datagrams, in order for each daemon; those that the system refuses are lost.

        Args:
            transmissions: pairs of a daemon's name, or None for all other daemons of this site,
                and a datagram. An unknown name is the daemon's own.
        """
        most = self._segmentation.datagram_bytes
        if len(transmissions) == 1 and len(transmissions[0][1]) <= most:
            name, datagram = transmissions[0]
            for target in self._targets_of(name):
                self._send_one(datagram, target)
            return
        bursts: dict[Destination, _Burst] = {}
        for name, datagram in transmissions:
            if len(datagram) > most:
                self._add_large(name, datagram, bursts)
                continue
            for target in self._targets_of(name):
                bursts.setdefault(target, []).append(datagram)
        for target, burst in bursts.items():
            self._send_burst(burst, target)

    def _add_large(
        self, name: str | None, datagram: bytes, bursts: dict[Destination, _Burst]
    ) -> None:
        """Add a large datagram: in segments for all that join them.

        The system cuts it for a daemon of an earlier release, which is the only one to be named
        here, or for a whole view with such a daemon. Others of the site that have not joined the
        view have no use for it.
        """
        names, targets = self._segmentation.names, self._targets_of(name)
        sent: bytes | _Train = datagram
        if name in names or (name is None and names):
            size = self._segmentation.datagram_bytes
            sent = _Train(self._cutter.cut(datagram, size), size)
            if name is None:
                moved = [at for each, at in self._former.items() if each in names & self._near]
                targets = [*self._joining_targets, *moved]
        for target in targets:
            bursts.setdefault(target, []).append(sent)

    def _targets_of(self, name: str | None) -> Sequence[Destination]:
        if name is None:
            found = self._site_targets
        elif name in self._absent:
            found = []
        else:
            found = [self._targets.get(name, self._own)]
        if not self._former:
            return found
        wanted = self._near if name is None else (name,)
        return [*found, *(at for moved, at in self._former.items() if moved in wanted)]

    def _send_burst(self, burst: _Burst, target: Destination) -> None:
        """Send runs of equal size, the last datagram perhaps shorter, with one call each."""
        run: list[bytes] = []
        size = total = 0  # of the first datagram of the run, and of all
        for each in burst:
            if type(each) is _Train:
                self._send_run(run, size, target)
                self._send_train(each, target)
                run, total = [], 0
                continue
            assert type(each) is bytes
            following = len(each)
            if run and (
                following > size
                or len(run[-1]) < size
                or total + following > MAX_BURST_BYTES
                or len(run) >= MAX_SEGMENTS
                or not self.gso
            ):
                self._send_run(run, size, target)
                run, total = [], 0
            if not run:
                size = following
            run.append(each)
            total += following
        self._send_run(run, size, target)

    def _send_train(self, train: _Train, target: Destination) -> None:
        """Send the segments of a datagram, with one call or few."""
        data, size = memoryview(train.data), train.size
        most = size * max(1, min(MAX_SEGMENTS, MAX_RUN_BYTES // size))
        for start in range(0, len(data), most if self.gso else size):
            part = data[start : start + (most if self.gso else size)]
            if len(part) <= size:
                self._send_one(part, target)
                continue
            self.sent_bytes += len(part)
            try:
                self.socket.sendmsg([part], [(SOL_UDP, UDP_SEGMENT, _U16.pack(size))], 0, target)
            except OSError as error:
                if error.errno not in _UNSUPPORTED:
                    self._refused(error, -(-len(part) // size))
                    continue
                self.sent_bytes -= len(part)
                for at in range(0, len(part), size):
                    self._send_one(part[at : at + size], target)

    def _send_run(self, run: list[bytes], size: int, target: Destination) -> None:
        if len(run) <= 1:
            for datagram in run:
                self._send_one(datagram, target)
            return
        self.sent_bytes += size * (len(run) - 1) + len(run[-1])
        try:
            self.socket.sendmsg(run, [(SOL_UDP, UDP_SEGMENT, _U16.pack(size))], 0, target)
        except OSError as error:
            if error.errno in _UNSUPPORTED:
                self.gso = False  # this path does not support it, although the probe passed
                for datagram in run:
                    self.sent_bytes -= len(datagram)
                    self._send_one(datagram, target)
            else:
                self._refused(error, len(run))

    def _send_one(self, datagram: bytes | memoryview, target: Destination) -> None:
        self.sent_bytes += len(datagram)
        try:
            self.socket.sendto(datagram, target)
        except OSError as error:
            self._refused(error, 1)

    def _refused(self, error: OSError, count: int) -> None:
        if error.errno not in _PASSING and not self.lost:
            _log.warning("a datagram was not sent: %s; such datagrams count as lost", error)
        self.lost += count
