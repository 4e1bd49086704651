"""A few rude conversations with the server for browsers."""

import json

import pytest

from tests.verification.campaigns import rude_browsers


@pytest.mark.verification
def test_no_conversation_is_a_fault_of_the_server(capsys: pytest.CaptureFixture[str]) -> None:
    assert rude_browsers.main(["--conversations", "240"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["accepted"] == 241
    assert found["answers"] > 0
    assert {"http", "protocol", "answered", "gone"} <= found["ended"].keys()
