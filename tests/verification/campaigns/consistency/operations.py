"""What programs did to shared objects, and when: the record that the checkers of consistency read.

A record is a file of JSON lines, one operation each, of all programs of a run.
"""

from collections.abc import Iterable, Sequence
from math import inf
from pathlib import Path
from typing import Any, Final, Literal

import msgspec

Outcome = Literal["ok", "failed", "unknown"]
"""failed: it certainly had no effect; unknown: it may have an effect, at any later time."""


class Operation(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One operation.

    Attributes:
        process: the name of the program, or of its life.
        object: the kind of object: register, list, lock or queue.
        call: microseconds at which it began, on a clock that all programs share.
        end: microseconds at which its result was known; None if it never was.
        outcome: what is known of its effect.
        key: the object; "" if there is one of a kind.
        act: the operation, as ``["write", 5]``; for lists ``[["append", key, value], ...]``.
        result: what it returned; for lists one result for each act.
    """

    process: str
    object: str
    call: int
    end: int | None = None
    outcome: Outcome = "unknown"
    key: str = ""
    act: Any = None
    result: Any = None

    @property
    def last(self) -> float:
        """The time by which it has had its effect, if it has one; inf without a result."""
        return inf if self.end is None or self.outcome == "unknown" else self.end


_encode: Final = msgspec.json.Encoder().encode_lines
_decode: Final = msgspec.json.Decoder(Operation).decode_lines


def write_operations(path: Path, operations: Sequence[Operation]) -> None:
    """Write a record."""
    path.write_bytes(_encode(operations))


def read_operations(path: Path) -> list[Operation]:
    """Read a record.

    Raises:
        msgspec.DecodeError: it is none.
    """
    return _decode(path.read_bytes())


def of_object(operations: Iterable[Operation], kind: str) -> list[Operation]:
    """Return the operations on objects of a kind."""
    return [each for each in operations if each.object == kind]


def by_key(operations: Iterable[Operation]) -> dict[str, list[Operation]]:
    """Return the operations on each object."""
    found: dict[str, list[Operation]] = {}
    for each in operations:
        found.setdefault(each.key, []).append(each)
    return found
