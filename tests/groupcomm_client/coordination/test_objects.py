"""Ready replicated objects: their machines, and on real daemons under trio, asyncio and threads."""

from collections.abc import Callable, Iterator
from contextlib import AsyncExitStack
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from groupcomm.errors import LocalProtocolError
from groupcomm.events import MemberId
from groupcomm_client.blocking import connect
from groupcomm_client.coordination import (
    PermitLost,
    blocking,
    open_counter,
    open_dict,
    open_latch,
    open_queue,
    open_semaphore,
)
from groupcomm_client.coordination.object_machines import (
    Acquire,
    CounterMachine,
    DictMachine,
    Machine,
    Put,
    QueueMachine,
    Release,
    SemaphoreMachine,
    encode,
)
from groupcomm_tools.running_cluster import RunningCluster
from tests.groupcomm_client.coordination.test_three_loops import awaited
from tests.groupcomm_client.kinds import Kind, played

MEMBERS = tuple(MemberId(f"#u{n}#d", n) for n in range(4))
PERMITS = 2


@pytest.fixture(scope="module")
def cluster() -> Iterator[RunningCluster]:
    with RunningCluster("ab") as running:
        yield running


# ---- the machines ----


@pytest.mark.parametrize("make", [DictMachine, CounterMachine, QueueMachine, SemaphoreMachine])
def test_a_command_that_cannot_be_read_changes_nothing(make: Callable[[], Machine[Any]]) -> None:
    machine = make()
    before = machine.snapshot()
    for command in (b"", b"\xc1", encode("x"), encode({"a": 1}), encode(["append"])):
        assert machine.apply(command, MEMBERS[0]) is None
    assert machine.snapshot() == before


def test_a_state_of_another_object_is_refused_with_advice() -> None:
    with pytest.raises(LocalProtocolError, match="dict, and not of a counter: choose another"):
        CounterMachine().restore(DictMachine().snapshot())


def test_a_key_changes_only_at_the_version_that_is_asked_for() -> None:
    machine = DictMachine()

    def put(value: bytes | None, version: int | None) -> object:
        return machine.apply(encode(Put("k", value, version)), MEMBERS[0])

    assert [put(b"1", 1), put(b"1", 0), put(b"2", 0), put(b"2", 1), put(b"3", None)] == [
        *(None, 1, None, 2, 3),
    ]
    assert [put(None, 2), put(None, 3), put(b"4", 3), put(b"4", 0)] == [None, 4, None, 5]


def test_a_counter_stays_within_its_bits() -> None:
    machine = CounterMachine()
    assert machine.apply(encode([2**63 - 1]), MEMBERS[0]) == 2**63 - 1
    assert machine.apply(encode([1]), MEMBERS[0]) == 2**63 - 1
    assert machine.apply(encode([-1]), MEMBERS[0]) == 2**63 - 2


ACTS = st.lists(
    st.tuples(
        st.sampled_from(["acquire", "release", "views"]),
        st.integers(0, len(MEMBERS) - 1),
        st.integers(0, 5),
    )
)


@given(ACTS, st.integers(0, 30))
def test_permits_go_round_in_their_order_and_never_to_more(
    acts: list[tuple[str, int, int]], half: int
) -> None:
    """And a replica that gets the state on the way goes on alike."""
    machine, late = SemaphoreMachine(), SemaphoreMachine()
    asked: list[tuple[str, int, int]] = []
    given: dict[int, tuple[str, int, int]] = {}
    for at, (act, who, request) in enumerate(acts):
        if at == half:
            late.restore(machine.snapshot())
        for one in (machine, late):
            if act == "views":
                one.members_changed(MEMBERS[who:])
            else:
                kind = Acquire(request, PERMITS) if act == "acquire" else Release(request)
                one.apply(encode(kind), MEMBERS[who])
        if act == "acquire":
            asked.append((MEMBERS[who].name, MEMBERS[who].connection, request))
        state = machine.state
        assert len(state.holders) <= PERMITS
        assert not state.waiting or len(state.holders) == PERMITS, "nobody waits for a free permit"
        if act == "views":
            there = {(member.name, member.connection) for member in MEMBERS[who:]}
            assert {one[:2] for one in state.holders.values()} <= there
        new = {token: one for token, one in state.holders.items() if token not in given}
        assert all(token > max(given, default=0) for token in new), "tokens rise"
        given |= new
    order = iter(asked)
    assert all(one in order for one in given.values()), "in the order of the requests"
    if half < len(acts):
        assert late.snapshot() == machine.snapshot()


