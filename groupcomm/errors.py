"""The errors of groupcomm.

::

    GroupCommError
    +- ConfigError            a configuration contradicts itself
    +- LocalProtocolError     the caller asked for something that the protocol forbids
    |  +- ForkedSession       the session is that of another process
    |  +- PlaceAhead          the place to go on from is ahead of the history
    +- RemoteProtocolError    a peer broke the protocol
       +- BadDatagram         bytes that do not decode
       +- ProtocolViolation   a message that no correct daemon sends
       |  +- Contradiction    two statements of daemons that cannot both be true
       +- SessionError        a client's request failed
          +- CannotConnect    there is no daemon, or it does not answer
          +- AccessRefused    the rules of the daemon do not allow it
          +- SessionEnded     the session is over
             +- OrderUnknown  it was over before the order of a message was known

Bugs of groupcomm itself show as ``AssertionError``: its invariants are always checked.
"""

import enum


class GroupCommError(Exception):
    """Base of all errors that groupcomm raises on purpose; the text says what to do."""


class ConfigError(GroupCommError):
    """A configuration contradicts itself; the text names the key, the value and the rule.

    Correct the key: a new attempt with the same configuration fails in the same way.
    """


class LocalProtocolError(GroupCommError):
    """The caller asked for something that the protocol forbids; nothing was sent.

    It is a mistake in the program: an invalid name, data that is too long, a group that was not
    joined. Correct the call; the session continues.
    """


class ForkedSession(LocalProtocolError):
    """The session belongs to the process that has forked this one; nothing was sent.

    It goes on there. Open a session in this process, after the fork.

    Args:
        what: the thing that is not this process' own, such as "this session".
        owner: the number of its process; 0 if it is not known.
    """

    def __init__(self, what: str, owner: int = 0) -> None:
        process = f"process {owner}, which" if owner else "the process that"
        super().__init__(
            f"{what} belongs to {process} has forked this one, and goes on there: open another one"
            " in this process, after the fork"
        )


class PlaceAhead(LocalProtocolError):
    """The place to go on from is ahead of the history of its groups: it is of another history.

    The program was connected to another cluster before, or the state of all daemons was made anew.
    Connect to that cluster, or begin anew, such as with ``EARLIEST``.
    """


class RemoteProtocolError(GroupCommError):
    """A peer broke the protocol; the core counts the error and drops the input.

    For programs the peer is their daemon, and the error is a `SessionError`.
    """


class BadDatagram(RemoteProtocolError):
    """Bytes that do not decode; the only error a function named ``*_untrusted`` raises.

    Attributes:
        reason: one word for counters, such as ``"short"``, ``"tag"`` or ``"replay"``.
        detail: more about it, for people.
    """

    def __init__(self, reason: str, detail: str = "") -> None:
        self.reason = reason  # the text is made when it is read: in a flood it is not
        self.detail = detail

    def __str__(self) -> str:
        return f"{self.reason}: {self.detail}" if self.detail else self.reason


class ProtocolViolation(RemoteProtocolError):
    """A daemon of the cluster has sent a packet that no correct daemon sends; it is to blame.

    Attributes:
        reason: one word for counters, such as ``"token"`` or ``"time"``.
    """

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(f"{reason}: {detail}")
        self.reason = reason


class Contradiction(ProtocolViolation):
    """Two statements contradict each other: one of the daemons that made them is broken.

    Nobody knows which one, so nobody is to blame, and neither statement can be relied on.
    """


class Code(enum.IntEnum):
    """Why a session ended or a request was refused, by the numbers of Spread's interface.

    It is the `code` of `SessionError` and `Closed`; 0 is an orderly end.
    """

    OK = 0  # the session ended in order
    COULD_NOT_CONNECT = -2  # no daemon could be reached
    REJECT_QUOTA = -3  # the principal has too many connections
    REJECT_NAME = -5  # no valid name of a user, or one that the principal may not have
    REJECT_NOT_UNIQUE = -6  # the daemon has a session of this user
    REJECT_VERSION = -7  # client and daemon share no version of the protocol
    CONNECTION_CLOSED = -8  # the daemon closed it, and gives the reason in words; or it was lost
    REJECT_AUTH = -9  # the client does not prove its identity
    ILLEGAL_SESSION = -11  # a request comes at the wrong time
    ILLEGAL_SERVICE = -12  # the level does not allow the request
    ILLEGAL_MESSAGE = -13  # a part of a message is missing, or clients must not send it
    ILLEGAL_GROUP = -14  # the session may not do that with this group
    MESSAGE_TOO_LONG = -17  # the message takes more bytes than the receiving side allows
    NET_ERROR = -18  # the daemon sent bytes that do not decode
    REJECT_STOPPING = -40  # the daemon is about to stop; Spread has no number for this


class SessionError(RemoteProtocolError):
    """A client's request failed.

    Catch it for all that can happen between a program and its daemon; its subclasses tell what did.

    Attributes:
        code: the number that Spread's interface uses for this failure (negative); see `Code`.
    """

    def __init__(self, code: int, text: str) -> None:
        super().__init__(text)
        self.code = code


class CannotConnect(SessionError):
    """No daemon runs there, or it does not admit the client; the text suggests a remedy.

    Start a daemon, correct the address, or try again later: nothing was sent.
    """

    def __init__(self, text: str) -> None:
        super().__init__(Code.COULD_NOT_CONNECT, text)


class AccessRefused(SessionError):
    """The rules of the daemon, or a quota, do not allow this; the session continues.

    Ask the daemon's operator for a rule (docs/security.md), or leave another group if the quota of
    groups is used up.

    Attributes:
        verb: the refused request, such as ``"join"``.
        group: the group or private name of the request; "" if it has none.
        principal: the owner of the session, as the daemon knows it.
    """

    def __init__(self, verb: str, group: str, principal: str, text: str) -> None:
        super().__init__(Code.ILLEGAL_GROUP, text)
        self.verb = verb
        self.group = group
        self.principal = principal


class SessionEnded(SessionError):
    """The session is over, and nothing follows; the code is 0 after an orderly end.

    Connect again, and join the groups again; ``connect(reconnect=True)`` does both. Messages that
    were sent last may not have reached the daemon: `Connection.in_doubt` says how many at most.
    """


class InDoubt(SessionEnded):
    """Messages of a connection with ``exactly_once=True`` may have been delivered or not.

    The text says which bound was passed. No other session follows: sending them again could double
    them, and not doing so could lose them.

    Attributes:
        messages: how many there are; they are the last ones that were sent.
    """

    def __init__(self, messages: int, why: str) -> None:
        super().__init__(Code.CONNECTION_CLOSED, f"{messages} messages are in doubt: {why}")
        self.messages = messages


class OrderUnknown(SessionEnded):
    """The session was over before the order of a message was known; it may have been delivered.

    Whoever sends it again must be ready for it to be delivered twice; on a connection with
    ``exactly_once=True`` it was delivered.

    Attributes:
        number: the number of the message in its session; None if that is unknown.
    """

    def __init__(self, code: int, text: str, number: int | None = None) -> None:
        super().__init__(code, text)
        self.number = number
