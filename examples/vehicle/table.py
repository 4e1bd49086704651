"""The messages of the vehicle: each kind with its rate, size and receivers.

These are the messages between the modules of an autonomous vehicle. The *group* decides which
modules get the bytes, the *type* which messages a module uses: small messages of all kinds share
one group, and each kind of large ones has its own, so that no module gets megabytes that it does
not need.
"""

from collections.abc import Mapping, Sequence
from random import Random
from typing import Any, Final

import attrs

from examples.vehicle.cost_map import TILES
from groupcomm.errors import ConfigError
from groupcomm.level import ServiceLevel

MODULES: Final = (
    *("localization", "actuators", "mapper", "planner", "controller", "monitor", "diagnostics"),
    *("recorder", "display", "tracker", "lanes", "behaviour", "lidar", "radar", "vision", "radio"),
)
"""The programs, without the cameras."""

CAMERAS: Final = 5
END: Final = 0
"""The type of the last message of a sender."""

WELCOME: Final = 7
"""The type of the pieces of the map for newcomers alone."""

LATE: Final = "display"
"""The module that joins the group of the map in the middle of a run."""

STATE, BULK_MAP, IMAGES = "vehicle", "vehicle.map", "vehicle.images"
ELEVATION: Final = "vehicle.elevation"


@attrs.frozen(kw_only=True)
class Kind:
    """One row of the table.

    Attributes:
        name: the name of the kind.
        type: the 16-bit tag of its messages.
        group: the group that gets its messages.
        rate_hz: messages a second, of one sender.
        least, most: bytes of a message; drawn between the two for each. 0 if data decide.
        level: the level of its messages.
        senders, receivers: modules; without receivers it is not transmitted.
        source: size and rate, receivers and remark, as the source has them, doubts included.
    """

    name: str
    type: int
    group: str
    rate_hz: float
    least: int
    most: int
    level: ServiceLevel
    senders: tuple[str, ...]
    receivers: tuple[str, ...]
    source: tuple[str, str, str]

    def size(self, rng: Random) -> int:
        """Return the size of the next message."""
        return rng.randint(self.least, self.most)


def others(*names: str) -> tuple[str, ...]:
    """Return all modules but these."""
    return tuple(module for module in MODULES if module not in names)


def camera_names(count: int) -> tuple[str, ...]:
    """Return the modules of this number of cameras."""
    return tuple(f"camera{number}" for number in range(1, count + 1))


MAP_READERS: Final = ("planner", "behaviour", "display")
ACTUATOR_READERS: Final = ("controller", "diagnostics", "recorder")
IMAGE_READERS: Final = ("vision", "lanes", "tracker", "recorder", "display")
MOST_TRAJECTORY_BYTES: Final = 1_000_000
MOST_READERS: Final = len(MODULES) - 2
"""All modules but the two that send large or steady messages themselves."""

VEHICLE_STATE: Final = Kind(
    name="vehicle_state",
    type=1,
    group=STATE,
    rate_hz=40,
    least=250,
    most=250,
    level=ServiceLevel.UNRELIABLE,
    senders=("localization",),
    receivers=others("localization"),
    source=(
        "about 250 B at 40 Hz",
        "15",
        "position, velocity, acceleration; highest rate",
    ),
)
ACTUATOR_STATE: Final = Kind(
    name="actuator_state",
    type=2,
    group=STATE,
    rate_hz=30,
    least=220,
    most=220,
    level=ServiceLevel.FIFO,
    senders=("actuators",),
    receivers=ACTUATOR_READERS,
    source=("about 220 B at 30 Hz", "3?", "actuators and OBD II"),
)
ELEVATION_MAP: Final = Kind(
    name="elevation_map",
    type=8,
    group=ELEVATION,
    rate_hz=10,
    least=4_000_000,
    most=4_000_000,
    level=ServiceLevel.UNRELIABLE,
    senders=("mapper",),
    receivers=(),
    source=("4 MB at 10 Hz", "0", "not transmitted"),
)
MAP_DELTA: Final = Kind(
    name="map_delta",
    type=3,
    group=BULK_MAP,
    rate_hz=10,
    least=0,
    most=0,
    level=ServiceLevel.FIFO,
    senders=("mapper",),
    receivers=MAP_READERS,
    source=("4 MB at 10 Hz", "3", "cost map: deltas are transmitted"),
)
MAP_PIECE: Final = attrs.evolve(MAP_DELTA, name="map_piece", type=4, rate_hz=6.4)
ROUND_S: Final = 5.0
"""The time in which every tile is sent, changed or not."""

