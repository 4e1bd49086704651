"""A daemon outside: sockets and lookups around an `Asker`, and the files of one that was admitted.

docs/joining.md has the protocol, and the files.
"""

import json
import logging
import os
import socket
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

import attrs
import trio

from groupcomm.config.roster import RosterRecord
from groupcomm.errors import BadDatagram, ConfigError, GroupCommError
from groupcomm.host.addresses import DEFAULT_PORT, Address
from groupcomm.host.key_file import store_keys
from groupcomm.host.private_files import open_private, write_private
from groupcomm.joining.asker import Asker, Credential, State
from groupcomm.joining.messages import JoinRequest, Package, decode_package_untrusted
from groupcomm.joining.token import Token
from groupcomm.names import cluster_number
from groupcomm.security.layout import SUITE_IDENTITIES, SUITE_NONE
from groupcomm.wire.joining import REQUEST_BYTES, Role
from groupcommd.config.config_file import JOINED
from groupcommd.config.present_address import local_address
from groupcommd.config.seeds import Seed, look_up_off_the_loop
from groupcommd.config.site_tables import read_place
from groupcommd.files.identity_file import store_roll
from groupcommd.files.state_dir import StateDir

JOINING: Final = "joining.json"
KEYS: Final = "cluster.key"
IDENTITIES: Final = "identities.toml"

LOOK_UP_S: Final = 0.25
LOOK_UP_MAX_S: Final = 1.0
"""The times between two lookups of one seed, the first and the longest: a changed record is found
within two seconds."""

TELL_S: Final = 10.0
"""A daemon that nobody answers says so this often."""

_log = logging.getLogger("groupcommd")


class JoinRefused(GroupCommError):
    """The cluster has refused to admit this daemon; the text says why, and what to do."""


# ---- a conversation over sockets ----


class AskerSocket:
    """Sends and receives for one asker, until it is over.

    Args:
        asker: the asker.
        seeds: the daemons to ask.
        more: returns further addresses to ask.
        look_up: looks a seed up.
        own: the address of this daemon, which is not asked; None without one.
    """

    def __init__(
        self,
        asker: Asker[Address],
        seeds: Sequence[Seed],
        more: Callable[[], Iterable[Address]] = tuple,
        look_up: Callable[[Seed], Awaitable[list[Address]]] = look_up_off_the_loop,
        own: Address | None = None,
    ) -> None:
        self._asker, self._seeds, self._more, self._look_up = asker, seeds, more, look_up
        self._own = own
        self._found: dict[Seed, list[Address]] = {}
        self._failed: dict[Seed, str] = {}
        self._timer = trio.CancelScope()
        self._sockets: dict[socket.AddressFamily, trio.socket.SocketType] = {}

    async def run(self) -> None:
        """Return once the asker is over."""
        async with trio.open_nursery() as nursery:
            self._nursery = nursery
            for seed in self._seeds:
                nursery.start_soon(self._watch, seed)
            nursery.start_soon(self._tell)
            try:
                while self._asker.state is not State.OVER:
                    await self._step()
            finally:
                nursery.cancel_scope.cancel()
                for each in self._sockets.values():
                    each.close()

    async def _step(self) -> None:
        asker = self._asker
        asker.targets = self._targets()
        try:
            datagrams = asker.step(trio.current_time())
        except OSError as error:  # there is no way to the daemon that was to be asked
            _log.debug("no request can be made: %s", error)
            await trio.sleep(LOOK_UP_S)
            return
        for target, data in datagrams:
            with suppress(OSError):  # it counts as lost
                await self._socket(target).sendto(data, (target.host, target.port))
        with trio.CancelScope(deadline=asker.due) as self._timer:
            if asker.state is not State.OVER:
                await trio.sleep_forever()

    def _targets(self) -> list[Address]:
        found = [address for each in self._found.values() for address in each]
        return [each for each in dict.fromkeys((*found, *self._more())) if each != self._own]

    def _socket(self, target: Address) -> trio.socket.SocketType:
        family = socket.AF_INET6 if ":" in target.host else socket.AF_INET
        found = self._sockets.get(family)
        if found is None:
            found = self._sockets[family] = trio.socket.socket(family, socket.SOCK_DGRAM)
            self._nursery.start_soon(self._receive, found)
        return found

    async def _receive(self, source: trio.socket.SocketType) -> None:
        while True:
            try:
                data, sender = await source.recvfrom(REQUEST_BYTES + 1)
            except OSError:  # of an earlier datagram: nobody listens there
                await trio.sleep(0)
                continue
            self._asker.receive(Address(*sender[:2]), data, trio.current_time())
            self._timer.cancel()

    async def _watch(self, seed: Seed) -> None:
        """Look a seed up again and again: its records may change while nobody answers."""
        wait_s = LOOK_UP_S
        while True:
            try:
                self._found[seed] = await self._look_up(seed)
                self._failed.pop(seed, None)
            except OSError as error:
                self._failed[seed] = error.strerror or str(error)
            if self._asker.state is State.OPENING:
                self._asker.due = trio.current_time()
                self._timer.cancel()
            if not seed.is_name:
                return
            await trio.sleep(wait_s)
            wait_s = min(LOOK_UP_MAX_S, 2 * wait_s)

    async def _tell(self) -> None:
        while True:
            await trio.sleep(TELL_S)
            failed = [f"{seed} cannot be looked up: {why}" for seed, why in self._failed.items()]
            asked = ", ".join(map(str, self._targets())) or "nobody"
            if self._asker.state is State.OPENING:
                _log.warning(
                    "none of %s answers; this daemon goes on asking. Check the addresses, the"
                    " firewall (UDP), whether the cluster's key was changed since the token was"
                    " made, and whether the logs there tell of junk%s",
                    asked,
                    "".join(f"; {text}" for text in failed),
                )
            elif self._asker.waits_for:
                _log.warning("the cluster has not decided yet: %s", self._asker.waits_for)


