"""The roster outside the core: its file, its addresses, and what an operator may ask for."""

import json
from pathlib import Path
from types import MappingProxyType, SimpleNamespace
from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from groupcomm.config.roster import (
    AddDaemon,
    Invitation,
    InviteDaemon,
    MoveDaemon,
    RemoveDaemon,
    RemoveLinks,
    Roster,
    RosterEntry,
    RosterRecord,
    SetLinks,
)
from groupcomm.config.votes import (
    CountDaemon,
    LeaveDaemon,
    Policy,
    SetPolicy,
    Settle,
    SetVotes,
)
from groupcomm.errors import ConfigError
from groupcomm.host.addresses import Address
from groupcomm.wire.roster import decode_roster_untrusted, encode_roster
from groupcommd.config.config_file import read_config
from groupcommd.config.daemon_config import DaemonConfig
from groupcommd.config.roster_config import former_places, with_roster
from groupcommd.files.roster_file import decode_record, encode_record
from groupcommd.files.state_dir import StateDir, StateError
from groupcommd.joining.roster_service import RosterService
from groupcommd.network.junk import pattern_of
from groupcommd.network.sockets import use_places
from groupcommd.network.udp import UdpSocket

FIRST = Roster(
    entries=(
        RosterEntry(name="a", site="main", addresses=("10.0.0.1:4803",)),
        RosterEntry(name="größe", site="far", addresses=("10.0.0.2:4803", "10.1.0.2:4803")),
    ),
    links=(("far", "main", 40_000),),
    expected=3,
)
AGREED = FIRST.changed(AddDaemon(name="b", site="main", addresses=("10.0.0.3:1",)), forced=True)
INVITED = Invitation(id=b"12345678", name="c", site="far", proof=bytes(32), expires_s=2_000_000_000)
PENDING = AGREED.changed(RemoveDaemon("größe")).changed(InviteDaemon(invitation=INVITED, now_s=0))
RECORD = RosterRecord(agreed=AGREED, pending=PENDING, ballot=2**63)
WHOLE = encode_record(RECORD)
FILE = """
insecure = true
[sites.main.daemons]
a = "127.0.0.1:{0}"
b = ["127.0.0.1:5001"]
"""


# ---- the file ----


def test_the_record_comes_back_and_can_be_read_by_people() -> None:
    assert decode_record(WHOLE) == RECORD
    assert decode_record(encode_record(RosterRecord())) == RosterRecord()
    table = json.loads(WHOLE)
    assert table["version"] == 1
    assert [each["name"] for each in table["agreed"]["daemons"]] == ["a", "b", "größe"]


def test_votes_and_policy_come_back_from_the_file_and_from_a_message() -> None:
    policy = Policy(orderly=True, tie_breaker="b")
    changes = (SetVotes("b", 3), CountDaemon("b"), CountDaemon("b"), LeaveDaemon("a"))
    roster = FIRST.changed(AddDaemon(name="b", site="main"))
    roster = attrs.evolve(roster, expected=None)
    for change in (*changes, SetPolicy(policy), Settle()):
        roster = roster.changed(change)
    record = RosterRecord(agreed=roster)
    assert decode_record(encode_record(record)) == record
    assert decode_roster_untrusted(encode_roster(roster)) == roster
    assert decode_roster_untrusted(encode_roster(AGREED)) == AGREED
    assert encode_roster(AGREED)[0] == 0x99, "without votes it is as earlier releases read it"


@given(at=st.integers(0, len(WHOLE) - 1), byte=st.integers(0, 255))
def test_a_file_with_another_byte_is_refused_or_says_the_same(at: int, byte: int) -> None:
    try:
        found = decode_record(WHOLE[:at] + bytes((byte,)) + WHOLE[at + 1 :])
    except (ValueError, ConfigError):
        return
    rosters = (found.agreed, found.pending)
    assert rosters in ((AGREED, PENDING), (AGREED, None), (None, PENDING))


