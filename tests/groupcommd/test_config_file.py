"""Configuration files: right values are resolved, wrong ones are named."""

from pathlib import Path

import pytest
import trio

from groupcomm.config.core import PRESETS
from groupcomm.errors import ConfigError
from groupcomm.host.addresses import Address, parse_address
from groupcomm.host.key_file import make_common_key, read_key_file, write_key_file
from groupcommd.config.config_file import read_config, read_sites
from groupcommd.config.daemon_config import DaemonConfig

TWO = """
cluster = "plant"
[sites.berlin.daemons]
a = "127.0.0.1:4901"
b = "127.0.0.1:4902"
"""

THREE = (
    TWO
    + """
[sites.rome.daemons]
c = "127.0.0.1:4903"
[sites.south-tyrol.daemons]
d = "127.0.0.1:4904"
"""
)


def configured(folder: Path, text: str, name: str | None = "a") -> DaemonConfig:
    path = folder / "cluster.toml"
    path.write_text(text)
    return read_config(path, name=name, state_dir=folder / "state")


def test_without_a_file_a_daemon_is_alone_on_loopback(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    config = read_config(None, name=None, state_dir=tmp_path)
    assert config.core.sites == (("local",),)
    assert config.addresses == {"local": Address("127.0.0.1", 4803)}
    assert config.tcp is None, "every user of the host could come"
    assert config.unix == tmp_path / "groupcomm" / "groupcomm.sock"


def test_daemons_that_share_a_file_have_a_socket_each(tmp_path: Path) -> None:
    text = TWO + '[clients]\nunix = "sockets/{name}.sock"\n'
    assert configured(tmp_path, text).unix == tmp_path / "sockets" / "a.sock"
    assert configured(tmp_path, text, "b").unix == tmp_path / "sockets" / "b.sock"


def test_a_file_is_resolved(tmp_path: Path) -> None:
    text = 'preset = "wan"\n' + TWO + "[timing]\ntoken_timeout_s = 5.0\n"
    config = configured(tmp_path, text)
    assert config.name == "a"
    assert config.core.cluster == "plant"
    assert config.core.sites == (("a", "b"),)
    assert config.core.suite == 1
    assert config.addresses["b"] == Address("127.0.0.1", 4902)
    assert config.core.timing.token_timeout_s == 5.0
    assert config.core.timing.join_interval_s == PRESETS["wan"].join_interval_s


def test_sites_are_resolved_for_each_of_their_daemons(tmp_path: Path) -> None:
    text = "insecure = true\n" + THREE.replace(
        "[sites.rome.", "[sites.rome]\nmulticast = '239.192.0.7'\n[sites.rome."
    )
    links = "[links.berlin-rome]\ndelay_ms = 40\n[links.south-tyrol-rome]\ndelay_ms = 5.5\n"
    config = configured(tmp_path, text + links)
    assert config.core.sites == (("a", "b"), ("c",), ("d",))
    assert sorted(config.addresses) == ["a", "b", "c", "d"]
    assert config.remote == {"c", "d"}
    assert config.multicast is None
    assert config.core.timing.longest_delay_s == pytest.approx(0.0455)  # the path over Rome
    near = configured(tmp_path, text + links, "c")
    assert near.multicast == Address("239.192.0.7", 4803)
    assert near.core == config.core
    assert read_sites(tmp_path / "cluster.toml") == {
        "berlin": ("a", "b"),
        "rome": ("c",),
        "south-tyrol": ("d",),
    }


def test_daemons_may_have_an_address_on_each_of_several_networks(tmp_path: Path) -> None:
    text = TWO.replace('"127.0.0.1:4901"', '["127.0.0.1:4901", "127.0.0.2"]')
    config = configured(tmp_path, text)
    assert config.addresses == {
        "a": Address("127.0.0.1", 4901),
        "b": Address("127.0.0.1", 4902),
    }
    assert config.further == {"a": (Address("127.0.0.2", 4803),)}


def test_a_shorter_way_over_a_third_site_counts(tmp_path: Path) -> None:
    links = """
    [links]
    berlin-rome.delay_ms = 90
    berlin-south-tyrol.delay_ms = 20
    rome-south-tyrol.delay_ms = 30
    """
    assert configured(tmp_path, THREE + links).core.timing.longest_delay_s == pytest.approx(0.05)


def test_without_links_sites_are_taken_to_be_far_apart(tmp_path: Path) -> None:
    core = configured(tmp_path, "packet_bytes = 60_000\n" + THREE).core
    assert core.timing.longest_delay_s == 0.1
    assert core.packet_limit == 1340
    told = THREE + "[timing]\nlongest_delay_s = 0.25"
    assert configured(tmp_path, told).core.timing.longest_delay_s == 0.25


def test_the_least_packet_of_all_ways_is_that_of_all(tmp_path: Path) -> None:
    links = "[links.berlin-rome]\npacket_bytes = 8000\n[links.rome-south-tyrol]\n"
    assert configured(tmp_path, "packet_bytes = 9000\n" + THREE + links).core.packet_limit == 1340
    links += "packet_bytes = 7000\n"
    assert configured(tmp_path, "packet_bytes = 9000\n" + THREE + links).core.packet_limit == 7000
    assert configured(tmp_path, "packet_bytes = 9000\n" + TWO).core.packet_limit == 9000


def test_a_link_that_could_be_two_is_refused(tmp_path: Path) -> None:
    names = ("n", "n-s", "s-e", "e")
    sites = "".join(
        f"[sites.{name}.daemons]\nd{at} = '127.0.0.1:{5000 + at}'\n"
        for at, name in enumerate(names)
    )
    with pytest.raises(ConfigError, match="could mean n and s-e or n-s and e; rename a site"):
        configured(tmp_path, sites + "[links.n-s-e]", "d0")


def test_a_key_file_switches_encryption_on(tmp_path: Path) -> None:
    write_key_file(tmp_path / "key")
    config = configured(tmp_path, f'key_file = "{tmp_path}/key"\n' + TWO)
    assert config.core.suite == 1
    assert config.keys is not None
    assert "keys" not in repr(config)


@pytest.mark.parametrize(
    ("text", "name", "said"),
    [
        ("cluster = ", "a", "not valid TOML"),
        ("cluster = 5", "a", "cluster: is 5; it must be of type str"),
        ("clustr = 'x'", "a", "clustr"),
        ("insecure = 1", "a", "insecure: is 1; it must be of type bool"),
        (TWO + "[timing]\ntoken_timeout_s = '5'", "a", "is '5'; it must be a number"),
        (TWO, None, "set name, or give --name"),
        (TWO, "c", "name is 'c'; sites.berlin.daemons lists a, b"),
        (TWO, "a#b", "name is 'a#b'"),
        (TWO.replace("b =", '"b#" ='), "a", "sites.berlin.daemons: daemon name 'b#' contains '#'"),
        (TWO.replace("127.0.0.1:4901", "10.0.0.256"), "a", "sites.berlin.daemons.a is"),
        (TWO.replace(":4901", ":70000"), "a", "the port must be 0 to 65535"),
        (TWO.replace("4902", "4901"), "a", "a and b are both at 127.0.0.1:4901"),
        (TWO + "[sites.rome.daemons]\nb = '127.0.0.1:1'", "a", "b is in sites.berlin, too"),
        (TWO + "[sites.rome]\ndaemons = {}", "a", "sites.rome.daemons is empty"),
        (TWO.replace('"127.0.0.1:4901"', "[]"), "a", "sites.berlin.daemons.a is empty"),
        (TWO.replace('"127.0.0.1:4901"', "[1]"), "a", "it must be an address, or a list of"),
        (TWO.replace('"127.0.0.1:4901"', '["127.0.0.1:1", "127.0.0.1:4902"]'), "a", "both at"),
        (
            TWO.replace('"127.0.0.1:4902"', '["::1", "10.0.0.2"]'),
            "a",
            "b at 10.0.0.2:4803 is beyond",
        ),
        (THREE, "x", "name is 'x'; the sites list a, b, c, d"),
        (THREE + "[links.berlin-rome]\ndelay_ms = 9", "a", "leads from berlin to south-tyrol"),
        (THREE + "[links.berlin-oslo]", "a", "links: 'berlin-oslo' does not name two sites"),
        (THREE + "[links.berlin]", "a", "links: 'berlin' does not name two sites; write SITE-SITE"),
        (TWO + "[links.berlin-rome]", "a", "write SITE-SITE; the sites are: berlin"),
        (THREE + "[links.berlin-rome]\ndelay_ms = -1", "a", "links.berlin-rome: delay_ms is -1"),
        (THREE + "[links.berlin-rome]\n[links.rome-berlin]", "a", "are the same link"),
        (
            THREE + "[links]\nberlin-rome.packet_bytes = 9\nrome-south-tyrol.delay_ms = 1",
            "a",
            "links.berlin-rome.packet_bytes is 9; it must be 600 to 60000",
        ),
        (
            THREE.replace("[sites.rome.", "[sites.rome]\nmulticast = '10.0.0.1'\n[sites.rome."),
            "a",
            "sites.rome.multicast is 10.0.0.1:4803; a multicast address is needed",
        ),
        (TWO.replace("127.0.0.1:4", "10.0.0.2:4"), "a", "key_file is missing, and a at 10.0.0.2"),
        ("preset = 'moon'" + TWO, "a", "preset is 'moon'; it must be one of lan, local, wan"),
        (
            TWO + "[timing]\ntoken_timeout = 1.0",
            "a",
            "timing: token_timeout is no key (is token_timeout_s meant?)",
        ),
        (TWO + "[timing]\ntoken_timeout_s = 0.01", "a", "at least four copies"),
        (TWO + "[windows]\nvisit_bytes = 0", "a", "visit_bytes is 0"),
        ("packet_bytes = 9" + TWO, "a", "packet_bytes is 9; it must be 600 to 60000"),
        (TWO + "[clients]\ntcp = '10.0.0.1:4803'", "a", "must be on, off or a loopback address"),
        (TWO + "[clients]\nslow_receivers = 'wait'", "a", "must be one of drop, disconnect"),
        (TWO + "[clients]\nbacklog_cap_bytes = 0", "a", "backlog_cap_bytes is 0"),
        ("key_file = '/nowhere/key'" + TWO, "a", "No such file"),
    ],
)
def test_what_is_wrong_is_named(tmp_path: Path, text: str, name: str | None, said: str) -> None:
    with pytest.raises((ConfigError, OSError)) as caught:
        configured(tmp_path, text, name)
    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("10.0.0.1", Address("10.0.0.1", 4803)),
        ("10.0.0.1:1", Address("10.0.0.1", 1)),
        ("::1", Address("::1", 4803)),
        ("[::1]:7", Address("::1", 7)),
        ("[::1]", Address("::1", 4803)),
    ],
)
def test_addresses_are_read_as_people_write_them(text: str, found: Address) -> None:
    assert parse_address(text, "x") == found
    assert parse_address(str(found), "x") == found