PIECE: Final = 32
"""Tiles of a piece, 128 KiB: larger ones make all other messages wait for longer."""

TRAJECTORY: Final = Kind(
    name="trajectory",
    type=5,
    group=STATE,
    rate_hz=5,
    least=480,
    most=4800,
    level=ServiceLevel.SAFE,
    senders=("planner",),
    receivers=("controller", "monitor"),
    source=("??? at 5 Hz", "2", "variable size, probably"),
)
IMAGE: Final = Kind(
    name="image",
    type=6,
    group=IMAGES,
    rate_hz=30,
    least=640 * 480 * 2,  # two bytes a pixel: 18.4 MB/s
    most=640 * 480 * 2,
    level=ServiceLevel.UNRELIABLE,
    senders=(),
    receivers=(),
    source=("640 x 480 at 30 Hz", "5", "FireWire, about 20 MB/s each"),
)
KINDS: Final = (
    *(VEHICLE_STATE, ACTUATOR_STATE, ELEVATION_MAP, MAP_DELTA, MAP_PIECE, TRAJECTORY, IMAGE),
)
SOURCE_ROWS: Final = tuple(kind for kind in KINDS if kind is not MAP_PIECE)
"""The rows of the source; pieces of the map are this example's own."""


@attrs.frozen(kw_only=True)
class Reading:
    """One reading of the points that the source leaves open.

    Attributes:
        actuator_receivers: the number of receivers of the actuator state; the source has "3?".
        trajectory_bytes: least and most bytes of a trajectory; the source has "???".
        image_receivers: the number of receivers of each camera's images.
        elevation_receivers: receivers of the elevation map, which the source does not transmit.
    """

    actuator_receivers: int = 3
    trajectory_bytes: tuple[int, int] = (TRAJECTORY.least, TRAJECTORY.most)
    image_receivers: int = 5
    elevation_receivers: int = 0

    def __attrs_post_init__(self) -> None:
        for option, value, least in (
            ("--actuator-receivers", self.actuator_receivers, 1),
            ("--image-receivers", self.image_receivers, 1),
            ("--elevation-receivers", self.elevation_receivers, 0),
        ):
            if not least <= value <= MOST_READERS:
                most = MOST_READERS
                raise ConfigError(f"{option} is {value}; it must be {least} to {most}")
        low, high = self.trajectory_bytes
        if not 0 < low <= high <= MOST_TRAJECTORY_BYTES:
            raise ConfigError(
                f"--trajectory-bytes is {low} {high}; the first must be at least 1, the second not"
                f" lower than it, and at most {MOST_TRAJECTORY_BYTES}"
            )

    def read(self, kind: Kind) -> Kind:
        """Return a row as this reading has it."""
        if kind is ACTUATOR_STATE:
            return attrs.evolve(kind, receivers=_first(ACTUATOR_READERS, self.actuator_receivers))
        if kind is TRAJECTORY:
            low, high = self.trajectory_bytes
            return attrs.evolve(kind, least=low, most=high)
        if kind is IMAGE:
            return attrs.evolve(kind, receivers=_first(IMAGE_READERS, self.image_receivers))
        if kind is ELEVATION_MAP:
            return attrs.evolve(kind, receivers=_first(MAP_READERS, self.elevation_receivers))
        return kind


def _first(readers: tuple[str, ...], count: int) -> tuple[str, ...]:
    """Return the first readers, and further modules up to the wanted number."""
    senders = {"actuators", "mapper"}
    more = (name for name in MODULES if name not in readers and name not in senders)
    return (*readers, *more)[:count]


