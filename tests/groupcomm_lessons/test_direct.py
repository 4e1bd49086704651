"""Peers over UDP on this host: late datagrams, joins and leaves, refusals."""

import re
import runpy
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import pytest
import trio

from groupcomm.errors import CannotConnect, ConfigError, LocalProtocolError, SessionEnded
from groupcomm.host.trace_file import now_us
from groupcomm.trace.events import decode_event_untrusted
from groupcomm.trace.steps import Buffered, Given
from groupcomm_lessons import direct
from groupcomm_lessons.algorithms.direct.peer import Make
from groupcomm_lessons.algorithms.fan_out import FanOut
from groupcomm_lessons.algorithms.process import Process
from groupcomm_lessons.algorithms.schiper_eggli_sandoz import SchiperEggliSandoz
from groupcomm_lessons.algorithms.vector import Vector
from groupcomm_lessons.algorithms.vector_session import VectorSession
from groupcomm_lessons.direct import Cause, DirectPeer, MemberJoined, MemberLeft, Timing
from groupcomm_tools.cli import main

NAMES = ("ann", "bob", "cid")
PATIENCE_S = 30
DOCS = Path(__file__).parents[2] / "docs"


@asynccontextmanager
async def group(make: Make, **options: Path) -> AsyncIterator[list[DirectPeer]]:
    """Yield ann, bob and cid; the first message was delivered everywhere, so all have met."""
    async with AsyncExitStack() as stack:
        peers: list[DirectPeer] = []
        for name in NAMES:
            join = peers[0].address if peers else None
            opened = direct.open(
                name, make, members=NAMES, join=join, seed=1, trace=options.get(name)
            )
            peers.append(await stack.enter_async_context(opened))
        with trio.fail_after(PATIENCE_S):
            await peers[0].multicast(b"first")
            for peer in peers:
                assert (await peer.receive()).data == b"first"
            yield peers


async def late_question(peers: list[DirectPeer]) -> list[bytes]:
    """Ann's question is late at cid, bob answers at once; in which order cid gets the two."""
    ann, bob, cid = peers
    ann.set_minimum_delay("cid", 0.4)
    await ann.multicast(b"question")
    assert (await bob.receive()).data == b"question"
    await bob.multicast(b"answer")
    return [(await cid.receive()).data for _ in range(2)]


@pytest.mark.parametrize(
    ("make", "order"), [(FanOut, [b"answer", b"question"]), (Vector, [b"question", b"answer"])]
)
async def test_a_late_message_is_overtaken_by_its_effect_unless_that_waits(
    make: type[Process], order: list[bytes]
) -> None:
    async with group(make) as peers:
        assert await late_question(peers) == order


async def test_whatever_is_lost_all_comes_once() -> None:
    async with group(SchiperEggliSandoz) as peers:
        for peer in peers:
            for other in set(NAMES) - {peer.name}:
                peer.set_faults(other, loss=0.2, duplication=0.3, corruption=0.1, reorder=8)
        for number in range(30):
            await peers[number % 3].multicast(b"%d" % number)
        await peers[0].multicast(b"for bob", ["bob"])
        seen = [{(await peer.receive()).data for _ in range(30)} for peer in peers]
        assert seen[0] == seen[2] == {b"%d" % number for number in range(30)}
        assert seen[1] | {(await peers[1].receive()).data} == seen[0] | {b"for bob"}
        for peer in peers:
            for other in set(NAMES) - {peer.name}:
                peer.set_faults(other)


async def test_a_cut_path_holds_messages_until_it_is_mended() -> None:
    async with group(FanOut) as (ann, bob, cid):
        ann.cut("bob")
        await ann.multicast(b"held")
        assert (await cid.receive()).data == b"held"
        with trio.move_on_after(0.3) as patience:
            await bob.receive()
        assert patience.cancelled_caught
        ann.mend("bob")
        assert (await bob.receive()).data == b"held"
        ann.hold("cid", 0.2)
        await ann.multicast(b"later")
        assert (await cid.receive()).data == b"later"


async def test_members_come_and_go() -> None:
    async with direct.open("ann") as ann:
        await ann.multicast(b"alone")
        with trio.fail_after(PATIENCE_S):
            async with (
                direct.open("bob", join=ann.address) as bob,
                direct.open("cid", join=bob.address) as cid,
            ):
                assert cid.members == NAMES
                await cid.multicast(b"hello")
                assert [each.data async for each in taken(cid, 1)] == [b"hello"]
                assert await bob.next_event() == MemberJoined("cid")
                assert (await bob.receive()).sender == "cid"
            events = [await ann.next_event() for _ in range(6)]
        assert events[1:3] == [MemberJoined("bob"), MemberJoined("cid")]
        left = [event for event in events if isinstance(event, MemberLeft)]
        assert left == [MemberLeft("cid", Cause.LEFT), MemberLeft("bob", Cause.LEFT)]
        assert ann.members == ("ann",)
        with pytest.raises(SessionEnded, match="bob has left"):
            await bob.multicast(b"too late")
        assert [each async for each in bob] == []


