"""The queue of events between a subscription and its program."""

import pytest

from groupcomm_client.history import given_queue
from groupcomm_client.history.given import CaughtUp
from groupcomm_client.history.given_queue import EVENT_BYTES, READ_AHEAD_PART, GivenQueue
from tests.groupcomm_client.history.test_live import message, place


def test_its_bytes_and_its_number_are_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    one = EVENT_BYTES + 1
    queue = GivenQueue(READ_AHEAD_PART * one)
    queue.append(message(place(5, 1)))
    assert not queue.is_full
    queue.append(CaughtUp(position=place(5, 1)))
    assert queue.is_full
    assert not queue.is_overfull
    queue.extend([message(place(5, time)) for time in range(2, 10)])
    assert queue.is_overfull
    assert len(queue.pop(9)) == 9
    assert not queue.is_full
    monkeypatch.setattr(given_queue, "READ_AHEAD", 0)
    assert queue.is_full
    assert len(queue.pop()) == 1
    assert not queue.is_full
    assert not queue.pop()
