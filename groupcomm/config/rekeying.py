"""How long one key seals datagrams."""

import attrs

from groupcomm.errors import ConfigError


@attrs.frozen(kw_only=True)
class Rekeying:
    """Limits of an epoch, the time in which a daemon seals with the same keys.

    RFC 9001, section 6.6: at most 2**23 packets with one key of AES-GCM, and 2**52 that fail to
    open.
    """

    epoch_packets: int = 2**23
    epoch_s: float = 600.0  # a key that was stolen opens no more than this
    lifetime_s: float = 5.0  # of a packet on its way; an old key is kept for two of them
    failures: int = 2**36  # below that limit, and more than come in an epoch

    def __attrs_post_init__(self) -> None:
        for name, value in attrs.asdict(self).items():
            if not value > 0:
                raise ConfigError(f"rekeying: {name} is {value}; it must be above 0")
