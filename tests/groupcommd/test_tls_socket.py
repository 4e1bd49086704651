"""TLS on a socket: the same bytes come out as go in, however small the pieces are."""

import socket
import ssl
from collections.abc import Iterator
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from groupcomm.host.addresses import Address
from groupcomm.host.tls import TlsSocket, Wants
from groupcomm_client.credentials import Credentials
from groupcomm_tools.certificates import issue, make_authority
from groupcommd.programs.credentials import TlsConfig, server_context

Contexts = tuple[ssl.SSLContext, ssl.SSLContext]


@pytest.fixture(scope="module")
def contexts(tmp_path_factory: pytest.TempPathFactory) -> Contexts:
    """Return the contexts of a client and of a daemon."""
    folder = tmp_path_factory.mktemp("pki")
    ca, _ = make_authority(folder, 1.0)
    certificate, key = issue(folder, "d", ["d.example"], 1.0)
    config = TlsConfig(address=Address("127.0.0.1", 0), certificate=certificate, key=key, ca=ca)
    return Credentials(ca=str(ca)).context(), server_context(config)


def ends(contexts: Contexts, host: str = "d.example") -> tuple[TlsSocket, TlsSocket]:
    """Return both ends after the handshake; each socket accepts few bytes.

    They are closed if there is none.
    """
    below = socket.socketpair()
    for each in below:
        each.setblocking(False)
        each.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
    client, daemon = TlsSocket(below[0], contexts[0], host=host), TlsSocket(below[1], contexts[1])
    wants = [Wants.READABLE, Wants.READABLE]
    try:
        while wants != [Wants.NOTHING, Wants.NOTHING]:
            wants = [client.handshake(), daemon.handshake()]
    except ssl.SSLError:
        client.close()
        daemon.close()
        raise
    return client, daemon


def pumped(source: TlsSocket, target: TlsSocket, data: bytes, size: int) -> Iterator[bytes]:
    """Send data as shells do, reading at the other end whenever the socket is full."""
    unsent = memoryview(data)
    while unsent:
        with suppress(BlockingIOError):
            unsent = unsent[source.send(unsent[:size]) :]
        with suppress(BlockingIOError):
            yield target.recv(65_536)
    with suppress(BlockingIOError):
        while True:
            yield target.recv(65_536)


@given(
    lengths=st.lists(st.integers(1, 200_000), min_size=1, max_size=4),
    size=st.sampled_from([1000, 16_384, 262_144]),
    reverse=st.booleans(),
)
def test_bytes_come_out_as_they_went_in(
    contexts: Contexts, lengths: list[int], size: int, reverse: bool
) -> None:
    source, target = ends(contexts)
    if reverse:
        source, target = target, source
    data = b"".join(bytes((n % 251,)) * length for n, length in enumerate(lengths))
    assert b"".join(pumped(source, target, data, size)) == data
    source.shutdown(socket.SHUT_WR)
    assert target.recv(100) == b""
    source.close()
    target.close()


def test_several_parts_are_sent_as_one(contexts: Contexts) -> None:
    client, daemon = ends(contexts)
    assert daemon.sendmsg([b"one ", memoryview(b"two "), b"three"]) == 13
    assert client.recv(100) == b"one two three"
    with pytest.raises(BlockingIOError):
        client.recv(100)
    client.close()
    daemon.close()


def test_a_certificate_for_another_host_is_refused_and_explained(contexts: Contexts) -> None:
    with pytest.raises(ssl.SSLCertVerificationError) as caught:
        ends(contexts, "e.example")
    text = str(Credentials(ca="ca.pem").explain("tls://e.example", caught.value))
    assert "certificate is for another host" in text
    assert "groupcomm certs issue --host" in text


def test_bytes_that_are_changed_on_the_way_end_the_connection(contexts: Contexts) -> None:
    client, daemon = ends(contexts)
    client._socket.send(b"\x17\x03\x03\x00\x20" + bytes(32))
    with pytest.raises(ssl.SSLError):
        daemon.recv(100)
    assert daemon.fault is not None
    with pytest.raises(ssl.SSLError):
        daemon.recv(100)
    client.close()
    daemon.close()


def test_a_daemon_speaks_nothing_older_than_1_3(contexts: Contexts) -> None:
    old = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    old.maximum_version = ssl.TLSVersion.TLSv1_2
    with pytest.raises(ssl.SSLError, match="UNSUPPORTED_PROTOCOL"):
        ends((old, contexts[1]))
