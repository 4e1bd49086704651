"""The digests of a log: they are computed behind the writer, and kept in a file beside the rows.

The file, ``_digests.jsonl``, has a line for each group and range, and lines that say up to where
ranges were computed. What is torn or missing there is computed again from the rows.
"""

import json
from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeAlias

from groupcomm.clocks.stamp import Position, format_position, parse_position, parse_view
from groupcomm_archive.digests import Digest, LineDigests, Range, range_of
from groupcomm_archive.rows import MessageRun, Part
from groupcomm_client.history.frames import Interval
from groupcomm_client.history.places import place_of
from groupcomm_log.names import UNFINISHED

DIGESTS: Final = "_digests.jsonl"

MOST_EVENTS: Final = 200_000
"""The events of one step, so that files are sealed and removed in between."""

Parts: TypeAlias = Callable[[Position, Collection[str]], Iterator[Part]]
"""A function that yields the events of some groups behind a place."""

Entry: TypeAlias = tuple[str, Range, Digest]


class Digested(NamedTuple):
    """What a step has found.

    Attributes:
        whole: the digests of ranges that have ended.
        still_open: the digests of ranges in which more may come.
        upto: the place up to which there are digests; None if nothing was computed yet.
        is_behind: whether there are more events already.
    """

    whole: list[Entry]
    still_open: list[Entry]
    upto: Position | None
    is_behind: bool


class LogDigests:
    """The digests of a log; call `step` again and again."""

    def __init__(self, folder: Path, groups: Collection[str], parts: Parts) -> None:
        """Go on behind what the file has.

        Args:
            folder: the folder of the log.
            groups: the groups of the log.
            parts: reads the log.
        """
        self._path = folder / DIGESTS
        self._groups = tuple(groups)
        self._parts = parts
        self._line = LineDigests(groups)
        self._known, self._at = _read(self._path)
        self._boundary = self._at  # the last place that the file has
        self._is_new = True

    def step(self, intervals: Sequence[Interval]) -> Digested:
        """Compute the digests of some more events.

        Args:
            intervals: what the log holds.

        Raises:
            LogError: rows were removed, or are damaged.
            OSError: rows cannot be read.
        """
        whole, self._known = self._known, []
        restored = len(whole)
        is_behind = False
        for place, (first, last) in enumerate(intervals):
            if self._at is not None and last <= self._at:
                continue
            if self._at is None or self._at < first:
                self._at, self._line = first, LineDigests(self._groups)
            is_behind = self._read_on(last, whole)
            if is_behind:
                break
            if place < len(intervals) - 1:
                self._at = last
            whole += self._line.end_before(self._at)
        if self._is_new:
            self._renew(intervals, whole[:restored])
        self._store(whole[restored:])
        return Digested(whole, self._line.open(), self._at, is_behind)

    def _read_on(self, last: Position, whole: list[Entry]) -> bool:
        """Add events up to a place; return whether some are left."""
        assert self._at is not None
        count, at = 0, self._at
        for part in self._parts(at, self._groups):
            end = part.last if isinstance(part, MessageRun) else place_of(part)
            assert end is not None, "an event of the line has a place"
            if end > last:
                self._at = last if _first(part) > last else at
                return False
            if count >= MOST_EVENTS and end != at:  # views of one moment share a place
                self._at = at
                return True
            whole += self._line.add([part])
            count += len(part.data) if isinstance(part, MessageRun) else 1
            at = end
        self._at = last
        return False

    def _renew(self, intervals: Sequence[Interval], known: Sequence[Entry]) -> None:
        """Write the file anew, without what is torn, and without ranges that were removed."""
        self._is_new = False
        first = intervals[0][0] if intervals else None
        lines = [json.dumps(_line_of(each)) for each in known if first and each[1].last > first]
        if self._boundary is not None:
            lines.append(json.dumps({"upto": format_position(self._boundary)}))
        temporary = self._path.with_name(f".{self._path.name}{UNFINISHED}")
        temporary.write_text("".join(f"{line}\n" for line in lines))
        temporary.chmod(0o600)
        temporary.replace(self._path)

    def _store(self, whole: Sequence[Entry]) -> None:
        """Append digests to the file, and the place up to which there are all."""
        if self._at is None:
            return
        boundary = range_of(self._at).first
        if not whole and (self._boundary is not None and boundary <= self._boundary):
            return
        lines = [json.dumps(_line_of(entry)) for entry in whole]
        lines.append(json.dumps({"upto": format_position(boundary)}))
        with self._path.open("a") as file:
            file.write("".join(f"{line}\n" for line in lines))
        self._boundary = boundary


def _first(part: Part) -> Position:
    place = part.place if isinstance(part, MessageRun) else place_of(part)
    assert place is not None, "an event of the line has a place"
    return place


def _line_of(entry: Entry) -> dict[str, Any]:
    group, at, digest = entry
    return {
        "group": group,
        "view": str(at.view),
        "span": at.span,
        "count": digest.count,
        "last": format_position(digest.last),
        "digest": digest.value.hex(),
    }


def _read(path: Path) -> tuple[list[Entry], Position | None]:
    """Return the digests in a file, and the place up to which there are all."""
    found: list[Entry] = []
    pending: list[Entry] = []
    upto: Position | None = None
    try:
        lines = path.read_text().splitlines()
    except (FileNotFoundError, UnicodeDecodeError):
        return [], None
    for text in lines:
        try:
            line = json.loads(text)
            if "upto" in line:
                upto = parse_position(line["upto"])
                found += pending
                pending = []
            else:
                pending.append(
                    (
                        line["group"],
                        Range(parse_view(line["view"]), line["span"]),
                        Digest(
                            line["count"],
                            parse_position(line["last"]),
                            bytes.fromhex(line["digest"]),
                        ),
                    )
                )
        except (ValueError, KeyError, TypeError):
            break  # what follows is computed again
    return found, upto
