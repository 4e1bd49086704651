"""`groupcomm spread import`: configurations of Spread's daemons become ours."""

import contextlib
import tomllib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from groupcomm.errors import ConfigError
from groupcomm.host.key_file import write_key_file
from groupcomm_tools.cli import main
from groupcomm_tools.spread_import import NO_MEANING, parse_spread_conf, to_groupcomm
from groupcommd.config.config_file import read_config
from groupcommd.config.daemon_config import DaemonConfig

DIRECTIVES = (
    "DebugFlags = { PRINT EXIT }",
    "EventPriority = INFO",
    "EventLogFile = 'spread_%h.log'",
    'EventTimeStamp = "[%a %d %b %Y]"',
    "EventTimeStamp",
    "EventPreciseTimeStamp",
    "DangerousMonitor = false",
    "SocketPortReuse = AUTO",
    "RuntimeDir = /var/run/spread",
    "DebugInitialSequence",
    "DaemonUser = spread",
    "DaemonGroup = spread",
    'AllowedAuthMethods = "NULL IP"',
    'RequiredAuthMethods = "   "',
    'AccessControlPolicy = "PERMIT"',
    "MaxSessionMessages = 5000",
    "ActiveIPVersion = IPv4",
    "LinkProtocol = HOP",
    "Window = 160",
    "PersonalWindow = 20",
    "AcceleratedRing = true",
    "AcceleratedWindow = 15",
    *(
        f"{kind}Timeout = 1000"
        for kind in ("Token", "Hurry", "Alive", "Join", "Rep", "Seg", "Gather", "Form", "Lookup")
    ),
    "WideAreaNetwork = no",
    "ExcludeSegAddrsFromHash = false",
    "IgnoreMulticastJoinErrors = false",
    "RouteMatrix { 0 10 }",
)
"""Every directive of the grammars of Spread 4.4 and 5.0.1 but Spread_Segment."""


CONF = """
# two segments, as in Spread's own sample
Spread_Segment 127.0.0.255:4813 {
    press 127.0.0.1
    oven  127.0.0.2:4815
}
Spread_Segment 239.1.2.3
{
    gate 127.0.0.3 {
        D 127.0.0.4
        D 127.0.0.6
        C 127.0.0.5
        M 127.0.0.7 }
    localhost 127.0.0.8 VirtualID = 5
              127.0.0.9                # its address is its name
    localhost.localdomain ;  # looked up, and cut
}
WideAreaNetwork = true
EventLogFile = "spread.log"   # a setting
EventTimeStamp
EventPreciseTimeStamp
DebugInitialSequence
DebugFlags = { PRINT !EXIT }
TokenTimeout = 5000
RouteMatrix { 0 10
              10 0 }
FromTomorrow = yes
Window 5
what { is this }
"""


def imported(folder: Path, text: str, name: str) -> DaemonConfig:
    """Return the configuration of a daemon that is made from a file of Spread's."""
    (folder / "spread.conf").write_text(text)
    made = folder / "groupcomm.toml"
    assert main(["spread", "import", str(folder / "spread.conf"), "--output", str(made)]) == 0
    write_key_file(folder / "cluster.key")
    return read_config(made, name=name, state_dir=None)


def test_daemons_and_ports_are_taken_over(tmp_path: Path) -> None:
    config = imported(tmp_path, CONF.replace("localhost.localdomain ;", "localhost ;"), "gate")
    assert config.core.sites == (("oven", "press"), ("127.0.0.9", "gate", "localhost"))
    assert {name: str(address) for name, address in config.addresses.items()} == {
        "press": "127.0.0.1:4813",
        "oven": "127.0.0.2:4813",
        "gate": "127.0.0.4:4803",
        "localhost": "127.0.0.8:4803",
        "127.0.0.9": "127.0.0.9:4803",
    }
    assert (config.spread, config.unix_for) == (True, "all")
    assert [*map(str, config.spread_addresses)] == ["127.0.0.1:4803", "127.0.0.5:4803"]
    conf, made = str(tmp_path / "spread.conf"), str(tmp_path / "groupcomm.toml")
    assert main(["spread", "import", conf, "--output", made]) == 2, "the file is there already"


def test_nothing_of_a_file_vanishes_in_silence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "spread.conf").write_text(CONF)
    assert main(["spread", "import", str(tmp_path / "spread.conf")]) == 0
    lines = capsys.readouterr().out.splitlines()
    for setting in (
        "EventLogFile = spread.log",
        "EventTimeStamp",
        "EventPreciseTimeStamp",
        "DebugInitialSequence",
        "DebugFlags = PRINT !EXIT",
        "TokenTimeout = 5000",
        "RouteMatrix = 0 10 10 0",
    ):
        assert f"# - {setting}: {NO_MEANING[setting.partition(' ')[0]]}" in lines
    for remark in (
        "FromTomorrow = yes: there is nothing like it",
        "line 28: Window 5: not understood",
        "line 29: what is this: not understood",
        "oven: its port 4815 has no effect in Spread: its segment's has",
        "localhost: VirtualID = 5: daemons know each other by names",
        "localhost.localdomain: Spread cuts names after 19 bytes, too",
    ):
        assert f"# - {remark}" in lines
    for interface in ("D 127.0.0.6", "M 127.0.0.7"):
        assert any(line.startswith(f"# - gate: {interface}: ") for line in lines)
    for line in (
        "# Spread_Segment 127.0.0.255:4813",
        "# Spread used multicast 239.1.2.3: see sites.segment2.multicast",
        '"localhost.localdoma" = "localhost.localdomain:4803"  # looked up when a daemon starts',
    ):
        assert line in lines


