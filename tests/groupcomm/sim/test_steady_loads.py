"""While some daemons send in each step, all others see signs of the token, and no view ends.

A daemon that sent SAFE messages in each step once kept the token until the others took it for lost:
their reports of what they hold counted as if they had had it.
"""

from collections.abc import Sequence

import pytest

from groupcomm.config.core import CoreConfig
from groupcomm.level import ServiceLevel
from groupcomm.ring.states import TokenState
from tests.groupcomm.sim.loaded import Plant, Rude
from tests.groupcomm.sim.rude_frames import ATTACKS

LOAD_S = 0.5
REST_S = CoreConfig().timing.rest_interval_s


def longest_silence(
    plant: Plant, senders: Sequence[str], level: ServiceLevel, every: float
) -> float:
    """Return the longest time in seconds without a sign of the token, at any daemon without it."""
    programs = {name: plant.connect(name, f"polite/{name}") for name in plant.daemons}
    views = [daemon.core.view_state for daemon in plant.daemons.values()]
    rings = [view.ring for view in views if view is not None]
    longest = 0.0
    for at in range(int(LOAD_S / every)):
        session = programs[senders[at % len(senders)]].session
        session.multicast(["g"], str(plant.now).encode(), level=level)
        plant.run(every)
        away = [ring.monitor.heard_at for ring in rings if ring.state is TokenState.AWAY]
        longest = max(longest, plant.now - min(away, default=plant.now))
    assert [daemon.core.view_state for daemon in plant.daemons.values()] == views, "a view ended"
    return longest


@pytest.mark.parametrize("every", [0.0002, 0.0004])
@pytest.mark.parametrize("senders", ["b", "ab"])
@pytest.mark.parametrize("level", [ServiceLevel.AGREED, ServiceLevel.SAFE])
def test_a_steady_load_keeps_the_token_from_nobody(
    level: ServiceLevel, senders: str, every: float
) -> None:
    assert longest_silence(Plant("abc"), senders, level, every) < 2 * REST_S


@pytest.mark.parametrize("attack", ["HELLO, BYE", "HELLO, LINE, BYE"])
def test_sessions_without_end_keep_it_from_nobody(attack: str) -> None:
    plant = Plant("abc")
    streams = [ATTACKS[attack](number) for number in range(20)]
    plant.daemons["b"].rude = Rude("unix:max", streams)
    assert longest_silence(plant, "a", ServiceLevel.AGREED, 0.002) < 2 * REST_S
