"""A block that lasts only as long as something is held."""

import trio


class Tenure:
    """From the moment something is held: `lose` cancels what the task does until `end`.

    Made and ended by the same task, with blocks in between properly nested.
    """

    def __init__(self) -> None:
        """Begin it in the running task."""
        self._lost = False
        self._scope = trio.CancelScope()
        self._scope.__enter__()

    def lose(self) -> None:
        """What was held is not any more."""
        self._lost = True
        self._scope.cancel()

    def end(self, error: BaseException | None, lost: Exception) -> bool:
        """End it; whether the exception that ended the block was its own cancellation.

        Args:
            error: what ended the block, if anything did.
            lost: raised if what was held was lost before the end.
        """
        trace = None if error is None else error.__traceback__
        kind = None if error is None else type(error)
        silenced = self._scope.__exit__(kind, error, trace)
        if self._lost and (error is None or silenced):
            raise lost from None
        return bool(silenced)
