"""The parts around joining: seeds, the address of this host, files of a daemon that has joined."""

import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from groupcomm.config.core import lan
from groupcomm.config.roster import Roster, RosterEntry
from groupcomm.config.versions import CROWDS, INVITATIONS, SPOKEN, Versions
from groupcomm.config.view import PLAIN_RINGS
from groupcomm.errors import ConfigError, LocalProtocolError
from groupcomm.host.addresses import Address
from groupcomm.joining.host import Applicant
from groupcomm.joining.messages import MoveRequest, Package, signed_text
from groupcomm.security.identity import Roll, public_of
from groupcomm.security.keys import KeyRing
from groupcomm.wire.joining import Role
from groupcommd.config import seeds
from groupcommd.config.config_file import read_config
from groupcommd.config.present_address import present_address
from groupcommd.config.seeds import Seed, look_up, parse_seed
from groupcommd.files.identity_file import write_identity
from groupcommd.files.state_dir import StateDir
from groupcommd.joining.join_client import JoinRefused, store_package
from groupcommd.joining.join_service import _has_signed, timings
from groupcommd.joining.roster_service import RosterService

ROSTER = Roster(
    entries=(
        RosterEntry(name="a", site="hall", addresses=("127.0.0.1:4803",)),
        RosterEntry(name="größe", site="far", addresses=("127.0.0.1:5001",)),
    ),
    number=7,
)


# ---- seeds ----


@pytest.mark.parametrize(
    ("text", "seed"),
    [
        ("10.0.0.1", Seed("10.0.0.1", 4803)),
        ("dns:10.0.0.1:7", Seed("10.0.0.1", 7)),
        ("::1", Seed("::1", 4803)),
        ("[::1]:7", Seed("::1", 7)),
        ("db", Seed("db", 4803, is_name=True)),
        ("db.example.org:7", Seed("db.example.org", 7, is_name=True)),
        ("dns:db.example.org", Seed("db.example.org", 4803, is_name=True)),
        ("srv:_groupcomm._udp.example.org", Seed("_groupcomm._udp.example.org", 0, is_name=True)),
    ],
)
def test_a_seed_is_an_address_or_a_name(text: str, seed: Seed) -> None:
    assert parse_seed(text, "seeds") == seed
    assert parse_seed(str(seed), "seeds") == seed


@pytest.mark.parametrize(
    "text", ["", "a b", "db:", "db:0", "db:70000", "srv:", "srv:a b", "[::1", "a/b", "dns:", "-"]
)
def test_anything_else_is_no_seed(text: str) -> None:
    with pytest.raises(ConfigError, match="seeds"):
        parse_seed(text, "seeds")


def test_names_stand_for_all_their_addresses(monkeypatch: pytest.MonkeyPatch) -> None:
    assert Address("127.0.0.1", 7) in look_up(parse_seed("localhost:7", ""))
    with pytest.raises(OSError, match=r".+"):
        look_up(parse_seed("no-such-name.invalid", ""))
    monkeypatch.setattr(seeds, "_services", lambda _: [("localhost", 7), ("10.0.0.1", 8)])
    found = look_up(parse_seed("srv:_groupcomm._udp.a", ""))
    assert {Address("127.0.0.1", 7), Address("10.0.0.1", 8)} <= set(found)


# ---- the address of this host ----


def test_a_daemon_stays_where_it_can_listen_or_where_no_way_leads_to_others() -> None:
    here, away = Address("127.0.0.9", 4803), Address("192.0.2.1", 4803)
    assert present_address("a", {"a": here, "b": Address("127.0.0.1", 1)}, ()) is None
    assert present_address("a", {"a": away, "b": Address("127.0.0.1", 1)}, ()) is None
    assert present_address("a", {"a": away}, (Seed("no.invalid", 1, is_name=True),)) is None


# ---- files ----


def package(**more: Any) -> Package:
    fields = {
        "cluster": "plant",
        "roster": ROSTER,
        "timing": timings(cast("Any", SimpleNamespace(timing=lan()))),
        "packet_bytes": 1400,
        "suite": 1,
        "keys": KeyRing({3: bytes(32)}, 3),
        "multicast": "239.0.0.7:4803",
    }
    return Package(**{**fields, **more})


def stored(folder: Path, found: Package, name: str = "a") -> None:
    state = StateDir(folder)
    try:
        store_package(state, found, name, (parse_seed("dns:db", ""),))
    finally:
        state.close()