@pytest.mark.parametrize("text", ["", "host", "[::1", "[::1]x", "1.2.3.4:", "1.2.3.4:-1", "1.2.3"])
def test_other_addresses_are_refused(text: str) -> None:
    with pytest.raises(ConfigError, match=r"^x is "):
        parse_address(text, "x")


def test_daemons_of_one_host_are_sealed_with_a_key_that_the_first_of_them_makes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STATE_DIRECTORY", str(tmp_path / "state"))
    path = tmp_path / "cluster.toml"
    path.write_text('cluster = "a/b"\n[sites.hall.daemons]\na = "127.0.0.1"\nb = "127.0.0.2"\n')

    def read(name: str, *, make_key: bool) -> DaemonConfig:
        return read_config(path, name=name, state_dir=tmp_path, make_key=make_key)

    looked = read("a", make_key=False)
    assert (looked.core.suite, looked.keys) == (1, None)
    assert not (tmp_path / "state").exists(), "who looks changes nothing"
    made = read("a", make_key=True).keys
    assert made is not None
    assert made == read("b", make_key=True).keys == read("b", make_key=False).keys
    assert [each.name for each in (tmp_path / "state").iterdir()] == ["a%2Fb.key"]
    path.write_text("insecure = true\n" + path.read_text())
    assert (read("a", make_key=True).core.suite, read("a", make_key=True).keys) == (0, None)


