"""The switch in user space, and the evaluation of programs' reports."""

import math
from typing import Any

import pytest

from tests.verification.campaigns.losses import LOSSES, Loss, evaluate, medians, silence
from tests.verification.campaigns.wire import Switch, Wire

EVERYBODY = b"\xff" * 6


def frame(target: bytes, source: bytes, text: bytes = b"") -> bytes:
    return target + source + b"\x08\x00" + text


def test_frames_go_to_all_until_their_port_is_known() -> None:
    switch = Switch(Wire(), 3)
    switch.accept(0.0, 0, frame(EVERYBODY, b"node-0"))
    assert [port for port, _ in switch.pop(0.0)] == [1, 2]
    switch.accept(0.0, 2, frame(b"node-0", b"node-2"))
    switch.accept(0.0, 0, frame(b"node-2", b"node-0"))
    assert [port for port, _ in switch.pop(0.0)] == [0, 2]
    switch.accept(0.0, 1, b"short")
    assert switch.deadline_s is None


def test_frames_are_late_in_their_order_and_some_are_lost() -> None:
    switch = Switch(Wire(delay_s=0.01, jitter_s=0.05, loss=0.3), 2)
    for number in range(1000):
        switch.accept(number / 1000, 0, frame(EVERYBODY, b"node-0", b"%04d" % number))
    assert switch.pop(0.009) == []
    assert switch.deadline_s is not None
    texts = [found[14:] for _, found in switch.pop(math.inf)]
    assert texts == sorted(texts)
    assert 600 < len(texts) < 800


def test_silence_is_the_longest_time_without_a_message_around_a_loss() -> None:
    times = [1.0, 2.0, 2.5, 4.0, 4.1]
    assert silence(times, 2.2, 4.2) == 1.5
    assert silence(times, 2.2, 9.0) == pytest.approx(4.9)
    assert silence([], 2.0, 5.0) == 3.0
    assert silence([1.0, 3.0], 2.9, 3.1) == 2.0


def test_what_is_left_is_distinguished_from_what_was_struck() -> None:
    reports: dict[str, dict[str, Any]] = {
        "c1": {
            "heard": {"c3": [0.9, 1.3, 5.9], "c2": [0.9]},
            "members": [(0, ["c2"]), (2, ["c1"])],
        },
        "c2": {"heard": {}, "members": []},
        "c3": {"heard": {"c1": [0.9, 5.8]}, "members": [(4.0, ["c1", "c3"])]},
    }
    found = evaluate(reports, "c2", 1.0, 6.0, Loss(name="x", each=True, computer=1))
    assert found == {
        "what": "x",
        "others_silent_s": 4.9,
        "others_hear_each_other": 1.0,
        "struck_silent_s": 5.1,
        "struck_is_heard_and_hears": 0.0,
        "left_out_after_s": 3.0,
    }
    never = evaluate({"c1": reports["c1"] | {"members": []}}, "c2", 1.0, 6.0, LOSSES[0])
    assert never["left_out_after_s"] is never["others_silent_s"] is None
    rows = [{"what": "x", "a": None, "b": 1}, {"what": "x", "a": None, "b": 3}]
    assert medians([*rows, {"what": "x", "a": 1.0, "b": 2}]) == {"what": "x", "a": None, "b": 2}
