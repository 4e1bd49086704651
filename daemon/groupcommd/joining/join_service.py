"""A daemon's part in joining: it invites daemons, and answers those outside.

docs/joining.md has the protocol. The core is not concerned: it only agrees on changes of the
roster, which this part proposes.
"""

import logging
import os
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from math import inf
from typing import Final

import attrs
import trio
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from groupcomm.config.core import CoreConfig
from groupcomm.config.roster import Invitation, InviteDaemon, Roster
from groupcomm.engine import ChangeRoster, DaemonCore
from groupcomm.errors import ConfigError, GroupCommError, LocalProtocolError
from groupcomm.host.addresses import Address, parse_address
from groupcomm.host.key_file import read_key_file
from groupcomm.joining.admission import admission_of, decide_join, decide_move
from groupcomm.joining.handshake import public_of
from groupcomm.joining.host import Applicant, JoinHost
from groupcomm.joining.messages import (
    MAX_REASON,
    Answer,
    JoinRequest,
    MoveRequest,
    Package,
    Refused,
    Wait,
    encode_package,
    signed_text,
)
from groupcomm.joining.token import SECRET_BYTES, Token, cluster_private, member_private
from groupcomm.names import cluster_number, daemon_number
from groupcomm.security.identity import Roll
from groupcomm.security.keys import KeyRing
from groupcomm.security.layout import SUITE_IDENTITIES
from groupcomm.wire.joining import Open, Role
from groupcomm.wire.roster import encode_roster
from groupcommd.config.daemon_config import DaemonConfig
from groupcommd.files.identity_file import read_roll
from groupcommd.host.bounded_log import BoundedLog
from groupcommd.network.udp import Asked

MAX_VALID_S: Final = 30 * 86_400.0
"""The longest time for which a token is valid."""

REFRESH_S: Final = 0.5
"""The files of keys and identities are read again after this time, if somebody asks."""

_NO_KEY: Final = bytes(32)
"""The key from which others follow in a cluster without keys: anybody can join it anyway."""

_log = logging.getLogger("groupcommd")


@attrs.frozen
class _Secrets:
    """The contents of the files of keys and identities."""

    keys: KeyRing
    roll: Roll | None


def read_secrets(config: DaemonConfig) -> _Secrets:
    """Return the present keys and identities, which daemons may have changed since the start.

    Raises:
        ConfigError, OSError: a file cannot be used.
    """
    keys = KeyRing({0: _NO_KEY}, 0) if config.keys is None else config.keys
    if config.keys is not None and config.key_file is not None:
        keys = read_key_file(config.key_file)
    return _Secrets(keys, read_roll(config.identities) if config.identities is not None else None)


