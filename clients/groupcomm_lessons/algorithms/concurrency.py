"""The error of algorithms that cannot handle concurrent messages."""

from groupcomm.errors import RemoteProtocolError
from groupcomm_lessons.algorithms.process import Message, Name


class ConcurrentMessage(RemoteProtocolError):
    """Raised for a message that is concurrent with another one.

    It is dropped, and later messages of its sender wait for ever: users must take turns, or use
    another algorithm.

    Attributes:
        message: the refused message.
    """

    def __init__(self, me: Name, message: Message) -> None:
        super().__init__(
            f"{me} has received {message}, which is concurrent with earlier messages: "
            "let processes send in turn, or use an algorithm for concurrent messages"
        )
        self.message = message
