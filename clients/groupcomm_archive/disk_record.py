"""The record of an archive's folder: its name, and how many archives there are to be.

The name counts the disks that hold a message: an archive that is started again is the same disk,
and a copy of its folder counts as one with it.
"""

from pathlib import Path
from secrets import token_bytes
from typing import Final

import msgspec

from groupcomm_archive.awaiting import Disk
from groupcomm_log import disk as files
from groupcomm_log.errors import LogError

NAME: Final = "_archive.json"
NAME_BYTES: Final = 16


class _Record(msgspec.Struct):
    disk: str
    archives: int


def open_record(folder: Path, archives: int | None, disk: files.Disk | None = None) -> Disk:
    """Return what a folder says of itself; make its record at its first start.

    Args:
        folder: the folder of the archive, which exists.
        archives: how many archives there are to be, to be kept from now on; None to keep what the
            record says.
        disk: its disk; the real one if None.

    Raises:
        LogError: the record is damaged.
        OSError: it can be neither read nor written.
    """
    path = folder / NAME
    try:
        record = msgspec.json.decode(path.read_bytes(), type=_Record)
        name = bytes.fromhex(record.disk)
    except FileNotFoundError:
        record, name = None, token_bytes(NAME_BYTES)
    except (ValueError, msgspec.MsgspecError) as error:
        raise LogError(
            f"{path} is damaged: {error}. Remove it: then the folder counts as another disk"
        ) from None
    wanted = _Record(name.hex(), record.archives if record and archives is None else archives or 0)
    if wanted != record:
        (disk or files.Disk()).replace(path, msgspec.json.encode(wanted))
    return Disk(name, wanted.archives)
