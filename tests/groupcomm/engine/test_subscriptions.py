"""A daemon subscribes to a group before it joins; what waits for that, and what does not."""

from collections import deque

import pytest

from groupcomm.config.core import RightLimits
from groupcomm.engine.backlog import Backlog, Subscriptions
from groupcomm.level import ServiceLevel
from groupcomm.wire.bundle import (
    SENDS_ONLY,
    WITHOUT_VIEWS,
    Bundle,
    BundleKind,
    decode_body_untrusted,
    encode_body,
    subscription_bundle,
)
from tests.groupcomm.looked_at import LookedAt

JOIN, LEAVE, MESSAGES = BundleKind.JOIN, BundleKind.LEAVE, BundleKind.MESSAGES
SUBSCRIBE, UNSUBSCRIBE = BundleKind.SUBSCRIBE, BundleKind.UNSUBSCRIBE

LIMITS = RightLimits()

Said = tuple[int, int, str]
"""A bundle's session, kind and group."""


def bundle(session: int, kind: int, group: str) -> Bundle:
    made = Bundle(kind, ServiceLevel.AGREED, 0, 1, 0, 1, (group,), 0, b"", 14)
    made.address(session, "u", ())
    return made


class Daemon:
    """Subscriptions over a backlog whose bundles are numbered when they are looked at."""

    def __init__(
        self, *, several: bool = True, groups: tuple[str, ...] = (), limits: RightLimits = LIMITS
    ) -> None:
        self.backlog = Backlog()
        self.subscriptions = Subscriptions(self.backlog)
        self.leaving: set[str] = set()
        leaves = self.leaving.__contains__ if several else None
        self.subscriptions.begin(groups, leaves=leaves, rights=limits if several else None)

    def give(self, session: int, kind: int, group: str) -> None:
        self.subscriptions.admit(bundle(session, kind, group))

    def numbered(self) -> list[Said]:
        found: list[Said] = []
        while (one := self.backlog.head(far=True)) is not None:
            self.backlog.pop(far=True)
            found.append((one.session, one.kind, one.groups[0]))
        assert self.backlog.size == 0
        return found

    def know(self, name: str, flags: int = 0) -> None:
        self.subscriptions.on_known(subscription_bundle(SUBSCRIBE, name, flags))


def test_the_first_join_waits_and_so_does_what_its_session_gives_next() -> None:
    daemon = Daemon()
    daemon.give(1, JOIN, "g")
    daemon.give(1, MESSAGES, "h")
    daemon.give(2, MESSAGES, "g")
    assert daemon.numbered() == [(0, SUBSCRIBE, "g"), (2, MESSAGES, "g")]
    assert daemon.subscriptions.waiting == 2
    daemon.know("g")
    assert daemon.numbered() == [(1, JOIN, "g"), (1, MESSAGES, "h")]
    assert daemon.subscriptions.waiting == 0


def test_later_joins_of_the_group_do_not_wait() -> None:
    daemon = Daemon(groups=("g",))
    daemon.give(1, JOIN, "g")
    assert daemon.numbered() == [(1, JOIN, "g")]


def test_several_groups_are_asked_for_at_once() -> None:
    daemon = Daemon()
    for group in ("g", "h", "g"):
        daemon.give(1, JOIN, group)
    daemon.give(2, JOIN, "h")
    assert daemon.numbered() == [(0, SUBSCRIBE, "g"), (0, SUBSCRIBE, "h")]
    daemon.know("h")
    assert daemon.numbered() == [(2, JOIN, "h")]
    daemon.know("g")
    assert daemon.numbered() == [(1, JOIN, "g"), (1, JOIN, "h"), (1, JOIN, "g")]


def test_in_a_view_of_one_ring_nothing_waits_and_nothing_is_said() -> None:
    daemon = Daemon(several=False)
    daemon.give(1, JOIN, "g")
    daemon.subscriptions.on_joined("g")
    daemon.subscriptions.on_unwanted("g")
    assert daemon.numbered() == [(1, JOIN, "g")]


