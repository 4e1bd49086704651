"""What a user's function raises or returns ends at most its own program, and limits are errors of
the call that exceeds them."""

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import pytest
import trio

from groupcomm.errors import LocalProtocolError
from groupcomm.events import MemberId
from groupcomm.wire.messages import MAX_MESSAGE_BYTES
from groupcomm_client import Connection, connect
from groupcomm_client.coordination import (
    Caller,
    CallFailed,
    Replicated,
    Request,
    StateUnavailable,
    calling,
    parts,
    replica,
    replicate,
    requests,
    serve,
    work,
)
from groupcomm_client.coordination.limits import MAX_DATA_BYTES, MOST_TEXT, check_data, text_of
from groupcomm_client.coordination.replica_messages import Command, encode
from groupcomm_tools.running_cluster import RunningCluster

PATIENCE_S = 30.0


class Mute(Exception):
    """An error whose text cannot be made."""

    def __str__(self) -> str:
        raise RuntimeError("no text either")


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with RunningCluster("a") as cluster:
        yield cluster.address("a")


# ---- limits ----


def test_what_is_accepted_fits_with_its_head() -> None:
    data = b"x" * MAX_DATA_BYTES
    check_data("the command", data)
    number = 2**64 - 1
    assert len(encode(Command(number, data))) <= MAX_MESSAGE_BYTES
    call = requests.Call(number, requests.Whom.ONE, data)
    assert len(requests._encoder.encode(call)) <= MAX_MESSAGE_BYTES
    with pytest.raises(LocalProtocolError, match=f"{MAX_DATA_BYTES + 1} bytes; at most"):
        check_data("the command", data + b"x")
    with pytest.raises(LocalProtocolError, match="is of type str; it must be bytes"):
        check_data("the command", "text")


def test_every_error_has_a_text_for_others() -> None:
    assert text_of(ValueError("no")) == "ValueError: no"
    assert text_of(ValueError("\ud800")) == "ValueError: ?"
    assert text_of(Mute()) == "Mute"
    assert len(text_of(ValueError("x" * 10**6))) == MOST_TEXT


def test_a_reply_that_is_too_large_with_its_head_becomes_an_error() -> None:
    key, servers = (MemberId("#ann#a", 1), 7), (MemberId("#bob#b", 2),) * 100
    wire = requests._encode_reply(key, b"x" * MAX_DATA_BYTES, False, servers)
    reply = requests._decode_untrusted(wire)
    assert isinstance(reply, requests.Reply)
    assert reply.failed
    assert b"the reply with its head has" in reply.data


# ---- requests ----


@asynccontextmanager
async def served(address: str, group: str, handler: Any) -> AsyncIterator[Caller]:
    async with (
        connect(address) as connection,
        connect(address) as own,
        calling(own) as caller,
        trio.open_nursery() as nursery,
    ):
        nursery.start_soon(serve, connection, group, handler)
        with trio.fail_after(PATIENCE_S):
            while not (await own.ask(f"members {group}"))["members"]:
                await trio.sleep(0.01)
            yield caller
        nursery.cancel_scope.cancel()


async def test_whatever_a_handler_returns_or_raises_its_caller_is_told(
    address: str, caplog: pytest.LogCaptureFixture
) -> None:
    wrong: list[tuple[object, str]] = [
        ("text", "the reply is of type str"),
        (None, "the reply is of type NoneType"),
        (b"x" * (MAX_DATA_BYTES + 1), f"the reply has {MAX_DATA_BYTES + 1} bytes"),
        (ValueError("\ud800 half"), "ValueError: . half"),
        (Mute(), "Mute"),
    ]

    async def handle(request: Request) -> object:
        if request.data == b"right":
            return b"reply"
        found = wrong[int(request.data)][0]
        if isinstance(found, Exception):
            raise found
        return found

    async with served(address, "odd", handle) as caller:
        for number, (_, text) in enumerate(wrong):
            with pytest.raises(CallFailed, match=text):
                await caller.call("odd", b"%d" % number)
        assert await caller.call("odd", b"right") == b"reply"
    told = [record.getMessage() for record in caplog.records]
    assert len(told) == 3  # the server, too, of what it has returned
    assert "the reply is of type NoneType" in told[1]


async def test_a_request_is_checked_at_its_call(address: str) -> None:
    async def echo(request: Request) -> bytes:
        return request.data

    async with served(address, "echo", echo) as caller:
        for data in (b"x" * (MAX_DATA_BYTES + 1), "text", None):
            with pytest.raises(LocalProtocolError, match="the request"):
                await caller.call("echo", data)  # type: ignore[arg-type]
            with pytest.raises(LocalProtocolError, match="the request"):
                await caller.call_all("echo", data)  # type: ignore[arg-type]
        with pytest.raises(LocalProtocolError, match="name"):
            await caller.call("no such name " * 50, b"x")
        assert await caller.call("echo", b"x") == b"x"


# ---- replicas ----


