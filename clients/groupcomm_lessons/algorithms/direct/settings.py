"""Timeouts of a peer."""

from typing import Final

import attrs

from groupcomm.errors import ConfigError

MAX_MEMBERS: Final = 64
"""The most members of a group; all their addresses fit into one datagram."""

MAX_NAME_BYTES: Final = 64
MAX_DATA_BYTES: Final = 64 * 1024
"""The largest message."""


@attrs.frozen(kw_only=True)
class Timing:
    """Timeouts, in seconds.

    Attributes:
        repeat_s: the time after which an unacknowledged part is sent again, doubled for each
            further time; several round trips on one host.
        repeat_most_s: the longest of these times.
        alive_s: the time after which a peer with nothing to send sends a sign of life.
        silence_s: the time after which a silent member counts as gone.

    Raises:
        ConfigError: a time is not above 0, or two of them do not go together.
    """

    repeat_s: float = 0.1
    repeat_most_s: float = 1.0
    alive_s: float = 0.5
    silence_s: float = 10.0

    def __attrs_post_init__(self) -> None:
        for name, value in attrs.asdict(self).items():
            if not value > 0:
                raise ConfigError(f"timing: {name} is {value}; it must be above 0")
        if self.repeat_s > self.repeat_most_s:
            raise ConfigError(
                f"timing: repeat_s is {self.repeat_s}, which is above repeat_most_s ="
                f" {self.repeat_most_s}"
            )
        if self.silence_s < 4 * max(self.alive_s, self.repeat_most_s):
            raise ConfigError(
                f"timing: silence_s is {self.silence_s}; it must be four times alive_s = "
                f"{self.alive_s} and repeat_most_s = {self.repeat_most_s}, or some "
                "losses would look like silence"
            )

    @property
    def longest_delay_s(self) -> float:
        """Return the longest delay of datagrams that the other end does not take for silence."""
        return self.silence_s / 2

    def wait_s(self, tries: int) -> float:
        """Return the time to wait for an acknowledgement after `tries` attempts, 1 at least."""
        return min(self.repeat_s * 2.0 ** min(tries - 1, 30), self.repeat_most_s)
