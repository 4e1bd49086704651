"""A step delivers so many frames and leaves the rest to the next ones; nothing else changes."""

from collections import Counter, deque

import pytest

from groupcomm.engine import ClientBytes, ClientGone, delivery, intake, session_output
from groupcomm.engine.delivery import MOST_UNDELIVERED
from groupcomm.engine.session_output import STEP_FRAMES
from groupcomm.events import Message
from groupcomm.level import ServiceLevel
from groupcomm.membership.states import GatherReason, MembershipState
from groupcomm.session.frames import LENGTH, FrameKind
from tests.groupcomm.engine.clients import PLENTY, Clients
from tests.groupcomm.order.receiver import AGREED, FIFO, SAFE, Receiver, bundle
from tests.verification.simulation.runs import run_seed
from tests.verification.simulation.settings import VerificationOptions

MEMBERS, SENDERS, EACH = 60, 3, 30


@pytest.fixture(autouse=True)
def changes_go_out_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session_output, "MANY", MEMBERS + 1)


def members(clients: Clients) -> list[int]:
    numbers = [clients.connect(f"u{number}") for number in range(MEMBERS)]
    for number in numbers:
        clients.sessions[number].join("g")
        clients.step(clients.said(number))
    for number in numbers:
        clients.heard(number)
    return numbers


def waiting(clients: Clients, numbers: list[int]) -> int:
    """Return the number of frames that wait for programs."""
    sessions = clients.core.sessions.by_connection
    return sum(len(sessions[number]._outbox._frames) for number in numbers)


def assert_none_forgotten(clients: Clients) -> None:
    """What is not delivered is still held, though all daemons could deliver it: the next view may
    have to."""
    view_state = clients.core.view_state
    assert view_state is not None
    held, order = view_state.streams[0].packets, view_state.delivery.order
    assert all(packet.number in held for _, _, packet in order._agreed)
    order.frontiers.raise_to(0, order.blocks.least)


def test_a_step_delivers_so_many_frames_and_the_next_one_goes_on() -> None:
    clients = Clients()
    numbers, sessions = members(clients), clients.core.sessions
    for sender in numbers[:SENDERS]:
        for number in range(EACH):
            text = b"%d %d" % (sender, number)
            clients.sessions[sender].multicast(["g"], text, level=ServiceLevel.AGREED)
            clients.sessions[sender].multicast(["h"], b"", level=ServiceLevel.AGREED)  # apart
        sessions.accept(clients.said(sender))
    while sessions.backlog.size < 2 * SENDERS * EACH:
        sessions.intake.serve(0.0)  # they wait for the token, say
    clients.core.submitter.wake()
    steps, before, all_of_them = 0, 0, SENDERS * EACH * MEMBERS
    while before < all_of_them:
        clients.step_once()
        after = waiting(clients, numbers)
        assert before < after <= before + STEP_FRAMES + MEMBERS
        steps, before = steps + 1, after
        assert before == all_of_them or clients.core.deadline == 0.0, "there is more at once"
        assert_none_forgotten(clients)
    assert steps >= all_of_them // (STEP_FRAMES + MEMBERS)
    told = [
        [bytes(event.data) for event in clients.heard(number) if isinstance(event, Message)]
        for number in numbers
    ]
    assert all(texts == told[0] for texts in told)
    for sender in numbers[:SENDERS]:
        mine = [text for text in told[0] if text.startswith(b"%d " % sender)]
        assert mine == [b"%d %d" % (sender, number) for number in range(EACH)]


MOST = 16
"""The frames that a step delivers in the tests below: a message to all members takes four steps."""


def texts_of(clients: Clients, number: int) -> list[bytes]:
    return [bytes(event.data) for event in clients.heard(number) if isinstance(event, Message)]


def kinds_of_frames(output: bytes) -> list[int]:
    kinds = []
    while output:
        end = LENGTH.size + LENGTH.unpack_from(output)[0]
        kinds.append(output[LENGTH.size])
        output = output[end:]
    return kinds


def members_of_large_group(monkeypatch: pytest.MonkeyPatch) -> tuple[Clients, list[int]]:
    clients = Clients()
    numbers = members(clients)
    monkeypatch.setattr(session_output, "STEP_FRAMES", MOST)
    return clients, numbers


