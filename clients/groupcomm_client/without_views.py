"""Connections and joins without views of groups: what cannot be had with them."""

from typing import TYPE_CHECKING, Protocol

from groupcomm.errors import LocalProtocolError

if TYPE_CHECKING:
    from groupcomm_client.end_to_end.credentials import GroupSecret


class Joining(Protocol):
    """A session that joins groups.

    Attributes:
        views: whether it joins with views.
    """

    views: bool


def check_views(protocol: Joining, what: str) -> None:
    """Raise LocalProtocolError if a session joins without views, which `what` needs."""
    if not protocol.views:
        raise LocalProtocolError(
            f"{what} needs views of its group, and this connection has none: connect without"
            " views=False"
        )


def check_secret(group: str, secret: "GroupSecret | None", *, views: bool) -> None:
    """Raise LocalProtocolError if this is no `GroupSecret`, or there is one but no views."""
    if secret is not None and not hasattr(secret, "prove"):
        raise LocalProtocolError(
            f"the secret is of type {type(secret).__name__}; write a SharedSecret or TrustedKeys"
        )
    if secret is not None and not views:
        raise LocalProtocolError(
            f"{group} cannot be joined with a secret and without views: its members agree on keys"
            " by its views; leave out one of both"
        )