def test_the_files_of_a_daemon_that_has_joined_replace_those_of_its_own(tmp_path: Path) -> None:
    own = tmp_path / "own.toml"
    own.write_text('cluster = "other"\npreset = "wan"\nclients.tcp = "off"\ndrain_s = 3\n')
    stored(tmp_path / "state", package(), "größe")
    config = read_config(own, name="größe", state_dir=tmp_path / "state", roster=ROSTER)
    assert (config.core.cluster, config.core.packet_limit, config.drain_s) == ("plant", 1400, 3)
    assert config.keys == KeyRing({3: bytes(32)}, 3)
    assert config.core.timing == lan()
    assert config.multicast == Address("239.0.0.7", 4803)
    assert config.seeds == (Seed("db", 4803, is_name=True),)
    assert (config.core.roster, config.moved) == (ROSTER, False)


def test_a_cluster_may_have_identities_or_no_keys(tmp_path: Path) -> None:
    write_identity(tmp_path / "a.identity")
    public = write_identity(tmp_path / "b.identity")
    private = bytes.fromhex((tmp_path / "a.identity").read_text().split("'")[1])
    roll = Roll({"a": public_of(private), "größe": public})
    own = tmp_path / "own.toml"
    own.write_text('identity = "a.identity"\n')
    stored(tmp_path / "two", package(suite=2, roll=roll))
    config = read_config(own, name="a", state_dir=tmp_path / "two", roster=ROSTER)
    assert (config.core.suite, config.roll) == (2, roll)
    stored(tmp_path / "none", package(suite=0, keys=None))
    config = read_config(None, name="a", state_dir=tmp_path / "none", roster=ROSTER)
    assert (config.core.suite, config.insecure) == (0, True)
    with pytest.raises(JoinRefused, match="does not have x"):
        stored(tmp_path / "x", package(), "x")


# ---- the daemon that is asked ----


def test_a_move_is_signed_by_the_daemon_itself_for_one_conversation() -> None:
    private = os.urandom(32)
    roll = Roll({"a": public_of(private), "b": public_of(os.urandom(32))})

    def signed(name: str, transcript: bytes) -> MoveRequest:
        plain = MoveRequest(name, ("10.0.0.9:1",))
        sign = Ed25519PrivateKey.from_private_bytes(private).sign
        return MoveRequest(name, plain.addresses, sign(signed_text(transcript, plain)))

    here = Applicant(role=Role.MEMBER, credential=bytes(8), public=bytes(32), transcript=b"1" * 32)
    good = signed("a", here.transcript)
    assert _has_signed(roll, here, good)
    assert not _has_signed(roll, here, signed("a", b"2" * 32)), "another conversation"
    assert not _has_signed(roll, here, signed("b", here.transcript)), "another daemon"
    assert not _has_signed(roll, here, MoveRequest("a", ("10.6.6.6:1",), good.signature))
    assert not _has_signed(Roll(roll.daemons, {roll.daemons["a"]: "a"}), here, good), "evicted"
    assert not _has_signed(None, here, good)


async def test_nobody_is_invited_while_a_daemon_cannot_read_that(tmp_path: Path) -> None:
    config = read_config(None, name="a", state_dir=tmp_path)
    service = RosterService(cast("Any", SimpleNamespace(status=None)), config)
    members = {"a": Versions(features=1), "b": Versions()}
    protocol = SimpleNamespace(view=Versions(), members=members)
    status = cast("Any", SimpleNamespace(protocol=protocol))
    with pytest.raises(LocalProtocolError, match=r"^b: an earlier release"):
        service._check_readers(status, INVITATIONS, "invitations")


@pytest.mark.parametrize(("site", "is_refused"), [("s1", False), ("new", True)])
def test_no_site_beyond_64_is_added_while_a_daemon_refuses_views_of_so_many_rings(
    site: str, is_refused: bool
) -> None:
    service = cast("Any", object.__new__(RosterService))
    sites = {f"s{number}": (f"d{number}",) for number in range(PLAIN_RINGS)}
    service.config = SimpleNamespace(core=SimpleNamespace(roster=SimpleNamespace(sites=sites)))
    members = {"a": SPOKEN, "b": Versions(features=SPOKEN.features & ~CROWDS)}
    protocol = SimpleNamespace(view=Versions(), members=members)
    status = cast("Any", SimpleNamespace(protocol=protocol))
    if is_refused:
        with pytest.raises(LocalProtocolError, match=r"^b: .*cannot read more than 64 sites"):
            service._check_sites(status, site)
    else:
        service._check_sites(status, site)
