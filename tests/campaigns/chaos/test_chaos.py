"""A short campaign of real kills, stops and partitions; `make chaos` runs a long one."""

import json

import pytest

from groupcomm_tools.relay import Line
from groupcomm_tools.topology import Topology
from tests.campaigns.chaos import campaign
from tests.campaigns.chaos.sites import parts


@pytest.mark.parametrize(
    ("options", "disasters"),
    [
        (("--disasters", "2", "--rate", "200"), 2),
        pytest.param(
            ("--disasters", "1", "--rate", "100", "--sites", "2", "--daemons", "3"),
            1,
            marks=pytest.mark.long,
        ),
    ],
)
def test_real_disasters_break_no_promise(
    capsys: pytest.CaptureFixture[str], options: tuple[str, ...], disasters: int
) -> None:
    status = campaign.main(options)
    shown = capsys.readouterr()
    figures = json.loads(shown.out)
    assert (status, figures["violations"], figures["failures"]) == (0, 0, []), shown.err
    assert figures["disasters"] == disasters
    assert figures["deliveries"] > 100


def test_parts_are_what_links_still_join() -> None:
    chain = Topology.of("abcdef", 3, Line(), "chain")
    first, second = chain.links
    assert parts(chain, [first]) == [["a", "b"], ["c", "d", "e", "f"]]
    assert len(parts(chain, [first, second])) == 3
    mesh = Topology.of("abc", 3, Line())
    assert [parts(mesh, [link]) for link in mesh.links] == [[["a", "b", "c"]]] * 3


def test_disasters_of_sites_need_sites(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        campaign.main(["--only", "kill_gateway"])
    assert "--only kill_gateway is for several sites" in capsys.readouterr().err
