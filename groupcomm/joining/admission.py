"""The decision about a request of a daemon outside, by the roster that counts."""

from groupcomm.config.roster import AdmitDaemon, Invitation, MoveDaemon, Roster
from groupcomm.joining.messages import Refused


def decide_join(
    roster: Roster, id: bytes, holder: bytes, name: str, wall_s: float
) -> Invitation | Refused | None:
    """Return the invitation with which a daemon may be admitted now.

    Args:
        roster: the roster that counts.
        id: the id of its invitation, which it has proved.
        holder: its public key.
        name: its name.
        wall_s: the present time, in seconds since 1970.

    Returns:
        The invitation, a refusal, or None if this daemon was admitted with it before.
    """
    found = roster.invitation(id)
    if found is None:
        return Refused("the invitation was replaced: groupcomm daemons invite makes another token")
    if name != found.name:
        return Refused(f"the token is for daemon {found.name}, and this one is {name}: give --name")
    if found.holder:
        if found.holder == holder and roster.entry(name) is not None:
            return None
        return Refused(
            f"the token was used already, and admits nobody else: if that was not daemon {name},"
            f" run groupcomm daemons remove {name}, and change the cluster's key"
        )
    if wall_s > found.expires_s:
        return Refused("the token has expired: groupcomm daemons invite makes another one")
    if roster.entry(name) is not None:
        return Refused(f"daemon {name} is in the roster already: it needs no token")
    return found


def admission_of(found: Invitation, holder: bytes, addresses: tuple[str, ...]) -> AdmitDaemon:
    """Return the change that admits a daemon, and uses its invitation."""
    return AdmitDaemon(id=found.id, holder=holder, addresses=addresses)


def decide_move(
    roster: Roster, name: str, addresses: tuple[str, ...]
) -> MoveDaemon | Refused | None:
    """Return the change that moves a daemon, a refusal, or None if it is there already."""
    entry = roster.entry(name)
    if entry is None:
        return Refused(f"daemon {name} is not in the roster")
    return None if entry.addresses == addresses else MoveDaemon(name, addresses)
