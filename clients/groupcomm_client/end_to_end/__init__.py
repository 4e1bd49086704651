"""Groups whose messages no daemon can read; docs/end-to-end.md is their guide.

::

    secret = SharedSecret.read(Path("plan.key"))
    await connection.join("plan", secret=secret)
"""

from typing import TYPE_CHECKING, Final

from groupcomm_client.lazy import lazy_names

if TYPE_CHECKING:
    from groupcomm_client.end_to_end.credentials import (
        GroupSecret,
        SharedSecret,
        TrustedKeys,
        read_public_keys,
    )
    from groupcomm_client.events import KeyChanged, Unreadable, Untrusted

__all__ = [
    "GroupSecret",
    "KeyChanged",
    "SharedSecret",
    "TrustedKeys",
    "Unreadable",
    "Untrusted",
    "read_public_keys",
]

_HOMES: Final = {
    "groupcomm_client.end_to_end.credentials": (
        *("GroupSecret", "SharedSecret", "TrustedKeys", "read_public_keys"),
    ),
    "groupcomm_client.events": ("KeyChanged", "Unreadable", "Untrusted"),
}

if not TYPE_CHECKING:
    __getattr__ = lazy_names(
        __name__, {name: home for home, names in _HOMES.items() for name in names}
    )
