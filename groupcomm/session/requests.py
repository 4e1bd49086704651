"""Requests: what a client asks its daemon for, one for each of its frames."""

from typing import TypeAlias

from groupcomm.session.frames import Capability
from groupcomm.wire.bundle import Bundle


class Hello:
    """The client asks to be admitted as `user`; answer with `welcome` or `close`.

    Attributes:
        user: its name.
        causes: it wants a CAUSES frame before each DELIVER frame with a position.
        refusals: it understands REFUSED frames.
        principals: it wants PRINCIPAL frames.
    """

    __slots__ = ("causes", "principals", "refusals", "user")

    def __init__(self, user: str, capabilities: int) -> None:
        self.user = user
        self.causes = bool(capabilities & Capability.CAUSES)
        self.refusals = bool(capabilities & Capability.REFUSALS)
        self.principals = bool(capabilities & Capability.PRINCIPALS)


class Submit:
    """The client sends a bundle: messages, a fragment, a join or a leave.

    Attributes:
        bundle: with its session and user set; each target is 0 until the core fills them in,
            which leaves its size as it is.
        ordered: tell its position with `DaemonSession.ordered`.
    """

    __slots__ = ("bundle", "ordered")

    def __init__(self, bundle: Bundle, ordered: bool) -> None:
        self.bundle = bundle
        self.ordered = ordered


class Bye:
    """The client leaves in order; nothing follows. Answer with ``close(Code.OK, ...)``."""

    __slots__ = ()


class Query:
    """The client asks about the daemon; answer with `encode_answer`, in the order of queries."""

    __slots__ = ("text",)

    def __init__(self, text: str) -> None:
        self.text = text


Request: TypeAlias = Hello | Submit | Query | Bye
