"""The places of the token, as a daemon of the ring knows them."""

import enum


class TokenState(enum.Enum):
    """The place of the token, as this daemon knows it."""

    AWAY = enum.auto()
    ARRIVED = enum.auto()  # the token came in this step
    RESTING = enum.auto()  # all daemons of the ring hold the whole stream
    LINGERING = enum.auto()  # other daemons may lack packets that were numbered here