def test_the_folder_keeps_rosters_and_names_a_damaged_file(tmp_path: Path) -> None:
    state = StateDir(tmp_path)
    try:
        assert state.read_rosters() == RosterRecord()
        for record in (RosterRecord(pending=AGREED, ballot=1), RECORD):
            state.store_rosters(record)
            assert state.read_rosters() == state.rosters == record
        path = state.rosters_path
        assert path.stat().st_mode & 0o777 == 0o600
        path.write_bytes(WHOLE.replace(b"10.0.0.3", b"10.0.0.4"))
        with pytest.raises(StateError, match=r"roster.json is damaged .*learns the roster"):
            state.read_rosters()
        for later in (
            WHOLE.replace(b'"version": 1', b'"version": 2'),
            WHOLE.replace(b'"ballot"', b'"invented": 1, "ballot"'),
        ):
            path.write_bytes(later)
            with pytest.raises(StateError, match="a later release has written it; start that"):
                state.read_rosters()
        path.write_bytes(WHOLE)
        path.chmod(0o622)
        with pytest.raises(StateError, match="chmod go-w"):
            state.read_rosters()
    finally:
        state.close()


# ---- the configuration ----


def config_of(folder: Path, roster: Roster | None = None, port: int = 5000) -> DaemonConfig:
    path = folder / "plant.toml"
    path.write_text(FILE.format(port))
    return read_config(path, name="a", state_dir=folder / "a", roster=roster)


def grown(config: DaemonConfig) -> Roster:
    roster = config.core.roster
    roster = roster.changed(AddDaemon(name="c", site="south", addresses=("127.0.0.1:5002",)))
    roster = roster.changed(MoveDaemon("c", ("127.0.0.1:6002", "127.0.0.2:6002")))
    return roster.changed(RemoveDaemon("b"))


def test_the_agreed_roster_replaces_the_daemons_of_the_file(tmp_path: Path) -> None:
    file = config_of(tmp_path)
    roster = grown(file)
    running, started = with_roster(file, roster), config_of(tmp_path, roster)
    for found in (running, started):
        assert found.core.daemons == ("a", "c")
        assert found.addresses["c"] == Address("127.0.0.1", 6002)
        assert found.further == {"c": (Address("127.0.0.2", 6002),)}
        assert found.addresses["b"] == Address("127.0.0.1", 5001), "it is told that it was removed"
        assert found.remote == {"b", "c"}
        assert former_places(found) == {"c": (Address("127.0.0.1", 5002),)}
        assert len(pattern_of(found.core).senders) == 3
        assert found.core == running.core
    assert started.overruled == (
        "sites.main.daemons.b (not in the roster)",
        "sites.*.daemons (the roster also has c)",
    )


def test_datagrams_go_to_both_places_until_the_new_one_has_answered(tmp_path: Path) -> None:
    sockets = {name: UdpSocket(Address("127.0.0.1", 0), {}) for name in ("new", "old")}
    config = config_of(tmp_path, port=0)
    roster = config.core.roster
    for name in ("old", "new"):
        roster = roster.changed(MoveDaemon("b", (str(sockets[name].address),)))
    try:
        me = UdpSocket(Address("127.0.0.1", 0), {})
        sockets["me"] = me
        use_places(me, with_roster(config, roster), frozenset("b"))
        me.send([("b", b"1"), (None, b"2")])
        assert sockets["new"].drain() == sockets["old"].drain() == [b"1", b"2"]
        sockets["new"].use({"a": me.address}, (), {})
        sockets["new"].send([("a", b"I am here")])
        assert me.drain() == [b"I am here"]
        me.learn(clean=True)
        me.send([("b", b"3"), (None, b"4")])
        assert (sockets["new"].drain(), sockets["old"].drain()) == ([b"3", b"4"], [])
    finally:
        for each in sockets.values():
            each.close()


def test_a_daemon_starts_at_the_address_of_the_roster(tmp_path: Path) -> None:
    roster = config_of(tmp_path).core.roster.changed(MoveDaemon("a", ("127.0.0.1:5003",)))
    roster = roster.changed(AddDaemon(name="c", site="far", addresses=("127.0.0.1:5004",)))
    roster = roster.changed(SetLinks((("far", "main", 7500),)))
    started = config_of(tmp_path, roster)
    assert started.addresses["a"] == Address("127.0.0.1", 5003)
    assert started.core.timing.longest_delay_s == 0.0075
    assert started.overruled == (
        "sites.main.daemons.a (now at 127.0.0.1:5003)",
        "sites.*.daemons (the roster also has c)",
        "links (the roster has far-main of 7.5 ms)",
    )


