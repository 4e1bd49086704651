"""The model of a channel, and samples of it: the arrivals of messages, their losses and order.

Pure. A link is one sender and one receiver. Its losses come from a chain of two states (`losses`),
its delays from a distribution (`distributions`) at normal scores that move as an Ornstein-Uhlenbeck
process: scores of messages that are sent shortly after each other are alike.
"""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from random import Random
from typing import Any, Final

from groupcomm_log.channel.distributions import (
    Distribution,
    Fit,
    as_dict,
    from_dict,
)
from groupcomm_log.channel.losses import GilbertElliott
from groupcomm_log.errors import LogError

FORMAT: Final = "groupcomm-channel"
VERSION: Final = 1

SAME, OTHER = "same", "other"
"""Sender and receiver at the same daemon, or at different ones."""


@dataclass(frozen=True, kw_only=True)
class Channel:
    """The delays and losses of one level, between programs at the same or different daemons.

    Attributes:
        level: the level, from UNRELIABLE to SAFE.
        place: SAME or OTHER.
        messages: the number of deliveries from which the delays were fitted.
        delays: the delays of the messages that arrive; None if the log has no times of sending.
        fits: the quality of each family's fit.
        memory_s: the time after which the correlation of the scores of delays has fallen to 1/e; 0
            if delays do not depend on each other.
        interval_s: median time from one message of a sender to the next.
        overtaken: the share of messages that a later message of their sender overtook.
        passing: the probability that a message with such a short delay overtakes the earlier ones;
            otherwise it arrives with them. 0 where the order is kept.
        losses: the model of the losses.
    """

    level: str
    place: str
    messages: int
    delays: Distribution | None
    fits: tuple[Fit, ...] = ()
    memory_s: float
    interval_s: float
    overtaken: float
    passing: float
    losses: GilbertElliott


@dataclass(frozen=True, kw_only=True)
class Sharing:
    """The common fate of messages of two groups that travel in one packet.

    Attributes:
        level, place: the level and place, as in a channel.
        groups: the names of the groups, in order.
        pairs: the number of pairs of messages behind it.
        delays: the correlation of the scores of their delays.
        losses: correlation of their losses.
    """

    level: str
    place: str
    groups: tuple[str, str]
    pairs: int
    delays: float
    losses: float


@dataclass(frozen=True, kw_only=True)
class Clock:
    """The offset of one host's clock to another's, as far as delays show it.

    Attributes:
        hosts: names of their daemons.
        ahead_s: the clock of the second, less that of the first: half of the difference of the
            least delays in both directions, which are taken as equal.
        corrected: whether the delays of the model are free of the offset.
    """

    hosts: tuple[str, str]
    ahead_s: float
    corrected: bool


