"""Files whose age matters: keys, which should be changed now and then, and certificates, which
expire.

They are looked at in a thread, as a disk may not answer.
"""

from contextlib import suppress
from pathlib import Path
from typing import Final

import trio
from cryptography import x509

from groupcommd.daemon_config import DaemonConfig

LOOK_S: Final = 60.0
"""The time between two looks."""


class WatchedFiles:
    """The files of one daemon.

    Args:
        config: names them.

    Attributes:
        key_changed: the time of the key file's last change, seconds since 1970; None if unknown.
        certificates_end: the expiry of each certificate, by its use: clients, http.
    """

    def __init__(self, config: DaemonConfig) -> None:
        self._key_file = config.key_file
        found = {"clients": config.tls, "http": None if config.http is None else config.http.tls}
        self._certificates = {
            name: tls.certificate for name, tls in found.items() if tls is not None
        }
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
        changed = self._key_file.stat().st_mtime if self._key_file is not None else None
        return changed, {name: _end(path) for name, path in self._certificates.items()}


def _end(path: Path) -> float:
    return x509.load_pem_x509_certificate(path.read_bytes()).not_valid_after_utc.timestamp()
