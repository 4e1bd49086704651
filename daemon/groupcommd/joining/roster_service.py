"""The roster of a running daemon: commands of operators that add, remove and move daemons.

Commands come from the daemon's own user or from root on its host, as questions that begin with
``daemons``. Each is checked here for what only a shell knows: addresses, keys and identities. The
core checks the rest, and agrees on the change with the other daemons (docs/roster.md).
"""

import json
import logging
from collections.abc import Callable, Sequence
from math import isfinite
from typing import Annotated, Any, Final, TypeAlias

import attrs
import msgspec
import trio
from msgspec import Meta

from groupcomm.config.roster import (
    MAX_ADDRESSES,
    AddDaemon,
    InviteDaemon,
    MoveDaemon,
    RemoveDaemon,
    RemoveLinks,
    Roster,
    RosterChange,
    SetLinks,
)
from groupcomm.config.site_links import SitePair, pair_of_sites
from groupcomm.config.versions import CROWDS, HOST_NAMES, INVITATIONS, VOTES
from groupcomm.config.view import PLAIN_RINGS
from groupcomm.config.votes import MAX_VOTES, Policy, SetPolicy, SetVotes
from groupcomm.engine import ChangeRoster, DaemonCore, Status
from groupcomm.errors import ConfigError, GroupCommError, LocalProtocolError
from groupcomm.host.addresses import Address
from groupcomm.joining.token import Token
from groupcomm.names import check_daemon
from groupcommd.config.daemon_config import DaemonConfig
from groupcommd.config.reach import address_fault, loopback_fault
from groupcommd.config.roster_config import host_names, names_of, places_of, with_roster
from groupcommd.config.seeds import Seed
from groupcommd.config.site_tables import (
    AddressOrName,
    check_names,
    read_place,
    sites_of_link,
)
from groupcommd.joining.join_service import JoinService

KNOWN: Final = (
    "daemons, daemons add {...}, daemons remove {...}, daemons move {...}, daemons set-links {...},"
    " daemons remove-links {...}, daemons invite {...},"
    " daemons votes {...}, daemons policy {...}"
)

_Addresses = Annotated[tuple[str, ...], Meta(min_length=1, max_length=MAX_ADDRESSES)]
_log = logging.getLogger("groupcommd")


class _Add(msgspec.Struct, forbid_unknown_fields=True):
    name: str
    addresses: _Addresses
    site: str | None = None
    links: dict[str, float] = {}  # the neighbours of a new site, with delays in milliseconds
    force: bool = False


class _Remove(msgspec.Struct, forbid_unknown_fields=True):
    name: str
    force: bool = False


class _Move(msgspec.Struct, forbid_unknown_fields=True):
    name: str
    addresses: _Addresses
    force: bool = False


class _SetLinks(msgspec.Struct, forbid_unknown_fields=True):
    links: Annotated[dict[str, float], Meta(min_length=1)]  # by SITE-SITE, in milliseconds
    force: bool = False


class _RemoveLinks(msgspec.Struct, forbid_unknown_fields=True):
    links: Annotated[tuple[str, ...], Meta(min_length=1)]  # each SITE-SITE
    force: bool = False


class _Invite(msgspec.Struct, forbid_unknown_fields=True):
    name: str
    valid_s: float
    site: str | None = None
    force: bool = False


class _Votes(msgspec.Struct, forbid_unknown_fields=True):
    name: str
    votes: Annotated[int, Meta(ge=0, le=MAX_VOTES)]
    force: bool = False


class _Policy(msgspec.Struct, forbid_unknown_fields=True):
    orderly: bool | None = None  # None: as it is
    tie_breaker: str | None = None  # "" for none
    force: bool = False


_Change: TypeAlias = _Add | _Remove | _Move | _SetLinks | _RemoveLinks | _Votes | _Policy

_Command: TypeAlias = _Change | _Invite

