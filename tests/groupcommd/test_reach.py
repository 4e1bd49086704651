"""Addresses at which the others cannot reach a daemon are refused, or named as the cause."""

import json
from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from groupcomm.errors import ConfigError
from groupcomm.host.addresses import Address, parse_daemon_address
from groupcommd.config import present_address
from groupcommd.config.present_address import HostUnknown, own_address
from groupcommd.config.reach import check_reach, loopback_fault
from groupcommd.config.seeds import Seed
from groupcommd.config.site_tables import read_place
from groupcommd.joining.roster_service import RosterService
from groupcommd.network.sockets import _listen
from groupcommd.operators.assessment import check_view
from groupcommd.operators.solitude import ALONE_S, Solitude
from tests.groupcommd.test_host_names import config_of
from tests.groupcommd.test_roster import FakeCore
from tests.groupcommd.test_solitude import status

FAR = "10.0.0.2"
FAULTS = [
    ("0.0.0.0", "stands for all addresses of a host"),
    ("[::]:4803", "stands for all addresses of a host"),
    ("239.192.0.7", "stands for a group of hosts"),
    ("255.255.255.255", r"all hosts of a network \(broadcast\)"),
    ("127.255.255.255", r"all hosts of a network \(broadcast\)"),
    ("fe80::1", "counts on one link only, .* use a global address"),
    ("fe80::1%eth0", "counts on one link only, .* use a global address"),
    ("[fe80::1%eth0]:4803", "counts on one link only, .* use a global address"),
]
LOOPBACK = "only programs of its own host can reach that address"


