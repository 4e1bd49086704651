"""The one loop of duties around a core: daemon, simulator and tests call `drive`.

They differ in what performs a duty, never in which duties there are or in their order. A duty only
begins what takes long, and returns: what comes of it is an input of a later step.
"""

from collections.abc import Sequence
from typing import Protocol

from groupcomm.engine.daemon import DaemonCore
from groupcomm.engine.inputs import Input
from groupcomm.engine.output import CoreOver, Output, Store


class Shell(Protocol):
    """Performs what one core asks for."""

    def store(self, wanted: Sequence[Store]) -> None:
        """Begin to write."""

    def send(self, output: Output) -> bool:
        """Send its datagrams, if there are any; return whether the daemon goes on.

        A simulated one may have been killed in between.
        """

    def serve(self, output: Output) -> None:
        """Serve programs and log: do all that `deliver` has asked for, but for the end."""

    def finish(self, over: CoreOver) -> None:
        """End, now or once what is under way is done."""


def drive(
    core: DaemonCore,
    shell: Shell,
    now: float,
    datagrams: Sequence[bytes],
    inputs: Sequence[Input],
) -> None:
    """Take one step with all that has come, and have the shell do what comes of it.

    Args:
        core: of the daemon.
        shell: of the same.
        now: seconds of its monotonic clock, never less than before.
        datagrams: as received.
        inputs: what else has happened, in its order.
    """
    output = core.step(now, datagrams, inputs)
    if output.store:
        shell.store(output.store)
    if not shell.send(output):
        return
    core.deliver()
    shell.serve(output)
    if output.over is not None:
        shell.finish(output.over)
