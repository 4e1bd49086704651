"""The check that a folder of logs is of the cluster of the daemon that records them."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import trio

from groupcomm.errors import AccessRefused
from groupcomm_client.connection import Connection
from groupcomm_log.cluster_mark import claim_folder


async def check_cluster(
    connection: Connection, folder: Path, tell: Callable[[dict[str, Any]], None]
) -> None:
    """Check that a folder is of the cluster of a session, before anything is recorded in it.

    Args:
        connection: the session.
        folder: the folder of a log, or of an archive.
        tell: is told if the mark cannot be read or written; the recording goes on.

    Raises:
        LogError: the folder is of another cluster.
        SessionEnded: the session is over.
    """
    try:
        cluster = (await connection.ask("name")).get("cluster")
    except AccessRefused:
        cluster = None
    if cluster is None:
        return  # a daemon of an earlier release, which does not say
    try:
        await trio.to_thread.run_sync(claim_folder, folder, str(cluster))
    except OSError as error:
        tell({"event": "trouble", "text": f"{folder} does not say its cluster: {error}"})
