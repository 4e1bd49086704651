"""The most daemons and sites of a cluster: configured, in a roster, and in one that comes."""

import pytest

from groupcomm.config.core import CoreConfig
from groupcomm.config.roster import (
    AddDaemon,
    Invitation,
    InviteDaemon,
    RemoveDaemon,
    Roster,
    RosterChange,
    RosterEntry,
)
from groupcomm.config.view import MAX_DAEMONS, MAX_RINGS, MOST_OF_SITE
from groupcomm.config.votes import CountDaemon, Share
from groupcomm.errors import BadDatagram, ConfigError
from groupcomm.wire.roster import decode_roster_untrusted, encode_roster

SITES = f"{MAX_RINGS + 1} sites; a cluster has at most {MAX_RINGS}"
OF_SITE = f"{MOST_OF_SITE + 1} daemons; a site has at most {MOST_OF_SITE}"
DAEMONS = f"{MAX_DAEMONS + 1} daemons; a cluster has at most {MAX_DAEMONS}"


def roster_of(daemons: int, sites: int) -> Roster:
    names = [f"d{number:04}" for number in range(daemons)]
    return Roster(
        entries=tuple(
            RosterEntry(name=name, site=f"s{at % sites}", share=Share(held=int(at > 0)))
            for at, name in enumerate(names)
        )
    )


def invitation(site: str) -> Invitation:
    return Invitation(id=bytes(8), name="new", site=site, proof=bytes(32), expires_s=9)


def test_a_configuration_has_no_more_sites_than_a_view_has_rings() -> None:
    sites = tuple((f"d{number}",) for number in range(MAX_RINGS + 1))
    assert len(CoreConfig(sites=sites[1:]).sites) == MAX_RINGS
    with pytest.raises(ConfigError, match=SITES):
        CoreConfig(sites=sites)
    with pytest.raises(ConfigError, match="3 sites; a cluster has at most 2"):
        CoreConfig(sites=sites[:3], most_rings=2)


@pytest.mark.parametrize("most", [0, MAX_RINGS + 1])
def test_the_limit_on_rings_can_only_be_lowered(most: int) -> None:
    with pytest.raises(ConfigError, match=f"most_rings is {most}; it must be 1 to {MAX_RINGS}"):
        CoreConfig(most_rings=most)


def test_a_configuration_has_no_more_daemons_than_a_view() -> None:
    names = [f"d{number}" for number in range(MAX_DAEMONS + 1)]
    sites = [tuple(names[at::64]) for at in range(64)]
    assert len(CoreConfig(sites=(sites[0][1:], *sites[1:])).daemons) == MAX_DAEMONS
    with pytest.raises(ConfigError, match=DAEMONS):
        CoreConfig(sites=tuple(sites))


def test_a_site_has_no_more_daemons_than_a_token_has_room_for() -> None:
    names = tuple(f"d{number}" for number in range(MOST_OF_SITE + 1))
    assert len(CoreConfig(sites=(names[1:],)).daemons) == MOST_OF_SITE
    with pytest.raises(ConfigError, match=OF_SITE):
        CoreConfig(sites=(names,))


@pytest.mark.parametrize(
    ("roster", "change", "reason"),
    [
        (roster_of(MAX_RINGS, MAX_RINGS), AddDaemon(name="new", site="new"), SITES),
        (
            roster_of(MAX_RINGS, MAX_RINGS),
            InviteDaemon(invitation=invitation("new"), now_s=1),
            SITES,
        ),
        (roster_of(MAX_DAEMONS, 64), AddDaemon(name="new", site="s1"), DAEMONS),
        (roster_of(MAX_DAEMONS, 64), InviteDaemon(invitation=invitation("s1"), now_s=1), DAEMONS),
        (roster_of(MOST_OF_SITE, 1), AddDaemon(name="new", site="s0"), OF_SITE),
        (roster_of(MOST_OF_SITE, 1), InviteDaemon(invitation=invitation("s0"), now_s=1), OF_SITE),
    ],
)
def test_no_daemon_is_added_or_invited_for_which_no_view_has_room(
    roster: Roster, change: RosterChange, reason: str
) -> None:
    with pytest.raises(ConfigError, match=reason):
        roster.changed(change)


def test_a_daemon_of_a_known_site_is_added_beside_as_many_sites_as_there_may_be() -> None:
    grown = roster_of(MAX_RINGS, MAX_RINGS).changed(AddDaemon(name="new", site="s1"))
    assert len(grown.entries) == MAX_RINGS + 1


def test_a_roster_that_is_too_large_can_still_be_counted_and_made_smaller() -> None:
    large = roster_of(MAX_RINGS + 1, MAX_RINGS + 1)
    assert large.changed(CountDaemon("d0000")).entries[0].counts
    assert len(large.changed(RemoveDaemon("d0001")).sites) == MAX_RINGS


def test_a_roster_that_is_too_large_is_not_accepted_from_others() -> None:
    fits = roster_of(MAX_RINGS, MAX_RINGS)
    assert decode_roster_untrusted(encode_roster(fits)) == fits
    with pytest.raises(BadDatagram, match=SITES):
        decode_roster_untrusted(encode_roster(roster_of(MAX_RINGS + 1, MAX_RINGS + 1)))
    with pytest.raises(BadDatagram, match=OF_SITE):
        decode_roster_untrusted(encode_roster(roster_of(MOST_OF_SITE + 1, 1)))
