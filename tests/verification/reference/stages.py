"""C3, C5: the views that clients are told, and the stage of each client."""

from groupcomm.trace.events import Conf, Dview, Release, Table, Trans
from tests.verification.reference.facts import Facts
from tests.verification.reference.tables import Tables
from tests.verification.reference.terms import CONNECT, NO_VIEW, name_of

Stage = tuple[str, bool]
"""A view, and whether its part is regular."""


class Stages:
    """The views that each client was told, and the indices.

    Attributes:
        found: ids of violated properties.
        void: indices of Dviews and Trans that count for nothing.
    """

    def __init__(self, facts: Facts, tables: Tables) -> None:
        self.facts = facts
        self.views = facts.views
        self.tables = tables
        self.found: set[str] = set()
        self.void: set[int] = set()
        self._stages: dict[str, list[tuple[int, Stage]]] = {}
        self._owed: dict[str, list[tuple[str, str]]] = {}
        self._late: dict[tuple[str, str], bool] = {}  # connected in its transitional part
        self._majority: dict[str, bool | None] = {}
        repeated = {released.index for released in facts.repeated}
        for index, event in facts.live:
            if isinstance(event, Table) and not any(event.pos[1:]):
                for client in tables.connected(event.p, index + 1):
                    self._owe(client, "dview", event.pos[0])
            elif isinstance(event, Release) and index not in repeated:
                self._on_release(index, event)
            elif isinstance(event, Conf) and event.kind == "T":
                self._on_turn(index, event)
            elif isinstance(event, Dview | Trans):
                self._on_notified(index, event)
        if any(owed and facts.stays(client) for client, owed in self._owed.items()):
            self.found.add("C5")

    def _owe(self, client: str, kind: str, view: str) -> None:
        self._owed.setdefault(client, []).append((kind, view))

    def _on_release(self, index: int, event: Release) -> None:
        own = self.facts.home(event.c, index + 1) == event.p and event.p in self.views.booted
        gone = self.tables.at(event.p, index).gone
        if own and event.kind == CONNECT and event.c not in gone:
            view = self.views.view(event.p, index)
            self._late[event.c, view] = not self.views.is_regular(event.p, index)
            self._owe(event.c, "dview", view)

    def _on_turn(self, index: int, conf: Conf) -> None:
        completed = self.views.completed_at(conf.p, conf.old)
        if completed is not None and completed < index and conf.p in self.views.booted:
            for client in self.tables.connected(conf.p, index):
                self._owe(client, "trans", conf.old)

    def _on_notified(self, index: int, event: Dview | Trans) -> None:
        kind = "dview" if isinstance(event, Dview) else "trans"
        owed = self._owed.get(event.c, [])
        if (kind, event.view) not in owed:
            self.found.add("C5")
            self.void.add(index)
            return
        if isinstance(event, Dview):
            self._check_content(event)
        at = owed.index((kind, event.view))
        if at > 0:
            self.found.add("C5")
        del owed[: at + 1]
        stage = (event.view, kind == "dview" and not self._late.get((event.c, event.view), False))
        self._stages.setdefault(event.c, []).append((index, stage))

    def _check_content(self, event: Dview) -> None:
        """Check C3."""
        names = tuple(name_of(member) for member in self.views.members(event.view))
        if event.daemons != names:
            self.found.add("C3")
        if self._majority.setdefault(event.view, event.majority) != event.majority:
            self.found.add("C3")

    def lacks_quorum(self, view: str) -> bool:
        """Return whether clients are told that a view has no majority."""
        return self._majority.get(view) is False

    def began_late(self, client: str, view: str) -> bool:
        """Return whether a client's stage in a view was transitional from the beginning."""
        return self._late.get((client, view), False)

    def at(self, client: str, index: int) -> Stage:
        """Return the stage of a client before an index."""
        home = self.facts.home(client, index)
        if home is not None and home not in self.views.booted:
            return (self.views.view(home, index), True)
        found = [stage for i, stage in self._stages.get(client, []) if i < index]
        return found[-1] if found else (NO_VIEW, True)
