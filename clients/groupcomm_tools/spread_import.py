"""A configuration of Spread's daemons as one of ours: its settings with and without a meaning here.

Pure: text to text. A ``spread.conf`` (Spread 3.17 to 5.0.1) holds segments, each with its daemons,
and settings::

    Spread_Segment 192.0.2.255:4803 {
        press 192.0.2.1                                # a name, an address, or both
        oven  192.0.2.2 { D 192.0.2.2  C 198.51.100.2 }
        198.51.100.3 VirtualID = 5 ;
    }
    TokenTimeout = 5000                                # milliseconds
    EventTimeStamp

What has no meaning here, and what cannot be understood, becomes a remark: nothing ends the reading.
"""

import ipaddress
import json
import re
from collections.abc import Iterator
from typing import Final, NamedTuple

import attrs

from groupcomm.errors import ConfigError
from groupcomm.host.addresses import DEFAULT_HOST, DEFAULT_PORT
from groupcomm.session.spread.names import MAX_DAEMON_BYTES

_TOKENS: Final = re.compile(
    r"""(?P<quoted>"[^"]*"|'[^']*')|(?P<end>\n)|\#.*|(?P<word>[{}=]|[^\s{}="'\#]+)"""
)

_TIMES: Final = "[timing] has the times of membership"
_AUTH: Final = "NULL is the one method; [[access]] has the rules"
_USER: Final = "the service manager sets the user of a daemon"
_WINDOW: Final = "the window adapts to the network; [windows] bounds it"
_RING: Final = "daemons send on before they pass the token anyway"

NO_MEANING: Final = {
    "EventLogFile": "the log goes to standard error: let the service manager keep it",
    "EventTimeStamp": "each line of the log has its time",
    "EventPreciseTimeStamp": "each line of the log has its time",
    "EventPriority": "each line of the log has its level; groupcommd --json-log for programs",
    "DebugFlags": "groupcommd --trace DIR records all events",
    "DebugInitialSequence": "numbers that wrap are tested by the simulator",
    "DangerousMonitor": "groupcomm status and groupcomm top look at daemons, and change nothing",
    "SocketPortReuse": "a daemon takes its port again after a restart",
    "RuntimeDir": "state_dir is the folder that a daemon needs",
    "DaemonUser": _USER,
    "DaemonGroup": _USER,
    "AllowedAuthMethods": _AUTH,
    "RequiredAuthMethods": _AUTH,
    "AccessControlPolicy": "[[access]] has the rules",
    "MaxSessionMessages": "clients.output_cap_bytes is the limit, in bytes",
    "ActiveIPVersion": "the addresses of daemons say whether they use IPv4 or IPv6",
    "Window": _WINDOW,
    "PersonalWindow": _WINDOW,
    "AcceleratedRing": _RING,
    "AcceleratedWindow": _RING,
    "TokenTimeout": "lost daemons are noticed sooner; preset and [timing] say when",
    "HurryTimeout": "[timing] has the times of tokens",
    "AliveTimeout": _TIMES,
    "JoinTimeout": _TIMES,
    "RepTimeout": _TIMES,
    "SegTimeout": "links between sites measure their own times",
    "GatherTimeout": _TIMES,
    "FormTimeout": _TIMES,
    "LookupTimeout": "daemons look for each other all the time",
    "WideAreaNetwork": "it decided above whether segments became sites",
    "ExcludeSegAddrsFromHash": "multicast addresses may differ from daemon to daemon anyway",
    "IgnoreMulticastJoinErrors": "a daemon without multicast sends to each daemon by itself",
    "LinkProtocol": "there is one",
    "RouteMatrix": "[links] has what lies between sites",
}
"""Settings that are not imported, and their substitutes."""

_ALONE: Final = frozenset(("EventTimeStamp", "EventPreciseTimeStamp", "DebugInitialSequence"))
"""Settings that stand without a value; the first one may have one."""

_CLOSE: Final = 16
"""Daemons whose IPv4 addresses begin with as many equal bits are taken for one routed LAN."""


class Daemon(NamedTuple):
    """One daemon: its name, and the host where it listens, an address or a name."""

    name: str
    host: str


@attrs.frozen(kw_only=True)
class Segment:
    """One segment: its own address and port, and its daemons."""

    address: str
    port: int
    daemons: tuple[Daemon, ...]


@attrs.frozen(kw_only=True)
class SpreadConf:
    """The content of a file: segments, settings that were not imported, and remarks.

    `clients` are further addresses at which programs connect to some daemon.
    """

    segments: tuple[Segment, ...]
    clients: tuple[str, ...]
    settings: tuple[tuple[str, str], ...]
    remarks: tuple[str, ...]

    @property
    def sites(self) -> dict[str, list[Segment]]:
        """Return segments by site: one site if they are near each other, else one for each.

        WideAreaNetwork says what they are; without it they are near if their addresses are.
        """
        said = {value.lower() for name, value in self.settings if name == "WideAreaNetwork"}
        one = said <= {"false", "no"} if said else _are_close(self.segments)
        if one or len(self.segments) == 1:
            return {"main": list(self.segments)}
        return {f"segment{number}": [each] for number, each in enumerate(self.segments, 1)}


