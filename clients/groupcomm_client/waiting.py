"""Objects for threads: each stands for an awaited one, and its calls wait for their results.

::

    class BlockingCaller(Waiting[Caller]):
        call = waits(Caller.call)  # the same arguments, the same docstring

    calling = opens(requests.calling, BlockingCaller)
"""

from collections.abc import Callable, Coroutine, Iterator
from contextlib import AbstractAsyncContextManager, AbstractContextManager, contextmanager
from functools import wraps
from typing import Any, Concatenate, Generic, ParamSpec, Protocol, Self, TypeVar, cast

from groupcomm_client.thread_loop import run, run_block

P = ParamSpec("P")
Awaited = TypeVar("Awaited")
Found = TypeVar("Found")
Inner = TypeVar("Inner")
Found_co = TypeVar("Found_co", covariant=True)


class Waiting(Generic[Awaited]):
    """An object for threads.

    Attributes:
        awaited: the same object, whose calls are awaited.
    """

    def __init__(self, awaited: Awaited) -> None:
        """Stand for an awaited object."""
        self.awaited = awaited


class Events(Waiting[Awaited], Generic[Awaited, Found]):
    """Something that is iterated over for what it receives, up to its orderly end."""

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Found:
        try:
            return run(cast(Coroutine[Any, Any, Found], cast(Any, self.awaited).__anext__()))
        except StopAsyncIteration:
            raise StopIteration from None


class Shown(Protocol[Found_co]):
    """A property."""

    def __get__(self, instance: object, owner: type) -> Found_co: ...


def shows(getter: Callable[[Awaited], Found]) -> Shown[Found]:
    """Return the property that an awaited object has."""
    original = cast(property, getter)
    assert original.fget is not None, "it can be read"
    name = original.fget.__name__
    return cast(
        Shown[Found], property(lambda own: getattr(own.awaited, name), doc=original.__doc__)
    )


def calls(call: Callable[Concatenate[Awaited, P], Found]) -> Callable[Concatenate[Any, P], Found]:
    """Return the call of an awaited object that waits for nothing."""
    name = call.__name__

    @wraps(call)
    def made(own: Waiting[Awaited], /, *args: P.args, **kwargs: P.kwargs) -> Found:
        return cast(Found, getattr(own.awaited, name)(*args, **kwargs))

    return made


def same(inner: Inner) -> Inner:
    """Return what a block yields, which is the same for threads."""
    return inner


def opens(
    block: Callable[Concatenate[Awaited, P], AbstractAsyncContextManager[Inner]],
    form: Callable[[Inner], Found],
) -> Callable[Concatenate[Waiting[Any], P], AbstractContextManager[Found]]:
    """Return the block of an awaited object as one whose calls wait.

    Args:
        block: makes the block, of the awaited object.
        form: makes what the block yields, of what the awaited block yields.
    """

    @contextmanager
    @wraps(block)
    def made(own: Waiting[Any], /, *args: P.args, **kwargs: P.kwargs) -> Iterator[Found]:
        with run_block(block(own.awaited, *args, **kwargs)) as inner:
            yield form(inner)

    return made


def waits(
    call: Callable[Concatenate[Awaited, P], Coroutine[Any, Any, Found]],
) -> Callable[Concatenate[Any, P], Found]:
    """Return a call of an awaited object as one that waits for its result."""
    name = call.__name__

    @wraps(call)
    def made(own: Waiting[Awaited], /, *args: P.args, **kwargs: P.kwargs) -> Found:
        return run(cast(Coroutine[Any, Any, Found], getattr(own.awaited, name)(*args, **kwargs)))

    return made