async def taken(peer: DirectPeer, count: int) -> AsyncIterator[direct.Message]:
    async for message in peer:
        yield message
        count -= 1
        if not count:
            return


async def test_who_is_refused_learns_why() -> None:
    async with group(Vector) as (ann, *_):
        with pytest.raises(CannotConnect, match="ann refuses dan: Vector runs here, not VectorSe"):
            async with direct.open("dan", join=ann.address):
                pass
        async with direct.open("dan", Vector, members=("ann", "dan"), join=ann.address) as dan:
            with pytest.raises(SessionEnded, match="members here are ann, bob, cid, not ann, dan"):
                await dan.multicast(b"")


async def test_what_cannot_be_is_refused_before_anything_is_sent(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for options, error, match in (
        ({"bind": "0.0.0.0:0"}, ConfigError, "which other hosts can reach, and peers do not seal"),
        ({"bind": "here"}, ConfigError, "bind is 'here'; the host must be an IP address"),
        ({"join": "ann"}, ConfigError, "join is 'ann'"),
        ({"algorithm": Vector}, LocalProtocolError, "Vector has a fixed set of members"),
        ({"trace": Path("nowhere")}, ConfigError, "the trace nowhere"),
    ):
        with pytest.raises(error, match=match):
            async with direct.open("ann", **options):
                pass
    monkeypatch.setattr("groupcomm_lessons.direct.opening.WELCOME_S", 0.2)
    with pytest.raises(CannotConnect, match=r"no member at 127\.0\.0\.1:9 has welcomed"):
        async with direct.open("ann", join="127.0.0.1:9"):
            pass


async def test_faults_that_cannot_be_are_refused() -> None:
    async with group(Vector) as (ann, *_):
        with pytest.raises(
            ConfigError, match="'dan' is not another member; the others are bob, cid"
        ):
            ann.set_minimum_delay("dan", 0.1)
        with pytest.raises(
            ConfigError, match="the delay to bob is 6; it must be 0 to 5 s, half of"
        ):
            ann.set_minimum_delay("bob", 6)
        with pytest.raises(ConfigError, match=r"loss is 1\.5; it must be 0 to 1"):
            ann.set_faults("bob", loss=1.5)


async def test_an_error_in_the_block_comes_out_as_it_is() -> None:
    with pytest.raises(ValueError, match="mine"):
        async with direct.open("ann", VectorSession):
            raise ValueError("mine")


async def test_addresses_of_all_members_may_be_given() -> None:
    async with direct.open("ann", Vector, members=("ann", "bob")) as ann:
        known = {"ann": ann.address, "bob": "127.0.0.1:0"}
        async with direct.open("bob", Vector, members=known, timing=Timing(repeat_s=0.05)) as bob:
            with trio.fail_after(PATIENCE_S):
                await bob.multicast(b"hello")
                assert (await ann.receive()).data == b"hello"


async def test_a_trace_has_the_steps(tmp_path: Path) -> None:
    async with group(Vector, cid=tmp_path) as peers:
        await late_question(peers)
    now = now_us()
    (file,) = tmp_path.iterdir()
    assert file.name == "peer-cid.jsonl"
    steps = [decode_event_untrusted(line) for line in file.read_bytes().splitlines()]
    assert all(now - 60_000_000 < step.t <= now for step in steps), "the clock of this host"
    (waits,) = (step for step in steps if isinstance(step, Buffered))
    assert (waits.s, waits.waits) == ("bob", (("ann", 2),))
    assert [step.s for step in steps if isinstance(step, Given)] == ["ann", "ann", "bob"]


async def test_the_traces_of_all_peers_are_one_diagram(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with group(Vector, ann=tmp_path, bob=tmp_path, cid=tmp_path) as peers:
        await late_question(peers)
    assert main(["view", str(tmp_path), "-o", str(tmp_path / "view.html")]) == 0
    assert "3 messages on 3 lines, 0 violations" in capsys.readouterr().out


def blocks_of_the_documentation() -> list[str]:
    """The blocks of docs/direct.md."""
    text = (DOCS / "direct.md").read_text()
    blocks = re.findall(r"^```\w+\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    return [block.strip() for block in blocks]


def test_the_programs_of_the_documentation_show_what_it_says(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    real, printed, virtual = blocks_of_the_documentation()
    for name, program, told in (("real.py", real, printed), ("virtual.py", virtual, "")):
        (tmp_path / name).write_text(program)
        runpy.run_path(str(tmp_path / name), run_name="__main__")
        assert capsys.readouterr().out.strip() == told