class _Word(NamedTuple):
    text: str
    line: int


class _Reader:
    """The words of a file, and what is noticed on the way."""

    def __init__(self, text: str) -> None:
        self._words = list(_words(text))
        self._at = 0
        self.settings: list[tuple[str, str]] = []
        self.remarks: list[str] = []
        self.names: set[str] = set()
        self.clients: dict[str, None] = {}

    @property
    def next(self) -> str:
        """Return the word that comes next; "" at the end."""
        return self._words[self._at].text if self._at < len(self._words) else ""

    def pop(self) -> _Word:
        """Return the next word, and continue after it."""
        self._at += 1
        return self._words[self._at - 1]

    def accept(self, wanted: str) -> bool:
        """Continue after the next word if it is this one; return whether it was."""
        found = self.next == wanted
        self._at += found
        return found

    def drop_line(self, first: _Word, what: str) -> None:
        """Drop a line that cannot be understood, from a word on, and what it opens."""
        words = [first.text]
        if first.text == "{":
            self._at -= 1
            words = [self.next_value()]
        else:
            while self.next and self._words[self._at].line == first.line and self.next != "}":
                words.append(self.next_value())
        self.remarks.append(f"line {first.line}: {' '.join(words)}: {what}")

    def next_value(self) -> str:
        """Return the next word, or the words between the braces that it opens."""
        word = self.pop()
        if word.text != "{":
            return word.text
        values = []
        while self.next and not self.accept("}"):
            values.append(self.pop().text)
        return " ".join(values)


def _words(text: str) -> Iterator[_Word]:
    line = 1
    for found in _TOKENS.finditer(text):
        if found["end"]:
            line += 1
        elif found["quoted"] is not None:
            yield _Word(found["quoted"][1:-1], line)
            line += found["quoted"].count("\n")
        elif found["word"]:
            yield _Word(found["word"], line)


def parse_spread_conf(text: str) -> SpreadConf:
    """Read a ``spread.conf``.

    Raises:
        ConfigError: it has no daemon.
    """
    reader = _Reader(text)
    segments: list[Segment] = []
    while reader.next:
        word = reader.pop()
        if word.text == "Spread_Segment":
            segments.append(_segment(reader, word))
        elif reader.accept("=") or (word.text == "RouteMatrix" and reader.next == "{"):
            reader.settings.append((word.text, reader.next_value() if reader.next else ""))
        elif word.text in _ALONE:
            reader.settings.append((word.text, ""))
        else:
            reader.drop_line(word, "not understood")
    if not any(segment.daemons for segment in segments):
        raise ConfigError("no Spread_Segment has a daemon: is this a spread.conf?")
    found = [segment for segment in segments if segment.daemons]
    return SpreadConf(
        segments=tuple(found),
        clients=tuple(reader.clients),
        settings=tuple(reader.settings),
        remarks=tuple(reader.remarks),
    )


def _segment(reader: _Reader, begin: _Word) -> Segment:
    where: list[str] = []
    while reader.next and not reader.accept("{"):
        where.append(reader.pop().text)
    address, port = _split(where[0] if where else "")
    if not _is_address(address):
        reader.remarks.append(f"line {begin.line}: {address!r} is no address of a segment")
    for more in where[1:]:
        reader.remarks.append(f"line {begin.line}: {more}: another address of the same segment")
    daemons = []
    while reader.next and not reader.accept("}"):
        if not reader.accept(";") and (daemon := _daemon(reader)) is not None:
            daemons.append(daemon)
    return Segment(address=address, port=port or DEFAULT_PORT, daemons=tuple(daemons))


def _daemon(reader: _Reader) -> Daemon | None:
    """Return the next daemon of a segment; None if it cannot be understood, or is there already."""
    word = reader.pop()
    host, port = _split(word.text)
    name = host if _is_address(host) else word.text
    if name == word.text and not _is_address(name) and _is_address(_split(reader.next)[0]):
        host, port = _split(reader.pop().text)
    if name in ("{", "="):
        reader.drop_line(word, "not understood")
        return None
    if port:
        reader.remarks.append(f"{name}: its port {port} has no effect in Spread: its segment's has")
    if reader.next == "VirtualID":
        reader.pop()
        reader.accept("=")
        number = reader.next_value() if reader.next else ""
        reader.remarks.append(f"{name}: VirtualID = {number}: daemons know each other by names")
    if reader.accept("{"):
        host = _interfaces(reader, name, host)
    short = name.encode()[:MAX_DAEMON_BYTES].decode(errors="ignore")
    if short != name:
        reader.remarks.append(f"{name}: Spread cuts names after {MAX_DAEMON_BYTES} bytes, too")
    if short in reader.names:
        reader.remarks.append(f"line {word.line}: {name}: left out, as there is a daemon {short}")
        return None
    reader.names.add(short)
    return Daemon(short, host)