@pytest.mark.parametrize("directive", DIRECTIVES)
def test_every_directive_of_spreads_grammar_is_known(directive: str, tmp_path: Path) -> None:
    name = directive.partition(" ")[0]
    conf = parse_spread_conf(f"{directive}\nSpread_Segment 127.0.0.255 {{ a 127.0.0.1 }}\n")
    assert [setting for setting, _ in conf.settings] == [name]
    assert conf.remarks == ()
    (line,) = [line for line in to_groupcomm(conf).splitlines() if line.startswith(f"# - {name}")]
    assert line.endswith(f": {NO_MEANING[name]}")


def test_every_substitute_is_for_a_directive_of_spread() -> None:
    assert {directive.partition(" ")[0] for directive in DIRECTIVES} == {*NO_MEANING}


@pytest.mark.parametrize(
    ("more", "addresses", "sites"),
    [
        ("", ("10.1.0.1", "10.1.200.1"), 1),
        ("", ("10.1.0.1", "10.2.0.1"), 2),
        ("", ("10.1.0.1", "localhost"), 2),
        ("WideAreaNetwork = false", ("10.1.0.1", "10.2.0.1"), 1),
        ("WideAreaNetwork = true", ("10.1.0.1", "10.1.0.2"), 2),
    ],
)
def test_segments_that_are_near_each_other_are_one_site(
    more: str, addresses: tuple[str, str], sites: int, tmp_path: Path
) -> None:
    segments = [
        f"Spread_Segment 239.0.0.{number} {{ d{number} {address} }}\n"
        for number, address in enumerate(addresses)
    ]
    config = imported(tmp_path, more + "\n" + "".join(segments), "d0")
    assert len(config.core.sites) == sites
    about = "segments are one site" if sites == 1 else "segments is a site"
    assert about in (tmp_path / "groupcomm.toml").read_text(), "it is said, not only done"


@pytest.mark.parametrize("host", ["127.0.0.1", "127.0.0.2"])
def test_daemons_of_one_host_have_a_socket_each(tmp_path: Path, host: str) -> None:
    """All addresses of loopback are of one host."""
    hosts = ((1, "127.0.0.1"), (2, host))
    segments = [f"Spread_Segment 127.0.0.255:{port} {{ d{port} {at} }}\n" for port, at in hosts]
    config = imported(tmp_path, "".join(segments), "d2")
    assert config.unix.name == "d2.sock"


def test_addresses_of_ipv6_are_taken(tmp_path: Path) -> None:
    text = "Spread_Segment [ff02::1:2:3]:5000 { a ::1 { D ::1 C :: } }"
    config = imported(tmp_path, text, "a")
    assert str(config.addresses["a"]) == "[::1]:5000"


@pytest.mark.parametrize("text", ["", "Spread_Segment 127.0.0.255 { }", "Window = 5", "{", "="])
def test_a_file_without_a_daemon_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="no Spread_Segment has a daemon"):
        parse_spread_conf(text)


@pytest.mark.parametrize(
    ("text", "remark"),
    [
        ("a 127.0.0.1", ""),  # the file ends in the segment
        ("a 127.0.0.1\n a 127.0.0.2 }", "line 2: a: left out, as there is a daemon a"),
        ("a 127.0.0.1 { D nowhere\n D 127.0.0.1 } }", "line 1: nowhere: not understood"),
        ("{ D 127.0.0.3 } a 127.0.0.1 }", "line 1: D 127.0.0.3: not understood"),
        ("a 127.0.0.1 } }", "line 1: }: not understood"),
        ("a 127.0.0.1 } Window =", ""),
    ],
)
def test_what_cannot_be_understood_does_not_end_the_import(text: str, remark: str) -> None:
    conf = parse_spread_conf(f"Spread_Segment 127.0.0.255 {{ {text}")
    assert [daemon for segment in conf.segments for daemon in segment.daemons] == [
        ("a", "127.0.0.1")
    ]
    assert conf.remarks == ((remark,) if remark else ())


WORDS = [
    "Spread_Segment",
    "127.0.0.1:4",
    "[::1]:x",
    "{",
    "}",
    "=",
    "a",
    "C",
    "VirtualID",
    ";",
    "\n",
]


@given(words=st.lists(st.sampled_from(WORDS)))
def test_any_words_are_read_or_refused(words: list[str]) -> None:
    with contextlib.suppress(ConfigError):
        tomllib.loads(to_groupcomm(parse_spread_conf(" ".join(words))))


def test_one_segment_is_one_site_with_a_plain_name() -> None:
    conf = parse_spread_conf("Spread_Segment 127.0.0.255 { a 127.0.0.1 }")
    assert "[sites.main.daemons]" in to_groupcomm(conf)
    assert "Not taken over" not in to_groupcomm(conf)
