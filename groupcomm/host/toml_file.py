"""Files of TOML: read the same way, and refused in the same words, whatever they are for."""

import codecs
import tomllib
from typing import Any, BinaryIO

from groupcomm.errors import ConfigError


def load_toml(stream: BinaryIO) -> dict[str, Any]:
    """Read a file of TOML; the byte order mark that some editors write before it does not matter.

    Raises:
        ConfigError: it is no TOML; the text says where and why, and holds no part of the file.
    """
    try:
        return tomllib.loads(stream.read().removeprefix(codecs.BOM_UTF8).decode())
    except UnicodeDecodeError as error:
        raise ConfigError(f"not valid UTF-8: {error}; save it as UTF-8") from None
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"not valid TOML: {error}") from None
    except RecursionError:
        raise ConfigError("not valid TOML: its tables or lists are nested too deep") from None