# ---- operators ----


class FakeCore:
    """A core with identities of some daemons; it keeps its commands."""

    def __init__(self, roster: Roster, listed: list[str] | None) -> None:
        self.commands: list[Any] = []
        told = None if listed is None else {"identities": {"daemons": dict.fromkeys(listed, "")}}
        self._status = SimpleNamespace(
            at=0.0,
            majority=True,
            keys=SimpleNamespace(description=told),
            roster=MappingProxyType(
                {"number": roster.number, "changing": False, "in_view": True, "daemons": []}
            ),
        )

    def status(self, now: float) -> Any:
        return self._status

    def command(self, command: Any) -> None:
        self.commands.append(command)


async def test_only_the_owner_changes_and_identities_come_first(tmp_path: Path) -> None:
    config = config_of(tmp_path)
    core: Any = FakeCore(config.core.roster, ["a", "b"])
    service = RosterService(core, config)

    def ask(question: str, *, allowed: bool = True) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(service.answer(question, allowed=allowed))
        return found

    assert ask("daemons", allowed=False)["asked"] == "a"
    add = 'daemons add {"name": "c", "addresses": ["127.0.0.1:7000"]}'
    assert "only the daemon's own user and root" in ask(add, allowed=False)["error"]
    assert "first, on every host: groupcomm identity add" in ask(add)["error"]
    assert "unknown command" in ask("daemons paint {}")["error"]
    assert "unknown field" in ask('daemons remove {"name": "b", "more": 1}')["error"]
    assert not core.commands
    asked = ask('daemons remove {"name": "b", "force": true}')
    assert asked["number"] == 0
    (command,) = core.commands
    assert (command.change, command.forced) == (RemoveDaemon("b"), True)


async def test_a_new_site_needs_no_link_where_no_site_has_one(tmp_path: Path) -> None:
    config = config_of(tmp_path)
    core: Any = FakeCore(config.core.roster, None)
    service = RosterService(core, config)
    add = {"name": "c", "addresses": ["127.0.0.1:7000"], "site": "south"}
    assert "asked" in json.loads(service.answer(f"daemons add {json.dumps(add)}", allowed=True))
    assert core.commands[0].change.site == "south"
    moved = AGREED.changed(RemoveDaemon("b")).changed(MoveDaemon("a", ("127.0.0.1:5000",)))
    service.config = with_roster(config, moved)
    found = json.loads(service.answer(f"daemons add {json.dumps(add)}", allowed=True))
    assert "site south is new, and no link leads to it" in found["error"]
    linked = json.dumps({**add, "links": {"main": 12.5}})
    assert "asked" in json.loads(service.answer(f"daemons add {linked}", allowed=True))
    assert core.commands[1].change.links == (("main", 12_500),)


async def test_links_are_named_as_in_files(tmp_path: Path) -> None:
    config = config_of(tmp_path)
    roster = config.core.roster.changed(AddDaemon(name="c", site="far-off", addresses=("1.1.1.1",)))
    core: Any = FakeCore(roster, None)
    service = RosterService(core, with_roster(config, roster))

    def ask(question: str) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(service.answer(question, allowed=True))
        return found

    assert "asked" in ask('daemons set-links {"links": {"main-far-off": 7.25}}')
    assert core.commands[0].change == SetLinks((("far-off", "main", 7250),))
    assert "asked" in ask('daemons remove-links {"links": ["far-off-main"], "force": true}')
    assert core.commands[1].change == RemoveLinks((("far-off", "main"),))
    assert (
        "does not name two sites" in ask('daemons set-links {"links": {"main-moon": 1}}')["error"]
    )
    assert "length >= 1" in ask('daemons set-links {"links": {}}')["error"]
