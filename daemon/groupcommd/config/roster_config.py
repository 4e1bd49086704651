"""The agreed roster and a daemon's configuration: the roster counts, wherever the file differs.

The configuration file says which daemons there are until the cluster has changed its roster for the
first time. From then on the roster of the state folder replaces the daemons, sites and links of the
file, which are ignored. A daemon's other settings, such as its multicast group, stay those of its
file.
"""

import logging
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import attrs

from groupcomm.config.roster import Roster, RosterEntry
from groupcomm.errors import ConfigError
from groupcomm.host.addresses import Address, parse_address
from groupcommd.config.daemon_config import DaemonConfig
from groupcommd.config.seeds import Seed, parse_host_name

_log = logging.getLogger("groupcommd")

Places = Mapping[str, tuple[Address, ...]]
"""The addresses of daemons, by name, one for each network."""


def names_of(entries: Iterable[RosterEntry]) -> dict[str, Seed]:
    """Return the names of hosts that stand in place of addresses, by the daemon's name."""
    found = {
        entry.name: parse_host_name(entry.addresses[0])
        for entry in entries
        if len(entry.addresses) == 1
    }
    return {name: host for name, host in found.items() if host is not None}


def host_names(roster: Roster) -> dict[str, Seed]:
    """Return the names of the hosts of a roster's daemons, and of those that were removed."""
    return names_of(_latest(roster).values())


def addresses_of(entry: RosterEntry) -> tuple[Address, ...]:
    """Return the addresses of an entry; none of them if they are looked up, or if another daemon
    has made one up.
    """
    if names_of((entry,)):
        return ()
    try:
        return tuple(parse_address(text, entry.name) for text in entry.addresses)
    except ConfigError as error:
        _log.error("roster: %s; datagrams to this daemon are not sent", error)
        return ()


def places_of(entries: Iterable[RosterEntry], known: Places) -> dict[str, tuple[Address, ...]]:
    """Return the addresses of the daemons of a roster.

    Args:
        entries: the daemons.
        known: addresses for those whose entry has none.
    """
    found = {entry.name: addresses_of(entry) or known.get(entry.name, ()) for entry in entries}
    return {name: addresses for name, addresses in found.items() if addresses}


def with_roster(config: DaemonConfig, roster: Roster) -> DaemonConfig:
    """Return the configuration with the daemons of an agreed roster, which has this daemon.

    Daemons that it does not have any more keep their addresses, so that they can be told so.
    """
    merged = config.core.with_roster(roster)
    places = {name: config.places[name] for name in merged.former if name in config.places}
    places |= places_of((*roster.removed, *roster.entries), config.places)
    before = config.core.roster
    located = {
        name: address
        for name, address in config.located.items()
        if (texts := _texts_of(name, roster)) and texts == _texts_of(name, before)
    }
    return attrs.evolve(
        config,
        core=merged,
        names=host_names(roster),
        located=located,
        addresses={
            name: config.relayed.get(name, found[0]) if name != config.name else found[0]
            for name, found in places.items()
        },
        further={
            name: found[1:]
            for name, found in places.items()
            if found[1:] and name not in config.relayed
        },
    )


def _texts_of(name: str, roster: Roster) -> tuple[str, ...]:
    found = _latest(roster).get(name)
    return () if found is None else found.addresses


def _latest(roster: Roster) -> dict[str, RosterEntry]:
    """Return the entries of the daemons that a roster has, and of those that were removed."""
    return {each.name: each for each in (*roster.removed, *roster.entries)}


def former_places(config: DaemonConfig) -> dict[str, tuple[Address, ...]]:
    """Return the former addresses of the other daemons that have moved, by name."""
    roster = config.core.agreed
    if roster is None:
        return {}
    moved = [
        entry
        for entry in roster.removed
        if roster.entry(entry.name) and entry.name not in (config.name, *config.relayed)
    ]
    return places_of(moved, {})


def removed_text(name: str, roster: Roster, file: Path) -> str:
    """Return the sentence with which a daemon ends that the roster does not have any more.

    Args:
        name: its name.
        roster: the roster.
        file: the roster on its disk.
    """
    where = ", ".join(roster.names)
    return (
        f"daemon {name} was removed from the cluster: roster {roster.number} has {where}. Uninstall"
        f" it here; or, to have it back: groupcomm daemons add {name} at one of them, then remove"
        f" {file}, and start it again"
    )


def overruled(ours: Roster, places: Places, roster: Roster) -> list[str]:
    """Return a phrase for each part of a file that the roster overrules.

    Args:
        ours: the roster of the file.
        places: the addresses in the file.
        roster: the agreed roster.
    """
    found = []
    for name in ours.names:
        entry, listed = roster.entry(name), ours.entry(name)
        assert listed is not None, "it is one of the names"
        if entry is None:
            found.append(f"sites.{listed.site}.daemons.{name} (not in the roster)")
            continue
        if entry.site != listed.site:
            found.append(f"sites.{listed.site}.daemons.{name} (now of site {entry.site})")
        there = addresses_of(entry)
        named = names_of((entry,)) != names_of((listed,))
        if named or (there and there != places.get(name)):
            text = ", ".join(entry.addresses)
            found.append(f"sites.{listed.site}.daemons.{name} (now at {text})")
    more = [name for name in roster.names if name not in ours.names]
    if more:
        found.append(f"sites.*.daemons (the roster also has {', '.join(more)})")
    if roster.links != ours.links:
        links = [f"{one}-{other} of {us / 1000:g} ms" for one, other, us in roster.links]
        found.append(f"links (the roster has {', '.join(links) or 'none'})")
    if roster.expected != ours.expected:
        found.append("expected_daemons")
    return found


def log_roster(roster: Roster, file: Path, ignored: Sequence[str]) -> None:
    """Log which roster counts, and which parts of the configuration are ignored since."""
    text = f"ignored: {', '.join(ignored)}" if ignored else "and are the same"
    _log.info(
        "roster %d of %s counts, with %s; daemons, sites and links of the configuration are those"
        " of the first start, %s",
        roster.number,
        file,
        ", ".join(roster.names),
        text,
        extra={"roster": roster.number, "roster_daemons": list(roster.names), "ignored": ignored},
    )
