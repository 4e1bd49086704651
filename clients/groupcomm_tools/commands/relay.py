"""`groupcomm relay`: delay, lose and cut the datagrams between the daemons of this host."""

import argparse
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import trio

from groupcomm.errors import ConfigError
from groupcomm.host.option_types import existing_file, natural, not_negative, positive, probability
from groupcomm.sim.faults.faults import Faults
from groupcomm_tools.relay import Line, Pair, Relay
from groupcomm_tools.stopping import run_tasks
from groupcomm_tools.terminal import Reports
from groupcomm_tools.topology import Topology, make_line
from groupcommd.config.config_file import read_addresses, read_sites
from groupcommd.config.site_tables import sites_of_link

EXAMPLE: Final = "groupcomm relay --config plant.toml --via via.json --loss 0.05"

COMMANDS: Final = """\
--link NORTH-SOUTH:delay-ms=40,loss=0.01 sets the line between two sites of the configuration, in
both directions, with delay-ms, jitter-ms, mbit and loss; it may be repeated. The other options are
for all other paths.

commands on standard input, one a line; a site means all of its daemons:
  cut A B          nothing passes between A and B; cut A>B: only from A to B
  split A | B C    nothing passes between the parts
  hold A>B 0.5     hold datagrams for this number of seconds, then release them
  loss 0.1         also: duplication, corruption (probabilities), reorder (datagrams); 0 ends it
  mend             everything passes again"""

_CHANCES: Final = ("loss", "duplication", "corruption")


def add_options(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.epilog = f"{COMMANDS}\n\n{parser.epilog}"
    parser.add_argument(
        "--config",
        type=existing_file,
        required=True,
        metavar="FILE",
        help="configuration of the daemons",
    )
    parser.add_argument(
        "--via",
        type=Path,
        required=True,
        metavar="FILE",
        help="file to write; start each daemon with --via FILE, too",
    )
    for name in _CHANCES:
        parser.add_argument(
            f"--{name}", type=probability, default=0.0, metavar="P", help="probability, 0 to 1 (0)"
        )
    parser.add_argument(
        "--reorder", type=natural, default=0, metavar="N", help="by up to N datagrams (0)"
    )
    parser.add_argument(
        "--delay-ms", type=not_negative, default=0.0, metavar="MS", help="delay of one way (0)"
    )
    parser.add_argument(
        "--jitter-ms",
        type=not_negative,
        default=0.0,
        metavar="MS",
        help="maximum of additional delay (0)",
    )
    parser.add_argument(
        "--bandwidth-mbit", type=positive, metavar="M", help="bandwidth of each path (unlimited)"
    )
    parser.add_argument(
        "--link", action="append", default=[], metavar="A-B:K=V,...", help="line between two sites"
    )
    parser.add_argument(
        "--seed", type=int, default=1, metavar="N", help="seed of all random decisions (1)"
    )


def run(options: argparse.Namespace) -> int:
    """Relay until ^C, or until standard input says ``quit``; return 0."""
    run_tasks(_run, options)
    return 0


async def _run(options: argparse.Namespace) -> None:
    line = make_line(
        delay_ms=options.delay_ms, jitter_ms=options.jitter_ms, mbit=options.bandwidth_mbit
    )
    sites = read_sites(options.config)
    links = dict(read_link(text, sites) for text in options.link)
    topology = Topology(sites=sites, links=links)
    lines = {pair: topology.link(*ends) for ends in links for pair in topology.between(*ends)}
    relay = Relay(read_addresses(options.config), seed=options.seed, line=line, lines=lines)
    commands = RelayCommands(relay, sites)
    for name in (*_CHANCES, "reorder"):
        if getattr(options, name):
            commands.execute(f"{name} {getattr(options, name)}")
    relay.write(options.via)
    with Reports() as reports:
        reports.say(
            f"relaying {len(relay.ports)} paths; start the daemons with --via {options.via}"
        )
        await _obey(relay, commands, reports)


async def _obey(relay: Relay, commands: "RelayCommands", reports: Reports) -> None:
    """Relay, and execute the commands of standard input."""
    async with trio.open_nursery() as nursery:
        nursery.start_soon(relay.run)
        while line_ := await trio.to_thread.run_sync(sys.stdin.readline, abandon_on_cancel=True):
            if line_.strip() == "quit":
                nursery.cancel_scope.cancel()
                return
            try:
                commands.execute(line_)
            except ConfigError as error:
                reports.say(str(error))


def read_link(text: str, sites: Mapping[str, Sequence[str]]) -> tuple[tuple[str, str], Line]:
    """Return two sites and the line between them, as in ``north-south:delay-ms=40,loss=0.01``.

    Raises:
        ConfigError: the text names no link; the message names the fault.
    """
    names, _, rest = text.partition(":")
    found: dict[str, float] = {}
    for part in rest.split(","):
        key, _, value = part.partition("=")
        if key not in _MOST:
            raise ConfigError(f"--link {text}: {key!r} is none of {', '.join(_MOST)}")
        found[key.replace("-", "_")] = _number(f"--link {text}: {key}", value, _MOST[key])
    return sites_of_link(names, sites), make_line(**found)


_MOST: Final = {"delay-ms": 10_000.0, "jitter-ms": 10_000.0, "mbit": 1e6, "loss": 1.0}
"""Properties of a link, and the maximum of each."""


class RelayCommands:
    """The commands that the relay reads from its input."""

    def __init__(self, relay: Relay, sites: Mapping[str, Sequence[str]] | None = None) -> None:
        self._relay = relay
        self._sites = sites or {}
        self._faults: dict[str, Any] = {}

    def execute(self, text: str) -> None:
        """Execute the command in a line.

        Raises:
            ConfigError: it is not a command, or cannot be executed; nothing has changed.
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
                self._relay.cut(self._between(names[:at], names[at + 1 :]))
            case ["hold", *pairs, seconds]:
                self._relay.hold(self._pairs(pairs), _number("hold", seconds, 3600))
            case [name, strength] if name in _CHANCES:
                self._suffer(name, _number(name, strength, 1))
            case ["reorder", count]:
                self._suffer("reorder_packets", int(_number("reorder", count, 1000)))
            case _:
                raise ConfigError(f"{text.strip()!r} is not a command\n{COMMANDS}")

    def _suffer(self, name: str, strength: float) -> None:
        self._faults[name] = strength
        self._relay.suffer(Faults(**self._faults) if any(self._faults.values()) else None)

    def _pairs(self, words: list[str]) -> list[Pair]:
        if len(words) == 2 and not any(">" in word for word in words):
            return self._between(words[:1], words[1:])
        found: list[Pair] = []
        for word in words:
            source, arrow, target = word.partition(">")
            if not arrow:
                raise ConfigError(f"{word!r} is not a path; write A>B, or two daemons: A B")
            found += self._between([source], [target])[::2]
        return found

    def _between(self, one: list[str], other: list[str]) -> list[Pair]:
        return list(self._relay.between(self._daemons(one), self._daemons(other)))

    def _daemons(self, names: list[str]) -> list[str]:
        return [daemon for name in names for daemon in self._sites.get(name, (name,))]


def _number(what: str, text: str, most: float) -> float:
    try:
        value = float(text)
    except ValueError:
        raise ConfigError(f"{what} is {text!r}; it must be a number") from None
    if not 0 <= value <= most:
        raise ConfigError(f"{what} is {text}; it must be 0 to {most:g}")
    return value
