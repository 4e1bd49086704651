"""A daemon whose host has another address than the roster says: it tells the cluster so.

docs/joining.md has the protocol.
"""

import logging
import os
from collections.abc import Callable
from typing import Final

import trio
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from groupcomm.errors import BadDatagram, GroupCommError
from groupcomm.host.addresses import Address
from groupcomm.joining.asker import Asker, Credential
from groupcomm.joining.handshake import public_of
from groupcomm.joining.messages import MoveRequest, signed_text
from groupcomm.joining.token import cluster_private, member_private
from groupcomm.names import cluster_number, daemon_number
from groupcomm.wire.joining import Role
from groupcomm.wire.roster import decode_roster_untrusted
from groupcommd.config.daemon_config import DaemonConfig
from groupcommd.config.roster_config import addresses_of
from groupcommd.joining.join_client import AskerSocket
from groupcommd.joining.join_service import read_secrets

AGAIN_S: Final = 5.0
"""A request that was refused, or could not be made, is made again after this time."""

LEARN_S: Final = 0.5
"""The time in which a daemon learns the roster with its new address from the others."""

_log = logging.getLogger("groupcommd")


async def tell_move(
    current: Callable[[], DaemonConfig], locate: Callable[[str, Address], object], own: Address
) -> None:
    """Ask the cluster to move this daemon, until the roster has its address.

    Args:
        current: returns the configuration, with the roster that counts.
        locate: notes the address of another daemon.
        own: the address at which the daemon listens.
    """
    told = ""
    while not _is_known(current(), own):
        config = current()
        try:
            asker = await _asker(config, own)
        except (GroupCommError, OSError) as error:
            _log.error("this daemon cannot tell the others that it is at %s: %s", own, error)
            await trio.sleep(AGAIN_S)
            continue
        if not told:
            _log.warning(
                "roster %d says that this daemon is elsewhere than at %s, as its host has another"
                " address: it asks the others to move it",
                config.core.roster.number,
                own,
            )
            told = "moving"
        await AskerSocket(asker, config.seeds, lambda: _others(current(), own), own=own).run()
        if asker.package is not None:
            _learn_places(asker.package, current(), locate)
            await trio.sleep(LEARN_S)
            continue
        if asker.refusal != told:
            _log.error("the others do not move this daemon to %s: %s", own, asker.refusal)
        told = str(asker.refusal)
        await trio.sleep(AGAIN_S)


def _learn_places(
    package: bytes, config: DaemonConfig, locate: Callable[[str, Address], object]
) -> None:
    """Send to the others where the roster of the daemon that was asked says: they may have moved,
    too.
    """
    try:
        roster = decode_roster_untrusted(package)
    except BadDatagram as error:
        _log.error("the roster of the daemon that was asked cannot be read: %s", error)
        return
    for entry in roster.entries:
        if entry.name != config.name and entry != config.core.roster.entry(entry.name):
            for address in addresses_of(entry)[:1]:
                locate(entry.name, address)


def _is_known(config: DaemonConfig, own: Address) -> bool:
    entry = config.core.roster.entry(config.name)
    return entry is None or str(own) in entry.addresses


def _others(config: DaemonConfig, own: Address) -> list[Address]:
    found = {**config.places, **{name: (at,) for name, at in config.located.items()}}
    return [at for name, each in found.items() if name != config.name for at in each if at != own]


async def _asker(config: DaemonConfig, own: Address) -> Asker[Address]:
    secrets = await trio.to_thread.run_sync(read_secrets, config, abandon_on_cancel=True)
    name, cluster, keys = config.name, config.core.cluster, secrets.keys
    key = keys.keys[keys.active]
    credential = Credential(
        role=Role.MEMBER,
        id=daemon_number(name).to_bytes(8, "big"),
        cluster=cluster_number(cluster),
        key_id=keys.active,
        private=member_private(key, cluster, name),
        public=public_of(cluster_private(key, cluster)),
    )

    def request(_: Address, transcript: bytes) -> MoveRequest:
        wanted = MoveRequest(name, (str(own),))
        if config.identity is None:
            return wanted
        private = Ed25519PrivateKey.from_private_bytes(config.identity)
        return MoveRequest(name, wanted.addresses, private.sign(signed_text(transcript, wanted)))

    return Asker(credential, os.urandom(32), request, os.urandom)
