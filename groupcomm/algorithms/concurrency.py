"""What an algorithm says that does not know what to do about concurrent messages."""

from groupcomm.algorithms.process import Message, Name
from groupcomm.errors import RemoteProtocolError


class ConcurrentMessage(RemoteProtocolError):
    """A message came of which neither it nor another may have caused the other.

    It is dropped, and what its sender sends after it waits for ever: all must agree to take turns,
    or to another choice.

    Attributes:
        message: which one.
    """

    def __init__(self, me: Name, message: Message) -> None:
        super().__init__(
            f"{me} has received {message}, which is concurrent with what came before it; let"
            " processes send in turn, or take an algorithm for concurrent messages"
        )
        self.message = message
