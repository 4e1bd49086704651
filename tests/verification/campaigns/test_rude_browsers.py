"""A few rude conversations with the server for browsers."""

import pytest

from tests.verification.campaigns.runner import figures_of


@pytest.mark.verification
def test_no_conversation_is_a_fault_of_the_server() -> None:
    found = figures_of("rude_browsers --conversations 240")
    assert found["accepted"] == 241
    assert found["answers"] > 0
    assert {"http", "protocol", "answered", "gone"} <= found["ended"].keys()
