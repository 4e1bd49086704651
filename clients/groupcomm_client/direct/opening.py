"""Opening a peer: its socket, its tasks, and whom it joins."""

import secrets
import socket
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Final
from urllib.parse import quote

import trio

from groupcomm.algorithms.direct.peer import Make, Peer
from groupcomm.algorithms.direct.settings import Timing
from groupcomm.algorithms.vector_session import VectorSession
from groupcomm.errors import CannotConnect, ConfigError, SessionEnded
from groupcomm.host.addresses import Address, parse_address
from groupcomm.host.trace_file import TraceFile
from groupcomm_client.direct.peer import DirectPeer

WELCOME_S: Final = 10.0
"""A latecomer must be welcome within it."""

GOODBYE_S: Final = 5.0
"""How long the end of a block waits until the others have all that was sent to them."""


@asynccontextmanager
async def open(
    name: str,
    algorithm: Make = VectorSession,
    *,
    bind: str = "127.0.0.1:0",
    members: Iterable[str] | Mapping[str, str] = (),
    join: str | None = None,
    timing: Timing | None = None,
    seed: int | None = None,
    anywhere: bool = False,
    trace: Path | None = None,
) -> AsyncIterator[DirectPeer]:
    """Be a peer for the length of a block, and leave in order at its end.

    Args:
        name: to be known by, unique in the group.
        algorithm: that all members run: a class of `groupcomm.algorithms`, or what makes one.
        bind: where to listen; port 0 lets the system choose.
        members: all that are there from the beginning, itself among them or not; by their addresses
            where these are known. None, for one that comes late, or for the first of a session.
        join: address of a member: who knows one comes to know all.
        timing: timeouts.
        seed: of all chances of faults; None for a random one.
        anywhere: allow an address that other hosts can reach. Nothing is sealed.
        trace: a folder in which the steps of the algorithm are written down (docs/trace.md).

    Raises:
        ConfigError: an address is none, or can be reached by other hosts; no trace can be written.
        LocalProtocolError: the algorithm has fixed members, and none are named.
        CannotConnect: no member answers a latecomer, or they refuse it; the text says why.
        OSError: the address is in use.
    """
    where = parse_address(bind, "bind", 0)
    if not (where.is_loopback or anywhere):
        raise ConfigError(
            f"bind is {bind!r}, which other hosts can reach, and what peers send is not sealed;"
            " say anywhere=True if that is no harm"
        )
    addresses = [join] if join is not None else []
    if isinstance(members, Mapping):
        addresses += [each for other, each in members.items() if other != name and each]
    file = None if trace is None else TraceFile(trace / f"peer-{quote(name, safe='')}.jsonl")
    peer = Peer(
        name,
        algorithm,
        incarnation=secrets.randbits(64),
        founders=members,
        greet=[str(parse_address(each, "join")) for each in addresses],
        timing=timing,
        record=None if file is None else file.record,
    )
    with _bound(where) as bound:
        made = DirectPeer(peer, bound, secrets.randbits(32) if seed is None else seed, file)
        async with _running(made, join if not members else None):
            yield made


@asynccontextmanager
async def _running(peer: DirectPeer, join: str | None) -> AsyncIterator[None]:
    """Have it talk for the length of a block; `join`: where a latecomer is to be welcomed."""
    failure: Exception | None = None
    async with trio.open_nursery() as nursery:
        nursery.start_soon(peer.run)
        try:
            if join is not None:
                await _be_welcomed(peer, join)
            yield
        except Exception as error:
            failure = error  # raised below, where the nursery does not wrap it
        finally:
            with trio.move_on_after(GOODBYE_S, shield=True):
                await peer.leave()
            nursery.cancel_scope.cancel()
    if failure is not None:
        raise failure


@contextmanager
def _bound(where: Address) -> Iterator[socket.socket]:
    family = socket.AF_INET6 if ":" in where.host else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK) as bound:
        bound.bind((where.host, where.port))
        yield bound


async def _be_welcomed(peer: DirectPeer, join: str) -> None:
    try:
        with trio.fail_after(WELCOME_S):
            await peer.welcomed()
    except trio.TooSlowError:
        raise CannotConnect(
            f"no member at {join} has welcomed {peer.name} within {WELCOME_S:g} s"
        ) from None
    except SessionEnded as ended:
        raise CannotConnect(str(ended)) from None
