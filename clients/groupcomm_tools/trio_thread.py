"""A trio loop in a thread of its own, for programs that wait for what it does."""

import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from types import TracebackType
from typing import Any, Self, TypeVar

import trio

_Value = TypeVar("_Value")


class TrioThread:
    """Runs from its making until `close`; calls may come from any thread.

    A call from inside an event loop, of trio or of asyncio, makes that loop wait.
    """

    def __init__(self) -> None:
        begun: Future[trio.lowlevel.TrioToken] = Future()
        self._thread = threading.Thread(target=trio.run, args=(self._main, begun), daemon=True)
        self._thread.start()
        self._token = begun.result()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Cancel all that still runs, and end the thread."""
        if self._thread.is_alive():
            self._token.run_sync_soon(self._nursery.cancel_scope.cancel)
            self._thread.join()

    def call(self, function: Callable[..., Awaitable[_Value]], *arguments: Any) -> _Value:
        """Call an async function there, and wait for what it returns or raises."""
        answer: Future[_Value] = Future()
        self._token.run_sync_soon(
            self._nursery.start_soon, self._answer, answer, function, arguments
        )
        return answer.result()

    def call_sync(self, function: Callable[..., _Value], *arguments: Any) -> _Value:
        """The same for a function that is not async."""

        async def call() -> _Value:
            return function(*arguments)

        return self.call(call)

    def begin(self, function: Callable[..., Awaitable[object]], *arguments: Any) -> None:
        """Have an async function run there from now on; what it raises ends the thread."""
        self._token.run_sync_soon(self._nursery.start_soon, function, *arguments)

    async def _main(self, begun: "Future[trio.lowlevel.TrioToken]") -> None:
        async with trio.open_nursery() as self._nursery:
            begun.set_result(trio.lowlevel.current_trio_token())
            await trio.sleep_forever()

    async def _answer(
        self,
        answer: "Future[_Value]",
        function: Callable[..., Awaitable[_Value]],
        arguments: tuple[Any, ...],
    ) -> None:
        try:
            answer.set_result(await function(*arguments))
        except trio.Cancelled:
            answer.cancel()
            raise
        except Exception as error:
            answer.set_exception(error)
