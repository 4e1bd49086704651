"""Lists to which transactions append, and that they read: is the record strictly serializable?

The idea of Elle (Kingsbury and Alvaro, "Elle: inferring isolation anomalies from experimental
observations", VLDB 2020): each value is appended once, so what is read shows the order of all
appends before it. From that follows which transaction depends on which, and a cycle among
dependencies shows an anomaly. Besides, a transaction that had ended comes before each one that was
called later.
"""

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Final, NamedTuple

import attrs

from tests.verification.campaigns.consistency.operations import Operation

WW, WR, RW, TIME = "ww", "wr", "rw", "time"
"""The later one appends after the earlier one; reads what it appended; appends what it did not read
yet; is called after its end."""

MOST_SHOWN: Final = 6


class Append(NamedTuple):
    """A value that a transaction appends to a list."""

    key: str
    value: str


@attrs.frozen
class Anomaly:
    """What no serial order explains.

    Attributes:
        kind: ``G0`` (a cycle of appends), ``G1c`` (with reads), ``G-single`` (with one read that
            missed an append), ``G2`` (several), each with ``-realtime`` if time is in it;
            ``incompatible order``, ``duplicate``, ``aborted read``, ``invented``.
        text: the transactions, or the values.
    """

    kind: str
    text: str

    def __str__(self) -> str:
        return f"{self.kind}: {self.text}"


def check_lists(operations: Sequence[Operation]) -> list[Anomaly]:
    """Return the anomalies of a record of transactions."""
    effective = [each for each in operations if each.outcome != "failed"]
    aborted = {
        append for each in operations if each.outcome == "failed" for append in _appends(each)
    }
    writers = {append: each for each in effective for append in _appends(each)}
    orders, anomalies = _orders(effective)
    for key, order in orders.items():
        for value in order:
            append = Append(key, value)
            if append in aborted:
                anomalies.append(Anomaly("aborted read", f"{value} of {key}, whose append failed"))
            elif append not in writers:
                anomalies.append(Anomaly("invented", f"{value} of {key}, which nobody appended"))
    if not anomalies:
        anomalies += _cycles(_Graph(effective, writers, orders))
    return anomalies


def _appends(operation: Operation) -> Iterator[Append]:
    for act in operation.act:
        if act[0] == "append":
            yield Append(act[1], act[2])


def _reads(operation: Operation) -> Iterator[tuple[str, list[str]]]:
    """Yield what a transaction with a known outcome has read, without its own appends before."""
    if operation.outcome != "ok":
        return
    own: dict[str, list[str]] = {}
    for act, result in zip(operation.act, operation.result, strict=True):
        if act[0] == "append":
            own.setdefault(act[1], []).append(act[2])
        else:
            mine = len(own.get(act[1], ()))
            yield act[1], result[: len(result) - mine] if mine else result


def _orders(operations: Iterable[Operation]) -> tuple[dict[str, list[str]], list[Anomaly]]:
    """Return the longest state of each list that was read, and what contradicts it."""
    reads: dict[str, list[list[str]]] = {}
    for operation in operations:
        if operation.outcome == "ok":
            for act, result in zip(operation.act, operation.result, strict=True):
                if act[0] == "read":
                    reads.setdefault(act[1], []).append(result)
    orders: dict[str, list[str]] = {}
    anomalies: list[Anomaly] = []
    for key, found in reads.items():
        longest = orders[key] = max(found, key=len)
        if len(set(longest)) < len(longest):
            anomalies.append(Anomaly("duplicate", f"{key} was read as {_shown(longest)}"))
        for state in found:
            if longest[: len(state)] != state:
                text = f"{key} was read as {_shown(state)} and as {_shown(longest)}"
                anomalies.append(Anomaly("incompatible order", text))
                break
    return orders, anomalies


def _shown(values: Sequence[str]) -> str:
    cut = values[-MOST_SHOWN:]
    return f"[{'... ' if len(cut) < len(values) else ''}{', '.join(cut)}]"