class Link:
    """One sender and one receiver, in time.

    Args:
        channel: the channel of the messages; with delays.
        rng: the source of all random choices.

    Raises:
        LogError: the channel has no delays.
    """

    def __init__(self, channel: Channel, rng: Random) -> None:
        if channel.delays is None:
            raise LogError(
                f"the model has no delays of {channel.level}: messages did not say when they were"
                " sent (--sent-at of groupcomm spark channel)"
            )
        self._channel, self._delays, self._rng = channel, channel.delays, rng
        self._bad = channel.losses.start(rng)
        self._score = rng.gauss(0.0, 1.0)
        self._sent_s: float | None = None
        self._latest_s = -math.inf

    def send(self, at_s: float) -> float | None:
        """Return the arrival of a message that is sent now, in seconds; None if it is lost.

        Args:
            at_s: the present time; not before that of the last call.
        """
        score, lost = self._advance(at_s)
        return None if lost else self._arrive(at_s, score)

    def send_together(
        self, at_s: float, sharing: Sequence[Sharing], count: int
    ) -> list[float | None]:
        """Return the arrivals of messages to several groups that are sent now, in one packet.

        Args:
            at_s: the time of sending, not before the last one.
            sharing: the common part of each two of the groups; the mean of all pairs counts.
            count: the number of groups.
        """
        score, lost = self._advance(at_s)
        common = _mean([each.delays for each in sharing])
        same_fate = self._same_fate(_mean([each.losses for each in sharing]))
        found: list[float | None] = []
        for _ in range(count):
            own = math.sqrt(common) * score + math.sqrt(1 - common) * self._rng.gauss(0.0, 1.0)
            own_lost = lost
            if self._rng.random() >= same_fate:
                own_lost = self._channel.losses.loses(self._bad, self._rng)
            found.append(None if own_lost else self._arrive(at_s, own))
        return found

    def _advance(self, at_s: float) -> tuple[float, bool]:
        """Return the score of the delay of a message, and whether it is lost."""
        channel, rng = self._channel, self._rng
        kept = 0.0
        if self._sent_s is not None:
            self._bad = channel.losses.step(self._bad, rng)
            if channel.memory_s > 0:
                kept = math.exp(-(at_s - self._sent_s) / channel.memory_s)
        self._sent_s = at_s
        self._score = kept * self._score + math.sqrt(1 - kept**2) * rng.gauss(0.0, 1.0)
        return self._score, channel.losses.loses(self._bad, rng)

    def _arrive(self, at_s: float, score: float) -> float:
        arrival_s = at_s + self._delays.at(score)
        if arrival_s < self._latest_s and self._rng.random() >= self._channel.passing:
            return self._latest_s
        self._latest_s = max(arrival_s, self._latest_s)
        return arrival_s

    def _same_fate(self, correlation: float) -> float:
        """Return the probability with which a message shares the fate of its packet.

        Two messages correlate already because the chain is in one state for both.
        """
        losses = self._channel.losses
        variance = losses.loss * (1 - losses.loss)
        if not variance:
            return 1.0
        spread = losses.bad * (1 - losses.bad) * (losses.loss_bad - losses.loss_good) ** 2
        by_state = spread / variance
        if by_state >= 1:
            return 0.0
        return math.sqrt(min(1.0, max(0.0, (correlation - by_state) / (1 - by_state))))


