"""Fixtures that tests of programs share."""

import pytest

from tests.groupcomm_client.kinds import KINDS, Kind


@pytest.fixture(params=KINDS, ids=lambda kind: kind.name)
def kind(request: pytest.FixtureRequest) -> Kind:
    """Every kind of connections in turn."""
    found: Kind = request.param
    return found
