"""Opening a peer: its socket, its tasks, and the group that it joins."""

import secrets
import socket
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Final
from urllib.parse import quote

import trio

from groupcomm.errors import CannotConnect, ConfigError, SessionEnded
from groupcomm.host.addresses import Address, parse_address
from groupcomm.host.trace_file import TraceFile
from groupcomm.names import check_user
from groupcomm_client.arguments import check_function, check_names, check_type
from groupcomm_lessons.algorithms.direct.peer import Make, Peer
from groupcomm_lessons.algorithms.direct.settings import Timing
from groupcomm_lessons.algorithms.vector_session import VectorSession
from groupcomm_lessons.direct.peer import DirectPeer

WELCOME_S: Final = 10.0
"""A latecomer must be welcomed within this time."""

GOODBYE_S: Final = 5.0
"""The longest time for which the end of a block waits until the others have all messages."""


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
        name: the name of the peer, unique in the group.
        algorithm: the algorithm that all members run: a class of `groupcomm_lessons.algorithms`, or
            a factory.
        bind: the address to listen at; port 0 lets the system choose.
        members: all founding members, with or without this one; by their addresses where these are
            known. None for a latecomer, or for the first member of a session.
        join: the address of one member, from which the peer learns the addresses of all others.
        timing: the timeouts.
        seed: the seed of all random faults; None for a random one.
        anywhere: whether to allow an address that other hosts can reach. Nothing is sealed.
        trace: the folder for a trace of the algorithm's steps (docs/trace.md).

    Raises:
        ConfigError: an address is invalid, or can be reached by other hosts; or no trace can be
            written.
        LocalProtocolError: the algorithm has fixed members, and none are named; or an argument is
            of a wrong type.
        CannotConnect: no member answers a latecomer, or they refuse it; the text says why.
        OSError: the address is in use.
    """
    _check_types(name, algorithm, timing, seed, trace)
    if not isinstance(members, Mapping):
        members = tuple(map(check_user, check_names(members)))
    check_type("join", join, str, "the address of a member")
    where = _address_of(bind, anywhere=anywhere)
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


def _address_of(bind: str, *, anywhere: bool) -> Address:
    """Return the address to listen at, if that is allowed."""
    check_type("bind", bind, str, "a text, such as '127.0.0.1:0'")
    where = parse_address(bind, "bind", 0)
    if not (where.is_loopback or anywhere):
        raise ConfigError(
            f"bind is {bind!r}, which other hosts can reach, and peers do not seal their "
            "datagrams; pass anywhere=True if that does no harm"
        )
    return where


def _check_types(name: str, algorithm: Make, timing: object, seed: object, trace: object) -> None:
    check_user(name)
    check_function("algorithm", algorithm)
    check_type("timing", timing, Timing, "Timing(...)")
    check_type("seed", seed, int, "a number")
    check_type("trace", trace, Path, "the Path of a folder")


@asynccontextmanager
async def _running(peer: DirectPeer, join: str | None) -> AsyncIterator[None]:
    """Run a peer for the length of a block; `join` is the address to be welcomed from."""
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
            if not peer.is_forsaken:
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
            f"no member at {join} has welcomed {peer.name} in {WELCOME_S:g} s: is one "
            "running there?"
        ) from None
    except SessionEnded as ended:
        raise CannotConnect(str(ended)) from None
