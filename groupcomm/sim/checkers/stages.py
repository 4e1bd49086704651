"""What daemons tell their clients of views: which has begun, and that its regular part is over."""

from groupcomm.sim.checkers.records import Client
from groupcomm.sim.checkers.report import Report
from groupcomm.sim.checkers.views import Part, Process
from groupcomm.sim.checkers.world import World
from groupcomm.trace.events import Dview, Quiet, Trans


class Stages:
    """Checks Dview and Trans: C5, and C3 for what they say."""

    def __init__(self, world: World, report: Report) -> None:
        self._world = world
        self._report = report

    # ---- what is owed ----

    def complete(self, process: Process) -> None:
        """A daemon knows all groups of its view."""
        assert process.stay is not None
        for client in process.table.connected.values():
            if client.home is process:
                client.stages.append((True, process.stay.part))

    def connected(self, process: Process, client: Client) -> None:
        """A connect of its own is released at a daemon."""
        if process.booted and process.stay is not None:
            if not process.stay.part.regular:
                client.began = process.stay.part
            client.stages.append((True, process.stay.part))

    def transitional(self, process: Process) -> None:
        """The regular part of a complete view is over at a daemon."""
        assert process.stay is not None
        for client in process.table.connected.values():
            if client.home is process:
                client.stages.append((False, process.stay.part))

    # ---- what is told ----

    def told(self, client: Client, event: Dview | Trans) -> None:
        """A client is told of a view."""
        begins = isinstance(event, Dview)
        stages = client.stages
        if not any(is_it == begins and p.stay.view.text == event.view for is_it, p in stages):
            self._report.add("C5", f"{client} is told of {event.view}, and should not be", event)
            return
        is_it, part = stages.popleft()
        if is_it != begins or part.stay.view.text != event.view:
            self._report.add("C5", f"{client} is not told of what was before {event.view}", event)
        while is_it != begins or part.stay.view.text != event.view:
            is_it, part = stages.popleft()
        client.stage = part
        if isinstance(event, Dview):
            client.needs.clear()
            self._check(client, part, event)

    def _check(self, client: Client, part: Part, event: Dview) -> None:
        view = part.stay.view
        if event.daemons != view.names:
            self._report.add("C3", f"{client} is told of other daemons in {event.view}", event)
        if not view.majority:
            view.majority.append(event.majority)
        elif view.majority[0] != event.majority:
            self._report.add("C3", f"{client} is told something else of a majority", event)

    def quiet(self, event: Quiet) -> None:
        """Nothing may be missing."""
        final = set(self._world.final)
        for client in self._world.clients.values():
            if client.stages and not client.ended and client.home in final:
                self._report.add("C5", f"{client} is not told of its daemon's view", event)
