"""Wrong variants of cursors and of connections that resume, which the simulator must find."""

from collections.abc import Callable
from typing import Any

import pytest

from groupcomm_archive.cursors import ArchivedCursors
from groupcomm_client.history.cursor_client import CursorClient
from groupcomm_client.history.resumption import Resumption
from tests.groupcomm_client.history.test_cursor_lines import played
from tests.groupcomm_client.history.test_resuming_lines import ResumedLines

SEEDS = 4


def play_cursors(seed: int) -> None:
    played(seed, "archive reader reader", 3.0)


def play_resuming(seed: int) -> None:
    lines = ResumedLines(seed)
    lines.begin(1)
    lines.run(3.0, 4.0, "archive reader reader")
    lines.check()


def exchanges_nothing(archive: Any, view: Any) -> None:
    """An archive that comes answers at once, with what it has."""
    archive._view, archive._members = view.id, view.members
    archive._become_current()


def answers_before_the_disk(archive: Any) -> None:
    archive._stored = archive._version
    right_write(archive)


def waits_for_one(client: Any, _: Any) -> bool:
    return any(map(client._has_target, client._held))


def forgets_the_session(resumption: Any, event: Any, joined: Any, now: float) -> None:
    """What was missed is not asked for: the next session begins as if it were the first one."""
    resumption._me, resumption._view = event.member, None
    resumption._since.clear()
    resumption._subscriber = None
    resumption.given.append(event)


def begins_anew(resumption: Any, event: Any, joined: Any, now: float) -> None:
    """What was given before is forgotten, so it comes again."""
    right_begin(resumption, event, joined, now)
    if resumption._subscriber is not None:
        resumption._subscriber._progress.after = min(resumption._since.values())
        resumption._subscriber._progress.last = resumption._subscriber._progress.after


right_write: Callable[[Any], None] = ArchivedCursors._write
right_begin: Callable[[Any, Any, Any, float], None] = Resumption._begin_session


@pytest.mark.parametrize(
    ("of", "name", "wrong", "play"),
    [
        (ArchivedCursors, "_on_view", exchanges_nothing, play_cursors),
        (ArchivedCursors, "_write", answers_before_the_disk, play_cursors),
        (CursorClient, "_is_held", waits_for_one, play_cursors),
        (Resumption, "_begin_session", forgets_the_session, play_resuming),
        (Resumption, "_begin_session", begins_anew, play_resuming),
    ],
    ids=lambda each: getattr(each, "__name__", str(each)),
)
def test_a_wrong_variant_is_found(
    of: type, name: str, wrong: Any, play: Callable[[int], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(of, name, wrong)
    found = 0
    for seed in range(1, 1 + SEEDS):
        try:
            play(seed)
        except AssertionError:
            found += 1
            break
    assert found, f"{wrong.__name__} holds in {SEEDS} seeds"
