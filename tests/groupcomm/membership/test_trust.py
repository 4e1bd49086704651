"""Trust: a few contradictions end a view, and the next view has as many to spare."""

from groupcomm.membership.trust import FEW, WITHIN_S, Trust


def test_each_view_ends_only_after_as_many_contradictions_as_the_one_before() -> None:
    trust = Trust()
    ended = [trust.doubt("two packets with one number", 0.1 * n) for n in range(3 * FEW)]
    assert ended == [*[False] * (FEW - 1), True] * 3
    assert len(trust.news) == 3


def test_contradictions_that_are_rare_end_no_view() -> None:
    trust = Trust()
    apart_s = 1.01 * WITHIN_S / (FEW - 1)
    assert not any(trust.doubt("two packets with one number", n * apart_s) for n in range(3 * FEW))