_COMMANDS: Final[dict[str, type[_Command]]] = {
    "add": _Add,
    "invite": _Invite,
    "remove": _Remove,
    "move": _Move,
    "set-links": _SetLinks,
    "remove-links": _RemoveLinks,
    "votes": _Votes,
    "policy": _Policy,
}


class RosterService:
    """The roster of one start of a daemon.

    Args:
        core: the daemon's core.
        config: its configuration.

    Attributes:
        config: its configuration, with all that has changed while it runs; nobody else holds it.
        joining: its part in the admission of others.
        on_located: called when a daemon is at another address.
    """

    def __init__(self, core: DaemonCore, config: DaemonConfig) -> None:
        self._core = core
        self.config = config
        self.on_located: Callable[[], object] = bool
        self._logged: set[str] = set()  # daemons without an identity that were logged
        self.joining = JoinService(core, lambda: self.config, self.check_addresses, self.locate)

    # ---- commands ----

    def answer(self, question: str, *, allowed: bool) -> bytes:
        """Answer a question, or begin a change, that begins with ``daemons``; return JSON.

        The answer to a change has the roster's number before it. An error that may be gone in a
        moment, without an operator, has ``again``.
        """
        status = self._core.status(trio.current_time())
        found: dict[str, Any]
        try:
            found = self._answer(question.split(maxsplit=2)[1:], status, allowed=allowed)
        except GroupCommError as error:
            busy = status.roster["changing"] or not status.roster["in_view"]
            found = {"error": str(error), "again": bool(busy)}
        return json.dumps(found, ensure_ascii=False).encode()

    def _answer(self, words: list[str], status: Status, *, allowed: bool) -> dict[str, Any]:
        if not words:
            asked = self.config.name
            return {**status.roster, "majority": status.majority, "asked": asked}
        if not allowed:
            raise LocalProtocolError(
                "only the daemon's own user and root may change the roster: run the command on its"
                " host, as that user, with the address of its unix socket"
            )
        wanted = self._command(words)
        token: Token | None = None
        change: RosterChange
        if names_of(self.config.core.roster.entries):
            self._check_readers(status, HOST_NAMES, "names of hosts in the roster")
        if isinstance(wanted, _Votes | _Policy):
            self._check_readers(status, VOTES, "votes")
        if isinstance(wanted, _Invite):
            self._check_readers(status, INVITATIONS, "invitations")
            token, change = self._invite(wanted)
            self._check_sites(status, change.invitation.site)
        else:
            change = self._change(wanted)
        if isinstance(change, AddDaemon):
            self._check_sites(status, change.site)
        self._core.command(ChangeRoster(change=change, forced=wanted.force))
        _log.info(
            "all daemons are asked to change the roster: %s%s",
            change,
            ", also without a majority" if wanted.force else "",
        )
        answer = {"asked": " ".join(words), "number": status.roster["number"]}
        if token is None:
            return answer
        return {**answer, "token": token.encode(), "invitation": token.id.hex()}

    def _check_sites(self, status: Status, site: str) -> None:
        """Raise LocalProtocolError if a daemon of the view cannot have so many sites."""
        sites = self.config.core.roster.sites
        if site not in sites and len(sites) >= PLAIN_RINGS:
            self._check_readers(status, CROWDS, f"more than {PLAIN_RINGS} sites")

    def _check_readers(self, status: Status, feature: int, what: str) -> None:
        """Raise LocalProtocolError if a daemon of the view cannot read a part of a roster."""
        protocol = status.protocol
        if protocol.view is None:
            return  # the core refuses it, for now
        lacking = [n for n, each in protocol.members.items() if not each.features & feature]
        if lacking:
            raise LocalProtocolError(
                f"{', '.join(lacking)}: an earlier release, which cannot read {what}: upgrade"
                " all daemons first; groupcomm daemons upgrade-status shows what is left"
            )

    def _invite(self, asked: _Invite) -> tuple[Token, InviteDaemon]:
        check_daemon(asked.name)
        self._check_identity(asked.name)
        site = self._site(asked.name, asked.site, self.config.core.roster, linked=False)
        return self.joining.invite(asked.name, site, asked.valid_s)

    def _command(self, words: list[str]) -> _Command:
        kind = _COMMANDS.get(words[0])
        if kind is None or len(words) != 2:
            raise LocalProtocolError(f"unknown command {' '.join(words)[:80]!r}: ask for {KNOWN}")
        try:
            return msgspec.json.decode(words[1], type=kind)
        except msgspec.MsgspecError as error:
            raise LocalProtocolError(f"daemons {words[0]}: {error}") from None

    def _change(self, asked: _Change) -> RosterChange:
        """Return the change that is asked for; raise GroupCommError if it must not be made."""
        roster = self.config.core.roster
        match asked:
            case _Add():
                return self._addition(asked, roster)
            case _Remove(name=name):
                return RemoveDaemon(name)
            case _Move(name=name):
                return MoveDaemon(name, self.check_addresses(name, asked.addresses))
            case _SetLinks(links=links):
                return SetLinks(
                    tuple((*_pair(link, roster), _us(links[link], link)) for link in links)
                )
            case _RemoveLinks(links=removed):
                return RemoveLinks(tuple(_pair(link, roster) for link in removed))
            case _Votes(name=name, votes=votes):
                return SetVotes(name, votes)
            case _Policy(orderly=orderly, tie_breaker=tie_breaker):
                policy = roster.policy
                return SetPolicy(
                    Policy(
                        orderly=policy.orderly if orderly is None else orderly,
                        tie_breaker=policy.tie_breaker if tie_breaker is None else tie_breaker,
                    )
                )

    def _addition(self, asked: _Add, roster: Roster) -> AddDaemon:
        check_daemon(asked.name)
        addresses = self.check_addresses(asked.name, asked.addresses)
        self._check_identity(asked.name)
        site = self._site(asked.name, asked.site, roster, linked=bool(asked.links))
        links = tuple((other, _us(ms, other)) for other, ms in asked.links.items())
        return AddDaemon(name=asked.name, site=site, addresses=addresses, links=links)

    def check_addresses(self, name: str, texts: Sequence[str]) -> tuple[str, ...]:
        """Return the addresses of a daemon in one form; raise ConfigError if it cannot be there."""
        roster = self.config.core.roster
        places = places_of(roster.entries, self.config.places)
        taken: dict[AddressOrName, str] = {
            at: name for name, found in places.items() for at in found
        }
        taken |= {host: name for name, host in host_names(roster).items() if roster.entry(name)}
        found = [read_place(text, f"address of {name}") for text in texts]
        check_names(found, f"address of {name}")
        if any(isinstance(each, Seed) for each in found):
            status = self._core.status(trio.current_time())
            self._check_readers(status, HOST_NAMES, "names of hosts in the roster")
        for address in found:
            other = taken.get(address, name)
            if other != name:
                raise ConfigError(f"{other} is at {address} already: give {name} another one")
            self._check_address(name, address)
        return tuple(dict.fromkeys(map(str, found)))

    def _check_address(self, name: str, address: AddressOrName) -> None:
        config = self.config
        if isinstance(address, Seed):
            self._check_key(name, address)
            return
        if not address.port:
            raise ConfigError(f"address of {name} is {address}; a port above 0 is needed")
        if fault := address_fault(address):
            raise ConfigError(f"address of {name} is {address}: {fault}")
        own = config.addresses[config.name]
        if fault := address_fault(own):
            raise ConfigError(
                f"{config.name} is at {own}: {fault}; first groupcomm daemons move {config.name},"
                " and restart it"
            )
        if (":" in own.host) != (":" in address.host):
            raise ConfigError(
                f"address of {name} is {address}, and {config.name} is at {own}: all addresses must"
                " be IPv4 ones, or all IPv6 ones"
            )
        if address.is_loopback and own.is_loopback:
            return
        if address.is_loopback:
            raise ConfigError(loopback_fault({name: address, config.name: own}))
        if own.is_loopback:
            raise ConfigError(
                f"address of {name} is {address}, and {config.name} is at {own}, which other hosts"
                f" cannot reach: first groupcomm daemons move {config.name} to an address that they"
                " can reach, and restart it"
            )
        self._check_key(name, address)

    def _check_key(self, name: str, address: AddressOrName) -> None:
        """Raise ConfigError if a daemon of another host would not have the key of this one."""
        config = self.config
        if config.file is None and not config.insecure:
            raise ConfigError(
                f"address of {name} is {address}, and this daemon has the key of this host, which"
                " others lack: make a key with groupcomm keygen, and give all daemons a file that"
                " names it as key_file"
            )

    def _site(self, name: str, site: str | None, roster: Roster, *, linked: bool) -> str:
        sites = list(roster.sites)
        if site is None:
            if len(sites) > 1:
                raise ConfigError(f"site of {name} is missing: --site {' or '.join(sites)}")
            return sites[0]
        if not site.isprintable() or not 0 < len(site.encode()) <= 255:
            raise ConfigError(f"site is {site!r}; it must be a printable name")
        if site not in sites and roster.links and not linked:
            raise ConfigError(
                f"site {site} is new, and no link leads to it: name one of"
                f" {', '.join(sites)}, or give a link of the new site to one of them, with its"
                f" delay in milliseconds: --link {sites[0]}=40"
            )
        return site

    def _check_identity(self, name: str) -> None:
        if name in self._without_identity([name]):
            raise ConfigError(
                f"identities {self.config.identities}: {name} is not listed, so nobody would trust"
                f" it: first, on every host: groupcomm identity add {self.config.identities} {name}"
                " PUBLIC; groupcomm identity new at its host shows PUBLIC"
            )

    def _without_identity(self, names: list[str]) -> list[str]:
        """Return the daemons whose identity this one does not trust; [] without identities."""
        told = self._core.status(trio.current_time()).keys.description
        listed = None if told is None else told.get("identities")
        if listed is None:
            return []
        return [name for name in names if name not in listed["daemons"]]

    # ---- daemons at other addresses ----

    def locate(self, name: str, address: Address) -> None:
        """Send to a daemon at this address from now on, until the roster has another one."""
        if self.config.located.get(name) != address:
            located = {**self.config.located, name: address}
            self.config = attrs.evolve(self.config, located=located)
            self.on_located()

    # ---- another roster ----

    def use(self, roster: Roster) -> None:
        """Use another roster from now on, and log what an operator must do now."""
        before, self.config = self.config, with_roster(self.config, roster)
        name, own = self.config.name, self.config.places[self.config.name]
        host = self.config.names.get(name)
        elsewhere = host != before.names.get(name) if host else own != before.places[name]
        if elsewhere and not before.moved:
            _log.warning(
                "roster %d: this daemon is to be at %s, and listens at %s until its next start:"
                " restart it soon",
                roster.number,
                str(host) if host else ", ".join(map(str, own)),
                ", ".join(map(str, before.places[name])),
            )
        lacking = [each for each in self._without_identity(list(roster.names)) if each != name]
        for each in lacking:
            if each not in self._logged:
                self._logged.add(each)
                _log.error(
                    "roster %d has daemon %s, which is not listed in identities %s: this daemon"
                    " does not trust it; groupcomm identity add %s %s PUBLIC changes that",
                    roster.number,
                    each,
                    self.config.identities,
                    self.config.identities,
                    each,
                )


def _pair(link: str, roster: Roster) -> SitePair:
    """Return the two sites that SITE-SITE stands for."""
    return pair_of_sites(*sites_of_link(link, roster.sites))


def _us(delay_ms: float, where: str) -> int:
    """Return a delay in microseconds; the roster has its range."""
    if not isfinite(delay_ms):
        raise ConfigError(f"link {where}: delay_ms is {delay_ms}; it must be a number")
    return round(delay_ms * 1000)
