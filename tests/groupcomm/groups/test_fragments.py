"""The recipients of a message in fragments: recipients from the first fragment to the last."""

from groupcomm.groups.groups import OpenMessages

KEY = (0, 7, 42)


def test_members_throughout_get_every_fragment() -> None:
    messages = OpenMessages()
    assert messages.recipients(KEY, [1, 2], 3) == ([1, 2], [])
    assert messages.recipients(KEY, [2, 1], 3) == ([1, 2], [])
    assert messages.recipients(KEY, [1, 2], 3) == ([1, 2], [])
    assert messages.end_session(0, 7) == [], "the message is complete"


def test_a_late_member_gets_nothing_and_a_leaving_one_is_reported() -> None:
    messages = OpenMessages()
    messages.recipients(KEY, [1, 2], 3)
    assert messages.recipients(KEY, [2, 3], 3) == ([2], [1])
    assert messages.recipients(KEY, [1, 2, 3], 3) == ([2], [])


def test_fragments_of_other_messages_are_not_mixed_in() -> None:
    messages = OpenMessages()
    messages.recipients(KEY, [1], 2)
    assert messages.recipients((0, 7, 43), [1, 2], 2) == ([1, 2], [])
    assert messages.recipients((1, 7, 42), [3], 2) == ([3], [])


def test_a_disconnect_ends_the_senders_messages_only() -> None:
    messages = OpenMessages()
    messages.recipients(KEY, [1], 2)
    messages.recipients((0, 8, 1), [1], 2)
    assert messages.end_session(0, 7) == [(42, [1])]
    assert messages.end_session(0, 7) == []
    assert messages.end_session(0, 8) == [(1, [1])]


def test_a_newer_unreliable_message_ends_older_ones() -> None:
    messages = OpenMessages()
    messages.recipients(KEY, [1], 2)
    assert messages.end_older((0, 7, 42)) == []
    assert messages.end_older((0, 7, 43)) == [(42, [1])]