class JoinService:
    """Invites daemons, and answers those outside, for one start of a daemon.

    Args:
        core: the daemon's core.
        current: returns its configuration, with the roster that counts.
        check: returns the addresses of a daemon of a name in one form, or raises ConfigError.
        locate: notes the address at which a daemon says it is.

    Attributes:
        host: the protocol.
    """

    def __init__(
        self,
        core: DaemonCore,
        current: Callable[[], DaemonConfig],
        check: Callable[[str, Sequence[str]], tuple[str, ...]],
        locate: Callable[[str, Address], None],
    ) -> None:
        self._core, self._config, self._check, self._locate = core, current, check, locate
        config, now = current(), trio.current_time()
        self._cluster = cluster_number(config.core.cluster)
        self.host = JoinHost(self._cluster, self, os.urandom, now)
        self._secrets: _Secrets | None = None
        self._read_at = -inf
        self._log = BoundedLog()
        self._logged = ""

    # ---- invitations ----

    def invite(self, name: str, site: str, valid_s: float) -> tuple[Token, InviteDaemon]:
        """Return a token, and the change of the roster with which it counts.

        Raises:
            ConfigError, OSError: the time is wrong, or the key file cannot be read.
        """
        if not 1 <= valid_s <= MAX_VALID_S:
            raise ConfigError(f"a token may be valid for 1 s to 30 days, and not for {valid_s:g} s")
        config, now_s = self._config(), int(time.time())
        keys = read_secrets(config).keys
        token = Token(
            cluster=config.core.cluster,
            name=name,
            key_id=keys.active,
            id=os.urandom(8),
            secret=os.urandom(SECRET_BYTES),
            public=public_of(cluster_private(keys.keys[keys.active], config.core.cluster)),
        )
        invitation = Invitation(
            id=token.id,
            name=name,
            site=site,
            proof=public_of(token.private),
            expires_s=now_s + int(valid_s),
        )
        return token, InviteDaemon(invitation=invitation, now_s=now_s)

    # ---- datagrams ----

    def answer(self, asked: Sequence[Asked], now: float, nursery: trio.Nursery) -> None:
        """Answer datagrams of daemons outside, at their sources."""
        if now >= self._read_at + REFRESH_S:
            self._read_at = now
            nursery.start_soon(self._refresh)
        for source, sender, data in asked:
            answer = self.host.answer(data, now)
            if answer is not None:
                with suppress(OSError):  # it counts as lost
                    source.sendto(answer, sender)

    async def _refresh(self) -> None:
        """Read the files in a thread: the next datagram of the same daemon comes soon."""
        config = self._config()
        try:
            self._secrets = await trio.to_thread.run_sync(
                read_secrets, config, abandon_on_cancel=True
            )
        except (GroupCommError, OSError) as error:
            self._log.line(
                "no answer", logging.ERROR, "daemons that ask to join get no answer: %s", error
            )
            self._secrets = None

    # ---- the context of the protocol ----

    def cluster_private(self, key_id: int) -> bytes | None:
        """See HostContext."""
        config, secrets = self._config(), self._secrets
        key = None if secrets is None else secrets.keys.keys.get(key_id)
        return None if key is None else cluster_private(key, config.core.cluster)

    def public_of(self, request: Open) -> bytes | None:
        """See HostContext."""
        config = self._config()
        if request.role is Role.TOKEN:
            found = config.core.roster.invitation(request.credential)
            return None if found is None else found.proof
        secrets = self._secrets
        key = None if secrets is None else secrets.keys.keys.get(request.key_id)
        for name in config.core.roster.names:
            if key is not None and _credential(name) == request.credential:
                return public_of(member_private(key, config.core.cluster, name))
        return None

    def decide(self, applicant: Applicant, request: JoinRequest | MoveRequest) -> Answer | bytes:
        """See HostContext."""
        try:
            if isinstance(request, JoinRequest):
                return self._decide_join(applicant, request)
            return self._decide_move(applicant, request)
        except ConfigError as error:
            return self._refuse(request.name, str(error))
        except LocalProtocolError as error:
            return Wait(str(error)[:MAX_REASON])

    def _refuse(self, name: str, reason: str) -> Refused:
        if self._logged != (text := f"daemon {name} was refused: {reason}"):
            self._logged = text
            self._log.line("refused", logging.WARNING, "%s", text)
        return Refused(reason[:MAX_REASON])

    def _decide_join(self, applicant: Applicant, request: JoinRequest) -> Answer | bytes:
        config = self._config()
        roster = config.core.roster
        if applicant.role is not Role.TOKEN:
            return Refused("a daemon of the roster needs no token")
        found = decide_join(
            roster, applicant.credential, applicant.public, request.name, time.time()
        )
        if isinstance(found, Refused):
            return self._refuse(request.name, found.reason)
        if found is None:
            return self._package(roster, request.name)
        addresses = self._check(request.name, request.addresses)
        self._propose(ChangeRoster(change=admission_of(found, applicant.public, addresses)))
        _log.info("daemon %s asks to join at %s", request.name, ", ".join(addresses))
        return Wait("the daemons of the view store the new roster")

    def _propose(self, change: ChangeRoster) -> None:
        status = self._core.status(trio.current_time()).roster
        if status["changing"]:
            raise LocalProtocolError(
                "the daemons of the view store another change; it waits for the disks of"
                f" {', '.join(map(str, status['lacking']))}"
            )
        self._core.command(change)

    def _package(self, roster: Roster, name: str) -> bytes | Wait:
        config, secrets = self._config(), self._secrets
        if secrets is None:
            return Wait("the daemon that was asked cannot read its key file")
        entry = roster.entry(name)
        assert entry is not None, "it was admitted"
        return encode_package(
            Package(
                cluster=config.core.cluster,
                roster=roster,
                timing=timings(config.core),
                packet_bytes=config.core.packet_limit,
                suite=config.core.suite,
                keys=None if config.keys is None else secrets.keys,
                roll=secrets.roll,
                multicast=multicast_of(config, entry.site),
            )
        )

    # ---- daemons that have moved ----

    def _decide_move(self, applicant: Applicant, request: MoveRequest) -> Answer | bytes:
        config, name = self._config(), request.name
        if applicant.role is not Role.MEMBER or applicant.credential != _credential(name):
            return Refused("a daemon can only say where it is itself")
        roll = None if self._secrets is None else self._secrets.roll
        if config.core.suite == SUITE_IDENTITIES and not _has_signed(roll, applicant, request):
            return self._refuse(name, f"its request is not signed by the identity of {name}")
        addresses = self._check(name, request.addresses)
        change = decide_move(config.core.roster, name, addresses)
        if isinstance(change, Refused):
            return change
        if change is None:
            return encode_roster(config.core.roster)
        view = self._core.status(trio.current_time()).view
        at = parse_address(addresses[0], f"address of {name}")
        if (
            view is not None
            and name in (each.name for each in view.daemons)
            and config.located.get(name) != at
        ):
            return Wait(f"daemon {name} is in the view, where the roster says: is it there twice?")
        self._locate(name, at)
        self._propose(ChangeRoster(change=change))
        _log.info("daemon %s says that it is at %s now", name, ", ".join(addresses))
        return Wait("the daemons of the view store the new roster")


def _credential(name: str) -> bytes:
    return daemon_number(name).to_bytes(8, "big")


def _has_signed(roll: Roll | None, applicant: Applicant, request: MoveRequest) -> bool:
    if roll is None or not roll.is_trusted(request.name):
        return False
    public = Ed25519PublicKey.from_public_bytes(roll.daemons[request.name])
    try:
        public.verify(request.signature, signed_text(applicant.transcript, request))
    except InvalidSignature:
        return False
    return True


def timings(config: CoreConfig) -> dict[str, float]:
    """Return all timings of a configuration, by the names in files."""
    return {name: float(value) for name, value in attrs.asdict(config.timing).items()}


def multicast_of(config: DaemonConfig, site: str) -> str | None:
    """Return the multicast address of a site, as the daemon's file has it; None without one."""
    found = dict(config.core.advised).get(f"sites.{site}.multicast")
    return None if found is None else found[0]
