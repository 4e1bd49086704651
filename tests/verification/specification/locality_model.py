"""The model of locality: one view whose programs say what a script has, in each possible order.

Each state is checked as if any of its daemons left the view at that moment, each set of them with
each other: so the end of a view needs no actions of its own.
"""

from collections.abc import Iterator
from functools import cached_property
from itertools import combinations

import attrs

from tests.verification.specification.form import Label, Model
from tests.verification.specification.locality import (
    AGREED,
    Content,
    Kind,
    Locality,
    LocalityState,
    changed,
    receivers,
)
from tests.verification.specification.order import PacketId


@attrs.frozen(kw_only=True)
class Step:
    """Something to be said once.

    Attributes:
        daemon: who numbers it.
        content: what it says.
        after: the place in the script of what has to be said before; None for nothing.
    """

    daemon: str
    content: Content
    after: int | None = None


@attrs.frozen(kw_only=True, slots=False)
class LocalityModel(Model[LocalityState]):
    """A view in which programs send, join and leave.

    Attributes:
        specification: the actions.
        script: what is said.
        latest: the highest stamp and promise.
        promises: the rings that promise to send nothing more up to `latest`, once.
    """

    specification: Locality
    script: tuple[Step, ...]
    latest: int
    promises: frozenset[int]

    @cached_property
    def _daemons(self) -> list[str]:
        return [daemon for ring in self.specification.rings for daemon in ring]

    @cached_property
    def _names(self) -> list[str]:
        return sorted({name for step in self.script for name in step.content.names})

    @cached_property
    def _given_back(self) -> frozenset[str]:
        ends = (step.content for step in self.script if step.content.kind is Kind.UNSUBSCRIBE)
        return frozenset(content.names[0] for content in ends)

    def beginnings(self) -> Iterator[LocalityState]:
        """See Model."""
        cluster = self.specification.cluster
        rights = {(cluster.daemon_of(session), group) for session, group in cluster.members}
        yield LocalityState(rights=rights, left=set(range(len(self.script))))

    def labels(self, state: LocalityState) -> Iterator[Label]:
        """See Model."""
        yield from self._numbered(state)
        for ring in self.promises:
            if not any(r == ring for r, _, _ in state.promises):
                yield "promise", ring, self.latest
        yield from self._granted(state)
        for daemon in self._daemons:
            yield from self._received(state, daemon)

    def _numbered(self, state: LocalityState) -> Iterator[Label]:
        """Yield packets with each possible stamp."""
        said: list[tuple[str, Content, int | None]] = [
            (self.script[n].daemon, self.script[n].content, n)
            for n in sorted(state.left)
            if self._follows(state, self.script[n])
        ]
        for ring, daemons in enumerate(self.specification.rings):
            for name in self._names:
                if self.specification.owes_mark(state, ring, name):
                    said.append((daemons[0], Content(Kind.WIDE, (name,)), None))
                elif self.specification.is_wide(state, ring, name) and name in self._given_back:
                    said.append((daemons[0], Content(Kind.NARROW, (name,)), None))
        for daemon, content, step in said:
            for time in range(1, self.latest + 1):
                yield "stamp", daemon, time, content, step

    def _follows(self, state: LocalityState, step: Step) -> bool:
        """Return whether a step may come: a right is given back once its daemon has delivered what
        is said before, as pruning demands it."""
        if step.after in state.left:
            return False
        if step.after is None or step.content.kind is not Kind.UNSUBSCRIBE:
            return True
        done = state.delivered.get(step.daemon, ())
        before = self.script[step.after].content
        return any(state.packets[each].content == before for each in done)

    def _granted(self, state: LocalityState) -> Iterator[Label]:
        for n, step in enumerate(self.script):
            name = step.content.names[0]
            pair = (step.daemon, name)
            over = any(
                other.daemon == step.daemon and other.content == Content(Kind.UNSUBSCRIBE, (name,))
                for m, other in enumerate(self.script)
                if m not in state.left
            )
            is_asked = step.content.kind is Kind.SUBSCRIBE and n not in state.left
            if is_asked and not over and pair not in state.rights:
                yield "grant", step.daemon, name

    def _received(self, state: LocalityState, daemon: str) -> Iterator[Label]:
        own = self.specification.cluster.ring_of(daemon)
        done = state.delivered.get(daemon, ())
        for ring in range(len(self.specification.rings)):
            if (ring, state.prefix.get((daemon, ring), 0) + 1) in state.packets:
                yield "hold", daemon, ring
        for ring, value, upto in state.promises:
            if state.counted.get((daemon, ring), 0) < value:
                yield "count", daemon, ring, value, upto
        for packet, known in state.packets.items():
            if packet not in done and known.content.kind in AGREED:
                yield "deliver", daemon, packet
                if packet[0] == own and known.content.kind is Kind.MESSAGE:
                    yield "deliver_local", daemon, packet[1]
        if any(packet.content.safe for packet in state.packets.values()):
            yield "gather", daemon

    # ---- invariants ----

    def broken(self, state: LocalityState) -> str | None:
        """See Model."""
        owed = self._owed(state)
        return (
            self._broken_sequences(state, owed)
            or self._broken_telephone(state, owed)
            or self._broken_safe(state)
            or self._broken_ends(state, owed)
        )

    def _owed(self, state: LocalityState) -> dict[PacketId, frozenset[str]]:
        """Return for each message who is to get it, by the places of all packets."""
        members = self.specification.cluster.members
        owed: dict[PacketId, frozenset[str]] = {}
        for each in sorted(state.packets, key=lambda p: self.specification.place(state, p)):
            content = state.packets[each].content
            members = changed(members, content)
            if content.kind is Kind.MESSAGE:
                owed[each] = receivers(members, content.names)
        return owed

    def _broken_sequences(
        self, state: LocalityState, owed: dict[PacketId, frozenset[str]]
    ) -> str | None:
        spec = self.specification
        for daemon in state.delivered:
            got = spec.got(state, daemon)
            here = {s for s, home in spec.cluster.homes if home == daemon}
            if any(owed[each] & here != sessions for each, sessions in got):
                return "a message goes to those who are members at its place"
            for session in here:
                mine = [spec.place(state, each) for each, sessions in got if session in sessions]
                if mine != sorted(mine):
                    return "each session gets its messages in the order of places"
                lacks = {each for each, who in owed.items() if session in who}
                lacks -= {each for each, _ in got}
                if mine and any(spec.place(state, each) < mine[-1] for each in lacks):
                    return "no session gets a message before one of a lower place"
        return None

    def _broken_telephone(
        self, state: LocalityState, owed: dict[PacketId, frozenset[str]]
    ) -> str | None:
        for each, packet in state.packets.items():
            place = self.specification.place(state, each)
            for cause in packet.before:
                common = owed[cause] & owed[each]
                if common and self.specification.place(state, cause) > place:
                    return "what a telephone may have caused comes after its cause"
        return None

    def _broken_safe(self, state: LocalityState) -> str | None:
        spec = self.specification
        for done in state.delivered.values():
            for ring, number in done:
                content = state.packets[ring, number].content
                names = receivers(spec.cluster.members, content.names)
                for home in {spec.cluster.daemon_of(s) for s in names}:
                    if content.safe and state.prefix.get((home, ring), 0) < number:
                        return "a SAFE message is delivered once all its receivers' daemons hold it"
        return None

    def _broken_ends(
        self, state: LocalityState, owed: dict[PacketId, frozenset[str]]
    ) -> str | None:
        """Check the rest of the view, whichever daemons leave it now."""
        regular: dict[str, list[frozenset[PacketId]]] = {}
        for size in range(1, len(self._daemons) + 1):
            for together in combinations(self._daemons, size):
                for daemon in together:
                    part = self._regular(state, together, daemon)
                    if not part.issuperset(state.delivered.get(daemon, ())):
                        return "what was delivered is in the regular part, whoever goes on together"
                    regular.setdefault(daemon, []).append(part)
        for session, home in self.specification.cluster.homes:
            for part in regular[home]:
                mine = [each for each in part if session in owed.get(each, ())]
                last = max((self.specification.place(state, e) for e in mine), default=(-1, -1))
                for other in (each for parts in regular.values() for p in parts for each in p):
                    is_owed = session in owed.get(other, ()) and other not in part
                    if is_owed and self.specification.place(state, other) < last:
                        return "a regular part has no hole that another one has not"
        return None

    def _regular(
        self, state: LocalityState, together: tuple[str, ...], daemon: str
    ) -> frozenset[PacketId]:
        """Return what is in the regular part of a daemon, by what those with it know."""
        spec = self.specification
        rings = range(len(spec.rings))
        prefix = [max(state.prefix.get((d, ring), 0) for d in together) for ring in rings]
        least = min(self._united_block(state, together, ring, prefix[ring]) for ring in rings)
        stable = [
            max((state.stable.get(d, 0) for d in together if d in spec.rings[ring]), default=0)
            for ring in rings
        ]
        frontier = max(state.frontier.get(d, 0) for d in together)
        found: set[PacketId] = set()
        for each in sorted(state.packets, key=lambda p: spec.place(state, p)):
            ring, number = each
            packet = state.packets[each]
            if number > prefix[ring] or packet.content.kind not in AGREED:
                continue
            local = spec.entries(state, ring)[number - 1].local
            safe = packet.time <= frontier or (local and number <= stable[ring])
            if packet.time > least or (packet.content.safe and not safe):
                break
            found.add(each)
        own = spec.cluster.ring_of(daemon)
        for number, entry in enumerate(spec.entries(state, own)[: prefix[own]], 1):
            waits = all((own, n) in found for n in entry.waits)
            unsafe = state.packets[own, number].content.safe and number > stable[own]
            if entry.local and waits and not unsafe:
                found.add((own, number))
        return frozenset(found)

    def _united_block(
        self, state: LocalityState, together: tuple[str, ...], ring: int, prefix: int
    ) -> int:
        """Return up to which time a ring can send nothing that those together do not hold."""
        last = state.packets.get((ring, prefix))
        values = [
            value
            for r, value, upto in state.promises
            if r == ring
            and upto <= prefix
            and any(state.counted.get((d, ring), 0) >= value for d in together)
        ]
        return max([last.time if last else 0, *values])
