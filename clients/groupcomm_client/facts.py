"""What all kinds of connections tell about their session."""

from groupcomm.events import DaemonView, GroupView, MemberId
from groupcomm_client.conversation import Conversation


class Facts:
    """Mixed into each kind of connection; `conversation` holds what they tell."""

    conversation: Conversation

    def __repr__(self) -> str:
        return f"<groupcomm connection {self.member.name or 'not admitted yet'}>"

    @property
    def member(self) -> MemberId:
        """The identity of this session."""
        return self.conversation.member

    @property
    def name(self) -> str:
        """The private name, under which others reach this session: ``#user#daemon``."""
        return self.conversation.member.name

    @property
    def view(self) -> DaemonView | None:
        """The daemons' view that the events given last belong to."""
        return self.conversation.view

    @property
    def groups(self) -> dict[str, GroupView]:
        """The latest views of the groups that this session is a member of, by name."""
        return dict(self.conversation.groups)

    @property
    def in_doubt(self) -> int:
        """At most so many of the messages sent last may never have reached the daemon."""
        return self.conversation.in_doubt
