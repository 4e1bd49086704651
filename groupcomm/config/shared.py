"""Shared settings: those that all daemons of a cluster must, or should, have in common.

Daemons compute views from their messages *and* from their settings. Two daemons with different
settings would compute different views from one proposal, and neither view would last. So each
daemon sends a digest of the settings that must be equal, and forms views only with daemons of the
same digest. Other settings should be equal: a difference is reported, and no daemon is left out for
it.
"""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import attrs

from groupcomm.config.core import CoreConfig, Setting, Windows

DIGEST_BYTES: Final = 8
"""The size of each of the two digests: enough against accidents, as no key holder forges settings.
"""

MAX_ROWS: Final = 512
MAX_ITEMS: Final = 257
MAX_KEY: Final = 600
MAX_ITEM: Final = 300
MAX_ROWS_BYTES: Final = 2**18
"""Differing settings are reported for people: longer values are cut, and digests are complete."""

Rows = tuple[Setting, ...]


@attrs.frozen(kw_only=True)
class SharedSettings:
    """The shared settings of one configuration.

    Attributes:
        digests: the digest of the settings that must be equal, then of those that should be; 8
            bytes each.
        required: the settings that must be equal, as daemons send them to others.
        advised: the settings that should be equal, as they are sent to others.
    """

    digests: bytes
    required: Rows
    advised: Rows


def shared_settings(config: CoreConfig) -> SharedSettings:
    """Return the settings of a configuration that other daemons compare."""
    required = (
        *_plain("", {"packet_bytes": config.packet_limit}),
        *_plain("timing.", attrs.asdict(config.timing)),
    )
    expected = config.expected_daemons
    windows = attrs.asdict(config.windows)
    if config.windows.ahead_bytes == Windows().ahead_bytes:
        del windows["ahead_bytes"]  # earlier releases do not have it
    advised = (
        *_plain("windows.", windows),
        *_plain("rekeying.", attrs.asdict(config.rekeying)),
        *config.advised,
    )
    # Names of sites matter to people only, and their order has no effect.
    places = [tuple(sorted(site)) for site in config.sites]
    links = [
        (sorted((places[one], places[other])), delay) for one, other, delay in config.link_delays_us
    ]
    whole: object = (
        sorted(required),
        sorted(places),
        sorted(links),
        expected or len(config.daemons),
    )
    if config.agreed is not None:
        whole = (sorted(required), config.agreed.id)
    return SharedSettings(
        digests=_digest(whole) + _digest(sorted(advised)),
        required=_rows(
            (
                *required,
                *(_plain("", {"expected_daemons": expected}) if expected is not None else ()),
                *_sites(config),
                *_links(config),
            )
        ),
        advised=_rows(advised),
    )


def must_equal(digests: bytes) -> bytes:
    """Return the half of the digests that decides which daemons may share a view."""
    return digests[:DIGEST_BYTES]


@attrs.frozen
class Difference:
    """One setting that differs.

    Attributes:
        key: the setting's key, as in a file.
        here, there: its two values; None where the setting does not exist.
    """

    key: str
    here: tuple[str, ...] | None
    there: tuple[str, ...] | None


def differences(here: Rows, there: Rows) -> tuple[Difference, ...]:
    """Return the settings that differ between two configurations, in the order of their keys."""
    ours, theirs = dict(here), dict(there)
    return tuple(
        Difference(key, ours.get(key), theirs.get(key))
        for key in sorted(ours.keys() | theirs.keys())
        if ours.get(key) != theirs.get(key)
    )


def _plain(prefix: str, values: Mapping[str, float]) -> list[Setting]:
    return [(f"{prefix}{name}", (f"{value:.12g}",)) for name, value in values.items()]


def _name(config: CoreConfig, site: int) -> str:
    return config.site_names[site] if config.site_names else str(site + 1)


def _sites(config: CoreConfig) -> Iterable[Setting]:
    for place, site in enumerate(config.sites):
        yield f"sites.{_name(config, place)}.daemons", tuple(sorted(site))


def _links(config: CoreConfig) -> Iterable[Setting]:
    for one, other, delay_us in config.link_delays_us:
        names = sorted((_name(config, one), _name(config, other)))
        yield f"links.{'-'.join(names)}.delay_ms", (f"{delay_us / 1000:.12g}",)


def _digest(value: object) -> bytes:
    """Return the digest of lists and tuples of texts and numbers; alike on all machines."""
    text = ascii(value).encode()
    return hashlib.blake2b(text, digest_size=DIGEST_BYTES, person=b"groupcomm config").digest()


def _rows(settings: Sequence[Setting]) -> Rows:
    """Return settings for people: the first rows, of limited lengths, that are not too many."""
    rows: list[Setting] = []
    size = 0
    for key, items in settings[:MAX_ROWS]:
        row = key[:MAX_KEY], _cut(items)
        size += sum(len(text.encode()) + 5 for text in (row[0], *row[1])) + 5
        if size > MAX_ROWS_BYTES:
            break
        rows.append(row)
    return tuple(rows)


def _cut(items: tuple[str, ...]) -> tuple[str, ...]:
    cut = tuple(item[:MAX_ITEM] for item in items[: MAX_ITEMS - 1])
    if cut == items:
        return items
    return (*cut, f"and others, in all {_digest(items).hex()}")
