"""Short campaigns; `make campaigns` runs long ones."""

import json

import pytest

from groupcomm_client.coordination.mutex import FORMS
from tests.campaigns import mutex, recorder, store


@pytest.mark.parametrize("form", FORMS)
def test_never_two_hold_the_mutex(form: str, capsys: pytest.CaptureFixture[str]) -> None:
    status = mutex.main(["--acquisitions", "300", "--kills", "2", "--form", form])
    shown = capsys.readouterr()
    found = json.loads(shown.out)
    assert (status, found["violations"], found["kills"]) == (0, [], 2), shown.err
    assert found["per_program"] == [60] * 5


def test_what_was_acknowledged_is_in_the_store(capsys: pytest.CaptureFixture[str]) -> None:
    status = store.main(["--disasters", "3", "--rate", "200"])
    shown = capsys.readouterr()
    found = json.loads(shown.out)
    assert (status, found["violations"]) == (0, []), shown.err
    assert found["acknowledged"] > 100
    assert found["digests_compared"] > 3


def test_what_a_recorder_has_acknowledged_is_in_its_log(capsys: pytest.CaptureFixture[str]) -> None:
    status = recorder.main(["--kills", "3", "--rate", "1000"])
    shown = capsys.readouterr()
    found = json.loads(shown.out)
    assert (status, found["violations"], found["kills"]) == (0, [], 3), shown.err
    assert found["gaps"] > 1
    assert found["compared"] > 100
