"""A configuration of Spread's daemons as one of ours: its settings with and without a meaning here.

Pure: text to text. A ``spread.conf`` holds segments, each with its daemons, and settings::

    Spread_Segment 192.0.2.255:4803 {
        press 192.0.2.1
        oven  192.0.2.2 { D 198.51.100.2  C 192.0.2.2 }
    }
    TokenTimeout = 5000        # milliseconds; from 4.4 on
"""

import ipaddress
import json
import re
from collections.abc import Iterator
from typing import Final

import attrs

from groupcomm.errors import ConfigError
from groupcomm.session.spread.names import daemon_fault

DEFAULT_PORT: Final = 4803

_TOKENS: Final = re.compile(r'"[^"]*"|[{}=]|[^\s{}="#]+|#.*|!.*|\n')

NO_MEANING: Final = {
    "eventlogfile": "the log goes to standard error: let the service manager keep it",
    "eventtimestamp": "each line of the log has its time",
    "eventprecisetimestamp": "each line of the log has its time",
    "eventpriority": "each line of the log has its level; groupcommd --json-log for programs",
    "debugflags": "groupcommd --trace DIR records all events",
    "dangerousmonitor": "groupcomm status and groupcomm top look at daemons, and change nothing",
    "socketportreuse": "a daemon takes its port again after a restart",
    "runtimedir": "state_dir is the folder that a daemon needs",
    "daemonuser": "the service manager sets the user of a daemon",
    "daemongroup": "the service manager sets the user of a daemon",
    "allowedauthmethods": "NULL is the one method; [[access]] has the rules",
    "requiredauthmethods": "NULL is the one method; [[access]] has the rules",
    "accesscontrolpolicy": "[[access]] has the rules",
    "maxsessionmessages": "clients.output_cap_bytes is the limit, in bytes",
    "window": "the window adapts to the network; [windows] bounds it",
    "personalwindow": "the window adapts to the network; [windows] bounds it",
    "acceleratedring": "daemons send on before they pass the token anyway",
    "acceleratedwindow": "daemons send on before they pass the token anyway",
    "tokentimeout": "lost daemons are noticed sooner; preset and [timing] say when",
    "hurrytimeout": "[timing] has the times of tokens",
    "alivetimeout": "[timing] has the times of membership",
    "jointimeout": "[timing] has the times of membership",
    "reptimeout": "[timing] has the times of membership",
    "segtimeout": "links between sites measure their own times",
    "gathertimeout": "[timing] has the times of membership",
    "formtimeout": "[timing] has the times of membership",
    "lookuptimeout": "daemons look for each other all the time",
    "linkprotocol": "there is one",
}
"""Settings, in small letters, that are not imported, and their substitutes."""


@attrs.frozen(kw_only=True)
class Segment:
    """One segment: its own address and port, and its daemons' names, addresses and ports."""

    address: str
    port: int
    daemons: tuple[tuple[str, str, int], ...]


@attrs.frozen(kw_only=True)
class SpreadConf:
    """The content of a file: segments, settings that were not imported, and remarks."""

    segments: tuple[Segment, ...]
    settings: tuple[tuple[str, str], ...]
    remarks: tuple[str, ...]


class _Reader:
    """Words of a file, with their lines."""

    def __init__(self, text: str) -> None:
        self._words = list(_words(text))
        self._at = 0

    @property
    def next(self) -> str:
        """Return the word that comes next; "" at the end."""
        return self._words[self._at][0] if self._at < len(self._words) else ""

    def pop(self, wanted: str = "") -> str:
        """Return the next word, and continue after it; raise ConfigError if it is not the expected
        one."""
        if not self.next or (wanted and self.next != wanted):
            line = self._words[min(self._at, len(self._words) - 1)][1] if self._words else 1
            found = repr(self.next) if self.next else "the end of the file"
            raise ConfigError(f"line {line}: {found}, where {wanted or 'more'!r} is expected")
        self._at += 1
        return self._words[self._at - 1][0]


def _words(text: str) -> Iterator[tuple[str, int]]:
    line = 1
    for word in _TOKENS.findall(text):
        if word == "\n":
            line += 1
        elif word[0] not in "#!":
            yield word, line


