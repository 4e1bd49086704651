"""Valid inputs for both ports of a daemon: packets of members and programs, in pieces."""

from collections.abc import Iterator

from groupcomm.level import ServiceLevel
from groupcomm.session.client_session import ClientSession
from groupcomm.session.frames import encode_bye, encode_hello, encode_query
from tests.groupcomm.engine.clients import PLENTY, Clients
from tests.verification.campaigns.fuzz.port_targets import TOKEN, sealed_core


def _in_pieces(parts: list[bytes]) -> bytes:
    """Return pieces as `port_targets.pieces` cuts them; all but the last have 255 bytes at most."""
    return bytes((len(parts) - 1, *map(len, parts[:-1]))) + b"".join(parts)


def _datagrams() -> Iterator[bytes]:
    """Yield joins of a member, of one with another key, and of an earlier start of the daemon
    itself."""
    joins = []
    for core in (sealed_core("a"), sealed_core("c", b"x" * 32), sealed_core("b")):
        joins += [datagram for _, datagram in core.step(0.0, [], []).datagrams]
    yield from (_in_pieces([join]) for join in joins)
    yield _in_pieces([join[:255] for join in joins[:6]])


def _said() -> bytes:
    """By a program in a session: a join, messages of all levels and kinds, a leave."""
    clients = Clients()
    number = clients.connect("u")
    session: ClientSession = clients.sessions[number]
    session.join("g")
    for level in ServiceLevel:
        session.multicast(("g", "#u#a"), b"data", level=level)
    session.multicast("g", bytes(3000), level=ServiceLevel.AGREED, ordered=True)
    session.leave("g")
    return session.pop_output(PLENTY) + encode_query("members g") + encode_bye()


def port_seeds() -> Iterator[tuple[str, bytes]]:
    """Yield names of targets, and inputs for them."""
    for datagrams in _datagrams():
        yield "daemon.udp", datagrams
    said = _said()
    for hello in (encode_hello("u", 0, TOKEN), encode_hello("u", 0, "sensor:wrong")):
        yield "daemon.listeners.tls", _in_pieces([hello[:9], hello[9:], said])
    for cut in (0, 100, 255):
        parts = [encode_hello("u"), said[:cut], said[cut:]]
        yield "daemon.listeners.local", _in_pieces(parts)
    for header in (b"Bearer sensor:secret", b"Basic c2Vuc29yOnNlY3JldA=="):
        yield "daemon.http.gate.read_authorization", header
    yield "daemon.operators.cluster", b'{"pid":4711,"host":"oven","uptime_s":3.5,"version":"0.1.0"}'