def test_a_group_without_own_members_is_unsubscribed_and_asked_for_anew() -> None:
    daemon = Daemon(groups=("g",))
    daemon.subscriptions.on_unwanted("g")
    daemon.give(1, JOIN, "g")
    assert daemon.numbered() == [(0, UNSUBSCRIBE, "g"), (0, SUBSCRIBE, "g")]


def test_a_join_under_way_keeps_the_subscription() -> None:
    daemon = Daemon(groups=("g",))
    daemon.give(1, JOIN, "g")
    assert daemon.numbered() == [(1, JOIN, "g")]
    daemon.subscriptions.on_unwanted("g")
    assert daemon.numbered() == []
    daemon.subscriptions.on_joined("g")
    daemon.subscriptions.on_unwanted("g")
    assert daemon.numbered() == [(0, UNSUBSCRIBE, "g")]


def test_a_new_view_looks_at_everything_anew() -> None:
    daemon = Daemon()
    daemon.give(1, MESSAGES, "a")
    daemon.give(1, JOIN, "g")
    daemon.give(1, MESSAGES, "b")
    daemon.give(2, JOIN, "h")
    daemon.know("h")
    daemon.subscriptions.begin(["g"], leaves=daemon.leaving.__contains__)
    assert daemon.numbered() == [
        (0, SUBSCRIBE, "h"),
        (1, MESSAGES, "a"),
        (1, JOIN, "g"),
        (1, MESSAGES, "b"),
    ]
    daemon.subscriptions.begin([], leaves=None)
    assert daemon.numbered() == [(2, JOIN, "h")]


@pytest.mark.parametrize("known", [True, False])
def test_a_join_without_views_is_a_plain_one_where_a_daemon_does_not_know_them(known: bool) -> None:
    """An earlier daemon would refuse the whole packet."""
    backlog = Backlog()
    subscriptions = Subscriptions(backlog)
    body = encode_body(BundleKind.JOIN, ServiceLevel.AGREED, WITHOUT_VIEWS, 7, ("g",), b"")
    waiting, later = (decode_body_untrusted(body) for _ in range(2))
    for bundle in (waiting, later):
        bundle.address(1, "u", ())
    subscriptions.admit(waiting)
    assert waiting.flags == WITHOUT_VIEWS, "before any view nobody knows"
    subscriptions.begin([], leaves=None, readers=known)
    subscriptions.admit(later)
    assert list(backlog) == [waiting, later]
    for bundle in (waiting, later):
        again = decode_body_untrusted(bundle.body)
        assert (again.flags, again.groups, again.message) == (bundle.flags, ("g",), 7)
        assert bundle.flags == (WITHOUT_VIEWS if known else 0)
        assert sum(map(len, bundle.record())) == bundle.size


# ---- rights to send ----


def test_a_message_that_leaves_waits_for_a_right_with_all_that_its_session_says_later() -> None:
    daemon = Daemon()
    for session, group in ((1, "far"), (1, "near"), (2, "near"), (1, "far")):
        daemon.give(session, MESSAGES, group)
    daemon.leaving.add("far")  # once they were accepted
    assert daemon.numbered() == [(0, SUBSCRIBE, "far"), (2, MESSAGES, "near")]
    daemon.give(1, MESSAGES, "near")
    assert daemon.subscriptions.waiting == 4
    assert daemon.numbered() == []
    daemon.know("far", SENDS_ONLY)
    said = [(1, MESSAGES, group) for group in ("far", "near", "far", "near")]
    assert daemon.numbered() == said
    daemon.give(3, MESSAGES, "far")
    assert daemon.numbered() == [(3, MESSAGES, "far")]


def test_a_subscription_is_a_right_and_messages_below_agreed_need_none() -> None:
    daemon = Daemon(groups=("mine",))
    daemon.leaving |= {"mine", "far"}
    low = bundle(2, MESSAGES, "far")
    low.level = ServiceLevel.CAUSAL
    daemon.give(1, MESSAGES, "mine")
    daemon.subscriptions.admit(low)
    assert daemon.numbered() == [(1, MESSAGES, "mine"), (2, MESSAGES, "far")]


