"""Each mutant of security is found: the test that docs/mutants.md names fails with it."""

import inspect
from collections.abc import Callable
from typing import Any, Final

import pytest

from groupcomm.security.layout import SUITE_AES_GCM
from tests.groupcomm.engine import test_access_control as access
from tests.groupcomm.engine import test_identity_protection as gates
from tests.groupcomm.security import test_exchange, test_hello, test_quotas, test_rotation
from tests.groupcomm.sim import test_replays as replays
from tests.groupcomm.sim import test_rotation as rotations
from tests.groupcomm.sim.security_mutants import BUGS
from tests.groupcomm.sim.test_mutants import SECURITY_ROWS
from tests.verification.mutants.mutant import Mutant

pytestmark = pytest.mark.verification

Test = Callable[..., None]

FINDERS: Final[tuple[Test, ...]] = (
    replays.test_a_whole_moment_replayed_to_a_daemon_alone_admits_nobody,
    test_hello.test_once_windows_were_forgotten_only_the_answer_asked_for_is_a_proof,
    replays.test_no_nonce_is_used_twice_with_a_key_whatever_happens_to_daemons_and_disks,
    replays.test_no_nonce_is_used_twice_with_a_key_whatever_happens_to_daemons_and_disks,
    test_rotation.test_nobody_does_while_one_lacks_the_key_whoever_wishes,
    rotations.test_all_seal_with_the_new_key_from_one_position_on,
    access.test_who_may_not_be_a_member_any_more_leaves_and_is_notified,
    access.test_what_was_allowed_is_judged_anew_by_other_rules,
    access.test_principals_are_known_everywhere_also_after_a_merge,
    test_quotas.test_an_account_waits_for_what_lasts_longest_and_is_kept_while_it_has_debts,
    access.test_a_principal_is_in_so_many_groups_and_no_more,
    gates.test_the_key_alone_lets_nobody_in,
    test_exchange.test_nothing_is_wrapped_for_keys_of_an_earlier_view,
    test_exchange.test_with_one_key_one_text_is_sealed,
    gates.test_old_secrets_are_erased_once_nothing_can_be_under_way,
    gates.test_who_is_evicted_is_a_stranger_at_once,
)
"""Tests in the order of BUGS."""

FAILS: Final = (AssertionError, ValueError, pytest.fail.Exception)
"""The ways in which tests fail: a wrong value, more or fewer events, a missing error."""

FOUND: Final = list(zip(BUGS, FINDERS, strict=True))


def run(test: Test, patch: pytest.MonkeyPatch) -> None:
    """Run a test with its fixtures."""
    given: dict[str, Callable[[], Any]] = {
        "monkeypatch": lambda: patch,
        "pair": access.two_daemons,
        "suite": lambda: SUITE_AES_GCM,
    }
    test(**{name: given[name]() for name in inspect.signature(test).parameters})


@pytest.mark.parametrize(("bug", "test"), FOUND, ids=[bug.name for bug in BUGS])
def test_the_test_that_is_named_fails_with_the_bug(
    bug: Mutant, test: Test, monkeypatch: pytest.MonkeyPatch
) -> None:
    with bug.active(), pytest.raises(FAILS):
        run(test, monkeypatch)


def test_the_page_names_the_bugs_and_the_tests_that_find_them() -> None:
    assert [(row[0], row[1], row[2]) for row in SECURITY_ROWS] == [
        (f"`{bug.name}`", bug.sentence, f"`{test.__name__}`")
        for bug, test in sorted(FOUND, key=lambda both: both[0].name)
    ]