@attrs.frozen(kw_only=True)
class Load:
    """The messages that are sent in a run.

    Attributes:
        kinds: the rows that are used.
        pack: the number of small messages of a kind that a module sends at once.
        one_by_one: whether it sends each by a call of its own, not all by one call.
        piece: tiles of the map in one piece.
    """

    kinds: tuple[Kind, ...]
    pack: int = 1
    one_by_one: bool = False
    piece: int = PIECE

    @property
    def modules(self) -> tuple[str, ...]:
        """Return the programs that have something to do, in the order of the table."""
        busy = {name for kind in self.kinds for name in (*kind.senders, *kind.receivers)}
        return tuple(name for name in (*MODULES, *camera_names(CAMERAS)) if name in busy)

    def sent_by(self, module: str) -> list[Kind]:
        """Return the kinds that a module sends."""
        return [kind for kind in self.kinds if module in kind.senders]

    def received_by(self, module: str) -> list[Kind]:
        """Return the kinds that a module receives."""
        return [kind for kind in self.kinds if module in kind.receivers]


def _reading_of(fields: Mapping[str, Any]) -> Reading:
    """Return the reading with these fields; JSON has a list for the pair of bytes."""
    pair = (
        {"trajectory_bytes": tuple(fields["trajectory_bytes"])}
        if fields.get("trajectory_bytes")
        else {}
    )
    return Reading(**{**fields, **pair})


def choose(
    *,
    only: Sequence[str] = (),
    cameras: int = 0,
    scale: float = 1.0,
    levels: Mapping[str, int] | None = None,
    pack: int = 1,
    one_by_one: bool = False,
    piece: int = PIECE,
    reading: Mapping[str, Any] | None = None,
) -> Load:
    """Return the load that the options describe.

    Args:
        only: names of kinds; none for all.
        cameras: the number of cameras, 0 to 5.
        scale: factor of all rates.
        levels: other levels than the table's, by the name of a kind.
        pack: small messages that a module sends at once.
        one_by_one: whether each of these is sent by a call of its own.
        piece: tiles of the map in one piece; the smaller, the more of them.
        reading: fields of `Reading` that are not the default.

    Raises:
        ConfigError: no kind has such a name, or a number is out of its range.
    """
    for name, value, least in (("--scale", scale, 0.001), ("--pack", pack, 1)):
        if value < least:
            raise ConfigError(f"{name} is {value}; it must be at least {least}")
    if not 1 <= piece <= TILES:
        raise ConfigError(f"--piece is {piece}; it must be 1 to {TILES}")
    if not 0 <= cameras <= CAMERAS:
        raise ConfigError(f"--cameras is {cameras}; it must be 0 to {CAMERAS}")
    wanted_levels = levels or {}
    known = {kind.name for kind in KINDS}
    for name in (*only, *wanted_levels):
        if name not in known:
            raise ConfigError(f"no kind is named {name!r}; there are: {', '.join(sorted(known))}")
    map_wanted = bool({MAP_DELTA.name, MAP_PIECE.name} & set(only))  # one alone makes no sense
    read = _reading_of(reading or {}).read
    kinds = [
        attrs.evolve(
            read(kind),
            rate_hz=scale * (TILES / ROUND_S / piece if kind is MAP_PIECE else kind.rate_hz),
            level=ServiceLevel(wanted_levels.get(kind.name, kind.level)),
            senders=camera_names(cameras) if kind.type == IMAGE.type else kind.senders,
        )
        for kind in KINDS
        if not only or kind.name in only or (kind.group == BULK_MAP and map_wanted)
    ]
    chosen = tuple(kind for kind in kinds if kind.senders and kind.receivers)
    if not chosen:
        raise ConfigError(
            "nothing is left to send; --only image needs --cameras 1 or more, and"
            " --only elevation_map needs --elevation-receivers 1 or more"
        )
    return Load(kinds=chosen, pack=pack, one_by_one=one_by_one, piece=piece)