def parse_spread_conf(text: str) -> SpreadConf:
    """Read a ``spread.conf``.

    Raises:
        ConfigError: it is none; the text names the line and the expected word.
    """
    reader = _Reader(text)
    segments: list[Segment] = []
    settings: list[tuple[str, str]] = []
    remarks: list[str] = []
    while reader.next:
        word = reader.pop()
        if word == "Spread_Segment":
            segments.append(_segment(reader, remarks))
        else:
            reader.pop("=")
            settings.append((word, _value(reader)))
    names = [name for segment in segments for name, _, _ in segment.daemons]
    if not names:
        raise ConfigError("no Spread_Segment has a daemon: is this a spread.conf?")
    if twice := {name for name in names if names.count(name) > 1}:
        raise ConfigError(f"daemon {min(twice)!r} is listed twice")
    return SpreadConf(segments=tuple(segments), settings=tuple(settings), remarks=tuple(remarks))


def _value(reader: _Reader) -> str:
    if reader.next != "{":
        return reader.pop().strip('"')
    reader.pop()
    values = []
    while reader.next != "}":
        values.append(reader.pop())
    reader.pop()
    return " ".join(values)


def _segment(reader: _Reader, remarks: list[str]) -> Segment:
    address, port = _address(reader.pop(), DEFAULT_PORT)
    reader.pop("{")
    daemons = []
    while reader.next != "}":
        name = reader.pop()
        if _is_address(name.partition(":")[0]):
            raise ConfigError(f"a daemon at {name} has no name: write one before its address")
        host, own_port = _address(reader.pop(), port)
        if reader.next == "{":
            host, own_port = _interfaces(reader, name, host, own_port, remarks)
        if fault := daemon_fault(name):
            raise ConfigError(f"daemon {name!r}: {fault}")
        daemons.append((name, host, own_port))
    reader.pop()
    return Segment(address=address, port=port, daemons=tuple(daemons))


def _interfaces(
    reader: _Reader, name: str, host: str, port: int, remarks: list[str]
) -> tuple[str, int]:
    """Return the interface at which a daemon speaks to others, out of its list."""
    reader.pop("{")
    found, kinds = (host, port), set[str]()
    while reader.next != "}":
        word = reader.pop()
        if word in ("C", "D", "M"):
            kinds.add(word)
            continue
        where = _address(word, port)
        if not kinds or "D" in kinds:
            found = where
        if "C" in kinds and where != found:
            remarks.append(
                f"{name}: programs connect at {where[0]} there; here, at the daemon's own address"
            )
        kinds = set()
    reader.pop()
    return found


def _address(word: str, port: int) -> tuple[str, int]:
    host, colon, digits = word.partition(":")
    if not _is_address(host) or (colon and not (digits.isdecimal() and int(digits) < 65536)):
        raise ConfigError(f"{word!r} is no IPv4 address, perhaps with a port")
    return host, int(digits) if colon else port


def _is_address(text: str) -> bool:
    try:
        ipaddress.IPv4Address(text)
    except ValueError:
        return False
    return True


def to_groupcomm(conf: SpreadConf) -> str:
    """Return the text of our configuration, with a comment for each setting that was not
    imported."""
    several = len(conf.segments) > 1
    lines = [
        "# Made from a spread.conf by: groupcomm spread import. Start each daemon with its name:",
        "#     groupcommd --config FILE --name NAME",
        "",
        'key_file = "cluster.key"  # make it with: groupcomm keygen cluster.key; copy it to all',
        "",
    ]
    for number, segment in enumerate(conf.segments, 1):
        site = f"segment{number}" if several else "main"
        lines.append(f"[sites.{site}.daemons]")
        lines += [f'{json.dumps(n)} = "{host}:{port}"' for n, host, port in segment.daemons]
        if ipaddress.IPv4Address(segment.address).is_multicast:
            lines.append(f"# Spread used multicast {segment.address}: see sites.{site}.multicast")
        lines.append("")
    lines += [
        "[clients]",
        "# As Spread's daemon has it: all users of the host, and whoever reaches the port, without",
        "# TLS or tokens. Without these two lines programs of the daemon's own user connect alone.",
        'unix_for = "all"',
        "spread = true",
    ]
    left = [f"{name} = {value}: {_in_place_of(name)}" for name, value in conf.settings]
    if left or conf.remarks:
        lines += ["", "# Not taken over:"]
        lines += [f"# - {line}" for line in (*left, *conf.remarks)]
    return "\n".join(lines) + "\n"


def _in_place_of(name: str) -> str:
    return NO_MEANING.get(name.lower(), "there is nothing like it")
