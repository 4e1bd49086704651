"""A story: a run of an algorithm that shows something, and its lesson."""

from collections.abc import Callable, Mapping, Sequence
from typing import Final

import attrs

from groupcomm.trace.events import TraceEvent
from groupcomm_lessons.algorithms.history import History
from groupcomm_lessons.algorithms.process import Name, Order


@attrs.frozen(kw_only=True)
class Run:
    """The results of a run.

    Attributes:
        events: the trace.
        delivered: the messages of each process, such as ``p1``, in the order of their delivery.
        held: the orders that held; None if the run is not about the order of messages.
        seen: other observations, by name.
    """

    events: Sequence[TraceEvent]
    delivered: Mapping[Name, Sequence[str]] = attrs.field(factory=dict)
    held: frozenset[Order] | None = None
    seen: Mapping[str, object] = attrs.field(factory=dict)


@attrs.frozen(kw_only=True)
class Story:
    """A run and its lesson.

    Attributes:
        name: its name, also of its figure and on the command line.
        title: the title, in one line.
        lesson: the docstring of the function that runs it.
        breaks: the order that it breaks; None if it shows something else.
        run: plays it; always with the same results.
    """

    name: str
    title: str
    lesson: str
    breaks: Order | None
    run: Callable[[], Run]


STORIES: Final[dict[str, Story]] = {}
"""The stories by name, in the order of the chapter."""


def story(
    name: str, title: str, breaks: Order | None = None
) -> Callable[[Callable[[], Run]], Callable[[], Run]]:
    """Make a function that plays a run the story of this name; its docstring is the lesson."""

    def add(run: Callable[[], Run]) -> Callable[[], Run]:
        assert run.__doc__ is not None
        lesson = " ".join(run.__doc__.split())
        STORIES[name] = Story(name=name, title=title, lesson=lesson, breaks=breaks, run=run)
        return run

    return add


def run_of(history: History, events: Sequence[TraceEvent], **seen: object) -> Run:
    """Return the results in a history and its trace."""
    return Run(
        events=events,
        delivered={
            name: [str(message) for message in messages]
            for name, messages in sorted(history.delivered.items())
        },
        held=history.held(),
        seen=seen,
    )
