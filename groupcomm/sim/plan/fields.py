"""Tables of a file with settings, key by key, so that a mistake is told with its place."""

from math import inf
from typing import Any

from groupcomm.errors import ConfigError


class Fields:
    """Takes the keys of one table of a file, and refuses what is left over.

    Args:
        where: the table, for people.
        found: what the file has there.

    Raises:
        ConfigError: from every method, and names the table and the key.
    """

    def __init__(self, where: str, found: object) -> None:
        if not isinstance(found, dict):
            raise ConfigError(f"{where} is {found!r}; it must be a table")
        self._where = where
        self._left = dict(found)

    def text(self, key: str, usual: str | None = None) -> str:
        """A string."""
        value = self._take(key, usual)
        if not isinstance(value, str) or not value:
            raise ConfigError(f"{self._where}: {key} is {value!r}; it must be a name")
        return value

    def texts(self, key: str) -> list[str]:
        """A list of strings."""
        value = self._take(key, None)
        if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
            raise ConfigError(f"{self._where}: {key} is {value!r}; it must be a list of names")
        return value

    def number(self, key: str, least: float, most: float, usual: float | None = None) -> float:
        """A number between two others, both included."""
        value = self._take(key, usual)
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise ConfigError(f"{self._where}: {key} is {value!r}; it must be a number")
        if not least <= value <= most:
            up_to = f"to {most:g}" if most < inf else "or more"
            raise ConfigError(f"{self._where}: {key} is {value:g}; it must be {least:g} {up_to}")
        return float(value)

    def whole(self, key: str, least: int, most: int) -> int:
        """A whole number between two others, both included."""
        value = self.number(key, least, most)
        if value != int(value):
            raise ConfigError(f"{self._where}: {key} is {value:g}; it must be a whole number")
        return int(value)

    def take(self, key: str, usual: object = None) -> Any:
        """Whatever is there."""
        return self._take(key, usual)

    def has(self, key: str) -> bool:
        """Whether the file says something."""
        return key in self._left

    def end(self) -> None:
        """Nothing may be left."""
        if self._left:
            raise ConfigError(f"{self._where}: there is no key {min(self._left)!r}")

    def _take(self, key: str, usual: object) -> object:
        if key in self._left:
            return self._left.pop(key)
        if usual is None:
            raise ConfigError(f"{self._where}: {key} is missing")
        return usual
