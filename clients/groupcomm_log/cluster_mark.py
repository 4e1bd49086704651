"""The mark in a folder of logs of the cluster whose groups they record.

A recorder that is started by mistake for a cluster with groups of the same names would go on in the
log of another one: positions of both would stand in it, and readers could not tell them apart.
"""

import json
from pathlib import Path
from typing import Any, Final

from groupcomm_log.disk import Disk
from groupcomm_log.errors import LogError

MARK: Final = "_cluster.json"


def claim_folder(folder: Path, cluster: str, disk: Disk | None = None) -> None:
    """Check that a folder is of a cluster; write that it is if nothing says so yet.

    Args:
        folder: the folder of a log, or of an archive.
        cluster: the name of the cluster.
        disk: see `Disk`.

    Raises:
        LogError: it is of another cluster, or the mark is damaged.
        OSError: the mark cannot be read or written.
    """
    path, disk = folder / MARK, disk or Disk()
    try:
        found: Any = json.loads(path.read_bytes())["cluster"]
    except FileNotFoundError:
        disk.replace(path, json.dumps({"cluster": cluster}, ensure_ascii=False).encode())
        return
    except (ValueError, KeyError, TypeError):
        found = None
    if found != cluster:
        of = f"of cluster {found}" if isinstance(found, str) else f"damaged: see {MARK}"
        raise LogError(
            f"{folder} is {of}, and the daemon is of cluster {cluster}: name another folder, or"
            f" connect to the other cluster; if this one has another name now, remove {path}"
        )
