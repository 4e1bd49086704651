"""Quotas: what was used is paid by waiting, to the second."""

import pytest

from groupcomm.errors import ConfigError
from groupcomm.security.quotas import Account, Bucket, Quotas


def test_a_burst_is_free_and_the_rest_is_waited_for() -> None:
    bucket = Bucket(100.0, now=0.0)
    bucket.charge(100, 0.0)
    assert bucket.debt_s(0.0) == 0.0
    bucket.charge(50, 0.0)
    assert bucket.debt_s(0.0) == 0.5
    assert bucket.debt_s(0.5) == 0.0
    assert not bucket.is_full(1.0)
    assert bucket.is_full(1.5)


def test_credit_does_not_grow_above_a_burst() -> None:
    bucket = Bucket(10.0, now=0.0)
    bucket.charge(20, 1000.0)
    assert bucket.debt_s(1000.0) == 1.0


def test_in_the_long_run_exactly_the_rate_passes() -> None:
    bucket, now, passed = Bucket(1000.0, now=0.0), 0.0, 0
    while now < 60.0:
        bucket.charge(257, now)
        now += bucket.debt_s(now)
        passed += 257
    assert 60_000 <= passed <= 61_000 + 2 * 257


def test_an_account_waits_for_what_lasts_longest_and_is_kept_while_it_has_debts() -> None:
    account = Account(Quotas(messages_per_s=10, bytes_per_s=1000, joins_per_s=1), now=0.0)
    account.charge(0.0, messages=20, size=1500, joins=4)
    assert account.debt_s(0.0) == 3.0
    assert not account.is_idle(2.9)
    assert account.is_idle(4.0)


def test_without_rates_nothing_is_charged() -> None:
    quotas = Quotas(groups=5, connections=5)
    assert not quotas.limit_rates
    account = Account(quotas, 0.0)
    account.charge(0.0, messages=10**9, size=10**9, joins=10**9)
    assert account.debt_s(0.0) == 0.0


def test_a_quota_of_nothing_is_a_mistake() -> None:
    with pytest.raises(ConfigError, match="bytes_per_s is 0; it must be above 0"):
        Quotas(bytes_per_s=0)
