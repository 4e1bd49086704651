"""Drains asked for by operators: ``groupcomm drain`` sends questions that begin with ``drain``."""

import json
from collections.abc import Callable
from math import isfinite
from typing import Any, Final

import trio

from groupcomm.engine import DaemonCore, DrainStatus
from groupcomm.errors import LocalProtocolError
from groupcommd.config.daemon_config import MAX_DRAIN_S

KNOWN: Final = "drain, or drain SECONDS [USER]"


class DrainService:
    """The answers to operators about the drain of one start of a daemon.

    Args:
        core: the core of the daemon.
        begin: begins a drain, given the seconds and the user of the session that is not waited for.
    """

    def __init__(self, core: DaemonCore, begin: Callable[[float, str], object]) -> None:
        self._core = core
        self._begin = begin

    def answer(self, words: str, *, allowed: bool) -> bytes:
        """Answer ``drain`` or carry out ``drain SECONDS [USER]``; return JSON.

        Args:
            words: the question after its first word.
            allowed: whether the program runs as the daemon's own user or as root.
        """
        try:
            found = self._answer(words, allowed=allowed)
        except LocalProtocolError as error:
            found = {"error": str(error)}
        return json.dumps(found, ensure_ascii=False).encode()

    def _answer(self, words: str, *, allowed: bool) -> dict[str, Any]:
        if not words:
            found = self._core.status(trio.current_time())
            return {"daemon": found.daemon.name, "drain": described(found.drain)}
        if not allowed:
            raise LocalProtocolError(
                "only the daemon's own user and root may stop it: run the command on its host, as"
                " that user, with the address of its unix socket"
            )
        seconds, _, observer = words.partition(" ")
        self._begin(read_seconds(seconds), observer)
        return {"asked": f"drain {seconds}"}


def read_seconds(text: str) -> float:
    """Return the time of a drain.

    Raises:
        LocalProtocolError: it is no number from 0 to MAX_DRAIN_S.
    """
    try:
        seconds = float(text)
    except ValueError:
        raise LocalProtocolError(f"unknown command drain {text[:80]!r}: ask for {KNOWN}") from None
    if not (isfinite(seconds) and 0 <= seconds <= MAX_DRAIN_S):
        raise LocalProtocolError(f"a drain may take 0 to {MAX_DRAIN_S:g} s, not {text[:80]}")
    return seconds


def described(drain: DrainStatus | None) -> dict[str, Any] | None:
    """Return the progress of a drain, for JSON; None without one."""
    if drain is None:
        return None
    return {
        "left_s": round(drain.left_s, 3),
        "gone": drain.gone,
        "staying": list(drain.staying),
    }