class Counter:
    """A counter whose state another one gets by `give`, and takes by `take`."""

    def __init__(self, give: Callable[[], object] | None = None) -> None:
        self.count = 0
        self.give = give or (lambda: b"%d" % self.count)

    def apply(self, command: bytes, sender: MemberId) -> int:
        self.count += int(command)
        return self.count

    def members_changed(self, members: tuple[MemberId, ...]) -> None:
        """Nothing depends on them."""

    def snapshot(self) -> bytes:
        return self.give()  # type: ignore[return-value]

    def restore(self, state: bytes) -> None:
        self.count = int(state)


def failing() -> object:
    raise ValueError("this state cannot be given")


@asynccontextmanager
async def holders(
    address: str, group: str, gives: list[Callable[[], object] | None]
) -> AsyncIterator[list[Replicated]]:
    """Run replicas that have come to one state by commands, not by snapshots."""
    with trio.fail_after(PATIENCE_S):
        async with AsyncExitStack() as stack:
            found, machines = [], []
            for give in gives:
                machine = Counter()
                connection: Connection = await stack.enter_async_context(connect(address))
                one = await stack.enter_async_context(replicate(connection, group, machine))
                await one.until_current()
                await one.submit(b"1")
                found.append(one)
                machines.append((machine, give))
            for machine, wanted in machines:
                machine.give = wanted or machine.give
            yield found


async def until_current(address: str, group: str, machine: Counter) -> None:
    """Be a replica until it has the state of the group."""
    async with connect(address) as connection, replicate(connection, group, machine) as newcomer:
        await newcomer.until_current()


@pytest.mark.parametrize(
    ("give", "why"),
    [
        (failing, "ValueError: this state cannot be given"),
        (lambda: "text", "the snapshot is of type str; it must be bytes"),
        (lambda: b"x" * 3000, "the snapshot has 3000 bytes; at most 2000"),
    ],
    ids=["raises", "text", "large"],
)
async def test_a_snapshot_that_cannot_be_given_ends_the_newcomer_alone(
    address: str, give: Callable[[], object], why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replica, "MOST_STATE_BYTES", 2000)
    async with holders(address, "failing", [give, give, give]) as replicas:
        for _ in range(2):
            with pytest.raises(StateUnavailable, match=why):
                await until_current(address, "failing", Counter())
        count = 3
        for one in replicas:
            count += 1
            assert one.is_current
            assert await one.submit(b"1") == count


async def test_the_next_replica_gives_the_state_if_the_first_cannot(address: str) -> None:
    async with (
        holders(address, "second", [failing, failing, None]) as replicas,
        connect(address) as connection,
        replicate(connection, "second", Counter()) as newcomer,
    ):
        await newcomer.until_current()
        assert await newcomer.submit(b"1") == 4
        assert await replicas[0].submit(b"1") == 5


async def test_a_restore_that_raises_ends_its_own_program(address: str) -> None:
    class Broken(Counter):
        def restore(self, state: bytes) -> None:
            raise KeyError("it cannot be read")

    async with holders(address, "broken", [None, None]) as replicas:
        with pytest.raises(KeyError, match="cannot be read"):
            await until_current(address, "broken", Broken())
        assert await replicas[0].submit(b"1") == 3
        assert await replicas[1].submit(b"1") == 4


async def test_a_command_is_checked_at_its_call(address: str) -> None:
    async with holders(address, "commands", [None]) as (one,):
        for command in (b"1" * (MAX_DATA_BYTES + 1), "1", None):
            with pytest.raises(LocalProtocolError, match="the command"):
                await one.submit(command)  # type: ignore[arg-type]
        assert await one.submit(b"1") == 2


def test_the_largest_state_fits_into_its_parts() -> None:
    assert parts.MOST_STATE_BYTES < parts.MOST_PARTS * parts.PART_BYTES


# ---- shared work ----


async def test_a_handler_of_jobs_may_raise_what_it_likes(address: str) -> None:
    errors = [Mute(), ValueError("\ud800"), ValueError("x" * 10**6)]
    failures: list[bytes] = []

    async def handle(job: Any) -> None:
        data = job.data
        if data != b"right":
            failures.append(data)
            raise errors[int(data)]

    with trio.fail_after(PATIENCE_S):
        async with (
            connect(address) as sender,
            connect(address) as connection,
            work(connection, "jobs", name="w", tries=1, key=lambda message: "text") as worker,  # type: ignore[arg-type,return-value]
            trio.open_nursery() as nursery,
        ):
            nursery.start_soon(worker.work_off, handle)
            await worker.until_current()
            for number in range(len(errors)):
                await sender.multicast_ordered("jobs", b"%d" % number)
            while len(worker.set_aside) < len(errors):
                await trio.sleep(0.01)
            assert sorted(failures) == [b"0", b"1", b"2"]
            assert [each.why[:11] for each in worker.set_aside] == [
                "Mute",
                "ValueError:",
                "ValueError:",
            ]
            nursery.cancel_scope.cancel()
