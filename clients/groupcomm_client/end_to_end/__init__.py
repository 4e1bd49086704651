"""Groups whose messages no daemon can read; docs/end-to-end.md is their guide.

::

    secret = SharedSecret.read(Path("plan.key"))
    await connection.join("plan", secret=secret)
"""

from groupcomm_client.end_to_end.credentials import (
    GroupSecret,
    SharedSecret,
    TrustedKeys,
    read_public_keys,
)
from groupcomm_client.end_to_end.events import KeyChanged, Unreadable, Untrusted

__all__ = [
    "GroupSecret",
    "KeyChanged",
    "SharedSecret",
    "TrustedKeys",
    "Unreadable",
    "Untrusted",
    "read_public_keys",
]
