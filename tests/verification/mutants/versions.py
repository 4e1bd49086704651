"""Wrong ways to choose what a view uses."""

import zlib
from collections.abc import Iterable, Mapping
from functools import reduce
from typing import Any

import attrs

from groupcomm.config.versions import PACKED, Versions
from groupcomm.config.view import View
from groupcomm.groups import announcement, carried
from groupcomm.membership import agreement, gather, proposal
from tests.verification.mutants.mutant import Right, version_mutant


@version_mutant((agreement, "make_view"))
def own_version_in_every_view(right: Right) -> Right:
    """A daemon uses the highest version that it speaks itself, whatever the others speak."""

    def make_view(config: Any, agreed: Any, joins: Any) -> View:
        view: View = right(config, agreed, joins)
        return attrs.evolve(view, versions=config.versions)

    return make_view


@version_mutant((proposal, "shared"))
def features_of_any_member(right: Right) -> Right:
    """A feature is switched on as soon as one member of the view has it."""

    def shared(found: Iterable[Versions]) -> Versions:
        every = list(found)
        features = reduce(int.__or__, (each.features for each in every))
        common: Versions = right(every)
        return attrs.evolve(common, features=features)

    return shared


@version_mutant((gather, "speakers"), (proposal, "shared"))
def members_without_a_common_version(_speakers: Right, right: Right) -> tuple[Right, Right]:
    """Daemons that share no version with others are admitted, and the lowest one is used."""

    def speakers(found: Mapping[int, Versions], _me: int) -> frozenset[int]:
        return frozenset(found)

    def shared(found: Iterable[Versions]) -> Versions:
        return min(found, key=lambda each: (each.lowest, each.highest, each.features))

    return speakers, shared


@version_mutant((carried, "encode_announcement"))
def later_version_before_its_view(right: Any) -> Right:
    """Announcements are compressed whatever version the view uses."""

    def encode_announcement(brought: Any, rows: Any, versions: Versions, size: int) -> bytes:
        plain: bytes = right(brought, rows, Versions(highest=PACKED - 1), size)
        return announcement._PACKED + zlib.compress(plain)

    return encode_announcement


BUGS = (
    own_version_in_every_view,
    features_of_any_member,
    members_without_a_common_version,
    later_version_before_its_view,
)
