"""Reports of daemons: the kept part of them, whatever the bytes; and their size."""

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from groupcomm.engine import MAX_REPORT_BYTES
from groupcommd.operators.cluster import KEPT, ClusterReports, _decode_untrusted, _encode


class Core:
    """Keeps the reports that it should send."""

    def __init__(self) -> None:
        self.sent: list[bytes] = []

    def report(self, payload: bytes) -> None:
        self.sent.append(payload)


def reports(core: Any) -> ClusterReports:
    nothing: Any = None
    return ClusterReports(core, nothing, 0.0)


@given(payload=st.binary(max_size=100) | st.from_regex(rb"\\{.*\\}") | st.just(b"[" * 400))
def test_no_bytes_of_a_report_do_harm(payload: bytes) -> None:
    found = _decode_untrusted(payload)
    assert found is None or all(isinstance(name, str) for name in found)


def test_only_plain_values_of_an_object_are_kept() -> None:
    raw = json.dumps({"pid": 1, "host": "h", "list": [1], "none": None}).encode()
    assert _decode_untrusted(raw) == {"pid": 1, "host": "h", "none": None}
    assert _decode_untrusted(b"[1]") is None


def test_a_report_that_is_too_long_loses_its_end() -> None:
    raw = _encode({"pid": 1, "host": "h" * 300, "long": "x" * 300})
    assert len(raw) <= MAX_REPORT_BYTES
    assert json.loads(raw) == {"pid": 1, "host": "h" * 300}


def test_questions_are_asked_once_in_a_while_and_few_reports_are_kept() -> None:
    core = Core()
    kept = reports(core)
    assert kept.ask(10.0) == {"asked_s": 0.0, "reports": {}}
    kept.ask(10.1)
    assert core.sent == [b""], "a question that is not yet old stands for this one"
    kept.accept([(f"d{number}", b'{"pid":1}') for number in range(KEPT + 5)], 10.2)
    found = kept.ask(10.3)
    assert core.sent == [b"", b""]
    assert len(found["reports"]) == KEPT
    assert found["reports"]["d7"] == {"pid": 1, "age_s": 0.1}