@pytest.mark.parametrize(
    ("own", "other", "said"),
    [
        *((own, FAR, said) for own, said in FAULTS),
        *((FAR, other, said) for other, said in FAULTS),
        ("127.0.1.1", FAR, f"daemon a is at 127.0.1.1:4803, and b at 10.0.0.2:4803: {LOOPBACK}"),
        ("127.0.0.1", FAR, LOOPBACK),
        (FAR, "127.0.0.1", f"daemon b is at 127.0.0.1:4803, and a at 10.0.0.2:4803: {LOOPBACK}"),
        ("fd00::1", "::1", LOOPBACK),
    ],
)
def test_addresses_that_others_cannot_reach_are_refused(own: str, other: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        check_reach({"a": [read_place(own, "a")], "b": [read_place(other, "b")]})


@pytest.mark.parametrize(
    "places",
    [
        {"a": ["127.0.0.1:1"], "b": ["127.0.1.1:2"], "c": ["127.0.0.2:3"]},
        {"a": ["::1"], "b": ["[::1]:5"]},
        {"a": ["10.0.0.1", "10.1.0.1"], "b": ["10.0.0.2", "10.1.0.2"]},
        {"a": ["fd00::1"], "b": ["2001:db8::1"]},
        {"a": ["169.254.0.1"], "b": ["169.254.0.2"]},
        {"a": ["127.0.0.1"], "b": ["b.test"]},
        {},
    ],
)
def test_others_are_not(places: dict[str, list[str]]) -> None:
    check_reach({name: [read_place(text, name) for text in at] for name, at in places.items()})


@pytest.mark.parametrize("own", ["127.0.1.1", "0.0.0.0", "239.0.0.1", "fe80::1", "127.255.255.255"])
def test_a_configuration_with_one_is_refused(own: str, tmp_path: Path) -> None:
    text = 'key_file = "key"\n[sites.hall.daemons]\na = "{}"\nb = "{}"\n'
    for pair in ((own, FAR), (FAR, own)):
        with pytest.raises(ConfigError, match=r"daemon . is at"):
            config_of(tmp_path, text=text.format(*pair))


@pytest.mark.parametrize(
    ("own", "added", "said"),
    [
        *((FAR, added, said) for added, said in FAULTS if ":" not in added),
        (FAR, "127.0.0.1", LOOPBACK),
        ("127.0.0.1", FAR, "which other hosts cannot reach: first groupcomm daemons move"),
        ("0.0.0.0", FAR, "a is at 0.0.0.0:4803: .* first groupcomm daemons move"),
    ],
)
async def test_no_daemon_is_added_at_one(own: str, added: str, said: str, tmp_path: Path) -> None:
    config = config_of(tmp_path, text=f'key_file = "key"\n[sites.hall.daemons]\na = "{own}"\n')
    core: Any = FakeCore(config.core.roster, None)
    question = json.dumps({"name": "c", "addresses": [added]})
    told = json.loads(RosterService(core, config).answer(f"daemons add {question}", allowed=True))
    with pytest.raises(ConfigError, match=said):
        raise ConfigError(told["error"])


A = Seed("a.test", 4803, is_name=True)
B = Seed("b.test", 4803, is_name=True)
DEBIAN = Address("127.0.1.1", 4803)
"""Where /etc/hosts of Debian has the name of its host lead."""


@pytest.mark.parametrize(
    ("others", "names", "own"),
    [
        ([], {A: [DEBIAN]}, DEBIAN),
        ([DEBIAN], {A: [DEBIAN]}, DEBIAN),
        ([], {A: [DEBIAN], B: [Address("127.0.0.1", 1)]}, DEBIAN),
        ([], {A: [DEBIAN, Address(FAR, 4803)]}, Address(FAR, 4803)),
        ([Address("10.0.0.9", 1)], {A: [DEBIAN]}, Address("10.0.0.5", 4803)),
        ([], {A: [DEBIAN], B: [Address("10.0.0.9", 1)]}, Address("10.0.0.5", 4803)),
        ([], {A: [DEBIAN], B: []}, None),
    ],
)
def test_a_name_that_leads_to_loopback_counts_only_if_all_are_there(
    others: list[Address],
    names: dict[Seed, list[Address]],
    own: Address | None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def look_up(seed: Seed) -> list[Address]:
        if not names[seed]:
            raise OSError("no such name")
        return names[seed]

    monkeypatch.setattr(present_address, "look_up", look_up)
    monkeypatch.setattr(present_address, "is_here", lambda at: at.is_loopback or at.host == FAR)
    monkeypatch.setattr(present_address, "local_address", lambda target: "10.0.0.5")
    seeds = [seed for seed in names if seed != A]
    if own is not None:
        assert own_address("a", A, others, seeds) == own
        return
    with pytest.raises(HostUnknown, match=r"a\.test:4803 leads to 127.0.1.1, where only this host"):
        own_address("a", A, others, seeds)


def test_log_and_doctor_name_the_address_of_a_daemon_that_is_alone(
    caplog: pytest.LogCaptureFixture,
) -> None:
    places = {"a": Address("127.0.0.1", 4803), "b": Address(FAR, 4803)}
    fault = loopback_fault(places)
    solitude = Solitude()
    solitude.check(status(100.0), places)
    solitude.check(status(100.0 + ALONE_S), places)
    assert f"{fault}; or start the others" in caplog.text
    later = {"configured": ["a", "b"], "daemons": ["a"], "peers": [], "files": {"differ": []}}
    told = {"addresses": {name: str(at) for name, at in places.items()}}
    found = check_view(cast("Any", SimpleNamespace(later=later, configuration=told)))
    assert found.remedy.startswith(f"{fault}; start the missing daemons")


def test_a_link_local_address_without_its_network_card_is_refused() -> None:
    said = r"fe80::1 is link-local: .* such as fe80::1%eth0"
    with pytest.raises(ConfigError, match=said):
        parse_daemon_address("[fe80::1]:4803")
    with ExitStack() as stack, pytest.raises(ConfigError, match=said):
        _listen(Address("fe80::1", 0), stack)
    assert parse_daemon_address("fe80::1%lo").host == "fe80::1%lo"
    assert parse_daemon_address("[fd00::1]:5").host == "fd00::1"
