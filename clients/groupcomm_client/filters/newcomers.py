"""Announcements of those who have come to a group, made from views."""

from collections.abc import Iterator

from groupcomm.events import GroupView, MemberId
from groupcomm.names import split_private
from groupcomm_client.filters.roles import Newcomer


def application_of(member: MemberId) -> str:
    """Return the application that a member uses: the part of its name before the first dash.

    It is "" for a name without a dash: programs with such names are one application.
    """
    name = split_private(member.name)[0]
    application, dash, _ = name.partition("-")
    return application if dash else ""


def newcomers(view: GroupView) -> Iterator[Newcomer]:
    """Return an announcement for each member who is new to the receiver of a view.

    To the receiver that has joined itself only its own coming is announced; to all others those who
    joined, and those who were apart and are together with it again.
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
