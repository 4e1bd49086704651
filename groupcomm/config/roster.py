"""The roster: the daemons that may be members, as the cluster has agreed on them.

Pure values. The first roster, with the number 0, is that of the configuration files. From then on
daemons change it by messages in the agreed order (engine/roster.py), and each change makes a roster
with the next number. docs/roster.md has the protocol, and says why no two parts of a cluster can
both have a majority while it changes.

A daemon holds votes only once it has been in a view: one that was added and never came would
otherwise make a majority harder to reach. votes.py decides what majorities are.
"""

import hashlib
from collections import Counter
from collections.abc import Collection
from functools import cached_property
from typing import Final, TypeAlias

import attrs

from groupcomm.config.site_links import SiteLink, SitePair, check_links, pair_of_sites
from groupcomm.config.view import check_size
from groupcomm.config.votes import Policy, Share, Standing, VoteChange, Votes
from groupcomm.errors import ConfigError
from groupcomm.names import check_daemon

ROSTER_ID_BYTES: Final = 8
"""The size of a roster's id: enough against accidents, as no key holder forges rosters."""

MAX_ANCESTORS: Final = 256
"""The ids of earlier rosters that a roster keeps, so that it is known to follow from them."""

MAX_REMOVED: Final = 32
"""The daemons removed last that a roster keeps: they are told so if they come back."""

MAX_ADDRESSES: Final = 8
"""The most addresses of one daemon."""

MAX_INVITATIONS: Final = 32
"""The invitations that a roster keeps, used ones included."""

INVITATION_ID_BYTES: Final = 8
PUBLIC_BYTES: Final = 32
"""The sizes of an invitation's id, and of the public keys in it."""

_NONE: Final = Share(held=0)
_PLAIN: Final = (Share(), _NONE)


@attrs.frozen(kw_only=True)
class RosterEntry:
    """One daemon of a roster.

    Attributes:
        name: its name.
        site: the name of its site.
        addresses: its addresses, as configuration files have them; empty where the shell knows them
            otherwise.
        share: its votes. A daemon holds none before it was in a view since it was added.
    """

    name: str
    site: str
    addresses: tuple[str, ...] = ()
    share: Share = Share()  # noqa: RUF009 - frozen

    def __attrs_post_init__(self) -> None:
        check_daemon(self.name)
        if not self.site:
            raise ConfigError(f"daemon {self.name} has no site: name one")
        if len(self.addresses) > MAX_ADDRESSES:
            raise ConfigError(
                f"daemon {self.name} has {len(self.addresses)} addresses; at most"
                f" {MAX_ADDRESSES} are allowed"
            )

    @property
    def counts(self) -> bool:
        """Return whether it holds a vote."""
        return self.share.held > 0


@attrs.frozen(kw_only=True)
class Invitation:
    """A daemon that may join with a token, once (docs/joining.md).

    Attributes:
        id: 8 bytes, which the token carries.
        name: the name that the daemon has to have.
        site: the name of its site.
        proof: the public key, 32 bytes, whose private one follows from the token's secret.
        expires_s: the time until which the token may be used, in seconds since 1970.
        holder: the public key of the daemon that was admitted, 32 bytes; b"" before that.
    """

    id: bytes
    name: str
    site: str
    proof: bytes
    expires_s: int
    holder: bytes = b""

    def __attrs_post_init__(self) -> None:
        check_daemon(self.name)
        sizes = len(self.id), len(self.proof), len(self.holder)
        if sizes[:2] != (INVITATION_ID_BYTES, PUBLIC_BYTES) or sizes[2] not in (0, PUBLIC_BYTES):
            raise ConfigError(f"invitation of {self.name}: sizes are {sizes}; they are 8, 32, 32")


@attrs.frozen(kw_only=True)
class AddDaemon:
    """Add a daemon.

    Attributes:
        name: its name; no daemon of the roster has it.
        site: the name of its site, which may be new.
        addresses: its addresses.
        links: links from its site, which is new, to others: the other site, and the one-way delay
            in microseconds.
    """

    name: str
    site: str
    addresses: tuple[str, ...] = ()
    links: tuple[tuple[str, int], ...] = ()


@attrs.frozen
class RemoveDaemon:
    """Remove the daemon of this name; it leaves in order if it is there."""

    name: str


@attrs.frozen
class MoveDaemon:
    """Give the daemon of this name other addresses."""

    name: str
    addresses: tuple[str, ...]


@attrs.frozen(kw_only=True)
class InviteDaemon:
    """Let a daemon join with a token.

    Attributes:
        invitation: the invitation, in place of an earlier one of the same name.
        now_s: the present time, in seconds since 1970: older invitations are forgotten.
    """

    invitation: Invitation
    now_s: int


