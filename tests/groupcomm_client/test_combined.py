"""Rules, secrets, filters and sessions that end, together: on virtual time."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import attrs
import msgspec
import pytest
import trio
import trio.testing

from groupcomm.engine import ClientDismissed
from groupcomm.errors import AccessRefused, Code, LocalProtocolError
from groupcomm.events import Message, Refused
from groupcomm_client import Connection, ConnectOptions, Reconnected, connect
from groupcomm_client.basic_connection import Session
from groupcomm_client.client_protocol import ClientProtocol
from groupcomm_client.end_to_end import KeyChanged, SharedSecret, Unreadable, Untrusted
from groupcomm_client.end_to_end.frames import Kind, kind_of
from groupcomm_client.filters import Way, causal, compression, delay
from groupcomm_client.reconnecting import ReconnectingConnection
from groupcommd.config.config_file import read_config
from tests.groupcommd.virtual import Daemon, virtual_clock, virtual_daemons

SECRET = SharedSecret(b"s" * 32)
PATIENCE_S = 60.0
ALL = ("join", "send", "see-members", "unicast", "admin")


@pytest.fixture
def autojump_clock(monkeypatch: pytest.MonkeyPatch) -> trio.testing.MockClock:
    """Filters and keys have this clock, too."""
    assert ClientProtocol.__init__.__kwdefaults__ is not None
    monkeypatch.setitem(ClientProtocol.__init__.__kwdefaults__, "clock", trio.current_time)
    return virtual_clock()


def rules(*verbs: str, but: str = "") -> str:
    """TOML that allows these verbs for groups and private names, and all in groups `but`."""
    lines = [f"{{who = '*', may = {list(verbs)}, names = '*'}}"]
    if but:
        lines.append(f"{{who = '*', groups = '{but}', may = {list(ALL)}}}")
    return f"access = [{', '.join(lines)}]"


def reload(daemon: Daemon, folder: Path, old: str, new: str) -> None:
    """Have other rules."""
    file = folder / "cluster.toml"
    file.write_text(file.read_text().replace(old, new))
    config = read_config(file, name="a", state_dir=folder / "a", make_key=True)
    config = attrs.evolve(config, unix=daemon.unix)
    daemon.service.reload(config, daemon.service.read_files(config))


def cut_off(daemon: Daemon, *connections: int) -> None:
    """End these sessions, or all; their programs may come again."""
    service = daemon.service
    numbers = connections or [number for number, _ in service.connections.principals()]
    why = "cut off by the test"
    service.connections.feed([ClientDismissed(number, Code.NET_ERROR, why) for number in numbers])
    service.turn()


async def until(connection: Any, is_it: Callable[[Any], bool]) -> Any:
    """The next event that is so."""
    with trio.fail_after(PATIENCE_S):
        while not is_it(event := await connection.receive()):
            continue
    return event


async def until_class(connection: Any, wanted: type) -> Any:
    return await until(connection, lambda event: isinstance(event, wanted))


# ---- sessions that end ----


async def test_nothing_goes_out_in_the_clear_to_a_secret_group_that_was_left(
    autojump_clock: trio.testing.MockClock, tmp_path: Path
) -> None:
    async with (
        virtual_daemons(tmp_path, "a") as daemons,
        connect(str(daemons["a"].unix), reconnect=True) as ann,
    ):
        await ann.join("plan", secret=SECRET)
        await ann.leave("plan")
        cut_off(daemons["a"])
        await until_class(ann, Reconnected)
        for groups in ("plan", ["open", "plan"]):
            with pytest.raises(LocalProtocolError, match="join it again"):
                await ann.multicast(groups, b"for members")
        await ann.join("plan")
        await ann.multicast("plan", b"for all")
        assert (await until_class(ann, Message)).data == b"for all"


async def test_nor_to_one_that_could_not_be_joined_again(
    autojump_clock: trio.testing.MockClock, tmp_path: Path
) -> None:
    before, after = rules(*ALL), rules("send", "unicast", "admin")
    async with (
        virtual_daemons(tmp_path, "a", head=before) as daemons,
        connect(
            str(daemons["a"].unix),
            reconnect=True,
            options=ConnectOptions(filters=[causal, compression]),
        ) as ann,
    ):
        await ann.join("plan", secret=SECRET)
        for session in range(2):
            if not session:
                reload(daemons["a"], tmp_path, before, after)
                assert (await until_class(ann, Refused)).verb == "join"
            cut_off(daemons["a"])
            await until_class(ann, Reconnected)
            with pytest.raises(LocalProtocolError, match="join it again"):
                await ann.multicast("plan", b"for members")
        with pytest.raises(AccessRefused):
            await ann.join("plan", secret=SECRET)
        reload(daemons["a"], tmp_path, after, before)
        await ann.join("plan", secret=SECRET)
        await ann.multicast("plan", b"again")
        assert (await until_class(ann, Message)).data == b"again"


async def test_a_block_ends_in_order_though_its_group_had_to_be_left(
    autojump_clock: trio.testing.MockClock, tmp_path: Path
) -> None:
    before = rules(*ALL)
    async with virtual_daemons(tmp_path, "a", head=before) as daemons:
        where = str(daemons["a"].unix)
        async with connect(where) as ann, connect(where, reconnect=True) as bob:
            async with ann.group("g"), bob.group("g"):
                reload(daemons["a"], tmp_path, before, rules("send"))
                for each in (ann, bob):
                    await until_class(each, Refused)
            assert not ann.groups


async def test_a_join_is_not_answered_by_the_leave_that_other_rules_have_brought(
    autojump_clock: trio.testing.MockClock, tmp_path: Path
) -> None:
    before, after = rules(*ALL), rules("send")
    async with (
        virtual_daemons(tmp_path, "ab", head=before) as daemons,
        connect(str(daemons["a"].unix)) as ann,
    ):
        await ann.join("g")
        daemons.network.cut.add("b")  # no message is ordered for a while
        reload(daemons["a"], tmp_path, before, after)
        await until_class(ann, Refused)
        reload(daemons["a"], tmp_path, after, before)
        view = await ann.join("g")
        assert ann.member in view.members


async def test_wrong_filters_are_not_kept_for_the_next_session(
    autojump_clock: trio.testing.MockClock, tmp_path: Path
) -> None:
    async with (
        virtual_daemons(tmp_path, "a") as daemons,
        connect(
            str(daemons["a"].unix), reconnect=True, options=ConnectOptions(filters=[compression])
        ) as ann,
    ):
        with pytest.raises(LocalProtocolError):
            ann.set_filters([causal, causal])
        cut_off(daemons["a"])
        await until_class(ann, Reconnected)
        await ann.join("g")
        await ann.multicast("g", b"x" * 1000)
        assert (await until_class(ann, Message)).data == b"x" * 1000


async def test_filters_that_are_set_while_there_is_no_session_are_those_of_the_next(
    autojump_clock: trio.testing.MockClock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with (
        virtual_daemons(tmp_path, "a") as daemons,
        connect(str(daemons["a"].unix), reconnect=True, options=ConnectOptions(filters=[])) as ann,
        connect(str(daemons["a"].unix), options=ConnectOptions(filters=[])) as raw,
    ):
        await raw.join("g")
        join_groups = ReconnectingConnection._join_groups

        async def set_meanwhile(self: ReconnectingConnection, opened: Session) -> Session:
            new = await join_groups(self, opened)
            ann.set_filters([compression])
            return new

        monkeypatch.setattr(ReconnectingConnection, "_join_groups", set_meanwhile)
        cut_off(daemons["a"], ann.member.connection)
        await until_class(ann, Reconnected)
        await ann.join("g")  # the filters change with a view
        await ann.multicast("g", b"x" * 1000)
        assert len((await until_class(raw, Message)).data) < 200, "it is compressed"


# ---- secrets and rules ----


async def keys(one: Connection, count: int) -> KeyChanged:
    """Wait until a program has a key that this many can read."""
    found: KeyChanged = await until(
        one, lambda event: isinstance(event, KeyChanged) and len(event.readers) == count
    )
    return found


async def test_what_members_of_a_secret_group_need(
    autojump_clock: trio.testing.MockClock, tmp_path: Path
) -> None:
    """The rights that docs/end-to-end.md lists: join, send, see-members and unicast."""
    before = rules(*ALL)
    async with (
        virtual_daemons(tmp_path, "a", head=before) as daemons,
        connect(str(daemons["a"].unix), user="ann") as ann,
    ):
        where = str(daemons["a"].unix)
        async with connect(where, user="bob") as bob, trio.open_nursery() as nursery:
            await ann.join("plan", secret=SECRET)
            nursery.start_soon(keys, ann, 2)
            await bob.join("plan", secret=SECRET)
            await keys(bob, 2)
        reload(daemons["a"], tmp_path, before, rules("join", "send", "see-members"))
        async with connect(where, user="bob") as bob, trio.open_nursery() as nursery:
            nursery.start_soon(until_class, ann, Untrusted)
            await bob.join("plan", secret=SECRET)
            refused = await until_class(bob, Refused)
            assert (refused.verb, refused.group) == ("unicast", "#ann#a")


async def test_without_see_members_nobody_takes_the_key(
    autojump_clock: trio.testing.MockClock, tmp_path: Path
) -> None:
    async with (
        virtual_daemons(tmp_path, "a", head=rules("join", "send", "unicast")) as daemons,
        connect(str(daemons["a"].unix), user="ann") as ann,
        connect(str(daemons["a"].unix), user="bob") as bob,
    ):
        await ann.join("plan", secret=SECRET)
        await bob.join("plan", secret=SECRET)
        assert (await keys(bob, 1)).others == ()
        for each in (ann, bob):
            assert "for other members" in (await until_class(each, Unreadable)).why


# ---- secrets and filters ----


async def test_what_a_filter_holds_for_members_never_goes_out_in_the_clear(
    autojump_clock: trio.testing.MockClock, tmp_path: Path
) -> None:
    late = delay(1.0, way=Way.OUT)
    async with (
        virtual_daemons(tmp_path, "a") as daemons,
        connect(str(daemons["a"].unix), user="ann", options=ConnectOptions(filters=[late])) as ann,
        connect(str(daemons["a"].unix), user="spy", options=ConnectOptions(filters=[])) as spy,
    ):
        await ann.join("plan", secret=SECRET)
        await keys(ann, 1)
        await ann.multicast("plan", b"for members")
        await ann.leave("plan")
        await ann.join("plan")
        await spy.join("plan")
        await ann.multicast("plan", b"for all")
        await until_class(ann, Message)
        assert (await until_class(spy, Message)).data == b"for all"


def is_sealed_text(event: Any) -> bool:
    """Return whether it is a program's message, and not about keys."""
    return isinstance(event, Unreadable) and kind_of(event.message.data) == Kind.DATA


async def test_what_waits_for_a_key_is_not_dropped_in_silence_when_the_session_ends(
    autojump_clock: trio.testing.MockClock, tmp_path: Path
) -> None:
    async with (
        virtual_daemons(tmp_path, "a") as daemons,
        connect(str(daemons["a"].unix), user="ann") as ann,
        connect(str(daemons["a"].unix), user="spy") as spy,
    ):
        await ann.join("plan", secret=SECRET)
        await spy.join("plan")
        await ann.multicast("plan", b"for members")
        sealed = (await until(spy, is_sealed_text)).message
        later = sealed.data[:5] + b"\xff" * 28 + sealed.data[33:]  # the head of a later view
        ann.protocol._accept(msgspec.structs.replace(sealed, data=later))
        cut_off(daemons["a"])
        told = await until(
            ann, lambda event: isinstance(event, Unreadable) and event.message.data == later
        )
        assert "the session ended" in told.why
