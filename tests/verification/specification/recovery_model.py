"""The model of recovery: the end of a view whose packets its daemons have shared in part."""

from collections.abc import Iterator
from itertools import combinations, product

import attrs

from tests.verification.specification.form import Label, Model
from tests.verification.specification.order import NOWHERE, Held, Kind, Packet, PacketId
from tests.verification.specification.recovery import Past, Recovery, RecoveryState, Seats, Stage


@attrs.frozen(kw_only=True)
class RecoveryModel(Model[RecoveryState]):
    """Daemons that leave a view, in each of the ways in which they may have shared its packets.

    Attributes:
        specification: the actions.
        authors: the daemon of each packet of the view's only ring, in the order of their stamps.
        safe: the numbers of the SAFE packets; all others are AGREED.
        attempts: the number of attempts of each daemon.
    """

    specification: Recovery
    authors: tuple[str, ...]
    safe: frozenset[int]
    attempts: dict[str, int]

    def beginnings(self) -> Iterator[RecoveryState]:
        """Yield a state for all that the daemons may hold, know and have delivered."""
        daemons = sorted(self.specification.members)
        numbers = range(1, len(self.authors) + 1)
        subsets = [frozenset(c) for n in range(len(numbers) + 1) for c in combinations(numbers, n)]
        for held in product(subsets, repeat=len(daemons)):
            by_name = dict(zip(daemons, held, strict=True))
            if any(number not in by_name[self.authors[number - 1]] for number in numbers):
                continue
            state = RecoveryState()
            for number in numbers:
                author = self.authors[number - 1]
                after = max((n for n in by_name[author] if n < number), default=0)
                state.packets[0, number] = Packet(number, author, after)
                state.places.append((number, 0))
                state.at[number, 0] = (0, number)
                state.kind[0, number] = Kind.SAFE if number in self.safe else Kind.AGREED
            state.last[0] = (len(numbers), len(numbers))
            for daemon, mine in by_name.items():
                holds = Held(0)
                for number in sorted(mine):
                    holds = holds.with_number(number)
                state.held[daemon, 0] = holds
                state.block[daemon, 0] = state.least[daemon] = holds.prefix
            yield from self._progressed(state, daemons)

    def _progressed(self, state: RecoveryState, daemons: list[str]) -> Iterator[RecoveryState]:
        """Yield the states with all that may have been delivered; a prefix at each daemon."""
        least = min(state.least.values())
        ways = []
        for daemon in daemons:
            most = state.least[daemon]
            late = [n for n in self.safe if n > least]
            ways.append(range(min([most, *(n - 1 for n in late)]) + 1))
        for dones in product(*ways):
            following = state.copy()
            for daemon, done in zip(daemons, dones, strict=True):
                following.delivered[daemon] = tuple((0, n) for n in range(1, done + 1))
                following.done[daemon] = (done, 0) if done else NOWHERE
            yield following

    def labels(self, state: RecoveryState) -> Iterator[Label]:
        """See Model."""
        for daemon, most in self.attempts.items():
            stage = state.stage.get(daemon)
            attempt = state.attempt.get(daemon, 0) + 1
            if attempt <= most and stage not in (Stage.TURNED, Stage.FINISHED):
                yield from (("gather", daemon, attempt, p) for p in self._pasts(state, daemon))
            if stage in (Stage.GATHER, Stage.COMMIT):
                yield from (("commit", daemon, seats) for seats in self._seats(state, daemon))
            if stage in (Stage.COMMIT, Stage.RECOVERED):
                yield "recover", daemon
            yield "turn", daemon
            yield "finish", daemon
            for packet in state.packets:
                safe = packet[1] in self.safe
                if packet[1] not in state.held[daemon, 0]:
                    yield "repair", daemon, packet, packet[1]
                    if stage is None:
                        yield "hold", daemon, packet, packet[1]
                yield "settle", daemon, packet, safe
                yield "rest", daemon, packet, safe
                if stage is None:
                    yield "deliver", daemon, packet, safe

    def _pasts(self, state: RecoveryState, daemon: str) -> Iterator[Past]:
        """Yield what a daemon may say of the view, true or not."""
        obligation = state.obligation.get(daemon, frozenset())
        least = min(state.least.values())
        safe = [number for _, number in state.delivered[daemon] if number in self.safe]
        known = max(safe, default=0)  # who has delivered a SAFE packet knows as much
        held = state.held[daemon, 0]
        for frontier in {known, least, *(n for n in self.safe if n <= held.prefix)}:
            for mine in {obligation, frozenset[str]()}:
                for holds in {held, Held(0)}:
                    if frontier >= known:
                        yield Past((holds,), (frozenset(),), (frontier,), mine)

    def _seats(self, state: RecoveryState, daemon: str) -> Iterator[Seats]:
        own = state.attempt[daemon]
        others = [other for other in self.attempts if other != daemon]
        choices = [[0, *range(1, state.attempt.get(other, 0) + 1)] for other in others]
        for chosen in product(*choices):
            seats = [(other, n) for other, n in zip(others, chosen, strict=True) if n]
            yield frozenset([(daemon, own), *seats])

    def broken(self, state: RecoveryState) -> str | None:
        """See Model."""
        finished = [d for d, stage in state.stage.items() if stage is Stage.FINISHED]
        for daemon in finished:
            mine = state.delivered[daemon]
            places = [number for _, number in mine]
            if places != sorted(set(places)):
                return "all deliver in the order of places, nothing twice"
            for packet in mine:
                causes = self._causes(state, packet)
                if not causes <= set(mine):
                    return "a message comes after all that its daemon had received or sent"
            if any(a == daemon and n not in places for n, a in enumerate(self.authors, 1)):
                return "a daemon delivers its own messages"
            for other in finished:
                if (
                    state.seats.get(daemon) == state.seats.get(other)
                    and mine != state.delivered[other]
                ):
                    return "daemons that go on together deliver the same"
        return self._broken_promise(state, finished)

    def _causes(self, state: RecoveryState, packet: PacketId) -> set[PacketId]:
        time, author, after = state.packets[packet]
        return {
            other
            for other, (then, writer, _) in state.packets.items()
            if then <= after or (writer == author and then < time)
        }

    def _broken_promise(self, state: RecoveryState, finished: list[str]) -> str | None:
        for daemon, delivered in state.delivered.items():
            together: set[str] = set()
            regular = delivered
            if state.stage.get(daemon) in (Stage.TURNED, Stage.FINISHED):
                seats = state.seats.get(daemon, frozenset())
                together = {member for member, _ in seats}
                regular = state.turned.get(seats, delivered)
            for packet in delivered:
                number = packet[1]
                whole = [n for _, n in delivered if n <= number] == list(range(1, number + 1))
                if packet in regular and not whole:
                    return "the regular part has no holes"
                for other in finished:
                    if packet in state.delivered[other]:
                        continue
                    if number in self.safe and packet in regular:
                        return "a SAFE message of the regular part is delivered by all that go on"
                    if number in self.safe and other in together:
                        return "a SAFE message of the transitional part is delivered by its members"
                    is_together = self.authors[number - 1] in together
                    if is_together and other in together:
                        return "messages of transitional members are delivered by all of them"
        return None
