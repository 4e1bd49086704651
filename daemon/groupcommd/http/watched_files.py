"""Files whose age matters: keys, which should be changed now and then, and certificates, which
expire.

They are looked at in a thread, as a disk may not answer.
"""

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final

import trio
from cryptography import x509

from groupcommd.config.daemon_config import DaemonConfig

LOOK_S: Final = 60.0
"""The time between two looks."""


class WatchedFiles:
    """The files of one daemon.

    Args:
        config: returns the configuration that names them.

    Attributes:
        key_changed: the time of the key file's last change, seconds since 1970; None if unknown.
        certificates_end: the expiry of each certificate, by its use: clients, http.
    """

    def __init__(self, config: Callable[[], DaemonConfig]) -> None:
        self._config = config
        self.key_changed: float | None = None
        self.certificates_end: dict[str, float] = {}

    async def watch(self) -> None:
        """Look at them for ever."""
        while True:
            with suppress(OSError, ValueError):
                self.key_changed, self.certificates_end = await trio.to_thread.run_sync(
                    self._look, abandon_on_cancel=True
                )
            await trio.sleep(LOOK_S)

    def _look(self) -> tuple[float | None, dict[str, float]]:
        config = self._config()
        changed = config.key_file.stat().st_mtime if config.key_file is not None else None
        found = {"clients": config.tls, "http": None if config.http is None else config.http.tls}
        return changed, {n: _end(tls.certificate) for n, tls in found.items() if tls is not None}


def _end(path: Path) -> float:
    return x509.load_pem_x509_certificate(path.read_bytes()).not_valid_after_utc.timestamp()