@attrs.frozen(kw_only=True)
class AdmitDaemon:
    """Add the daemon of an invitation, which is used with that.

    Attributes:
        id: the id of the invitation.
        holder: the public key of the daemon, 32 bytes.
        addresses: its addresses.
    """

    id: bytes
    holder: bytes
    addresses: tuple[str, ...]


@attrs.frozen
class SetLinks:
    """Add these links between sites, or change their delays."""

    links: tuple[SiteLink, ...]


@attrs.frozen
class RemoveLinks:
    """Remove the links between these pairs of sites."""

    pairs: tuple[SitePair, ...]


RosterChange: TypeAlias = (
    AddDaemon
    | RemoveDaemon
    | MoveDaemon
    | InviteDaemon
    | AdmitDaemon
    | SetLinks
    | RemoveLinks
    | VoteChange
)


@attrs.frozen(kw_only=True)
class Roster:
    """One roster of a cluster.

    Attributes:
        entries: the daemons, by name, sorted.
        links: the links between sites, sorted.
        expected: the number of daemons of which more than half are a majority; None: of those that
            count.
        number: the number of changes since the configuration files; 0 for that of the files.
        forced: the number of these changes that were made without a majority.
        removed: the daemons removed or moved last, with their former addresses, latest last.
        ancestors: the ids of the rosters from which this one has followed, latest last.
        invitations: the daemons that may join with a token, and those that have, latest last.
        forced_at: the numbers of the forced changes among the ancestors, and of this roster if it
            was forced; rising.
        policy: what counts besides a majority of the votes.
        settled: whether ties of votes may be decided; see votes.py.
        id: 8 bytes that name this roster. That of a first roster does not depend on the names of
            sites and on addresses, which may differ from file to file.
    """

    entries: tuple[RosterEntry, ...]
    links: tuple[SiteLink, ...] = ()
    expected: int | None = None
    number: int = 0
    forced: int = 0
    removed: tuple[RosterEntry, ...] = ()
    ancestors: tuple[bytes, ...] = ()
    invitations: tuple[Invitation, ...] = ()
    forced_at: tuple[int, ...] = ()
    policy: Policy = Policy()  # noqa: RUF009 - frozen
    settled: bool = False
    id: bytes = attrs.field(init=False, repr=False)

    def __attrs_post_init__(self) -> None:
        names = [entry.name for entry in self.entries]
        if names != sorted(set(names)):
            raise ConfigError(f"roster: daemons are {names}; they must be sorted and differ")
        object.__setattr__(self, "id", self._digest())

    def _digest(self) -> bytes:
        whole: object = (
            self.number,
            self.forced,
            [(each.name, each.site, each.addresses, each.counts) for each in self.entries],
            self.links,
            self.expected,
            [(each.name, each.site, each.addresses) for each in self.removed],
            self.ancestors[-1:],
        )
        if not self.number:
            sites = {site: sorted(names) for site, names in self.sites.items()}
            links = [(sorted((sites[a], sites[b])), delay) for a, b, delay in self.links]
            whole = (sorted(sites.values()), sorted(links), self.expected or len(self.entries))
        if self.invitations:
            whole = (whole, [attrs.astuple(each) for each in self.invitations])
        if self.forced_at:
            whole = (whole, self.forced_at)
        if not self.is_plain:
            shares = [attrs.astuple(each.share) for each in self.entries]
            whole = (whole, shares, attrs.astuple(self.policy), self.settled)
        text = ascii(whole).encode()
        size = ROSTER_ID_BYTES
        return hashlib.blake2b(text, digest_size=size, person=b"groupcomm roster").digest()

    @property
    def names(self) -> tuple[str, ...]:
        """Return the names of all daemons, sorted."""
        return tuple(entry.name for entry in self.entries)

    @property
    def sites(self) -> dict[str, tuple[str, ...]]:
        """Return the names of the daemons of each site, by the name of the site, sorted."""
        found: dict[str, list[str]] = {}
        for entry in self.entries:
            found.setdefault(entry.site, []).append(entry.name)
        return {site: tuple(found[site]) for site in sorted(found)}

    def entry(self, name: str) -> RosterEntry | None:
        """Return the entry of a daemon; None if it is not in the roster."""
        return next((entry for entry in self.entries if entry.name == name), None)

    def invitation(self, id: bytes) -> Invitation | None:
        """Return the invitation of an id; None if there is none, or it was forgotten."""
        return next((each for each in self.invitations if each.id == id), None)

    def was_removed(self, name: str) -> bool:
        """Return whether a daemon was removed, as far as the roster knows."""
        return self.entry(name) is None and any(each.name == name for each in self.removed)

    @cached_property
    def votes(self) -> Votes:
        """Return the votes of all daemons."""
        return Votes(
            shares={entry.name: entry.share for entry in self.entries},
            policy=self.policy,
            settled=self.settled,
            expected=self.expected,
        )

    @property
    def is_plain(self) -> bool:
        """Return whether daemons that have been in a view have one vote each, and no policy."""
        shares = all(each.share in _PLAIN for each in self.entries)
        return shares and not self.settled and self.policy == Policy()

    def has_majority(self, members: Collection[str]) -> bool | None:
        """Return whether these daemons may act; None if that is unknown."""
        standing = self.votes.standing(members)
        return None if standing is Standing.UNKNOWN else standing is Standing.MAJORITY

    def others_may_act(self, members: Collection[str]) -> bool:
        """Return whether the daemons besides these could act without them, or come to do so."""
        others = [name for name in self.names if name not in members]
        return self.votes.standing(others) is not Standing.MINORITY

    # ---- changes ----

    def changed(self, change: RosterChange, *, forced: bool = False) -> "Roster":
        """Return the roster after a change.

        Args:
            change: the change.
            forced: whether it is made without a majority.

        Raises:
            ConfigError: the change is impossible.
        """
        entries, removed = {entry.name: entry for entry in self.entries}, list(self.removed)
        votes = self.votes
        match change:
            case AddDaemon(name=name):
                self._check_new(name)
                entries[name] = RosterEntry(
                    name=name, site=change.site, addresses=change.addresses, share=_NONE
                )
                removed = [each for each in removed if each.name != name]
            case RemoveDaemon(name):
                removed.append(self._existing(name))
                votes = self._votes_without(name, forced=forced)
                del entries[name]
            case MoveDaemon(name, addresses):
                removed = [each for each in removed if each.name != name]
                removed.append(self._existing(name))  # it may still be there
                entries[name] = attrs.evolve(self._existing(name), addresses=addresses)
            case InviteDaemon(invitation=invitation):
                self._check_new(invitation.name)
                invited = [*(each.site for each in entries.values()), invitation.site]
                check_size(Counter(invited).values())
            case AdmitDaemon(id=id, addresses=addresses):
                name, site = self._open_invitation(id)
                entries[name] = RosterEntry(name=name, site=site, addresses=addresses, share=_NONE)
                removed = [each for each in removed if each.name != name]
            case SetLinks() | RemoveLinks():
                pass
            case _:
                votes = votes.changed(change)
        sites = Counter(entry.site for entry in entries.values())
        links = self._changed_links(change, sites)
        none = not self.links or isinstance(change, RemoveLinks)
        check_links(sites, links, none_allowed=none)
        if len(entries) > len(self.entries):
            check_size(sites.values())
        for name, share in votes.shares.items():
            entries[name] = attrs.evolve(entries[name], share=share)
        return Roster(
            entries=tuple(entries[name] for name in sorted(entries)),
            links=tuple((*pair, delay) for pair, delay in sorted(links.items())),
            expected=self.expected,
            number=self.number + 1,
            forced=self.forced + forced,
            removed=tuple(removed[-MAX_REMOVED:]),
            ancestors=(*self.ancestors, self.id)[-MAX_ANCESTORS:],
            invitations=self._invitations_after(change),
            forced_at=self._forced_after(forced=forced),
            policy=votes.policy,
            settled=votes.settled and not forced,
        )

    def _votes_without(self, name: str, *, forced: bool) -> Votes:
        """Return the votes without a daemon; all that are left hold theirs if nobody held any."""
        left, share = self.votes.without(name), self._existing(name).share
        if not left.shares:
            raise ConfigError(f"daemon {name} is the only one: it cannot be removed")
        if forced and not left.total:
            held = {each: max(1, found.votes) for each, found in left.shares.items()}
            shares = {each: Share(votes=votes, held=votes) for each, votes in held.items()}
            return attrs.evolve(left, shares=shares)
        if not left.total:
            raise ConfigError(
                f"daemon {name} is the only one that counts for majorities: remove it once another"
                f" one has come: {', '.join(left.shares)}"
            )
        if share.held > 1 and not forced:
            raise ConfigError(
                f"daemon {name} holds {share.held} votes, and a change takes one at most: first"
                f" groupcomm daemons votes {name} 0"
            )
        return left

    def _forced_after(self, *, forced: bool) -> tuple[int, ...]:
        number = self.number + 1
        kept = tuple(each for each in self.forced_at if each >= number - MAX_ANCESTORS)
        return (*kept, number) if forced else kept

    def _check_new(self, name: str) -> None:
        if self.entry(name) is not None:
            raise ConfigError(f"daemon {name} is in the roster already")

    def _open_invitation(self, id: bytes) -> tuple[str, str]:
        """Return name and site of an invitation that was not used."""
        found = self.invitation(id)
        if found is None or found.holder:
            raise ConfigError(f"invitation {id.hex()} was used, or is not known any more")
        self._check_new(found.name)
        return found.name, found.site

    def _invitations_after(self, change: RosterChange) -> tuple[Invitation, ...]:
        match change:
            case InviteDaemon(invitation=new, now_s=now_s):
                kept = [
                    each
                    for each in self.invitations
                    if each.name != new.name and each.expires_s > now_s
                ]
                if len(kept) == MAX_INVITATIONS:
                    raise ConfigError(
                        f"{MAX_INVITATIONS} daemons are invited: have one of them join first, or"
                        " wait until a token expires"
                    )
                return (*kept, new)
            case AdmitDaemon(id=id, holder=holder):
                return tuple(
                    attrs.evolve(each, holder=holder) if each.id == id else each
                    for each in self.invitations
                )
            case RemoveDaemon(name):
                return tuple(each for each in self.invitations if each.name != name)
            case _:
                return self.invitations

    def _changed_links(self, change: RosterChange, sites: Collection[str]) -> dict[SitePair, int]:
        """Return the delays of the links after a change, for the sites that are there then."""
        links = {pair_of_sites(a, b): delay for a, b, delay in self.links}
        match change:
            case AddDaemon(site=site, links=new):
                if new and site in self.sites:
                    raise ConfigError(f"site {site} is in the roster already: set its links")
                links |= {pair_of_sites(site, other): delay for other, delay in new}
            case RemoveDaemon():  # and the links of its site, if it was the last daemon there
                links = {pair: delay for pair, delay in links.items() if set(pair) <= set(sites)}
            case SetLinks(asked):
                links |= {pair_of_sites(a, b): delay for a, b, delay in asked}
            case RemoveLinks(pairs):
                for pair in pairs:
                    self._check_link(pair)
                links = {pair: delay for pair, delay in links.items() if pair not in pairs}
            case _:
                pass
        return links

    def _check_link(self, pair: SitePair) -> None:
        if pair not in [link[:2] for link in self.links]:
            known = ", ".join("-".join(link[:2]) for link in self.links) or "none"
            raise ConfigError(f"link {'-'.join(pair)} is not in the roster; its links are: {known}")

    def _existing(self, name: str) -> RosterEntry:
        found = self.entry(name)
        if found is None:
            raise ConfigError(f"daemon {name} is not in the roster; it has {', '.join(self.names)}")
        return found

    # ---- rosters that differ ----

    def follows(self, other: "Roster") -> bool:
        """Return whether this roster has followed from another one by changes."""
        return other.id in self.ancestors

    def changes(self, other: "Roster") -> bool:
        """Return whether this roster is another one after a single change."""
        return self.ancestors[-1:] == (other.id,)

    def supersedes(self, other: "Roster") -> bool:
        """Return whether daemons with the other roster have to adopt this one.

        A roster supersedes those from which it has followed. If neither of two has followed from
        the other, parts of the cluster have changed the last roster that they had in common, at
        most one of them with a majority. Then the roster of that part counts, else the one whose
        part has made the change with the lower id. Only the first change after the fork decides, so
        that these rules order all rosters that have followed from one: whichever daemons meet
        first, all have the same roster in the end.
        """
        if self.id == other.id or other.follows(self):
            return False
        if self.follows(other):
            return True
        if not self.number:
            return False  # two configuration files differ: an operator has to decide
        if not other.number:
            return True  # a file gives way to what a cluster has agreed on, also by force
        ours, theirs = self._line, other._line
        common = next((each for each in reversed(ours) if each in theirs), None)
        if common is None:  # clusters with different files, or a fork long ago
            return (-self.forced, self.number, self.id) > (-other.forced, other.number, other.id)
        return self._first_after(common) < other._first_after(common)

    @property
    def is_forced(self) -> bool:
        """Return whether the last change was made without a majority."""
        return self.number in self.forced_at

    @property
    def _line(self) -> tuple[bytes, ...]:
        """Return the ids of this roster and of its ancestors, oldest first."""
        return (*self.ancestors, self.id)

    def _first_after(self, ancestor: bytes) -> tuple[bool, bytes]:
        """Return whether the first change after an ancestor was forced, and the id after it."""
        line = self._line
        at = line.index(ancestor) + 1
        return self.number - (len(line) - 1 - at) in self.forced_at, line[at]


@attrs.frozen(kw_only=True)
class RosterRecord:
    """The rosters that a daemon's disk holds.

    Attributes:
        agreed: the roster that counts; None while that of the configuration file does.
        pending: a roster that is stored and may count already for others; None without one.
        ballot: the counter of the last view in which it was stored.
    """

    agreed: Roster | None = None
    pending: Roster | None = None
    ballot: int = 0