@dataclass(frozen=True, kw_only=True)
class ChannelModel:
    """Channels by level, and the common properties of groups.

    Attributes:
        channels: the channels, at most one for each level and place.
        sharing: the common properties of each two groups that were seen in one packet.
        clocks: offsets of clocks that the delays show.
    """

    channels: tuple[Channel, ...]
    sharing: tuple[Sharing, ...] = ()
    clocks: tuple[Clock, ...] = field(default=())

    def channel(self, level: str, place: str = OTHER) -> Channel:
        """Return the channel of messages of a level.

        Raises:
            LogError: the logs had no such messages.
        """
        for each in self.channels:
            if (each.level, each.place) == (level, place):
                return each
        known = ", ".join(f"{each.level} ({each.place})" for each in self.channels) or "nothing"
        raise LogError(f"the model knows no {level} between programs at {place} daemon: {known}")

    def link(self, level: str, rng: Random, place: str = OTHER) -> Link:
        """Return a sender and a receiver of their own.

        Raises:
            LogError: the logs had no such messages, or do not say when they were sent.
        """
        return Link(self.channel(level, place), rng)

    def sample(
        self,
        level: str,
        count: int,
        rng: Random,
        *,
        period_s: float | None = None,
        place: str = OTHER,
    ) -> list[float | None]:
        """Return the delays of messages that one sender sends periodically; None for a loss.

        Args:
            level: the level, from UNRELIABLE to SAFE.
            count: the number of messages.
            rng: the source of all chance.
            period_s: time from one message to the next; None for that of the logs.
            place: SAME or OTHER.

        Raises:
            LogError: the logs had no such messages, or do not say when they were sent.
        """
        link = self.link(level, rng, place)
        step_s = self.channel(level, place).interval_s if period_s is None else period_s
        times = [index * step_s for index in range(count)]
        arrivals = [(at_s, link.send(at_s)) for at_s in times]
        return [None if arrival is None else arrival - at_s for at_s, arrival in arrivals]

    def sample_groups(
        self,
        level: str,
        groups: Sequence[str],
        count: int,
        rng: Random,
        *,
        period_s: float | None = None,
        place: str = OTHER,
    ) -> list[tuple[float | None, ...]]:
        """Return the delays of packets with a message to each of some groups; None for a loss.

        Args:
            level: the level, from UNRELIABLE to SAFE.
            groups: the groups; each two of them were seen in one packet.
            count: the number of packets.
            rng: the source of all chance.
            period_s: time from one packet to the next; None for that of the logs.
            place: SAME or OTHER.

        Raises:
            LogError: the logs had no such messages or groups, or do not say when they were sent.
        """
        shared = [
            self._shared(level, place, one, other)
            for index, one in enumerate(groups)
            for other in groups[index + 1 :]
        ]
        link = self.link(level, rng, place)
        step_s = self.channel(level, place).interval_s if period_s is None else period_s
        found = []
        for index in range(count):
            at_s = index * step_s
            arrivals = link.send_together(at_s, shared, len(groups))
            found.append(tuple(None if each is None else each - at_s for each in arrivals))
        return found

    def _shared(self, level: str, place: str, one: str, other: str) -> Sharing:
        names = tuple(sorted((one, other)))
        for each in self.sharing:
            if (each.level, each.place, each.groups) == (level, place, names):
                return each
        raise LogError(f"the logs have no packet of {level} with messages to {one} and {other}")

    def save(self, path: Path) -> None:
        """Write the model as JSON."""
        path.write_text(json.dumps(self.as_dict(), indent=1, ensure_ascii=False) + "\n")

    def as_dict(self) -> dict[str, Any]:
        """Return the model for JSON."""
        channels = []
        for each in self.channels:
            told = {name: getattr(each, name) for name in each.__dataclass_fields__}
            told["delays"] = None if each.delays is None else as_dict(each.delays)
            told["fits"] = [asdict(fit) for fit in each.fits]
            told["losses"] = asdict(each.losses)
            channels.append(told)
        return {
            "format": FORMAT,
            "version": VERSION,
            "channels": channels,
            "sharing": [asdict(each) for each in self.sharing],
            "clocks": [asdict(each) for each in self.clocks],
        }

    @classmethod
    def load(cls, path: Path | str) -> "ChannelModel":
        """Return the model that a file holds.

        Raises:
            LogError: it holds none.
            OSError: it cannot be read.
        """
        try:
            return cls.from_dict(json.loads(Path(path).read_text()))
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise LogError(f"{path} is no model of a channel: {error!r}") from error

    @classmethod
    def from_dict(cls, told: Mapping[str, Any]) -> "ChannelModel":
        """Return the model that `as_dict` has written.

        Raises:
            LogError: it is of another format or version.
        """
        if (told["format"], told["version"]) != (FORMAT, VERSION):
            raise LogError(f"this is {told['format']} {told['version']}, not {FORMAT} {VERSION}")
        channels = []
        for each in told["channels"]:
            delays = None if each["delays"] is None else from_dict(each["delays"])
            fits = tuple(Fit(**fit) for fit in each["fits"])
            losses = GilbertElliott(**each["losses"])
            channels.append(Channel(**{**each, "delays": delays, "fits": fits, "losses": losses}))
        return cls(
            channels=tuple(channels),
            sharing=tuple(
                Sharing(**{**each, "groups": tuple(each["groups"])}) for each in told["sharing"]
            ),
            clocks=tuple(
                Clock(**{**each, "hosts": tuple(each["hosts"])}) for each in told["clocks"]
            ),
        )


def _mean(values: Sequence[float]) -> float:
    """Return the mean, at least 0; 0 of nothing."""
    return max(0.0, sum(values) / len(values)) if values else 0.0