def _interfaces(reader: _Reader, name: str, host: str) -> str:
    """Return the address at which a daemon speaks to others, out of its list."""
    between: list[str] = []
    others: list[tuple[str, str]] = []
    kinds = ""
    while reader.next and not reader.accept("}"):
        word = reader.pop()
        if word.text in ("C", "D", "M"):
            kinds += word.text
            continue
        address, _ = _split(word.text)
        if not _is_address(address):
            reader.drop_line(word, "not understood")
            continue
        if not kinds or "D" in kinds:
            between.append(address)
        others += [(kind, address) for kind in kinds or "CDM"]
        kinds = ""
    if between and host not in between and not any(map(_is_any, between)):
        host = between[0]
    for kind, address in others:
        if address != host and kind == "C" and not _is_any(address):
            reader.clients[address] = None
        elif address != host:
            reader.remarks.append(f"{name}: {kind} {address}: {_INTERFACES[kind]}")
    return host


_INTERFACES: Final = {
    "C": "all addresses of a host; name those in clients.spread_addresses",
    "D": "a daemon has one address for the others, or one on each of several networks",
    "M": "there is no monitor; groupcomm status connects as programs do",
}


def _split(word: str) -> tuple[str, int]:
    """Return the host and the port of a word, 0 if it has none; its text if it is no address."""
    found = re.fullmatch(r"\[(.*)\](?::(\d+))?|([\d.]+):(\d+)", word)
    if found is None:
        return word, 0
    port = int(found[2] or found[4] or 0)
    return (found[1] or found[3], port) if port < 65536 else (word, 0)


def _is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True


def _is_any(text: str) -> bool:
    return ipaddress.ip_address(text).is_unspecified


def _are_close(segments: tuple[Segment, ...]) -> bool:
    hosts = {daemon.host for segment in segments for daemon in segment.daemons}
    if not all(_is_address(host) and "." in host for host in hosts):
        return False
    networks = {ipaddress.ip_network(f"{host}/{_CLOSE}", strict=False) for host in hosts}
    return len(networks) == 1


def to_groupcomm(conf: SpreadConf) -> str:
    """Return the text of our configuration, with a comment for all that was not imported."""
    lines = [
        "# Made from a spread.conf by: groupcomm spread import. Start each daemon with its name:",
        "#     groupcommd --config FILE --name NAME",
        "",
        'key_file = "cluster.key"  # make it with: groupcomm keygen cluster.key; copy it to all',
        "",
        *_about_sites(conf),
    ]
    for site, segments in conf.sites.items():
        lines.append(f"[sites.{site}.daemons]")
        for segment in segments:
            lines += _daemons(segment, site)
        lines.append("")
    lines += [
        "[clients]",
        "# As Spread's daemon has it: all users of the host, and whoever reaches the port, without",
        "# TLS or tokens. Without these two lines programs of the daemon's own user connect alone.",
        "# Spread's daemon listens at every address of its host, unless C lines name some; ours",
        "# listens at its own address, at the path /tmp/PORT, and at those of these that its host",
        "# has: 127.0.0.1, for users of the host, and those of the C lines.",
        'unix_for = "all"',
        "spread = true",
        f"spread_addresses = {json.dumps(list(dict.fromkeys((DEFAULT_HOST, *conf.clients))))}",
    ]
    hosts = [daemon.host for segment in conf.segments for daemon in segment.daemons]
    if len({"127." if host.startswith("127.") else host for host in hosts}) < len(hosts):
        lines.append('unix = "{name}.sock"  # daemons of one host have a socket each')
    left = [f"{name} = {value}" if value else name for name, value in conf.settings]
    why = [NO_MEANING.get(name, "there is nothing like it") for name, _ in conf.settings]
    if left or conf.remarks:
        lines += ["", "# Not taken over:"]
        told = [f"{setting}: {reason}" for setting, reason in zip(left, why, strict=True)]
        lines += [f"# - {' '.join(line.split())}" for line in (*told, *conf.remarks)]
    return "\n".join(lines) + "\n"


def _about_sites(conf: SpreadConf) -> list[str]:
    """Say what became of several segments: nobody else knows how far from each other they are."""
    if len(conf.segments) == 1:
        return []
    if len(conf.sites) == 1:
        return [
            f"# The {len(conf.segments)} segments are one site, a LAN with or without routers, as"
            " their addresses are near",
            "# or WideAreaNetwork says so. If they are milliseconds apart, make a site of each.",
        ]
    return [
        f"# Each of the {len(conf.segments)} segments is a site: timeouts are those of distances of"
        " 100 ms. If a LAN with routers",
        "# connects them, list all their daemons in one site: they notice losses much sooner then.",
    ]


def _daemons(segment: Segment, site: str) -> list[str]:
    lines = [f"# Spread_Segment {segment.address}:{segment.port}"]
    if _is_address(segment.address) and ipaddress.ip_address(segment.address).is_multicast:
        lines.append(f"# Spread used multicast {segment.address}: see sites.{site}.multicast")
    for name, host in segment.daemons:
        where = f"[{host}]" if ":" in host else host
        note = "" if _is_address(host) else "  # looked up when a daemon starts"
        lines.append(f"{json.dumps(name)} = {json.dumps(f'{where}:{segment.port}')}{note}")
    return lines