# ---- on daemons ----


@played
async def test_a_dict_is_the_same_everywhere_and_tells_its_changes(
    kind: Kind, cluster: RunningCluster
) -> None:
    async with (
        kind.connect(cluster.address("a")) as one,
        kind.connect(cluster.address("b")) as other,
        open_dict(awaited(one), f"d-{kind.name}", int) as here,
    ):
        assert await here.put("x", 1) == 1
        async with open_dict(awaited(other), f"d-{kind.name}", int) as there:
            await there.until_current()
            assert there.get("x") == 1
            seen = here.watch()
            assert await there.put("x", 2, version=1) == 2
            assert await there.put("y", 3, version=5) is None
            assert await there.delete("x", version=2) == 3
            assert await there.put("y", 4, version=0) == 4
            changes: dict[str, int | None] = {}
            while changes.get("y") is None:
                changes |= await anext(seen)
            assert changes == {"x": None, "y": 4}
            assert here.copy() == {"y": 4}
            entry = here.entry("y")
            assert entry is not None
            assert (entry.value, entry.version, here.entry("x")) == (4, 4, None)


@played
async def test_values_of_another_type_are_refused_where_they_are_put_and_read(
    kind: Kind, cluster: RunningCluster
) -> None:
    group = f"types-{kind.name}"
    async with (
        kind.connect(cluster.address("a")) as one,
        kind.connect(cluster.address("b")) as other,
        open_dict(awaited(one), group, int) as numbers,
        open_dict(awaited(other), group, str) as texts,
    ):
        wrong: Any = "three"
        with pytest.raises(LocalProtocolError, match="'three' is no int"):
            await numbers.put("x", wrong)
        key: Any = 5
        with pytest.raises(LocalProtocolError, match="the key is 5; write text"):
            await numbers.put(key, 5)
        await texts.put("x", "three")
        await numbers.replicated.driver.until(lambda: bool(numbers.machine.state.entries))
        with pytest.raises(LocalProtocolError, match="another program has put is no int"):
            numbers.get("x")
        assert await numbers.put("x", 3) == 2, "the replica has not ended"


@played
async def test_counter_latch_and_queue(kind: Kind, cluster: RunningCluster) -> None:
    async with AsyncExitStack() as stack:

        async def mine(daemon: str) -> Any:
            return awaited(await stack.enter_async_context(kind.connect(cluster.address(daemon))))

        async def opened(block: Any) -> Any:
            return await stack.enter_async_context(block)

        one, other = [await opened(open_counter(await mine(at), f"c-{kind.name}")) for at in "ab"]
        assert [await one.add(), await other.add(4), await one.add(-2)] == [1, 5, 3]
        while await other.until_changed(1) != 3:
            continue
        here, there = [await opened(open_latch(await mine(at), f"l-{kind.name}", 2)) for at in "ab"]
        assert [await here.count_down(), here.remaining] == [1, 1]

        async def count() -> None:
            assert await here.count_down() == 0

        await kind.together(there.until_open, count)
        assert await there.count_down() == 0
        first, second = [
            await opened(open_queue(await mine(at), f"q-{kind.name}", str)) for at in "ab"
        ]
        got: list[str] = []

        async def receive(queue: Any) -> None:
            for _ in range(10):
                got.append(await queue.get())

        async def put() -> None:
            for number in range(20):
                await first.put(str(number))

        await kind.together(lambda: receive(first), lambda: receive(second), put)
        assert sorted(got, key=int) == [str(number) for number in range(20)]
        await first.replicated.driver.until(lambda: len(first) == 0)