@pytest.mark.parametrize("level", [ServiceLevel.UNRELIABLE, ServiceLevel.AGREED])
def test_one_message_for_many_programs_takes_several_steps(
    level: ServiceLevel, monkeypatch: pytest.MonkeyPatch
) -> None:
    clients, numbers = members_of_large_group(monkeypatch)
    first, second = numbers[:2]
    clients.sessions[first].multicast(["g"], b"1", level=level)
    clients.step_once(clients.said(first))
    clients.sessions[second].multicast(["g"], b"2", level=ServiceLevel.FIFO)
    clients.sessions[second].multicast(["g"], b"3", level=ServiceLevel.UNRELIABLE)
    before, waits = waiting(clients, numbers), clients.said(second)
    assert before == MOST
    while clients.core.deadline == 0.0:
        clients.step_once(*([waits] if before == MOST else ()))
        after = waiting(clients, numbers)
        assert after <= before + MOST
        before = after
    assert before == 3 * MEMBERS
    assert {tuple(texts_of(clients, number)) for number in numbers} <= {
        (b"1", b"2", b"3"),
        (b"1", b"3", b"2"),
    }


def test_a_view_that_ends_meanwhile_leaves_the_steps_their_bound(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clients, numbers = members_of_large_group(monkeypatch)
    clients.sessions[numbers[0]].multicast(["g"], b"1", level=ServiceLevel.AGREED)
    clients.step_once(clients.said(numbers[0]))
    clients.core.membership.gather(GatherReason.PAUSED, 0.0)
    for steps in (2, 3):
        clients.step_once()
        assert clients.core.state is not MembershipState.OPERATIONAL
        assert waiting(clients, numbers) == steps * MOST
        assert clients.core.deadline == 0.0
    clients.step_once()
    assert [texts_of(clients, number) for number in numbers] == [[b"1"]] * MEMBERS
    assert clients.core.deadline > 0.0, "the rest of the view waits for other daemons"


def test_the_rest_of_a_view_is_delivered_in_steps_with_the_same_bound(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clients, numbers = members_of_large_group(monkeypatch)
    for name in ("STEP_WORK", "SESSION_WORK"):
        monkeypatch.setattr(intake, name, EACH * MEMBERS * 2)  # all are numbered in one step
    sender, core = clients.sessions[numbers[0]], clients.core
    for number in range(EACH):
        sender.multicast(["g"], b"%d" % number, level=ServiceLevel.AGREED)
        sender.multicast(["h"], b"", level=ServiceLevel.AGREED)  # apart
    clients.step_once(clients.said(numbers[0]))
    core.membership.gather(GatherReason.PAUSED, 0.0)
    view, steps = core.view, 0
    while core.view is view:
        clients.now = max(clients.now, core.deadline)
        clients.step_once(now=clients.now)
        steps += core.state is MembershipState.RECOVERED
        assert core.sessions.work <= MOST
    assert steps >= (EACH - 2) * MEMBERS // MOST
    assert [texts_of(clients, number) for number in numbers] == [
        [b"%d" % number for number in range(EACH)]
    ] * MEMBERS


@pytest.mark.parametrize("again_at", [0, 1, 3, 5, 9])
def test_programs_are_told_of_a_view_in_pieces_and_in_order(
    again_at: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also if the next view comes before all of them were told of this one."""
    clients, numbers = members_of_large_group(monkeypatch)
    told: dict[int, list[int]] = {number: [] for number in numbers}
    gather = clients.core.membership.gather
    gather(GatherReason.PAUSED, clients.now)
    for _ in range(60):
        clients.step_once(now=clients.now)
        clients.now = max(clients.now, clients.core.deadline)
        if again_at and clients.core.state is MembershipState.OPERATIONAL:
            again_at -= 1
            if again_at == 0:
                gather(GatherReason.PAUSED, clients.now)
        for number, kinds in told.items():
            kinds.extend(kinds_of_frames(b"".join(clients.core.pop_output(number, PLENTY))))
    one = [FrameKind.TRANSITION, FrameKind.VIEWID, FrameKind.CONTINUED]
    about_views = [[kind for kind in kinds if kind in one] for kinds in told.values()]
    assert about_views in ([one] * MEMBERS, [[*one, *one]] * MEMBERS)


def test_a_view_ends_for_nobody_before_a_message_has_gone_to_all(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clients, numbers = members_of_large_group(monkeypatch)
    clients.sessions[numbers[0]].multicast(["g"], b"1", level=ServiceLevel.AGREED)
    clients.step_once(clients.said(numbers[0]))
    view_state = clients.core.view_state
    assert view_state is not None
    steps = 1
    for _ in view_state.delivery.catch_up():
        clients.core.sessions.allow_more()
        steps += 1
    assert steps == MEMBERS // MOST
    assert not clients.core.sessions.rest
    assert [texts_of(clients, number) for number in numbers] == [[b"1"]] * MEMBERS


def test_the_end_of_a_sender_is_shown_after_the_end_of_its_message(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clients, numbers = members_of_large_group(monkeypatch)
    sender, *others = numbers
    clients.sessions[sender].multicast(["g"], b"x" * 100_000, level=ServiceLevel.FIFO)
    said = clients.said(sender).data
    clients.step(ClientBytes(sender, said[: len(said) // 2]))
    assert clients.core.sessions.rest == deque()
    clients.step(ClientGone(sender))
    for number in others:
        kinds = kinds_of_frames(b"".join(clients.core.pop_output(number, PLENTY)))
        assert kinds[-2:] == [FrameKind.ABORT, FrameKind.DIFFERENCE]


def test_unreliable_messages_are_lost_while_too_much_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    clients, numbers = members_of_large_group(monkeypatch)
    sender = clients.sessions[numbers[0]]
    sender.multicast(["g"], b"1", level=ServiceLevel.AGREED)
    clients.step_once(clients.said(numbers[0]))
    for _ in range(3):
        sender.multicast(["g"], b"2", level=ServiceLevel.UNRELIABLE)
        sender.multicast(["h"], b"", level=ServiceLevel.UNRELIABLE)  # apart
    monkeypatch.setattr(delivery, "MOST_UNDELIVERED", 1)
    clients.step_once(clients.said(numbers[0]))
    assert len(clients.core.sessions.rest) == 1
    clients.step()
    assert [texts_of(clients, number) for number in numbers] == [[b"1", b"2"]] * MEMBERS


def test_senders_wait_while_a_daemon_is_behind() -> None:
    clients = Clients()
    view_state = clients.core.view_state
    assert view_state is not None
    of_view, order = view_state.delivery, view_state.delivery.order
    order._agreed = [(0, 0, None)] * (MOST_UNDELIVERED + 1)  # type: ignore[list-item] # counted only
    assert not of_view.is_behind, "these wait for others, not for this daemon"
    of_view.unfinished = True
    assert of_view.is_behind
    clients.core.submitter.wake()
    clients.core.step(0.0, [], [])
    assert view_state.ring.flow.blocked


# ---- the order ----


@pytest.mark.parametrize("most", [1, 2, 3])
def test_an_order_that_pauses_releases_the_same_in_the_same_order(most: int) -> None:
    receiver, left = Receiver(rings=2), [0]

    def may_go_on() -> bool:
        left[0] -= 1
        return left[0] >= 0

    bundles = [bundle(level, 1 + n % 2, f"{n}") for n, level in enumerate([AGREED, FIFO, SAFE] * 3)]
    receiver.packet(1, *bundles[:6], time=50)
    receiver.packet(2, *bundles[6:], time=60, previous=1)
    receiver.order.blocks.announce(1, 70, 0, 0)
    for ring in (0, 1):
        receiver.order.frontiers.raise_to(ring, 70)
    pauses, left[0] = 0, most
    while not receiver.order.drain(may_go_on):
        assert receiver.order.waiting
        assert receiver.order.progress < 60
        pauses, left[0] = pauses + 1, most
    assert pauses >= 6 // most - 1
    assert receiver.order.waiting == 0
    assert Counter(receiver.out) == Counter("012345678")
    whole = Receiver(rings=2)
    bundles = [bundle(level, 1 + n % 2, f"{n}") for n, level in enumerate([AGREED, FIFO, SAFE] * 3)]
    whole.packet(1, *bundles[:6], time=50)
    whole.packet(2, *bundles[6:], time=60, previous=1)
    whole.order.blocks.announce(1, 70, 0, 0)
    for ring in (0, 1):
        whole.order.frontiers.raise_to(ring, 70)
    assert whole.order.drain()
    assert whole.out == receiver.out


@pytest.mark.parametrize("seed", [3])
def test_no_property_is_violated_by_steps_of_one_frame(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Views end in the middle of deliveries, and packets wait for the next step all the time."""
    monkeypatch.setattr(session_output, "STEP_FRAMES", 1)
    result = run_seed(seed, VerificationOptions())
    assert [f"{finding.property}: {finding.text}" for finding in result.findings] == []
    assert result.deliveries >= 50


def test_a_view_whose_rest_takes_a_second_is_followed_by_one_that_stands() -> None:
    """Seed 5108: the others waited for the token of a daemon that delivered 3,600 frames in one
    step, of 300 us each, and lost the new view."""
    options = VerificationOptions(duration_s=5.0, suite=1, attackers=("joiner",))
    result = run_seed(5108, options)
    assert [f"{finding.property}: {finding.text}" for finding in result.findings] == []


def test_a_run_ends_once_a_slow_daemon_has_delivered_everything() -> None:
    """Seed 7054: only programs of an attacker were still told of views, and nobody waited."""
    options = VerificationOptions(duration_s=5.0, suite=2, attackers=("crowd",))
    result = run_seed(7054, options)
    assert [f"{finding.property}: {finding.text}" for finding in result.findings] == []
