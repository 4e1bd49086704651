"""One start of a daemon whose views and rosters are checked, and which may send segments."""

from groupcomm.config.roster import Roster
from groupcomm.engine import Output, PathMeasured, RosterNews, Segmentation
from groupcomm.engine.view import ViewState
from groupcomm.membership.states import MembershipState
from groupcomm.sim.cluster.process import SimulatedProcess
from tests.verification.simulation.roster_checker import RosterChecker
from tests.verification.simulation.segments import SegmentedSends
from tests.verification.simulation.version_checker import VersionChecker


class VerificationProcess(SimulatedProcess):
    """A driver of one core; see `SimulatedProcess`."""

    _versions: VersionChecker
    _rosters: RosterChecker
    _roster_news: list[str]
    _may_route_otherwise = False  # its view or its roster is another one
    _uses_another = False  # since this step: views of it were agreed on with the roster before
    _view_state: ViewState | None = None  # the last one that the checkers have seen
    _segments: SegmentedSends | None = None
    _forged_replays = 0  # the forged datagrams that the core took for replays

    def begin_checks(self, versions: VersionChecker, rosters: RosterChecker) -> None:
        """Have its views and rosters checked from now on; this comes before its first step."""
        self._versions, self._rosters, self._roster_news = versions, rosters, []

    def send_segments(self, datagram_bytes: int) -> None:
        """Cut large datagrams; tell the core what the system says the paths of its site carry."""
        self._segments = SegmentedSends()
        self.join = self._segments.join
        self._inputs.append(PathMeasured(datagram_bytes))

    def use_segmentation(self, segmentation: Segmentation) -> None:
        """See Shell."""
        if self._segments is not None:
            self._segments.use(segmentation)

    def send(self, output: Output) -> bool:
        """See Shell."""
        if self._segments is not None:
            output.datagrams = self._segments.cut(output.datagrams)
        return super().send(output)

    def use_roster(self, roster: Roster) -> None:
        """See Shell."""
        self._rosters.used(self.name, roster, self._roster_news)
        self._may_route_otherwise = self._uses_another = True

    def serve(self, output: Output) -> None:
        """See Shell."""
        self._roster_news += [each.text for each in output.news if isinstance(each, RosterNews)]
        super().serve(output)

    @property
    def replays(self) -> int:
        """Return the number of daemons' datagrams that were dropped as replays."""
        return self.core.counters.rejected["replay"] - self._forged_replays

    def _feed_forged(self, forged: list[bytes]) -> None:
        before = self.replays
        super()._feed_forged(forged)
        self._forged_replays += self.replays - before

    def _after_step(self) -> None:
        view_state = self.core.view_state
        if view_state is not None:
            if view_state is not self._view_state:
                self._view_state = view_state
                roster = self.core.config.roster
                self._versions.begun(self.name, view_state.view)
                majority = view_state.majority
                self._rosters.begun(self.name, view_state.view, roster, majority=majority)
                if not self._uses_another:
                    self._rosters.counted(self.name, view_state.view, roster, majority=majority)
                self._may_route_otherwise = True
            if self._may_route_otherwise:
                self._may_route_otherwise = False
                if self.core.state is MembershipState.OPERATIONAL:
                    roster, delays_us = self.core.config.roster, view_state.delays_us
                    self._rosters.routed(self.name, view_state.view, roster, delays_us)
        self._uses_another = False
        super()._after_step()
