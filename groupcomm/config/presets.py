"""Timings for kinds of networks; every value can still be set on its own."""

from collections.abc import Mapping
from typing import Final

from groupcomm.config.core import Timing


def lan() -> Timing:
    """Hosts on one switch: a daemon that is silent for 0.6 s is left out."""
    return Timing()


def local() -> Timing:
    """All daemons on one host: nothing but its processor can delay them."""
    return Timing(
        token_timeout_s=0.3,
        token_retransmit_s=0.01,
        request_retry_s=0.005,
        beacon_interval_s=0.06,
        gather_wait_s=0.03,
    )


def wan() -> Timing:
    """Hosts whose paths are slow or busy, up to 100 ms there and back."""
    return Timing(
        token_timeout_s=3.0,
        token_retransmit_s=0.15,
        request_retry_s=0.12,
        repair_delay_s=0.01,
        beacon_interval_s=0.5,
        join_interval_s=0.05,
        gather_wait_s=0.3,
    )


PRESETS: Final[Mapping[str, Timing]] = {"lan": lan(), "local": local(), "wan": wan()}
"""By name, as configurations choose them."""