def test_what_waits_behind_a_join_asks_for_its_right_at_once() -> None:
    daemon = Daemon()
    daemon.leaving.add("far")
    daemon.give(1, JOIN, "g")
    daemon.give(1, MESSAGES, "far")
    assert daemon.numbered() == [(0, SUBSCRIBE, "g"), (0, SUBSCRIBE, "far")]
    daemon.know("g")
    assert daemon.numbered() == [(1, JOIN, "g")]
    daemon.know("far", SENDS_ONLY)
    assert daemon.numbered() == [(1, MESSAGES, "far")]


def test_who_answers_many_waits_for_all_rights_at_once() -> None:
    names = [f"far{number}" for number in range(6)]
    daemon = Daemon(limits=RightLimits(most=5))
    daemon.leaving.update(names)
    for name in names:
        daemon.give(1, MESSAGES, name)
    assert daemon.numbered() == [(0, SUBSCRIBE, name) for name in names[:5]], "as many as it keeps"
    for name in names[:5]:
        daemon.know(name, SENDS_ONLY)
    assert daemon.numbered() == [(0, SUBSCRIBE, "far5"), *((1, MESSAGES, n) for n in names[:5])]
    for name in ("far0", "far1", "far2"):
        daemon.give(1, MESSAGES, name)
    assert daemon.numbered() == [], "there is a right to them"
    daemon.know("far5", SENDS_ONLY)
    assert daemon.numbered() == [(1, MESSAGES, name) for name in ("far5", *names[:3])]
    for name in ("far6", "far7"):
        daemon.leaving.add(name)
        daemon.give(1, MESSAGES, name)
    said = [(0, UNSUBSCRIBE, "far0"), (0, SUBSCRIBE, "far6"), (0, UNSUBSCRIBE, "far1")]
    said += [(0, SUBSCRIBE, "far7")]
    assert daemon.numbered() == said


def test_no_session_that_lacks_a_right_costs_a_look_at_all_that_wait() -> None:
    """All lack theirs after a change of the view; to look at all for each took seconds."""
    names = [f"far{number}" for number in range(2 * LIMITS.most)]
    daemon = Daemon()
    daemon.leaving.update(names)
    daemon.subscriptions._held = held = LookedAt[int, deque[Bundle]]()
    daemon.subscriptions._rights.held = rights = LookedAt[str, None]()
    for at, name in enumerate(names):
        daemon.give(1 + at, MESSAGES, name)
    for name in names:
        daemon.know(name, SENDS_ONLY)
    assert len(daemon.numbered()) == 2 * len(names)
    assert (held.looks, rights.looks) == (0, 0)
    for at, name in enumerate(names):
        daemon.give(1 + at, MESSAGES, f"{name} again")
        daemon.give(1 + at, MESSAGES, name)
    assert daemon.subscriptions.rights <= len(names)
    assert (held.looks, rights.looks) == (0, 0)


def test_a_right_that_nobody_uses_is_given_back_and_asked_for_anew() -> None:
    daemon = Daemon()
    daemon.leaving.add("far")
    daemon.give(1, MESSAGES, "far")
    daemon.numbered()
    daemon.know("far", SENDS_ONLY)
    assert daemon.numbered() == [(1, MESSAGES, "far")]
    review = daemon.subscriptions.review
    assert review(10.0) == 10.0 + LIMITS.idle_s
    for now in (10.0 + LIMITS.idle_s, 10.0 + 2 * LIMITS.idle_s):
        daemon.give(1, MESSAGES, "far")
        assert daemon.numbered() == [(1, MESSAGES, "far")]
        review(now)
    review(10.0 + 3 * LIMITS.idle_s)
    daemon.give(1, MESSAGES, "far")
    assert daemon.numbered() == [(0, UNSUBSCRIBE, "far"), (0, SUBSCRIBE, "far")]