class _Graph:
    """Which transaction depends on which, by number; each edge with its kind.

    Attributes:
        operations: the transactions.
        after: for each one those that come after it, and why.
    """

    def __init__(
        self,
        operations: Sequence[Operation],
        writers: dict[Append, Operation],
        orders: dict[str, list[str]],
    ) -> None:
        self.operations = operations
        self._numbers = {id(each): number for number, each in enumerate(operations)}
        self.after: list[dict[int, str]] = [{} for _ in operations]
        self._add_appends(writers, orders)
        self._add_reads(writers, orders)
        self._add_time()

    def _add(self, before: Operation, after: Operation, kind: str) -> None:
        one, other = self._numbers[id(before)], self._numbers[id(after)]
        if one != other:
            self.after[one].setdefault(other, kind)

    def _add_appends(self, writers: dict[Append, Operation], orders: dict[str, list[str]]) -> None:
        for key, order in orders.items():
            for one, other in pairwise(order):
                self._add(writers[Append(key, one)], writers[Append(key, other)], WW)

    def _add_reads(self, writers: dict[Append, Operation], orders: dict[str, list[str]]) -> None:
        unread: dict[str, list[Operation]] = {}
        for append, writer in writers.items():
            if append.value not in orders.get(append.key, ()) and writer.outcome == "ok":
                unread.setdefault(append.key, []).append(writer)
        for operation in self.operations:
            for key, state in _reads(operation):
                if state:
                    self._add(writers[Append(key, state[-1])], operation, WR)
                later = orders[key][len(state) : len(state) + 1]
                for value in later:
                    self._add(operation, writers[Append(key, value)], RW)
                if not later:
                    for writer in unread.get(key, ()):
                        self._add(operation, writer, RW)

    def _add_time(self) -> None:
        """Add that a transaction was called after another one had ended, without what follows."""
        ends = [(each.last, 1, number) for number, each in enumerate(self.operations)]
        calls = [(float(each.call), 0, number) for number, each in enumerate(self.operations)]
        frontier: dict[int, float] = {}
        for _, is_end, number in sorted(ends + calls):
            operation = self.operations[number]
            if not is_end:
                for one in frontier:
                    self.after[one].setdefault(number, TIME)
            elif operation.last < float("inf"):
                for one, ended in list(frontier.items()):
                    if ended < operation.call:
                        del frontier[one]
                frontier[number] = operation.last

    def shortest_cycle(self, start: int, inside: set[int]) -> list[int]:
        """Return the shortest way from a transaction back to itself."""
        came: dict[int, int] = {}
        queue = deque([start])
        while queue:
            one = queue.popleft()
            for other in self.after[one]:
                if other == start:
                    way = [one]
                    while way[-1] != start:
                        way.append(came[way[-1]])
                    return way[::-1]
                if other in inside and other not in came:
                    came[other] = one
                    queue.append(other)
        return []


def _cycles(graph: _Graph) -> list[Anomaly]:
    """Return the shortest cycle of each set of transactions that depend on each other."""
    found = []
    for component in _components(graph.after):
        if len(component) > 1:
            ways = (graph.shortest_cycle(start, component) for start in component)
            found.append(_anomaly(graph, min(filter(None, ways), key=len)))
    return found


def _anomaly(graph: _Graph, cycle: Sequence[int]) -> Anomaly:
    around = [*cycle, cycle[0]]
    kinds = [graph.after[one][other] for one, other in pairwise(around)]
    missed = kinds.count(RW)
    kind = "G2" if missed > 1 else "G-single" if missed else "G1c" if WR in kinds else "G0"
    if TIME in kinds:
        kind += "-realtime"
    steps = [
        f"{graph.operations[one].process}: {graph.operations[one].act} -{why}->"
        for one, why in zip(cycle, kinds, strict=True)
    ]
    return Anomaly(kind, " ".join(steps[:MOST_SHOWN]))


def _components(after: Sequence[dict[int, str]]) -> Iterator[set[int]]:
    """Yield the strongly connected components (Tarjan 1972), without recursion."""
    index: dict[int, int] = {}
    low: dict[int, int] = {}
    stack: list[int] = []
    on_stack: set[int] = set()
    for root in range(len(after)):
        if root in index:
            continue
        work: list[tuple[int, Iterator[int]]] = [(root, iter(after[root]))]
        index[root] = low[root] = len(index)
        stack.append(root)
        on_stack.add(root)
        while work:
            node, others = work[-1]
            for other in others:
                if other not in index:
                    index[other] = low[other] = len(index)
                    stack.append(other)
                    on_stack.add(other)
                    work.append((other, iter(after[other])))
                    break
                if other in on_stack:
                    low[node] = min(low[node], index[other])
            else:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[node])
                if low[node] == index[node]:
                    at = stack.index(node)
                    component = set(stack[at:])
                    del stack[at:]
                    on_stack -= component
                    yield component
