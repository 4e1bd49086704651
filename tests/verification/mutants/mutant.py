"""A mutant: attributes of the core that are replaced for the length of a run."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, Final

import attrs

from groupcomm.order import order

SITES: Final = 3
"""The share of runs in which a bug between sites is looked for: of all seeds few have several."""

Target = tuple[Any, str]
"""A class or module, and the name of the replaced attribute."""

Right = Callable[..., Any]
"""The replaced attribute, mostly a method; its replacement has the same form."""


@attrs.frozen(kw_only=True)
class Mutant:
    """One way to do it wrong.

    Attributes:
        name: its name on the command line, words with hyphens between them.
        sentence: the fault, in one sentence.
        targets: the attributes to replace.
        variant: takes the right attributes, one argument for each target, and returns the wrong
            ones: a tuple, or with one target just that.
        sites: the number of sites of the runs in which it is hunted; None draws it, as for any run.
        rosters: whether operators change the roster in these runs.
        votes: whether they change votes and policy, too.
        minority: whether programs join groups so that they pause without a quorum.
        versions: whether each start of a daemon may have another release in these runs.
        segments: whether packets travel in segments in these runs.
        faults: the faults of these runs, as `groupcomm simulate --faults` takes them: fewer where
            others hide the fault.
    """

    name: str
    sentence: str
    targets: tuple[Target, ...]
    variant: Callable[..., Any]
    sites: int | None = None
    rosters: bool = False
    votes: bool = False
    minority: bool = False
    versions: bool = False
    segments: bool = False
    faults: str = "all"

    @contextmanager
    def active(self) -> Iterator[None]:
        """Be wrong while the context lasts.

        The core's own invariants are off meanwhile: it is the checkers that have to find the bug.
        """
        rights = [vars(owner)[attribute] for owner, attribute in self.targets]
        made = self.variant(*rights)
        wrongs = made if len(self.targets) > 1 else (made,)
        with ExitStack() as stack:
            for (owner, attribute), wrong in zip(self.targets, wrongs, strict=True):
                _replace(stack, owner, attribute, wrong)
            for name in dir(order):
                if name.startswith("assert_"):
                    _replace(stack, order, name, _hold_nothing_against)
            yield


def mutant(
    *targets: Target,
    sites: int | None = None,
    rosters: bool = False,
    votes: bool = False,
    minority: bool = False,
    versions: bool = False,
    segments: bool = False,
    faults: str = "all",
) -> Callable[[Callable[..., Any]], Mutant]:
    """Make a bug of the function that varies these targets: its name, and its docstring."""

    def make(variant: Callable[..., Any]) -> Mutant:
        name = variant.__name__.replace("_", "-")
        sentence = " ".join((variant.__doc__ or "").split())
        return Mutant(
            name=name,
            sentence=sentence,
            targets=targets,
            variant=variant,
            sites=sites,
            rosters=rosters,
            votes=votes,
            minority=minority,
            versions=versions,
            segments=segments,
            faults=faults,
        )

    return make


def site_mutant(*targets: Target) -> Callable[[Callable[..., Any]], Mutant]:
    """Make a bug that shows between sites, and that is looked for where there are some."""
    return mutant(*targets, sites=SITES)


def roster_mutant(
    *targets: Target, sites: int | None = None
) -> Callable[[Callable[..., Any]], Mutant]:
    """Make a bug that shows while the roster changes, and that is looked for then."""
    return mutant(*targets, sites=sites, rosters=True)


def vote_mutant(*targets: Target) -> Callable[[Callable[..., Any]], Mutant]:
    """Make a bug that shows while votes change, and that is looked for then."""
    return mutant(*targets, rosters=True, votes=True, faults="crash,partition,leave,pause")


def minority_mutant(*targets: Target) -> Callable[[Callable[..., Any]], Mutant]:
    """Make a bug that shows where groups pause, and that is looked for then."""
    faults = "crash,partition,leave,pause"
    return mutant(*targets, rosters=True, votes=True, minority=True, faults=faults)


def version_mutant(*targets: Target) -> Callable[[Callable[..., Any]], Mutant]:
    """Make a bug that shows between releases, and that is looked for where there are several."""
    return mutant(*targets, versions=True)


def _replace(stack: ExitStack, owner: Any, attribute: str, new: Any) -> None:
    stack.callback(setattr, owner, attribute, vars(owner)[attribute])
    setattr(owner, attribute, new)


def _hold_nothing_against(*_: object) -> None:
    """Stand in for a check of the core's own."""
