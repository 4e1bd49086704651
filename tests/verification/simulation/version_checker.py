"""Checks of versions: U1 to U3 of docs/properties.md."""

from groupcomm.config.versions import Versions, shared
from groupcomm.config.view import DaemonId, View
from groupcomm.errors import ConfigError
from groupcomm.sim.checkers.report import Report, Violation


class VersionChecker:
    """The checks of the versions that the views of one run use.

    Attributes:
        mixed: the number of views whose members speak different versions.
    """

    def __init__(self) -> None:
        self._report = Report()
        self._spoken: dict[DaemonId, Versions] = {}
        self._used: dict[bytes, Versions] = {}  # by the key of the view
        self.mixed = 0

    def booted(self, daemon: DaemonId, versions: Versions) -> None:
        """Note the versions that a start of a daemon speaks."""
        self._spoken[daemon] = versions

    def begun(self, process: str, view: View) -> None:
        """Check a view that begins at a process."""
        used, known = view.versions, self._used.get(view.key)
        if known is not None:
            if known != used:
                self._report.add(
                    "U1", f"{process} uses {used} in view {view.id}; another member uses {known}"
                )
            return
        self._used[view.key] = used
        spoken = [self._spoken[daemon] for daemon in view.daemons]
        self.mixed += len(set(spoken)) > 1
        try:
            expected = shared(spoken)
        except ConfigError as error:
            self._report.add("U3", f"{process} is in view {view.id}: {error}")
            return
        if used != expected:
            self._report.add(
                "U2",
                f"{process} uses {used}, features {used.features:#x} in view {view.id}; its members"
                f" have {expected}, features {expected.features:#x} in common",
            )

    @property
    def violations(self) -> list[Violation]:
        """Return the violations so far."""
        return self._report.violations
