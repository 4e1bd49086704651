"""The file that tells as which user a daemon runs: root examines its files as that user."""

from pathlib import Path

from groupcomm.errors import ConfigError
from groupcomm.host.addresses import runtime_folder, user_path
from groupcomm.host.toml_file import load_toml


def service_file(path: Path | None) -> Path:
    """Return the file whose owner is the user of the daemon: its key file, or else the folder of
    its socket.

    Args:
        path: the configuration; None without one.
    """
    named = None
    if path is not None:
        try:
            with path.open("rb") as file:
                named = load_toml(file).get("key_file")
        except (OSError, ConfigError):
            named = None  # whoever reads the configuration says what is wrong
    if path is None or not isinstance(named, str):
        return runtime_folder()
    return path.parent / user_path(named)
