"""Rows as numbers: what the rules compare. Names, lists of groups and contents become hashes."""

from collections.abc import Callable, Sequence
from functools import lru_cache
from hashlib import blake2b
from typing import Final

import numpy as np
import pandas as pd  # type: ignore[import-untyped]
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from groupcomm.level import LEVELS
from groupcomm_log.schema import MESSAGE, VIEW
from groupcomm_log.view_periods import KEY

Ints = NDArray[np.int64]

CODES: Final = {level.name: code for code, level in enumerate(LEVELS)}
GROUP_VIEW: Final = len(CODES)
OTHER: Final = len(CODES) + 1
"""Code of rows that are not messages, beside the codes of levels."""

NONE: Final = -1
"""The number in place of a null."""

COLUMNS: Final = (
    *("row", "kind", "view", *KEY, "sender", "number", "groups", "level", "type", "data"),
    "causal_context",
)
"""The columns of a log that `numbers_of` reads."""

NUMBERS: Final = ("row", "code", "view", *KEY, "sender", "daemon", "number", "groups", "hash")
"""Columns of numbers, all int64. `groups` is an index of `GroupLists`; `hash` is that of what must
be the same in two logs, besides level and groups.
"""


@lru_cache(maxsize=65_536)
def code_of(name: str | None) -> int:
    """Return the code of a name, 64 bits, the same in every process; NONE for no name."""
    if name is None:
        return NONE
    return int.from_bytes(blake2b(name.encode(), digest_size=8).digest(), "big", signed=True)


class GroupLists:
    """Lists of groups, each with an index.

    Attributes:
        names: the lists, by index.
    """

    def __init__(self) -> None:
        self.names: list[list[str]] = []
        self._known: dict[int, int] = {}

    def indices(self, lists: pa.ListArray) -> Ints:
        """Return the index of each list; a null is an empty one."""
        size = pc.fill_null(pc.list_value_length(lists), 0).to_numpy().astype(np.int64)
        end = np.cumsum(size)
        start = end - size
        values = coded(lists.flatten(), code_of)
        mixed = _mixed(values.astype(np.uint64), np.arange(len(values)) - np.repeat(start, size))
        sums = np.concatenate(([np.uint64(0)], np.cumsum(mixed)))
        found, distinct = pd.factorize(sums[end] - sums[start])
        first = np.empty(len(distinct), np.int64)
        first[found[::-1]] = np.arange(len(found))[::-1]
        known = [
            self._index(code, lists[at].as_py() or [])
            for code, at in zip(distinct.tolist(), first.tolist(), strict=True)
        ]
        indices: Ints = np.array(known, np.int64)[found]
        return indices

    def _index(self, code: int, names: list[str]) -> int:
        at = self._known.setdefault(code, len(self.names))
        if at == len(self.names):
            self.names.append(names)
        return at


def numbers_of(batch: pa.RecordBatch, lists: GroupLists) -> dict[str, Ints]:
    """Return rows with COLUMNS as NUMBERS."""
    numbers = {name: filled(batch[name]) for name in ("row", *KEY, "number", "type")}
    level, is_message = coded(batch["level"], _level), coded(batch["kind"], _kind)
    return {
        **{name: numbers[name] for name in ("row", *KEY, "number")},
        "code": np.where(is_message == 0, level, is_message),
        "view": coded(batch["view"], code_of),
        "sender": (sender := coded(batch["sender"], code_of)),
        "daemon": coded(batch["sender"], _daemon),
        "groups": lists.indices(batch["groups"]),
        "hash": _hashes(batch["data"], [numbers[n] for n in (*KEY, "number", "type")] + [sender]),
    }


def filled(column: pa.Array) -> Ints:
    """Return numbers, with NONE in place of nulls."""
    full = pc.fill_null(column, NONE) if column.null_count else column
    numbers: Ints = full.to_numpy(zero_copy_only=False)
    return numbers


def coded(column: pa.Array, code: Callable[[str | None], int]) -> Ints:
    """Return a code for each name."""
    names = column if isinstance(column, pa.DictionaryArray) else column.dictionary_encode()
    codes = np.array([code(each) for each in (*names.dictionary.to_pylist(), None)], np.int64)
    coded: Ints = codes[filled(names.indices)]  # NONE: that of no name, the last one
    return coded


def _level(name: str | None) -> int:
    return CODES.get(name or "", OTHER)


def _kind(name: str | None) -> int:
    return {MESSAGE: 0, VIEW: GROUP_VIEW}.get(name or "", OTHER)


def _daemon(sender: str | None) -> int:
    return NONE if sender is None else code_of(sender.rpartition("#")[2].partition("/")[0])


def _hashes(data: pa.Array, numbers: Sequence[Ints]) -> Ints:
    """Return hashes of contents: bytes, and some numbers."""
    texts = pc.fill_null(data, b"").to_numpy(zero_copy_only=False)
    mixed = pd.util.hash_array(texts, categorize=False)
    for each in (*numbers, pc.is_null(data).to_numpy(zero_copy_only=False).astype(np.int64)):
        mixed = _mixed(mixed, each)
    hashes: Ints = mixed.astype(np.int64)
    return hashes


_ODD: Final = (np.uint64(0x9E3779B97F4A7C15), np.uint64(0xBF58476D1CE4E5B9))
_HALF: Final = np.uint64(32)


def _mixed(hashes: NDArray[np.uint64], numbers: Ints) -> NDArray[np.uint64]:
    """Return hashes of hashes and numbers: one to one in either, if the other stays the same."""
    mixed = (hashes ^ (numbers.astype(np.uint64) * _ODD[0])) * _ODD[1]
    mixed ^= mixed >> _HALF
    mixed *= _ODD[0]
    return mixed ^ (mixed >> _HALF)
