"""Announcements of members that have come to a group, made from views."""

from collections.abc import Iterator

from groupcomm.events import GroupView, MemberId
from groupcomm_client.filters.roles import Newcomer


def application_of(member: MemberId) -> str:
    """Return the application of a member: the part of its name before the first dash.

    It is "" for a name without a dash: programs with such names are one application.
    """
    application, dash, _ = member.user.partition("-")
    return application if dash else ""


def newcomers(view: GroupView) -> Iterator[Newcomer]:
    """Return an announcement for each member that is new to the receiver of a view.

    A receiver that has joined itself gets only its own announcement; all others get one for each
    member that has joined, or that was separated and is together with them again.
    """
    new = view.changed if view.own else [one for one in view.members if one not in view.vs_set]
    earlier = [one for one in view.members if one not in new]
    used = {application_of(one) for one in earlier}
    for member in view.members:
        if member in new:
            yield Newcomer(
                group=view.group,
                member=member,
                new_session=not earlier,
                new_application=application_of(member) not in used,
                users=view.members,
            )
