"""What Prometheus is told of archives."""

import pytest

from groupcomm.clocks.stamp import Position, ViewId
from groupcomm_archive.comparing import Compared, GroupReport, Report
from groupcomm_tools.commands.archive_status import metrics_of
from groupcomm_tools.metrics_text import print_metrics


def at(seconds: float) -> Position:
    return Position(ViewId(1, "a", 1), int(seconds * 1e6), 0, 0, -1)


def test_each_archive_has_its_gaps_and_how_far_it_is_behind(
    capsys: pytest.CaptureFixture[str],
) -> None:
    whole = GroupReport("g", ((at(0), at(100)),), None, ())
    compared = (Compared("#x#a", at(50), 3, ((at(10), at(20)),)),)
    cut = GroupReport("g", ((at(0), at(20)), (at(30), at(97.5))), None, compared)
    empty = GroupReport("other", (), None, ())
    found = {"#x#a": Report(1, True, (whole,)), "#x#b": Report(1, False, (cut, empty))}
    print_metrics(metrics_of(("g", "other", "nobody"), found))
    lines = capsys.readouterr().out.splitlines()
    assert [line for line in lines if not line.startswith("#")] == [
        'groupcomm_archives{group="g"} 2.0',
        'groupcomm_archives{group="other"} 1.0',
        'groupcomm_archives{group="nobody"} 0.0',
        'groupcomm_archive_live{archive="#x#a"} 1.0',
        'groupcomm_archive_live{archive="#x#b"} 0.0',
        'groupcomm_archive_gaps{archive="#x#a",group="g"} 0.0',
        'groupcomm_archive_gaps{archive="#x#b",group="g"} 1.0',
        'groupcomm_archive_gaps{archive="#x#b",group="other"} 0.0',
        'groupcomm_archive_behind_seconds{archive="#x#a",group="g"} 0.0',
        'groupcomm_archive_behind_seconds{archive="#x#b",group="g"} 2.5',
        'groupcomm_archive_differing_ranges{archive="#x#b",group="g",other="#x#a"} 1.0',
    ]
    assert "# TYPE groupcomm_archives gauge" in lines


def test_that_no_archive_answers_is_a_value(capsys: pytest.CaptureFixture[str]) -> None:
    print_metrics(metrics_of(("g",), {}))
    assert 'groupcomm_archives{group="g"} 0.0' in capsys.readouterr().out.splitlines()
