"""A program without rights, whatever frames it sends: others hardly wait, and no view ends.

Work is counted, time is virtual (loaded.py). Every kind of frame that a client can send is here; a
new kind without a price, or without an attack, fails.
"""

import sys
from collections.abc import Callable
from functools import lru_cache
from types import FrameType

import pytest

from groupcomm.engine import ClientBytes
from groupcomm.engine import intake as intake_module
from groupcomm.security.access import Access, Rule, Verb
from groupcomm.security.quotas import Quotas
from groupcomm.session.daemon_session import _FROM_CLIENTS
from groupcomm.session.frames import FrameKind
from groupcomm.session.requests import BUNDLE_PRICES, FRAME_PRICES, VIOLATION
from groupcomm.wire.bundle import BundleKind
from tests.groupcomm.engine.clients import Clients
from tests.groupcomm.sim.loaded import Plant, Polite, Rude
from tests.groupcomm.sim.rude_frames import (
    AGREED,
    ATTACKS,
    BUNDLES_OF_DAEMONS,
    FIRST_FROM_DAEMONS,
    FRAMES_OF_DAEMONS,
    Stream,
)

pytestmark = pytest.mark.verification

RULES = Access((Rule(("unix:polite",), ("*",), frozenset(Verb)),))
CONNECTIONS = 20
INTERVAL_S, MESSAGES = 0.002, 60
MOST_DELAYED = 2.1  # a line asks for a round of the token besides what its session costs


def kinds_of_clients() -> set[str]:
    bundles = {BundleKind(kind).name for kind in _FROM_CLIENTS}
    return bundles | {kind.name for kind in FrameKind if kind < FIRST_FROM_DAEMONS} - {"BUNDLE"}


def test_every_frame_of_a_client_has_a_price_and_an_attack() -> None:
    assert {kind.name for kind in (*FRAME_PRICES, *BUNDLE_PRICES)} == kinds_of_clients()
    for price in (*FRAME_PRICES.values(), *BUNDLE_PRICES.values(), VIOLATION):
        assert price.work > 0
        assert price.messages > 0, "it counts for the quota"
    named = {
        word.strip()
        for name in ATTACKS
        for word in name.split(" to ")[0].split(" of ")[0].split(",")
    }
    assert kinds_of_clients() <= named
    assert len(BUNDLES_OF_DAEMONS) <= CONNECTIONS
    assert len(FRAMES_OF_DAEMONS) <= CONNECTIONS


# ---- effects on others ----


def play(attack: Stream | None) -> tuple[list[float], Plant]:
    """Delays of a program's messages at all members while another program is rude."""
    plant = Plant("abc")
    for daemon in plant.daemons.values():
        daemon.core.sessions.set_rules(RULES, Quotas())
    programs = [plant.connect(name, f"polite/{name}") for name in "abc"]
    views = [daemon.core.view for daemon in plant.daemons.values()]
    if attack is not None:
        streams = [attack(number) for number in range(CONNECTIONS)]
        plant.daemons["b"].rude = Rude("unix:max", streams)
        plant.run(0.05)
    for number in range(MESSAGES):
        sender = programs[number % 3]
        sender.session.multicast(["g"], str(plant.now).encode(), level=AGREED)
        plant.run(INTERVAL_S)
    plant.daemons["b"].rude = None
    plant.run(1.0)
    assert [daemon.core.view for daemon in plant.daemons.values()] == views, "a view has ended"
    return delays(programs), plant


def delays(programs: list[Polite]) -> list[float]:
    assert [len(program.delays) for program in programs] == [MESSAGES] * 3, "some were lost"
    return sorted(delay for program in programs for delay in program.delays)


def p99(sorted_delays: list[float]) -> float:
    return sorted_delays[len(sorted_delays) * 99 // 100]


@lru_cache
def quiet_p99() -> float:
    return p99(play(None)[0])


@pytest.mark.parametrize("attack", ATTACKS)
def test_nobody_else_waits_long_and_no_view_ends(attack: str) -> None:
    found, _ = play(ATTACKS[attack])
    assert p99(found) <= MOST_DELAYED * quiet_p99()


def test_without_a_bound_for_each_step_others_would_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    for bound in ("STEP_WORK", "SESSION_WORK", "STEP_WASTE"):
        monkeypatch.setattr(intake_module, bound, 10**6)
    assert p99(play(ATTACKS["MESSAGES"])[0]) > 20 * quiet_p99()


# ---- costs ----

CALLS_A_UNIT = 80
"""Calls of functions, Python's own included, that a unit of work may take."""


@pytest.mark.parametrize("attack", ATTACKS)
def test_no_frame_takes_more_work_than_its_price(attack: str) -> None:
    clients = Clients()
    desk = clients.core.sessions
    desk.set_rules(RULES, Quotas())
    stream = ATTACKS[attack](1)
    number = clients.start("rude")
    session, worked, called = desk.by_connection[number], 0, 0
    for data in (next(stream), next(stream)):
        desk.accept(ClientBytes(number, data))
        while session.has_input:
            called += calls_of(lambda: desk.intake.serve(0.0))
            worked += desk.intake.work_done
            for connection, _ in desk._questions:
                desk._answer(connection, b"{}")
            desk._questions.clear()
            session.pop_output(1 << 20)
        clients.step()
    assert worked > 0
    assert called <= CALLS_A_UNIT * worked


def calls_of(act: Callable[[], object]) -> int:
    """Return the number of called functions."""
    called = 0

    def count_call(_frame: FrameType, event: str, _what: object) -> None:
        nonlocal called
        called += event in ("call", "c_call")

    sys.setprofile(count_call)
    try:
        act()
    finally:
        sys.setprofile(None)
    return called
