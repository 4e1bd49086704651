"""The settings of runs in which everything goes wrong that the simulator can make go wrong.

Files do not differ: daemons with other files may have another majority, so two parts could have one
at the same time. And there is no storm, which is a load of its own.
"""

from collections.abc import Sequence
from typing import Final

import attrs

from groupcomm.sim.settings import Options, Settings, draw_settings
from groupcomm.sim.virtual_time import random_for

MOST_DAEMONS: Final = 7
SMALL_CAP_BYTES: Final = 60_000
"""The output that may wait for a program, in runs in which slow ones are cut off."""


def settings_for(seed: int, faults: str, duration_s: float, *, small_caps: bool) -> Settings:
    """Draw the settings of a run, as `groupcomm simulate` does; all daemons agree in the end."""
    options = Options(faults=faults, duration_s=duration_s)
    settings = draw_settings(seed, options)
    if settings.daemons > MOST_DAEMONS:
        settings = draw_settings(seed, attrs.evolve(options, daemons=MOST_DAEMONS))
    return attrs.evolve(
        settings,
        core=(),
        faults=attrs.evolve(settings.faults, files=False, storm=False),
        session_cap_bytes=SMALL_CAP_BYTES if small_caps else settings.session_cap_bytes,
    )


def draw_kinds(seed: int, kinds: Sequence[str], wanted: str) -> frozenset[str]:
    """Draw what happens to programs: each kind in half of the seeds.

    Args:
        seed: the seed of the run.
        kinds: what can happen.
        wanted: ``all`` (that draw), ``none``, or kinds with commas between them.
    """
    rng = random_for(seed, "program faults")
    drawn = {kind for kind in kinds if rng.random() < 0.5}
    if wanted == "none":
        return frozenset()
    return frozenset(drawn if wanted == "all" else wanted.split(","))
