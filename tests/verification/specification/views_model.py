"""The model of views: daemons that look for views, up to a number of attempts."""

from collections.abc import Iterator
from itertools import product

import attrs

from tests.verification.specification.form import Label, Model
from tests.verification.specification.views import Id, Installed, Join, Proposal, Views, ViewsState


@attrs.frozen(kw_only=True)
class ViewsModel(Model[ViewsState]):
    """Daemons that look for views, up to a number of attempts.

    Attributes:
        specification: the actions.
        attempts: the number of attempts of each daemon, by name.
        forms: the number of forms that a view with the same joins may have.
        common: whether the daemons begin in a common view, rather than with their start.
    """

    specification: Views
    attempts: dict[str, int]
    forms: int = 1
    common: bool = False

    def beginnings(self) -> Iterator[ViewsState]:
        """See Model."""
        state = ViewsState()
        if self.common:
            for daemon in self.attempts:
                self.specification.gather(state, daemon, Join(None, 0))
            proposal = Proposal(frozenset(state.joins), 1, 0)
            for act in ("commit", "recover", "install"):
                for daemon in self.attempts:
                    arguments = (proposal,) if act == "commit" else ()
                    getattr(self.specification, act)(state, daemon, *arguments)
        yield state

    def labels(self, state: ViewsState) -> Iterator[Label]:
        """See Model."""
        for daemon, most in self.attempts.items():
            used = state.used.get(daemon, 0)
            if state.attempt.get(daemon, 0) < most + self.common:
                old = state.view.get(daemon)
                views = {old} if old is None else {old, (1, min(self.attempts))}
                for view, counter in product(views, {used, max(0, used - 1)}):
                    yield "gather", daemon, Join(view, counter)
            yield "recover", daemon
            yield "install", daemon
            yield from (("commit", daemon, proposal) for proposal in self._proposals(state, daemon))

    def _proposals(self, state: ViewsState, daemon: str) -> Iterator[Proposal]:
        """Yield the proposals that a daemon may agree to, and some that it must not."""
        choices = [
            [None, *((other, n) for n in range(1, state.attempt.get(other, 0) + 1))]
            for other in self.attempts
        ]
        for chosen in product(*choices):
            seats = frozenset(seat for seat in chosen if seat is not None)
            if not any(seat[0] == daemon for seat in seats):
                continue
            highest = max(state.joins[seat].counter for seat in seats)
            for counter, form in product((highest, highest + 1), range(self.forms)):
                yield Proposal(seats, counter, form)

    def broken(self, state: ViewsState) -> str | None:
        """See Model."""
        views: dict[Id, Proposal] = {}
        ways: dict[tuple[str, Id], Installed] = {}
        for daemon, history in state.history.items():
            last: Id | None = None
            for installed in history:
                proposal = installed.proposal
                if daemon not in proposal.members:
                    return "a daemon is in each view that it installs"
                if views.setdefault(proposal.id, proposal) != proposal:
                    return "one id names one view"
                if last is not None and proposal.id <= last:
                    return "the views of a daemon rise"
                if installed.old != last:
                    return "a daemon comes from its last view"
                if last is not None:
                    ways[daemon, last] = installed
                last = proposal.id
        return self._broken_way(views, ways)

    def _broken_way(
        self, views: dict[Id, Proposal], ways: dict[tuple[str, Id], Installed]
    ) -> str | None:
        for (daemon, old), way in ways.items():
            if daemon not in way.transitional:
                return "a daemon is in its own transitional view"
            if not way.transitional <= views[old].members & way.proposal.members:
                return "transitional members are members of both views"
            for other in way.transitional:
                theirs = ways.get((other, old))
                if theirs is not None and daemon in theirs.transitional and theirs != way:
                    return "two daemons that leave a view with each other go the same way"
        return None
