"""The rosters in a daemon's state folder, as a file of JSON that people can read.

The folder writes it (state_dir.py). Each roster stands there with its id, which is a digest of its
contents: so a file that was changed by hand, or by a sick disk, is found out.
"""

from typing import Annotated, Final, Literal

import msgspec
from msgspec import Meta

from groupcomm.config.roster import Invitation, Roster, RosterEntry, RosterRecord
from groupcomm.config.votes import Policy, Share
from groupcomm.errors import ConfigError, LocalProtocolError

VERSION: Final = 1
"""The version of the file; other ones are refused."""

_Count = Annotated[int, Meta(ge=0)]


class _Entry(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A daemon; `held` is there only if it is not what `counts` says: one vote or none."""

    name: str
    site: str
    addresses: tuple[str, ...]
    counts: bool
    votes: int = 1
    held: int | None = None
    away: bool = False


class _Invitation(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    id: str
    name: str
    site: str
    proof: str
    expires_s: _Count
    holder: str


class _Roster(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    id: str
    number: _Count
    forced: _Count
    expected: int | None
    daemons: tuple[_Entry, ...]
    links: tuple[tuple[str, str, _Count], ...]
    removed: tuple[_Entry, ...]
    ancestors: tuple[str, ...]
    invitations: tuple[_Invitation, ...] = ()
    forced_at: tuple[_Count, ...] = ()
    orderly: bool = False
    tie_breaker: str = ""
    settled: bool = False


class _Record(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    version: Literal[1]
    ballot: _Count
    agreed: _Roster | None
    pending: _Roster | None


_decoder = msgspec.json.Decoder(_Record)


def encode_record(record: RosterRecord) -> bytes:
    """Return the contents of the file."""
    agreed, pending = (
        None if roster is None else _from_roster(roster)
        for roster in (record.agreed, record.pending)
    )
    whole = _Record(version=VERSION, ballot=record.ballot, agreed=agreed, pending=pending)
    return msgspec.json.format(msgspec.json.encode(whole), indent=1) + b"\n"


def decode_record(data: bytes) -> RosterRecord:
    """Return the rosters of the file.

    Raises:
        ConfigError: a later release has written it.
        ValueError: it is damaged.
    """
    try:
        found = _decoder.decode(data)
        return RosterRecord(
            agreed=None if found.agreed is None else _to_roster(found.agreed),
            pending=None if found.pending is None else _to_roster(found.pending),
            ballot=found.ballot,
        )
    except (msgspec.MsgspecError, RecursionError, ConfigError, LocalProtocolError) as error:
        _check_release(data, str(error))
        raise ValueError(str(error)) from None


def _check_release(data: bytes, reason: str) -> None:
    """Raise ConfigError if a file that cannot be read is one of a later release."""
    try:
        version = msgspec.json.decode(data, type=dict[str, msgspec.Raw]).get("version", b"")
        number = int(bytes(version))
    except (msgspec.MsgspecError, RecursionError, ValueError):
        return
    if number > VERSION or "unknown field" in reason:
        raise ConfigError(
            f"roster.json has the version {number}, and this release reads version {VERSION}"
            f" ({reason}): a later release has written it; start that release again"
        )


def _from_roster(roster: Roster) -> _Roster:
    return _Roster(
        id=roster.id.hex(),
        number=roster.number,
        forced=roster.forced,
        expected=roster.expected,
        daemons=tuple(map(_from_entry, roster.entries)),
        links=roster.links,
        removed=tuple(map(_from_entry, roster.removed)),
        ancestors=tuple(each.hex() for each in roster.ancestors),
        invitations=tuple(map(_from_invitation, roster.invitations)),
        forced_at=roster.forced_at,
        orderly=roster.policy.orderly,
        tie_breaker=roster.policy.tie_breaker,
        settled=roster.settled,
    )


def _to_roster(found: _Roster) -> Roster:
    roster = Roster(
        entries=tuple(map(_to_entry, found.daemons)),
        links=found.links,
        expected=found.expected,
        number=found.number,
        forced=found.forced,
        removed=tuple(map(_to_entry, found.removed)),
        ancestors=tuple(map(bytes.fromhex, found.ancestors)),
        invitations=tuple(map(_to_invitation, found.invitations)),
        forced_at=found.forced_at,
        policy=Policy(orderly=found.orderly, tie_breaker=found.tie_breaker),
        settled=found.settled,
    )
    if roster.id.hex() != found.id:
        raise ValueError(f"roster {found.number} is not the one that was written")
    return roster


def _from_entry(entry: RosterEntry) -> _Entry:
    share = entry.share
    held = None if share.held == entry.counts else share.held
    return _Entry(
        entry.name, entry.site, entry.addresses, entry.counts, share.votes, held, share.away
    )


def _to_entry(found: _Entry) -> RosterEntry:
    held = int(found.counts) if found.held is None else found.held
    share = Share(votes=found.votes, held=held, away=found.away)
    return RosterEntry(name=found.name, site=found.site, addresses=found.addresses, share=share)


def _from_invitation(each: Invitation) -> _Invitation:
    return _Invitation(
        id=each.id.hex(),
        name=each.name,
        site=each.site,
        proof=each.proof.hex(),
        expires_s=each.expires_s,
        holder=each.holder.hex(),
    )


def _to_invitation(found: _Invitation) -> Invitation:
    return Invitation(
        id=bytes.fromhex(found.id),
        name=found.name,
        site=found.site,
        proof=bytes.fromhex(found.proof),
        expires_s=found.expires_s,
        holder=bytes.fromhex(found.holder),
    )
