"""A dictionary that counts how often all of it is looked at: what is done for each session of many
may not do that."""

from collections.abc import ItemsView, Iterator, KeysView, ValuesView
from typing import TypeVar

K = TypeVar("K")
V = TypeVar("V")


class LookedAt(dict[K, V]):
    """A dictionary.

    Attributes:
        looks: the number of times that somebody began to go through it.
    """

    looks = 0

    def __iter__(self) -> Iterator[K]:
        self.looks += 1
        return super().__iter__()

    def keys(self) -> KeysView[K]:  # type: ignore[override]
        self.looks += 1
        return super().keys()

    def items(self) -> ItemsView[K, V]:  # type: ignore[override]
        self.looks += 1
        return super().items()

    def values(self) -> ValuesView[V]:  # type: ignore[override]
        self.looks += 1
        return super().values()
