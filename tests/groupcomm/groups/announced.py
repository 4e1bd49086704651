"""Announcements with their sections."""

import msgspec

from groupcomm.config.versions import CARRIED, Versions
from groupcomm.groups.announcement import Announcement, Rows, encode_section, slices
from groupcomm.groups.carried import OwnAnnouncement
from groupcomm.wire.bundle import Bundle


def bundles_of(announcement: OwnAnnouncement) -> list[Bundle]:
    while not (bundles := announcement.advance()):
        pass
    return bundles


def sections_of(rows: Rows) -> tuple[bytes, ...]:
    return tuple(map(encode_section, slices(rows)))


def sectioned(announcement: Announcement, rows: Rows, versions: Versions) -> Announcement:
    """Return an announcement with the sections that it has in a view of these versions."""
    sections = sections_of(rows) if versions.features & CARRIED else ()
    return msgspec.structs.replace(announcement, sections=sections)
