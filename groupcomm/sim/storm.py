"""Client storms: programs that crash, stop reading, and do everything at once."""

from functools import partial
from random import Random

from groupcomm.level import LEVELS
from groupcomm.sim.clients import Client
from groupcomm.sim.loop import SECOND, Loop
from groupcomm.sim.workload import GROUPS, Workload

LARGEST_BYTES = 100_000
MOST_FOR_STARVING = 5
"""Large messages for a program that does not read: more than may wait for it."""

STARVING_INTERVAL_US = SECOND // 20
MANY_GROUPS = tuple(f"storm{number}" for number in range(12))


class Storm:
    """Does one rough thing to a workload's clients for every two messages."""

    def __init__(self, loop: Loop, rng: Random, workload: Workload) -> None:
        self._loop = loop
        self._rng = rng
        self._workload = workload
        self._running = True
        self._paused: list[Client] = []
        self._acts = (
            Client.crash,
            Client.disconnect,
            self._join_many,
            self._leave_all,
            self._stop_reading,
            self._starve,
            self._send_large,
            self._send_many,
        )
        loop.at(loop.now + workload.interval_us, self._next)

    def stop(self) -> None:
        """Let all who stopped reading read on, and do nothing more."""
        self._running = False
        for client in self._paused:
            self._read_on(client)
        self._paused.clear()

    def _next(self, _: None) -> None:
        if not self._running:
            return
        interval_us = self._workload.after(2 * self._workload.interval_us)
        self._loop.at(self._loop.now + interval_us, self._next)
        clients = self._workload.connected()
        if clients:
            self._rng.choice(self._acts)(self._rng.choice(clients))

    def _join_many(self, client: Client) -> None:
        for group in MANY_GROUPS:
            if group not in client.asked:
                client.join(group)

    def _leave_all(self, client: Client) -> None:
        for group in sorted(client.asked):
            client.leave(group)
        client.join(self._rng.choice(GROUPS))

    def _stop_reading(self, client: Client) -> None:
        client.set_reading(False)
        self._paused.append(client)
        pause = self._workload.after(SECOND)
        self._loop.at(self._loop.now + pause, partial(self._end_pause, client))

    def _starve(self, client: Client) -> None:
        """Have a program not read while it is sent so much that its daemon may cut it off."""
        client.set_reading(False)
        self._paused.append(client)
        self._send_to_starving((client, self._rng.randint(1, MOST_FOR_STARVING)))

    def _send_to_starving(self, series: tuple[Client, int]) -> None:
        """Send one of a series of large messages; after the last the program reads on, or goes."""
        client, left = series
        later = self._loop.now + self._workload.after(STARVING_INTERVAL_US)
        others = [c for c in self._workload.connected() if c is not client and c.writable]
        if left and others and self._running and client.alive:
            sender, level = self._rng.choice(others), self._rng.choice(LEVELS)
            size = self._rng.randint(LARGEST_BYTES // 2, LARGEST_BYTES)
            self._workload.send(sender, level, size, (client.name,))
            self._loop.at(later, self._send_to_starving, (client, left - 1))
            return
        if client.connected and self._rng.random() < 0.5:
            client.disconnect()
        self._loop.at(later, partial(self._end_pause, client))

    def _end_pause(self, client: Client, _: None) -> None:
        if client in self._paused:
            self._paused.remove(client)
            self._read_on(client)

    def _read_on(self, client: Client) -> None:
        if client.alive:
            client.set_reading(True)

    def _send_large(self, client: Client) -> None:
        if client.writable:
            level = self._rng.choice(LEVELS)
            self._workload.send(client, level, self._rng.randint(10_000, LARGEST_BYTES))

    def _send_many(self, client: Client) -> None:
        level = self._rng.choice(LEVELS)
        for _ in range(40):
            if client.writable:
                self._workload.send(client, level, self._rng.randint(0, 300))
