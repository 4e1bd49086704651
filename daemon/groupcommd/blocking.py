"""Programs for which all senders wait (`slow_receivers = "block"`): not for ever."""

from groupcomm.core.desk import Desk


class Blocking:
    """Watches for how long senders have waited for each program.

    Args:
        desk: has the sessions.
    """

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._since: dict[int, float] = {}

    def cut_off(self, now: float, limit_s: float) -> bool:
        """End the sessions of those for which senders have waited longer; whether any was."""
        blocking = {number for number, each in self._desk.sessions.items() if each.blocks}
        self._since = {number: self._since.get(number, now) for number in blocking}
        late = [number for number, since in self._since.items() if now - since > limit_s]
        for number in late:
            self._desk.cut_off(number, f"all senders waited for it for {limit_s:g} s")
        return bool(late)