def test_where_no_key_can_be_made_the_error_says_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("no folder")
    monkeypatch.setenv("STATE_DIRECTORY", str(tmp_path / "file"))
    with pytest.raises(ConfigError, match="set key_file, or insecure = true"):
        read_config(None, name=None, state_dir=tmp_path, make_key=True)


async def test_of_daemons_that_start_at_once_one_makes_the_key(tmp_path: Path) -> None:
    path = tmp_path / "state" / "groupcomm.key"
    made: list[int] = []

    def make() -> None:
        make_common_key(path)
        made.append(hash(read_key_file(path).keys[1]))

    async with trio.open_nursery() as nursery:
        for _ in range(20):
            nursery.start_soon(trio.to_thread.run_sync, make)
    assert len(made) == 20
    assert len(set(made)) == 1
    assert list(path.parent.iterdir()) == [path]


# ---- [http] ----


def test_http_is_off_unless_it_is_asked_for(tmp_path: Path) -> None:
    assert configured(tmp_path, TWO).http is None
    found = configured(tmp_path, TWO + '[http]\nlisten = "127.0.0.1"\n').http
    assert found is not None
    assert found.listen == Address("127.0.0.1", 4805)
    found = configured(tmp_path, TWO + '[http]\nlisten = "unix:h/http.sock"\n').http
    assert found is not None
    assert found.listen == tmp_path / "h" / "http.sock"


TOKENS = 'tokens = "http.tokens"\n'
TLS = '[http.tls]\ncertificate = "a.pem"\nkey = "a.key"\n'


@pytest.mark.parametrize(
    ("text", "means"),
    [
        ('listen = "10.0.0.1:4805"\n', 'write tokens = "FILE" in .http.'),
        ('listen = "0.0.0.0"\n' + TLS, "other hosts can reach without authentication"),
        (TOKENS, 'write listen = "127.0.0.1:4805"'),
        ('listen = "unix:"\n', "write unix:PATH or HOST:PORT"),
        ('listen = "here"\n', "the host must be an IP address"),
        ('listen = "unix:x"\n' + TLS, "needs no TLS"),
        ('listen = "10.0.0.1"\n' + TOKENS + TLS + 'revoked = "r"\n', "no certificate counts"),
    ],
)
def test_http_that_contradicts_itself_or_lets_anybody_in_is_refused(
    text: str, means: str, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError, match=means):
        configured(tmp_path, f"{TWO}[http]\n{text}")


@pytest.mark.parametrize("more", [TOKENS, TLS + 'ca = "ca.pem"\n', TOKENS + TLS])
def test_http_beyond_loopback_needs_a_proof(more: str, tmp_path: Path) -> None:
    found = configured(tmp_path, f'{TWO}[http]\nlisten = "10.0.0.1"\n{more}').http
    assert found is not None
    assert not found.is_local
