"""Bundles that wait for numbers: each session's order, whatever may leave the ring when."""

from hypothesis import given
from hypothesis import strategies as st

from groupcomm.engine.backlog import Backlog
from groupcomm.level import ServiceLevel
from groupcomm.wire.bundle import Bundle, BundleKind


def bundle(session: int, group: str) -> Bundle:
    made = Bundle(BundleKind.MESSAGES, ServiceLevel.FIFO, 0, 1, 0, 1, (group,), 0, b"", 14)
    made.address(session, "u", ())
    return made


def stays(waiting: Bundle) -> bool:
    return waiting.groups == ("inside",)


def take(backlog: Backlog, *, far: bool) -> Bundle | None:
    head = backlog.head(far=far)
    if head is not None:
        backlog.pop(far=far)
    return head


def test_while_others_lag_behind_only_what_stays_goes_on() -> None:
    backlog = Backlog(stays)
    loud, quiet = bundle(1, "all"), bundle(2, "inside")
    backlog.extend([loud, quiet])
    assert backlog.wants(far=False)
    assert take(backlog, far=False) is quiet
    assert take(backlog, far=False) is None
    assert not backlog.wants(far=False), "nobody asks for the token in vain"
    assert backlog.wants(far=True)
    assert backlog.size == 1
    assert take(backlog, far=True) is loud


def test_what_a_parked_session_gives_later_does_not_overtake() -> None:
    backlog = Backlog(stays)
    first, second = bundle(1, "all"), bundle(1, "inside")
    backlog.extend([first, second])
    assert take(backlog, far=False) is None
    assert [take(backlog, far=True), take(backlog, far=True)] == [first, second]
    backlog.append(bundle(1, "inside"))
    assert take(backlog, far=False) is not None, "it is parked no more"


def test_what_is_put_back_comes_first() -> None:
    backlog = Backlog(stays)
    parked, waiting, again = bundle(1, "all"), bundle(2, "inside"), bundle(3, "all")
    backlog.append(parked)
    assert take(backlog, far=False) is None
    backlog.append(waiting)
    backlog.put_back([again])
    assert list(backlog) == [again, parked, waiting]
    assert backlog.clear() == [again, parked, waiting]
    assert backlog.size == 0


STEPS = st.lists(
    st.tuples(st.integers(1, 3), st.sampled_from(["all", "inside"]))
    | st.sampled_from([True, False]),
    max_size=60,
)


@given(STEPS)
def test_each_session_keeps_its_order_and_nothing_is_lost(
    steps: list[tuple[int, str] | bool],
) -> None:
    backlog = Backlog(stays)
    given_: list[Bundle] = []
    taken: list[Bundle] = []
    for step in steps:
        if isinstance(step, tuple):
            given_.append(bundle(*step))
            backlog.append(given_[-1])
        elif (head := take(backlog, far=step)) is not None:
            assert step or stays(head)
            taken.append(head)
    while (head := take(backlog, far=True)) is not None:
        taken.append(head)
    for session in (1, 2, 3):
        mine = [one for one in given_ if one.session == session]
        assert [one for one in taken if one.session == session] == mine
