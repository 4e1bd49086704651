"""Several sites on one host: the site of each daemon, and the lines between them."""

from pathlib import Path

import pytest

from groupcomm.errors import ConfigError
from groupcomm_tools.commands.relay import read_link
from groupcomm_tools.relay import Line
from groupcomm_tools.topology import NO_WAY, SHAPES, Topology, make_line
from groupcommd.config.config_file import read_config

FAR = Line(delay_s=0.04, jitter_s=0.0055)


def test_daemons_are_shared_evenly_and_in_order() -> None:
    topology = Topology.of("abcde", 2, FAR)
    assert topology.sites == {"north": ("a", "b"), "south": ("c", "d", "e")}
    assert topology.daemons == ("a", "b", "c", "d", "e")
    assert topology.site_of("c") == "south"


@pytest.mark.parametrize(("shape", "links"), [("mesh", 6), ("chain", 3), ("ring", 4), ("star", 3)])
def test_shapes_have_their_links(shape: str, links: int) -> None:
    topology = Topology.of("abcd", 4, FAR, shape)
    assert len(topology.links) == links
    near, far = ("north", "south"), ("north", "east")
    assert topology.link(*near) == topology.link(*reversed(near)) == FAR
    assert topology.link(*far) == (FAR if shape in ("mesh", "star") else NO_WAY)


def test_two_sites_have_one_link_whatever_the_shape() -> None:
    assert {len(Topology.of("ab", 2, FAR, shape).links) for shape in SHAPES} == {1}


def test_each_pair_of_daemons_has_its_line() -> None:
    lines = Topology.of("abcd", 3, FAR, "chain").lines()
    assert len(lines) == 12
    assert lines["c", "d"] is None  # daemons of one site need no line
    assert lines["a", "b"] == lines["b", "c"] == lines["d", "b"] == FAR
    assert lines["a", "c"] == lines["d", "a"] == NO_WAY
    assert Topology.of("abcd", 3, FAR).lines(Line())["c", "d"] == Line()


def test_pairs_between_sites() -> None:
    topology = Topology.of("abcd", 3, FAR)
    assert set(topology.between("north", "south")) == {("a", "b"), ("b", "a")}
    assert len(list(topology.between("east"))) == 8


def test_daemons_read_what_it_says_of_links(tmp_path: Path) -> None:
    topology = Topology.of("abc", 3, FAR, "chain")
    sites = "".join(
        f"[sites.{site}.daemons]\n{name} = '127.0.0.1:{4900 + ord(name)}'\n"
        for site, (name,) in topology.sites.items()
    )
    path = tmp_path / "cluster.toml"
    path.write_text(topology.settings(8000) + "packet_bytes = 9000\n" + sites)
    core = read_config(path, name="b", state_dir=tmp_path).core
    assert core.timing.longest_delay_s == pytest.approx(0.092)  # two links of 46 ms
    assert core.packet_limit == 8000


def test_what_cannot_be_is_refused() -> None:
    with pytest.raises(ConfigError, match="sites is 4; 3 daemons can be in 1 to 3"):
        Topology.of("abc", 4, FAR)
    with pytest.raises(ConfigError, match="shape is 'cube'; it must be one of mesh, chain"):
        Topology.of("abc", 3, FAR, "cube")
    for wrong in ({"delay_ms": -1.0}, {"loss": 1.5}, {"mbit": 0.0}):
        with pytest.raises(ConfigError, match="is invalid: delays must be at least 0"):
            make_line(**wrong)


def test_links_are_read_as_people_write_them() -> None:
    sites = {"north": ("a",), "south": ("b",)}
    found = read_link("south-north:delay-ms=40,jitter-ms=5,loss=0.01,mbit=8", sites)
    line = Line(delay_s=0.04, jitter_s=0.005, loss=0.01, bytes_per_s=1_000_000)
    assert found == (("south", "north"), line)
    for text, said in (
        ("north-south", "'' is none of delay-ms"),
        ("north-south:delay=4", "'delay' is none of delay-ms, jitter-ms, mbit, loss"),
        ("north-south:loss=2", "--link north-south:loss=2: loss is 2; it must be 0 to 1"),
        ("north-west:loss=0", "'north-west' does not name two sites"),
    ):
        with pytest.raises(ConfigError, match=said):
            read_link(text, sites)