@played
async def test_no_more_hold_permits_than_there_are(kind: Kind, cluster: RunningCluster) -> None:
    inside, most, tokens = 0, 0, set()

    async def compete(daemon: str) -> None:
        nonlocal inside, most
        async with (
            kind.connect(cluster.address(daemon)) as connection,
            open_semaphore(awaited(connection), f"s-{kind.name}", PERMITS) as semaphore,
        ):
            for _ in range(4):
                async with semaphore.permit() as token:
                    tokens.add(token)
                    inside += 1
                    most = max(most, inside)
                    await connection.ask("groups")
                    inside -= 1

    await kind.together(*(lambda at=at: compete(at) for at in "abab"))
    assert inside == 0
    assert most <= PERMITS
    assert tokens == set(range(1, 17))
    async with (
        kind.connect(cluster.address("a")) as one,
        kind.connect(cluster.address("b")) as other,
        open_semaphore(awaited(one), f"s-{kind.name}", PERMITS) as here,
        open_semaphore(awaited(other), f"s-{kind.name}", PERMITS) as there,
        here.permit() as first,
        there.permit() as second,
    ):
        assert first != second


@played
async def test_a_permit_that_is_lost_ends_its_block_and_goes_to_the_next(
    kind: Kind, cluster: RunningCluster
) -> None:
    group = f"lost-{kind.name}"

    async def hold(other: Any) -> None:
        async with (
            kind.connect(cluster.address("a")) as connection,
            open_semaphore(awaited(connection), group, 1) as semaphore,
            semaphore.permit(),
        ):
            awaited(connection).close_socket()
            while True:
                await other.receive()

    async with (
        kind.connect(cluster.address("b")) as other,
        kind.connect(cluster.address("b")) as waiting,
        open_semaphore(awaited(waiting), group, 1) as semaphore,
    ):
        with pytest.raises(PermitLost, match="cut off, or its session has ended"):
            await hold(other)
        async with semaphore.permit() as token:
            assert token == 2
            assert semaphore.holders == [waiting.member]


@played
async def test_an_error_in_its_block_gives_a_permit_back(
    kind: Kind, cluster: RunningCluster
) -> None:
    async with (
        kind.connect(cluster.address("a")) as one,
        open_semaphore(awaited(one), f"error-{kind.name}", 1) as semaphore,
    ):
        with pytest.raises(KeyError):
            async with semaphore.permit():
                raise KeyError
        async with semaphore.permit() as token:
            assert token == 2


def test_threads_have_the_same_with_calls_that_wait(cluster: RunningCluster) -> None:
    with connect(cluster.address("a")) as one, connect(cluster.address("b")) as other:
        with (
            blocking.open_dict(one, "threads-d", list[int]) as here,
            blocking.open_dict(other, "threads-d", list[int]) as there,
        ):
            changes = there.watch()
            assert here.put("x", [1, 2]) == 1
            assert next(changes) == {"x": [1, 2]}
            assert (there.get("x"), there.copy(), there.is_current) == ([1, 2], {"x": [1, 2]}, True)
        with blocking.open_counter(one, "threads-c") as counter:
            assert (counter.add(3), counter.value, counter.until_changed(0)) == (3, 3, 3)
        with blocking.open_latch(one, "threads-l", 1) as latch:
            assert (latch.remaining, latch.count_down()) == (1, 0)
            latch.until_open()
        with blocking.open_queue(one, "threads-q", str) as queue:
            assert (queue.put("a"), len(queue), queue.get()) == (1, 1, "a")
        with blocking.open_semaphore(one, "threads-s", 1) as semaphore:
            with semaphore.permit() as token:
                assert (token, semaphore.holders) == (1, [one.member])
            assert semaphore.holders == []


def test_wrong_arguments_are_told_at_once(cluster: RunningCluster) -> None:
    with connect(cluster.address("a")) as one:
        for block in (
            blocking.open_semaphore(one, "g", 0),
            blocking.open_latch(one, "g", 0),
            blocking.open_dict(one, "g", str, replicas=0),
        ):
            with pytest.raises(LocalProtocolError, match="write a number from 1"), block:
                pass
        with blocking.open_counter(one, "numbers") as counter:
            for number in (2**63, 1.5, True):
                wrong: Any = number
                with pytest.raises(LocalProtocolError, match="write one of 64 bits"):
                    counter.add(wrong)
        with blocking.open_dict(one, "odd", msgspec.Raw) as odd:
            value: Any = object()
            with pytest.raises(LocalProtocolError, match="is no Raw"):
                odd.put("x", value)
