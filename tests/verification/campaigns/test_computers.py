"""The places at which programs of a vehicle's computers connect."""

from pathlib import Path

import pytest

from groupcomm_tools.local_cluster import LocalDaemon
from tests.verification.campaigns.computers import Shape
from tests.verification.campaigns.peers.nodes import Node


@pytest.mark.parametrize("each", [True, False])
def test_a_program_connects_beside_it_or_over_the_network(tmp_path: Path, *, each: bool) -> None:
    nodes = [Node([f"10.77.0.{at}"], ()) for at in (1, 2)]
    daemons = {
        name: LocalDaemon(tmp_path, name, tmp_path / "cluster.toml", ())
        for name in (("c1", "c2") if each else ("c1",))
    }
    shape = Shape(folder=tmp_path, nodes=nodes, each=each, daemons=daemons)
    assert shape.address_at(0) == str(tmp_path / "c1.sock")
    far = str(tmp_path / "c2.sock") if each else "tls://10.77.0.1:4804"
    assert shape.address_at(1) == far