# ---- joining ----


@attrs.frozen(kw_only=True)
class JoinPlan:
    """All that a daemon needs to join.

    Attributes:
        token: the token.
        seeds: the daemons to ask.
        own: its own addresses, as text; (): that of the way to the daemon that answers.
        port: its port, if `own` is empty.
        identity: the file of its private key; None without one.
    """

    token: Token
    seeds: tuple[Seed, ...]
    own: tuple[str, ...] = ()
    port: int = DEFAULT_PORT
    identity: Path | None = None


def check_identity(package: Package, plan: JoinPlan) -> None:
    """Raise JoinRefused if the cluster has identities and this daemon has none."""
    if package.suite == SUITE_IDENTITIES and plan.identity is None:
        raise JoinRefused(
            "the daemons of this cluster have identities: make one with groupcomm identity new, set"
            " identity in the file of this daemon, and start it again with the same token"
        )


async def join(plan: JoinPlan, state: StateDir) -> None:
    """Ask for admission, and store what the cluster gives.

    Args:
        plan: all that is needed.
        state: the locked state folder.

    Raises:
        JoinRefused: the cluster refuses.
        OSError, GroupCommError: files cannot be written, or an address is wrong.
    """
    token = plan.token
    credential = Credential(
        role=Role.TOKEN,
        id=token.id,
        cluster=cluster_number(token.cluster),
        key_id=token.key_id,
        private=token.private,
        public=token.public,
    )

    def request(target: Address, _: bytes) -> JoinRequest:
        own = plan.own or (str(Address(local_address(target), plan.port)),)
        _log.info("%s is asked to admit this daemon at %s", target, ", ".join(own))
        return JoinRequest(token.name, own)

    asker: Asker[Address] = Asker(credential, _private_key(state.path), request, os.urandom)
    _log.info(
        "this daemon asks to join cluster %s: %s", token.cluster, ", ".join(map(str, plan.seeds))
    )
    await AskerSocket(asker, plan.seeds).run()
    if asker.refusal is not None:
        raise JoinRefused(asker.refusal)
    assert asker.package is not None, "it is over"
    try:
        package = decode_package_untrusted(asker.package)
    except BadDatagram as error:
        raise JoinRefused(f"the cluster's package cannot be read: {error}") from None
    check_identity(package, plan)
    store_package(state, package, token.name, plan.seeds)
    _log.info("joined cluster %s: the token is used up, and needed no more", token.cluster)


def _private_key(folder: Path) -> bytes:
    """Return the private key of this daemon for joining; make it at the first attempt."""
    path = folder / JOINING
    with suppress(FileNotFoundError), open_private(path, "state_dir") as file:
        try:
            key = bytes.fromhex(json.load(file)["private"])
        except (ValueError, KeyError, TypeError):
            key = b""
        if len(key) == 32:
            return key
    key = os.urandom(32)
    write_private(path, json.dumps({"private": key.hex()}) + "\n")
    return key


def store_package(state: StateDir, package: Package, name: str, seeds: Iterable[Seed]) -> None:
    """Write what a daemon needs to start without a token; the last file makes it count.

    Raises:
        OSError, GroupCommError: a file cannot be written.
    """
    folder, entry = state.path, package.roster.entry(name)
    if entry is None:
        raise JoinRefused(f"the cluster's roster does not have {name}: it was removed again")
    if package.keys is not None:
        store_keys(folder / KEYS, package.keys)
    if package.roll is not None:
        store_roll(folder / IDENTITIES, package.roll)
    state.store_rosters(RosterRecord(agreed=package.roster))
    lines = [
        "# Settings of the cluster that this daemon has joined: they replace those of its file.",
        f"cluster = {_quoted(package.cluster)}",
        f"packet_bytes = {package.packet_bytes}",
        f"seeds = {_list(map(str, seeds))}",
        "insecure = true" if package.suite == SUITE_NONE else f"key_file = {_quoted(KEYS)}",
        *([f"identities = {_quoted(IDENTITIES)}"] if package.roll is not None else []),
        "[timing]",
        *(f"{key} = {float(value)!r}" for key, value in sorted(package.timing.items())),
        f"[sites.{_quoted(entry.site)}]",
        *([f"multicast = {_quoted(package.multicast)}"] if package.multicast else []),
        f"[sites.{_quoted(entry.site)}.daemons]",
        f"{_quoted(name)} = {_list(entry.addresses)}",
    ]
    write_private(folder / JOINED, "\n".join([*lines, ""]))
    (folder / JOINING).unlink(missing_ok=True)


def _list(texts: Iterable[str]) -> str:
    return f"[{', '.join(map(_quoted, texts))}]"


def _quoted(text: str) -> str:
    """Return a basic string of TOML, which JSON's are as well."""
    return json.dumps(text, ensure_ascii=False)


def plan_of(
    token: Token, seeds: tuple[Seed, ...], own: tuple[str, ...], port: int | None, name: str
) -> JoinPlan:
    """Return the plan of a daemon; raise ConfigError if it cannot join so."""
    if not seeds:
        raise ConfigError(
            "a daemon with a token needs daemons to ask: --join HOST:PORT, or seeds in its file"
        )
    if name != token.name:
        raise ConfigError(
            f"the token is for daemon {token.name}, and this one is {name}: give --name"
            f" {token.name}"
        )
    if port == 0:
        raise ConfigError("port is 0; a daemon that joins needs a port that others know: --port")
    own = tuple(str(read_place(text, f"address of {name}")) for text in own)
    return JoinPlan(token=token, seeds=seeds, own=own, port=port or DEFAULT_PORT)