def test_a_right_only_to_send_ends_with_the_subscription_and_not_before_it() -> None:
    daemon = Daemon()
    daemon.leaving.add("g")
    daemon.give(1, MESSAGES, "g")
    daemon.numbered()
    daemon.know("g", SENDS_ONLY)
    daemon.give(2, JOIN, "g")
    assert daemon.numbered() == [(0, SUBSCRIBE, "g"), (1, MESSAGES, "g")]
    for now in (0.0, LIMITS.idle_s, 2 * LIMITS.idle_s):
        daemon.subscriptions.review(now)
    assert daemon.numbered() == [], "an UNSUBSCRIBE would take back the SUBSCRIBE under way"
    daemon.know("g")
    assert daemon.numbered() == [(2, JOIN, "g")]
    daemon.subscriptions.on_joined("g")
    daemon.subscriptions.on_unwanted("g")
    daemon.give(1, MESSAGES, "g")
    assert daemon.numbered() == [(0, UNSUBSCRIBE, "g"), (0, SUBSCRIBE, "g")]


def test_of_too_many_rights_the_oldest_one_goes_unless_a_message_waits_for_it() -> None:
    daemon = Daemon()
    for number in range(LIMITS.most + 1):
        daemon.leaving.add(f"g{number}")
        daemon.give(1 + number, MESSAGES, f"g{number}")
        daemon.numbered()
        if number < LIMITS.most:
            daemon.know(f"g{number}", SENDS_ONLY)
            daemon.numbered()
    daemon.give(1, MESSAGES, "g0")
    assert daemon.numbered() == [(0, UNSUBSCRIBE, "g1"), (0, SUBSCRIBE, "g0")]


def test_a_right_is_not_given_back_before_the_message_has_a_number_for_which_it_was_asked() -> None:
    daemon = Daemon(limits=RightLimits(most=1))
    daemon.leaving |= {"one", "other"}
    daemon.give(1, MESSAGES, "one")
    daemon.numbered()
    daemon.give(2, MESSAGES, "other")
    daemon.know("one", SENDS_ONLY)
    said = [(0, SUBSCRIBE, "other"), (1, MESSAGES, "one")]
    assert sorted(daemon.numbered()) == sorted(said)
    assert daemon.subscriptions.rights == 2
    daemon.know("other", SENDS_ONLY)
    daemon.give(3, MESSAGES, "third")
    daemon.leaving.add("third")
    assert daemon.numbered() == [
        (2, MESSAGES, "other"),
        (0, UNSUBSCRIBE, "one"),
        (0, SUBSCRIBE, "third"),
    ]


def test_what_other_daemons_wait_for_goes_before_all_that_sessions_have_said() -> None:
    daemon = Daemon(groups=("g",))
    daemon.leaving.add("slow")
    for text in ("one", "two"):
        daemon.give(1, MESSAGES, text)
    assert daemon.backlog.head(far=False) is None, "none of these stays: they are parked"
    daemon.subscriptions.on_unwanted("g")
    daemon.give(2, JOIN, "g")
    assert daemon.backlog.head(far=False) is None
    said = [(0, UNSUBSCRIBE, "g"), (0, SUBSCRIBE, "g"), (1, MESSAGES, "one"), (1, MESSAGES, "two")]
    assert daemon.numbered() == said


@pytest.mark.parametrize("late", [False, True])
def test_many_sessions_that_lack_a_right_are_looked_at_once(late: bool) -> None:
    """After a change of the view all sessions lack their rights, and their bundles are many."""
    asked: list[str] = []

    def leaves(name: str) -> bool:
        asked.append(name)
        return name in daemon.leaving

    daemon = Daemon()
    daemon.subscriptions.begin([], leaves=leaves, rights=LIMITS)
    if not late:
        daemon.leaving.add("far")
    for _ in range(5):
        for session in range(1, 201):
            daemon.give(session, MESSAGES, "far")
    daemon.leaving.add("far")
    assert daemon.numbered() == [(0, SUBSCRIBE, "far")]
    assert daemon.subscriptions.waiting == 1000
    daemon.know("far", SENDS_ONLY)
    assert daemon.numbered() == [(s, MESSAGES, "far") for s in range(1, 201) for _ in range(5)]
    assert len(asked) <= 3500
