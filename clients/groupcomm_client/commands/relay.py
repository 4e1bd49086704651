"""`groupcomm relay`: let the datagrams between the daemons of this host suffer."""

import argparse
import sys
from pathlib import Path
from typing import Any, Final

import trio

from groupcomm.errors import ConfigError
from groupcomm.sim.faults import Faults
from groupcomm_client.commands.progress import say
from groupcomm_client.relay import Line, Relay
from groupcommd.config_file import read_addresses

NAME: Final = "relay"
HELP: Final = "stand between daemons of this host and lose, delay, double or cut their datagrams"
EXAMPLE: Final = "groupcomm relay --config plant.toml --via via.json --loss 0.05"

ORDERS: Final = """\
orders on standard input, one a line:
  cut A B          nothing passes between A and B; cut A>B: only from A to B
  split A | B C    nothing passes between the parts
  hold A>B 0.5     hold what goes there for so many seconds, then let it go
  loss 0.1         also: duplication, corruption (chances), reorder (datagrams); 0 ends it
  mend             everything passes again"""

_CHANCES: Final = ("loss", "duplication", "corruption")


def add_options(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = f"{parser.epilog}\n\n{ORDERS}"
    parser.add_argument("--config", type=Path, required=True, metavar="FILE", help="of the daemons")
    parser.add_argument(
        "--via",
        type=Path,
        required=True,
        metavar="FILE",
        help="is written; start each daemon with --via FILE, too",
    )
    for name in _CHANCES:
        parser.add_argument(f"--{name}", type=float, default=0.0, metavar="P", help="0 to 1 (0)")
    parser.add_argument("--reorder", type=int, default=0, metavar="N", help="datagrams (0)")
    parser.add_argument("--delay-ms", type=float, default=0.0, metavar="MS", help="one way (0)")
    parser.add_argument("--jitter-ms", type=float, default=0.0, metavar="MS", help="more (0)")
    parser.add_argument("--bandwidth-mbit", type=float, metavar="M", help="of each path (any)")
    parser.add_argument("--seed", type=int, default=1, metavar="N", help="of all chances (1)")


def run(options: argparse.Namespace) -> int:
    """Relay until ^C, or until standard input says ``quit``."""
    trio.run(_run, options)
    return 0


async def _run(options: argparse.Namespace) -> None:
    megabit = options.bandwidth_mbit
    line = Line(
        delay_s=_at_least_0("--delay-ms", options.delay_ms) / 1000,
        jitter_s=_at_least_0("--jitter-ms", options.jitter_ms) / 1000,
        bytes_per_s=None if megabit is None else _at_least_0("--bandwidth-mbit", megabit) * 125_000,
    )
    relay = Relay(read_addresses(options.config), seed=options.seed, line=line)
    orders = Orders(relay)
    for name in (*_CHANCES, "reorder"):
        if getattr(options, name):
            orders.obey(f"{name} {getattr(options, name)}")
    relay.write(options.via)
    say(f"relaying {len(relay.ports)} paths; start the daemons with --via {options.via}")
    async with trio.open_nursery() as nursery:
        nursery.start_soon(relay.run)
        while line_ := await trio.to_thread.run_sync(sys.stdin.readline, abandon_on_cancel=True):
            if line_.strip() == "quit":
                nursery.cancel_scope.cancel()
                return
            try:
                orders.obey(line_)
            except ConfigError as error:
                say(str(error))


def _at_least_0(name: str, value: float) -> float:
    if value < 0:
        raise ConfigError(f"{name} is {value}; it must be at least 0")
    return value


class Orders:
    """Obeys lines of text."""

    def __init__(self, relay: Relay) -> None:
        self._relay = relay
        self._faults: dict[str, Any] = {}

    def obey(self, text: str) -> None:
        """Do what a line says.

        Raises:
            ConfigError: it says nothing that can be done; nothing has changed.
        """
        match text.split():
            case []:
                return
            case ["mend"]:
                self._relay.mend()
            case ["cut", *pairs]:
                self._relay.cut(self._pairs(pairs))
            case ["split", *names] if "|" in names:
                at = names.index("|")
                self._relay.cut(list(self._relay.between(names[:at], names[at + 1 :])))
            case ["hold", *pairs, seconds]:
                self._relay.hold(self._pairs(pairs), _number("hold", seconds, 3600))
            case [name, strength] if name in _CHANCES:
                self._suffer(name, _number(name, strength, 1))
            case ["reorder", count]:
                self._suffer("reorder_packets", int(_number("reorder", count, 1000)))
            case _:
                raise ConfigError(f"no order is {text.strip()!r}\n{ORDERS}")

    def _suffer(self, name: str, strength: float) -> None:
        self._faults[name] = strength
        self._relay.suffer(Faults(**self._faults) if any(self._faults.values()) else None)

    def _pairs(self, words: list[str]) -> list[tuple[str, str]]:
        if len(words) == 2 and not any(">" in word for word in words):
            return list(self._relay.between(words[:1], words[1:]))
        found = []
        for word in words:
            source, arrow, target = word.partition(">")
            if not arrow:
                raise ConfigError(f"{word!r} is no path; write A>B, or two daemons: A B")
            list(self._relay.between([source], [target]))  # both must be there
            found.append((source, target))
        return found


def _number(what: str, text: str, most: float) -> float:
    try:
        value = float(text)
    except ValueError:
        raise ConfigError(f"{what} is {text!r}; it must be a number") from None
    if not 0 <= value <= most:
        raise ConfigError(f"{what} is {text}; it must be 0 to {most:g}")
    return value
