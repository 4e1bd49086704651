"""Losses in runs: a chain of two states, fitted to short stretches of received and lost messages.

Pure. In each state a message is lost with a probability of the state; before each message the chain
changes its state with a probability of the state.

Sources: Gilbert, "Capacity of a Burst-Noise Channel", 1960; Elliott, "Estimates of Error Rates for
Codes on Burst-Noise Channels", 1963. Fitted by expectation and maximization as in Baum, Petrie,
Soules and Weiss, 1970; unlike there, to the counts of all stretches of WIDTH messages, so that the
memory does not grow with the number of messages.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from random import Random
from typing import Final

WIDTH: Final = 8
"""Messages in a stretch."""

Windows = Mapping[int, int]
"""The number of times of each stretch: bit 0 is its first message, and is set if that was lost."""

_LIKELY_GAIN: Final = 7.8
"""Twice the gain in log likelihood of three more parameters that chance exceeds in 5 % of cases."""

_STEPS: Final = 300
_ENOUGH: Final = 1e-7
_STARTS: Final = ((0.9, 0.1), (0.5, 0.5))
"""Loss in the bad state, and in the good one as a share of all, from which the fit begins."""


@dataclass(frozen=True)
class GilbertElliott:
    """The chain.

    Attributes:
        good_to_bad, bad_to_good: probability to change the state before a message.
        loss_good, loss_bad: probability that a message is lost in the state. Equal if losses do not
            depend on each other.
    """

    good_to_bad: float
    bad_to_good: float
    loss_good: float
    loss_bad: float

    @property
    def bad(self) -> float:
        """Return the share of messages in the bad state."""
        both = self.good_to_bad + self.bad_to_good
        return self.good_to_bad / both if both else 0.0

    @property
    def loss(self) -> float:
        """Return the share of messages that are lost."""
        return self.bad * self.loss_bad + (1 - self.bad) * self.loss_good

    @property
    def mean_run(self) -> float:
        """Return the mean number of messages that are lost in a row; 0 if none are."""
        twice = (1 - self.bad) * self.loss_good * self._next_lost(self.good_to_bad)
        twice += self.bad * self.loss_bad * self._next_lost(1 - self.bad_to_good)
        if self.loss <= twice:
            return math.inf if self.loss else 0.0
        return self.loss / (self.loss - twice)

    def _next_lost(self, bad: float) -> float:
        return bad * self.loss_bad + (1 - bad) * self.loss_good

    def start(self, rng: Random) -> bool:
        """Return whether a chain that has run for long is in the bad state."""
        return rng.random() < self.bad

    def step(self, bad: bool, rng: Random) -> bool:
        """Return whether the bad state follows this one."""
        change = self.bad_to_good if bad else self.good_to_bad
        return bad != (rng.random() < change)

    def loses(self, bad: bool, rng: Random) -> bool:
        """Return whether a message is lost in a state."""
        return rng.random() < (self.loss_bad if bad else self.loss_good)


def independent(loss: float) -> GilbertElliott:
    """Return the chain of losses that do not depend on each other."""
    return GilbertElliott(0.0, 1.0, loss, loss)


def count_windows(lost: list[bool]) -> dict[int, int]:
    """Return the counts of all stretches of a sequence of messages."""
    counts: dict[int, int] = {}
    for end in range(WIDTH, len(lost) + 1):
        mask = sum(flag << place for place, flag in enumerate(lost[end - WIDTH : end]))
        counts[mask] = counts.get(mask, 0) + 1
    return counts


def fit_losses(windows: Windows) -> GilbertElliott:
    """Return the most likely chain, or independent losses if a chain is not more likely.

    Args:
        windows: may be empty: nothing is lost then.
    """
    total = sum(windows.values())
    lost = sum(mask.bit_count() * count for mask, count in windows.items())
    if not lost:
        return independent(0.0)
    loss = lost / (total * WIDTH)
    if loss == 1:
        return independent(1.0)
    alone = lost * math.log(loss) + (total * WIDTH - lost) * math.log(1 - loss)
    chains = [
        _improve(GilbertElliott(loss / 4, 0.25, share * loss, bad), windows)
        for bad, share in _STARTS
    ]
    likely, chain = max(chains, key=lambda pair: pair[0])
    # Each message stands in WIDTH stretches, so each counts WIDTH times.
    if 2 * (likely - alone) / WIDTH < _LIKELY_GAIN:
        return independent(loss)
    if chain.loss_bad < chain.loss_good:
        return GilbertElliott(chain.bad_to_good, chain.good_to_bad, chain.loss_bad, chain.loss_good)
    return chain


def _improve(chain: GilbertElliott, windows: Windows) -> tuple[float, GilbertElliott]:
    """Return the log likelihood of a chain that cannot be improved by steps, and the chain."""
    before = -math.inf
    start = chain.bad
    for _ in range(_STEPS):
        likely, chain, start = _step(chain, start, windows)
        if likely - before < _ENOUGH * abs(likely):
            break
        before = likely
    return likely, chain


def _step(
    chain: GilbertElliott, start: float, windows: Windows
) -> tuple[float, GilbertElliott, float]:
    """Return the log likelihood of a chain, a more likely chain, and its share of bad starts."""
    stay = ((1 - chain.good_to_bad, chain.good_to_bad), (chain.bad_to_good, 1 - chain.bad_to_good))
    losses = (chain.loss_good, chain.loss_bad)
    likely = starts = 0.0
    moves = [[0.0, 0.0], [0.0, 0.0]]
    places, lost_places = [0.0, 0.0], [0.0, 0.0]
    for mask, count in windows.items():
        flags = [mask >> place & 1 for place in range(WIDTH)]
        chances = [[losses[s] if flag else 1 - losses[s] for s in (0, 1)] for flag in flags]
        forward, norms = _forward(start, stay, chances)
        likely += count * sum(map(math.log, norms))
        after = [1.0, 1.0]
        for place in range(WIDTH - 1, -1, -1):
            at = forward[place]
            for state in (0, 1):
                weight = count * at[state] * after[state]
                places[state] += weight
                lost_places[state] += weight * flags[place]
            if not place:
                starts += count * at[1] * after[1]
                break
            seen = [chances[place][s] * after[s] / norms[place] for s in (0, 1)]
            for old in (0, 1):
                for new in (0, 1):
                    moves[old][new] += count * forward[place - 1][old] * stay[old][new] * seen[new]
            after = [stay[old][0] * seen[0] + stay[old][1] * seen[1] for old in (0, 1)]
    better = GilbertElliott(
        moves[0][1] / max(sum(moves[0]), 1e-300),
        moves[1][0] / max(sum(moves[1]), 1e-300),
        min(1.0, lost_places[0] / max(places[0], 1e-300)),
        min(1.0, lost_places[1] / max(places[1], 1e-300)),
    )
    return likely, better, starts / sum(windows.values())


def _forward(
    start: float, stay: tuple[tuple[float, float], ...], chances: list[list[float]]
) -> tuple[list[list[float]], list[float]]:
    """Return the probabilities of the states behind each message, and of each message's fate.

    Args:
        start: probability that the first is in the bad state.
        stay: the probability of each next state, by state.
        chances: the probability of each message's fate, by state.
    """
    states = [1 - start, start]
    forward, norms = [], []
    for place, chance in enumerate(chances):
        if place:
            states = [states[0] * stay[0][s] + states[1] * stay[1][s] for s in (0, 1)]
        states = [states[0] * chance[0], states[1] * chance[1]]
        norm = max(sum(states), 1e-300)
        states = [states[0] / norm, states[1] / norm]
        forward.append(states)
        norms.append(norm)
    return forward, norms
